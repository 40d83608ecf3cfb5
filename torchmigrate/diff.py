"""Unified diffs that `git apply` takes, byte for byte.

Lines end at LF and nowhere else, so CR, form feeds, U+2028 and bytes that are no text stay inside their line.
"""

from __future__ import annotations

import bisect
import difflib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence

from torchmigrate.model import Hunk as Hunk

CONTEXT = 3
"""Lines of context around a change, as git shows."""

_NO_NEWLINE = b"\\ No newline at end of file\n"
_ESCAPES = {7: "\\a", 8: "\\b", 9: "\\t", 10: "\\n", 11: "\\v", 12: "\\f", 13: "\\r", 34: '\\"', 92: "\\\\"}
_LINES_FOR_DIFFLIB = 4000
"""Above this many lines on both sides without a common unique line, a block is shown as replaced as a whole."""

Block = tuple[int, int, int, int]


def split_lines(data: bytes) -> list[bytes]:
    """The lines of `data`, each with its LF; the last one may lack it."""
    lines = [line + b"\n" for line in data.split(b"\n")]
    last = lines.pop()[:-1]
    return [*lines, last] if last else lines


def hunks(before: bytes, after: bytes, context: int = CONTEXT) -> list[Hunk]:
    """The hunks between two contents, in order, with `context` lines around each change."""
    old, new = split_lines(before), split_lines(after)
    result: list[Hunk] = []
    group: list[Block] = []
    for block in _changed(old, new):
        if context == 0:
            block = _anchored(old, new, block)
        if group and block[0] - group[-1][1] > 2 * context:
            result.append(_hunk(old, new, group, context))
            group = []
        group.append(block)
    if group:
        result.append(_hunk(old, new, group, context))
    return result


def _anchored(old: Sequence[bytes], new: Sequence[bytes], block: Block) -> Block:
    """A block with the line before it where it only adds or only removes a last line without a line end.

    Without context git takes such a hunk back to a file whose line before has lost its line end.
    """
    a, b, c, d = block
    added = a == b == len(old) and d == len(new) and not new[-1].endswith(b"\n")
    removed = c == d == len(new) and b == len(old) and not old[-1].endswith(b"\n")
    return (a - 1, b, c - 1, d) if (added or removed) and a and c else block


def _hunk(old: Sequence[bytes], new: Sequence[bytes], group: Sequence[Block], context: int) -> Hunk:
    lead = min(context, group[0][0])
    trail = min(context, len(old) - group[-1][1])
    old_start, new_start = group[0][0] - lead, group[0][2] - lead
    old_end, new_end = group[-1][1] + trail, group[-1][3] + trail
    lines: list[bytes] = []
    at = old_start
    for a, b, c, d in group:
        lines += (b" " + line for line in old[at:a])
        lines += (b"-" + line for line in old[a:b])
        lines += (b"+" + line for line in new[c:d])
        at = b
    lines += (b" " + line for line in old[at:old_end])
    return Hunk(old_start, old_end - old_start, new_start, new_end - new_start, tuple(lines))


def _changed(old: Sequence[bytes], new: Sequence[bytes]) -> list[Block]:
    """Blocks (a, b, c, d) where old[a:b] became new[c:d]: in order, never touching each other."""
    merged: list[Block] = []
    for block in _differences(old, new, (0, len(old), 0, len(new))):
        if merged and merged[-1][1] == block[0] and merged[-1][3] == block[2]:
            first = merged.pop()
            block = (first[0], block[1], first[2], block[3])
        merged.append(block)
    return merged


def _differences(old: Sequence[bytes], new: Sequence[bytes], window: Block) -> Iterator[Block]:
    """Narrows a window to what differs, cuts it at lines that are unique on both sides, and leaves the rest to difflib.

    Changes are few and far apart in large files, so difflib, which is quadratic there, sees small pieces only.
    """
    a, b, c, d = _narrowed(old, new, window)
    if a == b or c == d:
        if a != b or c != d:
            yield a, b, c, d
        return
    anchors = _anchors(old, new, (a, b, c, d))
    if anchors:
        for i, j in anchors:
            yield from _differences(old, new, (a, i, c, j))
            a, c = i + 1, j + 1
        yield from _differences(old, new, (a, b, c, d))
    elif b - a > _LINES_FOR_DIFFLIB or d - c > _LINES_FOR_DIFFLIB:
        yield a, b, c, d
    else:
        matcher = difflib.SequenceMatcher(None, old[a:b], new[c:d], autojunk=False)
        for tag, i, j, k, m in matcher.get_opcodes():
            if tag != "equal":
                yield a + i, a + j, c + k, c + m


def _narrowed(old: Sequence[bytes], new: Sequence[bytes], window: Block) -> Block:
    a, b, c, d = window
    while a < b and c < d and old[a] == new[c]:
        a, c = a + 1, c + 1
    while a < b and c < d and old[b - 1] == new[d - 1]:
        b, d = b - 1, d - 1
    return a, b, c, d


def _anchors(old: Sequence[bytes], new: Sequence[bytes], window: Block) -> list[tuple[int, int]]:
    """The longest rising run of pairs of equal lines that occur once on each side of the window."""
    a, b, c, d = window
    here, there = _once(old, a, b), _once(new, c, d)
    pairs = [(i, there[line]) for line, i in here.items() if line in there]
    tails: list[int] = []
    indices: list[int] = []
    previous: list[int] = []
    for index, (_, j) in enumerate(pairs):
        at = bisect.bisect_left(tails, j)
        previous.append(indices[at - 1] if at else -1)
        tails[at : at + 1] = [j]
        indices[at : at + 1] = [index]
    run: list[tuple[int, int]] = []
    index = indices[-1] if indices else -1
    while index >= 0:
        run.append(pairs[index])
        index = previous[index]
    return run[::-1]


def _once(lines: Sequence[bytes], first: int, last: int) -> dict[bytes, int]:
    """Lines that occur exactly once between two indices, in file order, with their index."""
    seen: dict[bytes, int] = {}
    for i in range(first, last):
        line = lines[i]
        seen[line] = -1 if line in seen else i
    return {line: i for line, i in seen.items() if i >= 0}


def patch(
    name: str,
    before: bytes,
    after: bytes,
    *,
    context: int = CONTEXT,
    label: Callable[[Hunk], str] = lambda hunk: "",
) -> bytes:
    """The change of one file as a patch with git's header; empty when nothing differs.

    `name` is relative to the folder in which the patch is to be applied, with `/`.
    """
    if before == after:
        return b""
    return file_header(name) + b"".join(hunk_text(hunk, label(hunk)) for hunk in hunks(before, after, context))


def file_header(name: str) -> bytes:
    """The three lines that open a file in a patch: git's own, then the old and the new name."""
    raw = os.fsencode(name)
    tab = b"\t" if b" " in raw else b""
    a, b = quoted(b"a/" + raw), quoted(b"b/" + raw)
    return b"diff --git " + a + b" " + b + b"\n--- " + a + tab + b"\n+++ " + b + tab + b"\n"


def hunk_text(hunk: Hunk, label: str = "") -> bytes:
    """The hunk as it stands in a patch."""
    return hunk.header(label) + b"".join(
        line if line.endswith(b"\n") else line + b"\n" + _NO_NEWLINE for line in hunk.lines
    )


def quoted(name: bytes) -> bytes:
    """A path as git writes it: in C quotes when it holds control characters, quotes, backslashes or non-ASCII bytes."""
    if all(32 <= byte < 127 and byte not in _ESCAPES for byte in name):
        return name
    text = "".join(_ESCAPES.get(b) or (chr(b) if 32 <= b < 127 else f"\\{b:03o}") for b in name)
    return f'"{text}"'.encode("ascii")


def stat(counts: Iterable[tuple[str, int, int]], width: int = 80) -> str:
    """Lines per file as `git diff --stat` shows them, from (name, added, removed)."""
    rows = list(counts)
    longest = max((len(name) for name, _, _ in rows), default=0)
    most = max((added + removed for _, added, removed in rows), default=0)
    digits = len(str(most))
    room = max(width - longest - digits - 4, 10)
    scale = min(1.0, room / most) if most else 1.0
    out = []
    for name, added, removed in rows:
        plus, minus = (max(1, round(n * scale)) if n else 0 for n in (added, removed))
        out.append(f" {name:<{longest}} | {added + removed:>{digits}} {'+' * plus}{'-' * minus}\n")
    return "".join(out)


def changed_lines(before: bytes, after: bytes) -> tuple[int, int]:
    """How many lines are added and removed between two contents."""
    blocks = _changed(split_lines(before), split_lines(after))
    return sum(d - c for _, _, c, d in blocks), sum(b - a for a, b, _, _ in blocks)
