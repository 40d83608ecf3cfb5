"""Reads back the hunks of patches that torchmigrate made."""

from __future__ import annotations

import re
from collections.abc import Sequence

from torchmigrate.model import Hunk

_RANGE = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")


def hunks(patch: str) -> list[Hunk]:
    """The hunks of a patch of one file."""
    lines = patch.encode("utf-8", "surrogatepass").split(b"\n")
    found: list[Hunk] = []
    at = 0
    while at < len(lines):
        head = _RANGE.match(lines[at])
        at += 1
        if head is None:
            continue
        old, new = (int(head[n + 1]) if head[n + 1] is not None else 1 for n in (1, 3))
        end = _end(lines, at, old, new)
        shown = [line + b"\n" for line in lines[at:end]]
        body: list[bytes] = []
        for line in shown:
            if line.startswith(b"\\"):
                body[-1] = body[-1].removesuffix(b"\n")
            else:
                body.append(line)
        found.append(Hunk(int(head[1]) - (old > 0), old, int(head[3]) - (new > 0), new, tuple(body)))
        at = end
    return found


def _end(lines: Sequence[bytes], at: int, old: int, new: int) -> int:
    """The index behind a hunk's last line, from its counts: a line of code may look like a header."""
    while at < len(lines) and (old > 0 or new > 0 or lines[at].startswith(b"\\")):
        mark = lines[at][:1]
        old -= mark in (b" ", b"-", b"")
        new -= mark in (b" ", b"+", b"")
        at += 1
    return at
