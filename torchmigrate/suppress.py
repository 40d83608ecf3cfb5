"""Suppression comments: `# torchmigrate: ignore[TM101] reason` and `# torchmigrate: ignore-file[TM101] reason`.

A comment silences findings of its own line, of code that ends or begins there, and, when it has the line for itself, of
what begins on the next line of code. Codes may be prefixes (`TM1`); a comment without codes silences nothing.
"""

from __future__ import annotations

import io
import re
import tokenize
from dataclasses import dataclass, field

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
    def read(cls, text: str, python: bool = True) -> Suppressions:
        """Collect the comments of a text. In Python only real comments count, not strings that hold such text; in other
        formats any line with a `#` or `//` before the words."""
        found: list[Suppression] = []
        if MARK not in text:
            return cls(found)
        lines = re.split(r"\r\n|\r|\n", text)
        comments = _comments(text) if python else None
        for number, line in enumerate(lines, 1):
            if MARK not in line:
                continue
            start = 0 if comments is None else comments.get(number)
            if start is None or (match := _COMMENT.search(line, start)) is None:
                continue
            codes = tuple(code.strip() for code in (match["codes"] or "").split(","))
            alone = not line[: match.start()].strip(" \t\f\"',")
            one = Suppression(
                number, match.start() + 1, codes, (match["reason"] or "").strip(), match["file"] is not None, alone
            )
            one.covers = _next_code_line(lines, number) if alone else number
            found.append(one)
        return cls(found)

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


def _comments(text: str) -> dict[int, int] | None:
    """The column at which the comment of each line of Python begins; None where the text has no such tokens."""
    found: dict[int, int] = {}
    try:
        for token in tokenize.generate_tokens(io.StringIO(text, newline="").readline):
            if token.type == tokenize.COMMENT:
                found[token.start[0]] = token.start[1]
    except (tokenize.TokenError, SyntaxError):
        return None
    return found


def _next_code_line(lines: list[str], number: int) -> int:
    for at in range(number, len(lines)):
        stripped = lines[at].strip()
        if stripped and not stripped.startswith(("#", "//")):
            return at + 1
    return number
