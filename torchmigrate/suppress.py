"""Suppression comments: `# torchmigrate: ignore[TM101] reason` and `# torchmigrate: ignore-file[TM101] reason`.

A comment silences findings of its own line, of code that ends or begins there, and, when it has the line for itself, of
what begins on the next line of code. Codes may be prefixes (`TM1`); a comment without codes silences nothing. In files
that are not Python a comment is what their format, or the shell script in them, takes for one; where that is not sure,
nothing is silenced.
"""

from __future__ import annotations

import contextlib
import io
import re
import tokenize
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from torchmigrate.source import Lines

MARK = "torchmigrate:"
_COMMENT = re.compile(
    r"(?:#|//)\s*torchmigrate:\s*ignore(?P<file>-file)?\b(?:\s*\[(?P<codes>[^\]\n]*)\]\s*(?P<reason>[^\n\r]*))?"
)
_CODE = re.compile(r"[A-Z]+\d*")


@dataclass(eq=False, slots=True)
class Suppression:
    """One ignore comment."""

    line: int
    column: int
    codes: tuple[str, ...]
    reason: str
    whole_file: bool
    alone: bool
    covers: int = 0
    used: set[str] = field(default_factory=set)

    def names(self, code: str) -> bool:
        """Whether the comment names the code or a prefix of it."""
        return any(code.startswith(one) for one in self.codes if one)


class Suppressions:
    """The ignore comments of one file."""

    def __init__(self, found: list[Suppression]) -> None:
        self.found = found

    @classmethod
    def read(cls, text: str, comments: Callable[[str], Iterable[tuple[int, int]]]) -> Suppressions:
        """Collect those of a text. `comments` gives where its real comments lie: words in a string silence nothing."""
        if MARK not in text:
            return cls([])
        lines = Lines(text)
        marked = (match for extent in comments(text) for match in _COMMENT.finditer(text, *extent))
        return cls([_suppression(lines, match) for match in sorted(marked, key=lambda match: match.start())])

    def reason(self, code: str, line: int, end_line: int) -> str | None:
        """The reason text of the comment that silences `code` on these lines, None when none does."""
        for one in self.found:
            here = one.whole_file or line <= one.line <= end_line or one.covers == line
            if here and one.names(code):
                one.used.add(code)
                return one.reason
        return None

    def without_codes(self) -> list[tuple[Suppression, str]]:
        """Comments that can silence nothing, each with what is written where a code should be; empty for nothing."""
        return [(one, name) for one in self.found for name in one.codes if not _CODE.fullmatch(name)]

    def unused(self, codes: set[str]) -> list[tuple[Suppression, str]]:
        """Comments that silenced nothing, with each code in them that one of the selected `codes` answers to."""
        return [
            (one, name)
            for one in self.found
            for name in one.codes
            if name
            and any(code.startswith(name) for code in codes)
            and not any(used.startswith(name) for used in one.used)
        ]


def python_comments(text: str) -> Iterator[tuple[int, int]]:
    """Where the comments of Python code lie, up to where it has no tokens."""
    lines = Lines(text)
    with contextlib.suppress(tokenize.TokenError, SyntaxError):
        for token in tokenize.generate_tokens(io.StringIO(text, newline="").readline):
            if token.type == tokenize.COMMENT:
                start = lines.starts[token.start[0] - 1] + token.start[1]
                yield start, start + len(token.string)


def _suppression(lines: Lines, match: re.Match[str]) -> Suppression:
    line, column = lines.position(match.start())
    codes = tuple(code.strip() for code in (match["codes"] or "").split(","))
    alone = not lines.text[lines.starts[line - 1] : match.start()].strip(" \t\f")
    one = Suppression(line, column, codes, (match["reason"] or "").strip(), match["file"] is not None, alone)
    one.covers = _next_code_line(lines, line) if alone else line
    return one


def _next_code_line(lines: Lines, line: int) -> int:
    for number, start in enumerate(lines.starts[line:], line + 1):
        stripped = lines.text[start : lines.line_end(start)].strip()
        if stripped and not stripped.startswith(("#", "//")):
            return number
    return line
