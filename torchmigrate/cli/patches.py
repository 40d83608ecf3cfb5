"""Patches of results: names that `git apply` finds again, hunks that say which rule made them, colour for people."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Sequence

from torchmigrate import diff, git
from torchmigrate.model import FileResult
from torchmigrate.report import text

_RESET = b"\x1b[m"
_COLOURS = {b"-": b"\x1b[31m", b"+": b"\x1b[32m", b"@": b"\x1b[36m", b"d": b"\x1b[1m"}


@functools.cache
def _top(folder: str) -> str | None:
    return git.toplevel(folder)


def base(path: str, *, use_git: bool) -> str:
    """The folder that a file's name in a patch is relative to, and in which the patch is to be applied.

    It is the top of the working tree that we stand in, else of the one that the file lies in, else the current folder.
    """
    here = os.path.realpath(os.curdir)
    if not use_git:
        return here
    top = _top(here)
    real = os.path.realpath(path)
    if top and _inside(real, top):
        return top
    return _top(os.path.dirname(real)) or here


def _inside(path: str, folder: str) -> bool:
    return path.startswith(folder.rstrip(os.sep) + os.sep)


def name(path: str, folder: str) -> str:
    """A file's name in a patch that is applied in `folder`."""
    return os.path.relpath(os.path.realpath(path), folder).replace(os.sep, "/")


def patch(result: FileResult, *, context: int, use_git: bool) -> bytes:
    """The patch of one file, byte for byte what writing its result would change."""
    if result.before is None or result.after is None:
        return b""
    accepted = [f for f in result.findings if f.key in result.accepted]
    by_line = [f for f in accepted if f.cell is None]
    only = text.label(accepted) if len({f.code for f in accepted}) == 1 else ""

    def label(hunk: diff.Hunk) -> str:
        here = [f for f in by_line if hunk.covers(f.span.line, f.span.end_line)]
        return text.label(here) or only

    named = name(result.path, base(result.path, use_git=use_git))
    return diff.patch(named, result.before, result.after, context=context, label=label)


def stat(results: Sequence[FileResult], *, width: int) -> str:
    """Lines changed per file and in all, as `git diff --stat` shows them."""
    rows = [
        (text.one_line(result.path), *diff.changed_lines(result.before, result.after))
        for result in results
        if result.before is not None and result.after is not None
    ]
    added, removed = sum(row[1] for row in rows), sum(row[2] for row in rows)
    if not rows:
        return ""
    parts = [f" {text.plural(len(rows), 'file')} changed"]
    parts += [f"{text.plural(added, 'insertion')}(+)"] if added else []
    parts += [f"{text.plural(removed, 'deletion')}(-)"] if removed else []
    return diff.stat(rows, width) + ", ".join(parts) + "\n"


def coloured(patch: bytes) -> Iterator[bytes]:
    """A patch for a terminal: the text as it is, with colour around each line that has one."""
    header = 0
    for line in diff.split_lines(patch):
        header = 3 if line.startswith(b"diff --git ") else header - 1
        colour = _COLOURS[b"d"] if header > 0 else _COLOURS.get(line[:1])
        if colour is None:
            yield line
            continue
        body = line.rstrip(b"\r\n")
        yield colour + body + _RESET + line[len(body) :]
