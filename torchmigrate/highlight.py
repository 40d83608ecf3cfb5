"""Colour for lines of Python on a terminal: keywords, strings, numbers and comments, one line at a time.

A hunk shows pieces of a file, so a real lexer would need the lines that are not shown; and a highlighter must never
change a character of what it colours. One regular expression does both.
"""

from __future__ import annotations

import keyword
import re

_TOKEN = re.compile(
    r"""(?P<comment>\#.*)
    |(?P<string>(?:\b[rbfuRBFUtT]{1,2})?(?:'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"))
    |(?P<number>\b\d[\w.]*)
    |(?P<word>\b[^\W\d]\w*)""",
    re.VERBOSE,
)
_COLOURS = {"comment": "2", "string": "33", "number": "35", "keyword": "34;1"}


def python(line: str, around: str) -> str:
    """A line with colour; `around` is the code (such as "32") of the colour that the rest of the line has."""
    reset = f"\x1b[0;{around}m" if around else "\x1b[0m"

    def paint(found: re.Match[str]) -> str:
        kind = found.lastgroup or ""
        if kind == "word":
            kind = "keyword" if keyword.iskeyword(found[0]) else ""
        return f"\x1b[{_COLOURS[kind]}m{found[0]}{reset}" if kind in _COLOURS else found[0]

    return _TOKEN.sub(paint, line)
