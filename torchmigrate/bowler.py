"""Scripts for Bowler 0.9 as codemods: the queries of a script propose text, the pipeline does the rest.

A script is run with the execution of its queries recorded instead of done. For each file Bowler is asked for the text
that the queries, one after the other, would give; each stretch of lines that differs is one change, unsafe, to be
decided on like any other. Files that Bowler's parser cannot read are TM008 errors, never passed over.

A script is code: it runs where it is named on the command line, never because of a configuration.
"""

from __future__ import annotations

import contextlib
import re
import runpy
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchmigrate import diff
from torchmigrate.codemod import Codemod, Extent, Plan
from torchmigrate.edits import ReplaceText
from torchmigrate.model import Safety, UsageError
from torchmigrate.module import Module
from torchmigrate.source import SourceError

if TYPE_CHECKING:
    from bowler import Query

CODE = "BW001"
MISSING = "Bowler is not installed; install it with: pip install 'torchmigrate[bowler]'"
_ANY_TEXT = tuple(bytes([byte]) for byte in b"\n =(:#\"'")
_ENCODING = ("utf-8", "surrogatepass")


def codemods(script: str) -> tuple[type[Codemod], ...]:
    """The one codemod of a script. Raises UsageError where the script cannot be run or has no query to offer."""
    queries = queries_of(script)
    proposers = [_Proposer(query) for query in queries]
    label = Path(script).name

    class BowlerScript(Codemod):
        __doc__ = f"Changes of the Bowler script {label}."

        code, name, area = CODE, "bowler-script", "bowler"
        triggers = _ANY_TEXT

        def check(self, module: Module) -> Iterator[Plan]:
            for extent, text in _changes(module, proposers):
                yield self.change(
                    extent,
                    ReplaceText(extent.start, extent.end, text),
                    message=f"{label} changes this",
                    safety=Safety.UNSAFE,
                )

    return (BowlerScript,)


def queries_of(script: str) -> list[Query]:
    """The queries that a script would execute, in order.

    What the script prints goes to stderr. Raises UsageError where Bowler is missing, the script fails, or it asks for
    something other than changes.
    """
    try:
        import bowler
    except ImportError:
        raise UsageError(MISSING) from None
    queries: list[Query] = []

    def record(query: Query, **_: Any) -> Query:
        queries.append(query)
        query.retcode = 0
        return query

    def refuse(query: Query, *_: Any) -> Query:
        raise UsageError(f"{script} dumps trees instead of changing code; run it with bowler itself")

    original = bowler.Query.execute, bowler.Query.dump
    arguments, sys.argv = sys.argv, [script]
    bowler.Query.execute, bowler.Query.dump = record, refuse
    try:
        with contextlib.redirect_stdout(sys.stderr):
            main = runpy.run_path(script, run_name="torchmigrate_bowler_script").get("main")
            if callable(main):
                main()
    except UsageError:
        raise
    except (Exception, SystemExit) as error:
        raise UsageError(f"{script} failed: {type(error).__name__}: {error}") from None
    finally:
        sys.argv = arguments
        bowler.Query.execute, bowler.Query.dump = original
    if not queries:
        raise UsageError(f"{script} executes no query (neither when it is loaded nor in a function main)")
    return queries


class _Proposer:
    """Asks one query for the text of files; the tool behind it holds queues, so it is made once."""

    def __init__(self, query: Query) -> None:
        from bowler.tool import BowlerTool

        self.query = query
        self._tool = BowlerTool(
            query.compile(),
            options={"print_function": query.python_version == 3},
            interactive=False,
            write=False,
            silent=True,
            in_process=True,
            filename_matcher=query.filename_matcher,
        )

    def wants(self, path: str) -> bool:
        """Whether the query looks at files of this name."""
        return bool(self._tool.filename_matcher(path))

    def propose(self, path: str, text: str) -> str:
        """The text that the query makes of one with line feeds only. Raises SourceError TM008."""
        from fissix.pgen2.parse import ParseError
        from fissix.pgen2.tokenize import TokenError

        added = not text.endswith("\n")
        try:
            tree = self._tool.driver.parse_string(text + "\n" * added)
        except (ParseError, TokenError, IndentationError) as error:
            line, column = _position(error)
            said = f"Bowler's parser cannot read this file ({_first_line(error)}); not looked at"
            raise SourceError("TM008", said, line, column) from None
        try:
            self._tool.refactor_tree(tree, path)
        except Exception as error:
            raise SourceError("TM008", f"the script failed on this file: {type(error).__name__}: {error}") from None
        after = str(tree)
        return after[:-1] if added and after.endswith("\n") else after

    def agrees(self, path: str, hunk: diff.Hunk) -> bool:
        """Whether none of the script's own hunk callbacks turns a change away."""
        lines = [f"--- {path}", f"+++ {path}", hunk.header().decode().rstrip("\n")]
        lines += [line.decode(*_ENCODING).rstrip("\n") for line in hunk.lines]
        return all(callback(path, lines) is not False for callback in self.query.processors)


def _changes(module: Module, proposers: Sequence[_Proposer]) -> Iterator[tuple[Extent, str]]:
    """Each stretch of lines that the queries change, and its new text with the line ends of the place."""
    wanted = [proposer for proposer in proposers if proposer.wants(module.path)]
    starts = module.lines.starts
    before = module.text.replace("\r\n", "\n").replace("\r", "\n")
    after = before
    for proposer in wanted:
        after = proposer.propose(module.path, after)
    for hunk in diff.hunks(before.encode(*_ENCODING), after.encode(*_ENCODING), 0):
        if not all(proposer.agrees(module.path, hunk) for proposer in wanted):
            continue
        lines = [line.decode(*_ENCODING) for line in hunk.lines]
        removed = sum(line.startswith("-") for line in lines)
        start, end = ((*starts, len(module.text))[hunk.old_start + n] for n in (0, removed))
        new = _with_ends([line[1:] for line in lines if line.startswith("+")], module.text[start:end], module, start)
        yield Extent(start, end, f"{module.text[start:end]}\n{new}"), new


def _with_ends(lines: list[str], old: str, module: Module, start: int) -> str:
    """New lines with the line ends of those that they replace, line by line, else those of the place."""
    ends = re.findall(r"\r\n|\r|\n", old)
    ends += [module.lines.newline_near(start)] * (len(lines) - len(ends))
    return "".join(line.removesuffix("\n") + end * line.endswith("\n") for line, end in zip(lines, ends, strict=False))


def _position(error: Exception) -> tuple[int | None, int | None]:
    context = getattr(error, "context", None)
    if context and len(context) == 2:
        line, column = context[1]
        return line, column + 1
    if isinstance(error, IndentationError):
        return error.lineno, error.offset
    if len(error.args) > 1 and isinstance(error.args[1], tuple):
        line, column = error.args[1][:2]
        return line, column + 1
    return None, None


def _first_line(error: Exception) -> str:
    said = error.args[0] if error.args else error
    return str(said).partition("\n")[0]
