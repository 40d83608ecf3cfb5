"""Reads a patch that torchmigrate wrote and a reviewer cut down, and finds the changes that are still in it.

The patch is not applied as it stands: the changes are made again, so that imports are there exactly where they are
needed, and the outcome is compared with what the patch asks for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from torchmigrate import diff
from torchmigrate.model import Decision, FileResult, Hunk, Verdict

_RANGE = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_ESCAPE = re.compile(rb"\\([0-7]{3}|.)")
_PLAIN = {b"a": b"\a", b"b": b"\b", b"t": b"\t", b"n": b"\n", b"v": b"\v", b"f": b"\f", b"r": b"\r"}
_IMPORT = re.compile(rb"\s*[\"']?\s*(?:import|from)\s|\s*$")


class Refused(Exception):
    """A patch, or one hunk of it, that cannot be taken; `line` is its 1-based line in the patch file."""

    def __init__(self, line: int, why: str) -> None:
        super().__init__(why)
        self.line = line


@dataclass(frozen=True, slots=True)
class Kept:
    """The hunks that are left of one file's patch. `lines` says where each begins in the patch file."""

    name: str
    hunks: tuple[Hunk, ...]
    lines: tuple[int, ...]

    def line_of(self, first: int) -> int:
        """The line of the patch at which the hunk over a 0-based line of the old file begins."""
        below = [line for hunk, line in zip(self.hunks, self.lines, strict=True) if hunk.old_start <= first]
        return below[-1] if below else self.lines[0]


@dataclass(frozen=True, slots=True)
class _Block:
    """Lines `start` to `end` (0-based, exclusive) of the old file that become `new`."""

    start: int
    end: int
    old: tuple[bytes, ...]
    new: tuple[bytes, ...]

    @property
    def imports(self) -> bool:
        """Whether nothing but imports is changed."""
        return all(_IMPORT.match(line) for line in (*self.old, *self.new))

    def meets(self, other: _Block) -> bool:
        if self.start == self.end or other.start == other.end:
            return self.start <= other.end and other.start <= self.end
        return self.start < other.end and other.start < self.end


def read(data: bytes) -> list[Kept]:
    """The files of a patch with what is left of them. Raises Refused."""
    lines = data.split(b"\n")
    found: dict[str, tuple[list[Hunk], list[int]]] = {}
    at, name = 0, None
    while at < len(lines):
        line = lines[at]
        head = _RANGE.match(line)
        if line.startswith(b"+++ ") and at and lines[at - 1].startswith(b"--- "):
            name = _name(line[4:], at + 1)
        elif line.startswith(b"diff --git "):
            name = None
        elif head:
            if name is None:
                raise Refused(at + 1, "a hunk without the name of its file above it")
            hunk, end = _hunk(lines, at, head)
            hunks, places = found.setdefault(name, ([], []))
            hunks.append(hunk)
            places.append(at + 1)
            at = end
            continue
        at += 1
    if not found and data.strip() and not any(line.startswith((b"diff --git ", b"--- ")) for line in lines):
        raise Refused(1, "this is no patch")
    return [Kept(name, tuple(hunks), tuple(places)) for name, (hunks, places) in found.items()]


def _name(raw: bytes, line: int) -> str:
    raw = raw.rstrip(b"\r").split(b"\t")[0]
    if raw.startswith(b'"') and raw.endswith(b'"'):
        raw = _ESCAPE.sub(lambda m: bytes([int(m[1], 8)]) if len(m[1]) == 3 else _PLAIN.get(m[1], m[1]), raw[1:-1])
    if not raw.startswith(b"b/"):
        raise Refused(line, "names of files begin with b/ in a patch of torchmigrate")
    return raw[2:].decode("utf-8", "surrogateescape")


def _hunk(lines: Sequence[bytes], at: int, head: re.Match[bytes]) -> tuple[Hunk, int]:
    old_count, new_count = (1 if head[n] is None else int(head[n]) for n in (2, 4))
    old, new, body = old_count, new_count, list[bytes]()
    end = at + 1
    while end < len(lines) and (old > 0 or new > 0 or lines[end].startswith(b"\\")):
        line = lines[end]
        if line.startswith(b"\\"):
            body[-1] = body[-1].removesuffix(b"\n")
        elif line[:1] in (b" ", b"-", b"+") or not line:
            body.append((line or b" ") + b"\n")
            old -= line[:1] != b"+"
            new -= line[:1] != b"-"
        else:
            break
        end += 1
    if old or new:
        raise Refused(at + 1, "this hunk has more or fewer lines than its @@ line says; delete hunks as a whole")
    start, new_start = int(head[1]) - (old_count > 0), int(head[3]) - (new_count > 0)
    return Hunk(start, old_count, new_start, new_count, tuple(body)), end


def wanted(before: bytes, kept: Kept) -> bytes:
    """What the patch makes of a file. Raises Refused where it does not fit."""
    lines = diff.split_lines(before)
    for hunk, place in sorted(zip(kept.hunks, kept.lines, strict=True), key=lambda one: one[0].old_start, reverse=True):
        old = [line[1:] for line in hunk.lines if line[:1] != b"+"]
        if lines[hunk.old_start : hunk.old_start + hunk.old_count] != old:
            raise Refused(place, f"this hunk does not fit {kept.name} as it is now")
        lines[hunk.old_start : hunk.old_start + hunk.old_count] = [x[1:] for x in hunk.lines if x[:1] != b"-"]
    return b"".join(lines)


def decisions(result: FileResult, kept: Kept) -> dict[str, Decision]:
    """A decision for each change that a result holds: taken where the patch still has it. Raises Refused.

    The result is of a run that took all changes and proposed each.
    """
    assert result.before is not None
    asked = list(_blocks(diff.hunks(result.before, wanted(result.before, kept), 0)))
    found: dict[str, Decision] = {}
    for key in dict.fromkeys(f.decision_key for f in result.findings):
        hunks = next((p.hunks for p in result.proposals if p.keys == (key,) and p.choice == 0), ())
        blocks = list(_blocks(hunks))
        core = [block for block in blocks if not block.imports] or blocks
        there = [block for block in core if any(block.meets(one) for one in asked)]
        taken = bool(there) and any(f.key in result.accepted for f in result.findings if f.decision_key == key)
        if taken and len(there) < len(core):
            gone = next(block for block in core if block not in there)
            why = f"goes together with a change at line {gone.start + 1}, which was deleted; keep both or none"
            raise Refused(kept.line_of(there[0].start), why)
        found[key] = Decision(Verdict.ACCEPT if taken else Verdict.DECLINE)
    return found


def verify(full: FileResult, chosen: FileResult, kept: Kept) -> None:
    """Make sure that the chosen changes are what the patch asks for, imports aside. Raises Refused."""
    assert full.before is not None and full.after is not None
    before, after = full.before, full.before if chosen.after is None else chosen.after
    target = wanted(before, kept)
    if target == after:
        return
    asked, made = list(_blocks(diff.hunks(before, target, 0))), list(_blocks(diff.hunks(before, after, 0)))
    known = {line for block in _blocks(diff.hunks(before, full.after, 0)) for line in block.new}
    for block in asked:
        if block not in made and not (block.imports and known.issuperset(block.new)):
            raise Refused(kept.line_of(block.start), "this hunk is none of the changes that torchmigrate makes here")
    for block in made:
        if block not in asked and not block.imports:
            why = f"a change at line {block.start + 1} was deleted, but cannot be told from one that was kept"
            raise Refused(kept.line_of(block.start), why)


def _blocks(hunks: Sequence[Hunk]) -> Iterator[_Block]:
    for hunk in hunks:
        at = start = hunk.old_start
        old, new = list[bytes](), list[bytes]()
        for line in (*hunk.lines, b" "):
            if line[:1] == b" ":
                if old or new:
                    yield _Block(start, at, tuple(old), tuple(new))
                old, new = [], []
                start = at = at + 1
            elif line[:1] == b"-":
                old.append(line[1:])
                at += 1
            else:
                new.append(line[1:])
