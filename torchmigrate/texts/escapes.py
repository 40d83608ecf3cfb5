"""Where each character of a scalar's value stands in the text, past escapes, doubled quotes and folded lines."""

from __future__ import annotations

import re

_FOLD = r"(?P<fold>(?:(?<![ \t])[ \t]+)?\r?\n\s*)"
_TOKENS = {
    "": re.compile(rf"{_FOLD}|.", re.DOTALL),
    "'": re.compile(rf"(?P<doubled>'')|{_FOLD}|.", re.DOTALL),
    '"': re.compile(
        r"(?P<joined>\\[ \t]*\r?\n\s*)|\\(?P<code>x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8})|\\(?P<escape>.)"
        rf"|{_FOLD}|.",
        re.DOTALL,
    ),
    ">": re.compile(rf"(?P<joined>\A[ ]+)|(?P<end>\r?\n\s*\Z)|{_FOLD}|.", re.DOTALL),
}
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "0": "\0", "e": "\x1b", "a": "\a", "v": "\v"}


def places(raw: str, value: str, quote: str) -> list[tuple[int, int]] | None:
    """Where in `raw` each character of `value` is written; None where that cannot be told.

    `quote` is the one around the scalar: "", "'" or '"', or one of three signs, between which lines are not folded, or
    ">" for a block whose lines are.
    """
    tokens = _TOKENS.get(quote[:1])
    if tokens is None:
        return None
    found, spans = list[str](), list[tuple[int, int]]()
    for match in tokens.finditer(raw):
        meant = _meant(match, folds=len(quote) < 3)
        found.append(meant)
        spans += [match.span()] * len(meant)
    last = "\n" * (len(value) - len(spans)) if quote == ">" else ""
    return spans + [(len(raw), len(raw))] * len(last) if "".join(found) + last == value else None


def _meant(match: re.Match[str], folds: bool) -> str:
    kind, part = match.lastgroup, match[0]
    if kind == "fold":
        lines = part.count("\n")
        return part if not folds else "\n" * (lines - 1) or " "
    if kind == "code":
        number = int(match["code"][1:], 16)
        return chr(number) if number < 0x110000 else part
    if kind == "escape":
        return _ESCAPES.get(match["escape"], match["escape"])
    return {"doubled": "'", "joined": "", "end": ""}.get(kind or "", part)
