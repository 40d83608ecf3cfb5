"""Notebooks: the code cells of an `.ipynb` file as one module, and changes put back into its JSON text.

Magics and shell lines are hidden from the parser behind text of the same length; shell cells and lines can be read as
shell. Only the string tokens of changed source lines are written anew: outputs, metadata and layout stay as they were.
"""

from __future__ import annotations

import ast
import bisect
import json
import re
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from torchmigrate.documents import Document
from torchmigrate.edits import ReplaceText
from torchmigrate.model import Project, Span
from torchmigrate.module import Module
from torchmigrate.parse import parse_python
from torchmigrate.source import Lines, SourceError, Splice, splice
from torchmigrate.suppress import python_comments
from torchmigrate.texts.comments import extents
from torchmigrate.texts.json import parse as parse_json
from torchmigrate.texts.tokens import Copy, Role, Use
from torchmigrate.texts.tree import Node

_ESCAPE = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.|.", re.DOTALL)
_PYTHON_MAGICS = frozenset({"capture", "time", "timeit", "prun", "python", "python3", "pypy", "debug"})
_SHELL_MAGICS = frozenset({"bash", "sh", "zsh", "system", "sx"})
_LINE_MAGIC = re.compile(r"([ \t]*)(?:%{1,2}[A-Za-z]|!{1,2}[^=]|\?{1,2}\w|[\w.\[\]'\"]+\?{1,2}[ \t]*$)", re.MULTILINE)
_ASSIGNED_MAGIC = re.compile(r"([ \t]*[\w., \t]+=[ \t]*)(?:%[A-Za-z]|![^=])")
_SHELL_LINE = re.compile(r"(?P<mark>!{1,2}|%(?:pip|conda|mamba|uv|env|set_env|sx|system)\b)")
_WRITES_PYTHON = re.compile(r"\s*%%(?:writefile|file)\s[^\r\n]*\.py[ \t]*(?=[\r\n])")
_ENV_MAGIC = re.compile(r"[ \t]*%(?:set_)?env\b")
_INSTALL_MAGICS = frozenset({"%pip", "%conda", "%mamba", "%uv"})


@dataclass(frozen=True, slots=True)
class Cell:
    """A code cell: its number among the code cells (from 1) and where its source lies in the module's text."""

    number: int
    start: int
    end: int


class NotebookModule(Module):
    """The code cells of a notebook. `documents` are the shell parts; `problems` the cells that are no Python."""

    def __init__(self, path: str, raw: str, project: Project) -> None:
        self.raw = raw
        self.cells: list[Cell] = []
        self.problems: list[SourceError] = []
        pieces: list[str] = []
        self._offsets: list[int] = []
        self._glue: list[str | None] = []
        length = 0
        for number, source in enumerate(_code_cells(raw), 1):
            text, offsets = _decoded(raw, source)
            self.cells.append(Cell(number, length, length + len(text)))
            self._glue.append(_glue(raw, source))
            closing = "\n" if text.endswith("\n") or not text else "\n\n"
            end = _content_end(source)
            pieces += (text, closing)
            self._offsets += (*offsets, *[end] * len(closing))
            length += len(text) + len(closing)
        text = "".join(pieces)
        self._offsets.append(self._offsets[-1] if self._offsets else 0)
        self._starts = [cell.start for cell in self.cells]
        self._raw_lines = Lines(raw)
        hidden = [_hidden(text[cell.start : cell.end]) for cell in self.cells]
        self._python: list[str] = []
        super().__init__(path, text, self._parse(text, [python for python, _ in hidden]), project)
        self.documents = self._shell([script for _, script in hidden])
        self.files = tuple(self._written(project))

    def _parse(self, text: str, cells: list[str]) -> ast.Module:
        try:
            return self._parsed(self._joined(text, cells))
        except SourceError:
            pass
        kept: list[str] = []
        for cell, python in zip(self.cells, cells, strict=True):
            try:
                parse_python(python)
                kept.append(python)
            except SourceError as error:
                kept.append(_blank(python))
                self.problems.append(self._problem(text, cell, error))
        try:
            return self._parsed(self._joined(text, kept))
        except SourceError as error:
            at = self._raw_lines.position(self._offsets[0] if self._offsets else 0)
            raise SourceError("TM001", error.message, *at) from None

    def _parsed(self, python: str) -> ast.Module:
        tree = parse_python(python)
        self._python.append(python)
        return tree

    def comments(self) -> Iterator[tuple[int, int]]:
        """Where the comments lie: those of the Python code, of the shell, and of the files that cells write."""
        for python in self._python:
            yield from python_comments(python)
        for document in self.documents:
            yield from extents(document.text, document.kind)

    def _joined(self, text: str, cells: list[str]) -> str:
        pieces: list[str] = []
        at = 0
        for cell, python in zip(self.cells, cells, strict=True):
            pieces += (text[at : cell.start], python)
            at = cell.end
        return "".join((*pieces, text[at:]))

    def _problem(self, text: str, cell: Cell, error: SourceError) -> SourceError:
        lines = Lines(text[cell.start : cell.end])
        line = min(error.line or 1, len(lines.starts))
        start = lines.starts[line - 1]
        at = min(cell.start + start + max((error.column or 1) - 1, 0), cell.end)
        message = error.message.replace("(file not looked at)", f"(cell {cell.number} not looked at)")
        return SourceError("TM001", message, *self._raw_lines.position(self._offsets[at]))

    def _shell(self, scripts: list[str | None]) -> tuple[Document, ...]:
        if not any(scripts):
            return ()
        blank = [script or _blank(self.text[c.start : c.end]) for c, script in zip(self.cells, scripts, strict=True)]
        return (NotebookShell(self, self._joined(_blank(self.text), blank)),)

    def _written(self, project: Project) -> Iterator[Module]:
        """The Python files that `%%writefile` cells write, each blank outside its cell."""
        for cell in self.cells:
            magic = _WRITES_PYTHON.match(self.text, cell.start, cell.end)
            if magic is None:
                continue
            body = self.text[magic.end() : cell.end]
            before, after = _blank(self.text[: magic.end()]), _blank(self.text[cell.end :])
            try:
                tree = self._parsed(before + body + after)
            except SourceError as error:
                inside = SourceError(error.code, error.message, 1, 1)
                self.problems.append(self._problem(self.text, cell, inside))
            else:
                yield Module(self.path, self.text, tree, project)

    def span(self, start: int, end: int) -> tuple[Span, int | None]:
        """Where text[start:end] lies in the file on disk, and the number of its code cell."""
        low = self._offsets[start]
        high = self._offsets[end - 1] + self._width(end - 1) if end > start else low
        position = self._raw_lines.position
        return Span(*position(low), *position(high)), self._cell(start).number if self.cells else None

    def _width(self, at: int) -> int:
        """How many characters of the file one character of the text takes; none for the ends between cells."""
        if at >= self._cell(at).end:
            return 0
        match = _ESCAPE.match(self.raw, self._offsets[at])
        return match.end() - match.start() if match else 1

    def _cell(self, offset: int) -> Cell:
        return self.cells[max(bisect.bisect_right(self._starts, offset) - 1, 0)]

    def rebuild(self, splices: Iterable[Splice]) -> str:
        """The notebook's JSON text with the splices carried out in its source lines."""
        return splice(self.raw, [self._raw_splice(one) for one in splices])

    def _raw_splice(self, one: Splice) -> Splice:
        cell = self._cell(one.start)
        start, end, text = one.start, one.end, one.text
        if start > cell.end:  # a new last line of a cell that does not end in a line end
            start, end, text = cell.end, cell.end, "\n" + text.removesuffix("\n")
        elif end > cell.end:
            end, text = cell.end, text.removesuffix("\n")
        low = self._offsets[start]
        if not text and start < end == cell.end and start > cell.start and self.text[start - 1] == "\n":
            start -= 1  # the line before becomes the last one
            ends = self.text[cell.end - 1] == "\n"
            low = self._offsets[start] + (self._width(start) if ends else 0)
        escaped = json.dumps(text, ensure_ascii=self.raw.isascii())[1:-1]
        glue = self._glue[cell.number - 1]
        if glue is not None:
            tail = "\\n" if end == cell.end and escaped.endswith("\\n") else ""
            escaped = escaped.removesuffix(tail).replace("\\n", f'\\n"{glue}"') + tail
            if start == end == cell.end and start > cell.start and self.text[start - 1] == "\n":
                escaped = f'"{glue}"{escaped}'
        return Splice(low, self._offsets[end], escaped)


class NotebookShell(Document):
    """The shell cells and shell lines of a notebook."""

    def __init__(self, module: NotebookModule, text: str) -> None:
        super().__init__(module.path, text, "shell", module.project, module.text)
        self._module = module

    def span(self, start: int, end: int) -> tuple[Span, int | None]:
        """Where text[start:end] lies in the notebook file, and the number of its code cell."""
        return self._module.span(start, end)

    def uses(self, names: Iterable[str]) -> list[Use]:
        """The uses of variables; `%env NAME=value` sets one and has its line for itself."""
        return [self._magic(use) for use in super().uses(names)]

    def _magic(self, use: Use) -> Use:
        first, last = self.lines.line_start(use.start), self.lines.line_end(use.end)
        if _ENV_MAGIC.match(self.written, first, last) is None:
            return use
        if use.role is not Role.SET:
            return replace(use, role=Role.MENTION)
        copy = Copy(first, self.written[first : use.start], self.written[use.end : last])
        return replace(use, copy=copy, removal=(ReplaceText(first, last, ""),))


def compiles(new: NotebookModule, old: Module) -> bool:
    """Whether a notebook's cells still are Python where they were before."""
    before = old.problems if isinstance(old, NotebookModule) else []
    if len(new.problems) > len(before):
        return False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            compile(new.tree, "<migrated>", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return False
    return True


# -- the JSON side ---------------------------------------------------------------------------------------------


def _code_cells(raw: str) -> Iterator[Node]:
    """The source (a string or a list of strings) of each code cell, in order; none for other languages."""
    root = parse_json(raw)
    if root.kind != "object" or not _is_python(root):
        if root.kind == "object" and root.get("metadata") is not None:
            return
        raise SourceError("TM001", "cannot parse: not a notebook (file not looked at)", 1, 1)
    sheets = [root] if root.get("cells") else (root.get("worksheets") or Node("array", 0, 0)).items
    for sheet in sheets:
        cells = sheet.get("cells")
        if cells is None or cells.kind != "array":
            raise SourceError("TM001", "cannot parse: not a notebook (file not looked at)", 1, 1)
        for cell in cells.items:
            kind = cell.get("cell_type")
            source = cell.get("source") or cell.get("input")
            if kind is not None and kind.value == "code" and source is not None:
                yield source


def _is_python(root: Node) -> bool:
    metadata = root.get("metadata") or root
    for holder, key in (("language_info", "name"), ("kernelspec", "language")):
        node = metadata.get(holder)
        language = node.get(key) if node is not None else None
        if language is not None:
            return language.value.lower() in ("python", "ipython", "python3")
    return root.get("cells") is not None or root.get("worksheets") is not None


def _strings(source: Node) -> list[Node]:
    return [one for one in (source.items if source.kind == "array" else [source]) if one.quote]


def _decoded(raw: str, source: Node) -> tuple[str, list[int]]:
    """A cell's source and, for each of its characters, the offset in the file."""
    pieces: list[str] = []
    offsets: list[int] = []
    for node in _strings(source):
        start, end = node.inner
        pieces.append(node.value)
        if len(node.value) == end - start:
            offsets += range(start, end)
        else:
            offsets += (match.start() for match in _ESCAPE.finditer(raw, start, end))
    return "".join(pieces), offsets


def _content_end(source: Node) -> int:
    strings = _strings(source)
    return strings[-1].inner[1] if strings else source.start + 1


def _glue(raw: str, source: Node) -> str | None:
    """What stands between two source lines of a cell; None where the source is one string."""
    if source.kind != "array":
        return None
    if len(source.items) > 1:
        return raw[source.items[0].end : source.items[1].start]
    return "," + raw[source.start + 1 : source.items[0].start] if source.items else ", "


# -- the IPython side ------------------------------------------------------------------------------------------


def _blank(text: str) -> str:
    return re.sub(r"[^\r\n]", " ", text)


def _hidden(cell: str) -> tuple[str, str | None]:
    """A cell as Python sees it, and as shell sees it (None without any shell), both of the same length."""
    lead = len(cell) - len(cell.lstrip())
    if cell.startswith("%%", lead):
        end = cell.find("\n", lead)
        first, rest = (cell, "") if end < 0 else (cell[:end], cell[end:])
        words = first.strip()[2:].split()
        magic = words[0] if words else ""
        if magic in _SHELL_MAGICS or (magic == "script" and len(words) > 1 and words[1] in _SHELL_MAGICS):
            return _blank(cell), _blank(first) + rest
        if magic not in _PYTHON_MAGICS:
            return _blank(cell), None
        python, script = _hidden(rest)
        return _blank(first) + python, None if script is None else _blank(first) + script
    return _hide_lines(cell)


def _hide_lines(cell: str) -> tuple[str, str | None]:
    if not re.search(r"[%!?]", cell):
        return cell, None
    try:
        ast.parse(cell)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        pass
    else:
        return cell, None
    python, script, shell = list(cell), list(_blank(cell)), False
    inside = _string_lines(cell)
    at = 0
    while at < len(cell):
        line = _LINE_MAGIC.match(cell, at)
        match = line or _ASSIGNED_MAGIC.match(cell, at)
        if match is None or at in inside:
            found = cell.find("\n", at)
            at = len(cell) if found < 0 else found + 1
            continue
        start = match.end(1)
        end = _logical_end(cell, start)
        python[start:end] = "0" + _blank(cell[start + 1 : end])
        if marked := _SHELL_LINE.match(cell, start, end):
            keep = marked.end() if marked["mark"] not in _INSTALL_MAGICS else start + 1
            script[keep:end] = cell[keep:end]
            shell = True
        at = end + 1
    return "".join(python), "".join(script) if shell else None


def _logical_end(cell: str, start: int) -> int:
    """The end of a line with its continuation lines, without the line end."""
    end = start
    while True:
        found = cell.find("\n", end)
        end = len(cell) if found < 0 else found
        if found < 0 or not cell[:end].rstrip("\r").endswith("\\"):
            return end
        end += 1


def _string_lines(cell: str) -> frozenset[int]:
    """The offsets of lines that begin inside a triple-quoted string."""
    inside: set[int] = set()
    for match in re.finditer(
        r"('''|\"\"\")(?:[^\\]|\\.)*?\1|#[^\n]*|'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\"", cell, re.DOTALL
    ):
        if match[1]:
            inside.update(match.start() + i + 1 for i, char in enumerate(match[0]) if char == "\n")
    return frozenset(inside)
