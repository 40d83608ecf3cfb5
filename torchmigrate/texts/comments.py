"""Where the comments of a text are, by its format. What may as well be text, such as a `#` in quotes, is none."""

from __future__ import annotations

import bisect
import re
from collections.abc import Callable, Iterator, Mapping

from torchmigrate.texts import dockerfile, lines, shell, tree

Extent = tuple[int, int]
"""Where something begins and ends in a text."""

C_COMMENT = re.compile(
    r"""(R"(?P<tag>[^\s()\\]*)\(.*?\)(?P=tag)"|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)+')|//[^\r\n]*|/\*.*?\*/""",
    re.DOTALL,
)
"""A comment of C, or in the first group what may hold something that looks like one."""
_TOML = re.compile(
    r'''("""(?:[^\\]|\\.)*?"{3,5}|\'\'\'.*?'{3,5}|"(?:[^"\\\r\n]|\\.)*"|'[^'\r\n]*')|#[^\r\n]*''', re.DOTALL
)
_AFTER_BLANK = re.compile(r"(?:^|(?<=[ \t\r]))#[^\r\n]*", re.MULTILINE)
_ALONE = re.compile(r"^[ \t]*(?P<comment>#[^\r\n]*)", re.MULTILINE)
_DOUBLE = re.compile(r'(?:[^"\\]|\\.)*"', re.DOTALL)
_SINGLE = re.compile(r"[^']*'")
_LINE = re.compile(r"[^\r\n]+")
_OPENS = frozenset(" \t=:,([{")
"""What a quote comes after; elsewhere it is an apostrophe."""


def extents(text: str, kind: str) -> Iterator[Extent]:
    """The comments of a text that is of its kind, those of shell scripts inside of it too."""
    return _OF[kind](text) if kind in _OF else iter(())


def _matches(pattern: re.Pattern[str]) -> Callable[[str], Iterator[Extent]]:
    """The matches that have no group."""
    return lambda text: (match.span() for match in pattern.finditer(text) if not match.lastindex)


def _alone(text: str) -> Iterator[Extent]:
    return (match.span("comment") for match in _ALONE.finditer(text))


def _yaml(text: str) -> Iterator[Extent]:
    from torchmigrate.texts import yaml

    try:
        scalars = [at.node for at in tree.visits(yaml.documents(text))]
    except yaml.NotYaml:
        return (found for line in _LINE.finditer(text) for found in shell.comments(text, *line.span()))
    return _around(text, scalars)


def _around(text: str, scalars: list[tree.Node]) -> Iterator[Extent]:
    """Comments outside of all scalars, and those of the scripts that the literal ones hold."""
    starts = [node.start for node in scalars]
    for match in _AFTER_BLANK.finditer(text):
        index = bisect.bisect_right(starts, match.start()) - 1
        inside = index >= 0 and match.start() < scalars[index].end
        if not inside or (scalars[index].quote in ("|", ">") and match.start() < scalars[index].inner[0]):
            yield match.span()
    for node in scalars:
        if node.quote == "|":
            yield from shell.comments(text, *node.inner)


def _quoted_lines(text: str, across: bool) -> Iterator[Extent]:
    """Comments of lines that may hold strings in quotes, which may go `across` lines."""
    at = 0
    while at < len(text):
        char = text[at]
        before = text[at - 1] if at else "\n"
        if char == "#" and before in " \t\r\n":
            yield at, _line_end(text, at)
            at = _line_end(text, at)
        elif char in "'\"" and (before in _OPENS or before in "\r\n"):
            match = (_DOUBLE if char == '"' else _SINGLE).match(
                text, at + 1, len(text) if across else _line_end(text, at)
            )
            at = match.end() if match else _line_end(text, at)
        else:
            at += 1


def _line_end(text: str, at: int) -> int:
    match = _LINE.match(text, at)
    return match.end() if match else at


def _dockerfile(text: str) -> Iterator[Extent]:
    """Lines for themselves, and comments of the scripts that are run; elsewhere a `#` is part of an argument."""
    at = 0
    for one in dockerfile.instructions(text):
        yield from _alone_within(text, at, one.line)
        if one.name in dockerfile.SHELL:
            yield from shell.comments(text, one.start, one.end)
        else:
            yield from _alone_within(text, text.find("\n", one.start, one.end) + 1 or one.end, one.end)
        at = one.end
    yield from _alone_within(text, at, len(text))


def _alone_within(text: str, start: int, end: int) -> Iterator[Extent]:
    return (match.span("comment") for match in _ALONE.finditer(text, start, end))


_OF: Mapping[str, Callable[[str], Iterator[Extent]]] = {
    "shell": shell.comments,
    "yaml": _yaml,
    "toml": _matches(_TOML),
    "json": _matches(C_COMMENT),
    "cpp": _matches(C_COMMENT),
    "requirements": _matches(_AFTER_BLANK),
    "version": _alone,
    "env": lambda text: _quoted_lines(text, across=True),
    "cfg": lambda text: _quoted_lines(text, across=False),
    "makefile": lines.make_comments,
    "dockerfile": _dockerfile,
}
