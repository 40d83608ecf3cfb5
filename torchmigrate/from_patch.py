"""Reads a patch that torchmigrate wrote and a reviewer cut down, and finds the changes that are still in it.

The patch is not applied as it stands: the changes are made again, so that imports are there exactly where they are
needed, and the outcome is compared with what the patch asks for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import combinations

from torchmigrate import diff
from torchmigrate.model import Decision, FileResult, Hunk, Outcome, Safety, Verdict

_RANGE = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_ESCAPE = re.compile(rb"\\([0-7]{3}|.)")
_PLAIN = {b"a": b"\a", b"b": b"\b", b"t": b"\t", b"n": b"\n", b"v": b"\v", b"f": b"\f", b"r": b"\r"}
_IMPORT = re.compile(rb"\s*[\"']?\s*(?:import|from)\s|\s*$")
_FEW = 4
"""Up to so many changes that meet, each subset of them is looked for."""


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


def choose(full: FileResult, kept: Kept, process: Callable[[dict[str, Decision]], FileResult]) -> FileResult:
    """The outcome of the changes that the patch still has. Raises Refused.

    `full` is of a run that took all changes and proposed each; `process` looks at the file with a decision for each
    change. Where changes meet on the same lines, the patch may have some of them: those are found by trying.
    """
    assert full.before is not None and full.after is not None
    before, offered = full.before, _offered(full)
    asked = tuple(_blocks(diff.hunks(before, wanted(before, kept), 0)))
    known = {line for block in _blocks(diff.hunks(before, full.after, 0)) for line in block.new}
    known |= {line for p in full.proposals for block in _blocks(p.hunks) if block.imports for line in block.new}
    groups = _groups(offered, asked)
    guesses = [frozenset(key for key in group.keys if offered[key].taken) for group in groups]
    answers, trials = list(guesses), [_subsets(group, offered) for group in groups]

    def attempt() -> tuple[FileResult, tuple[_Block, ...]]:
        taken = frozenset[str]().union(*answers)
        keys = dict.fromkeys(f.decision_key for f in full.findings)
        result = process({key: Decision(Verdict.ACCEPT if key in taken else Verdict.DECLINE) for key in keys})
        return result, tuple(_blocks(diff.hunks(before, before if result.after is None else result.after, 0)))

    def fits(group: _Group, answer: frozenset[str], made: Sequence[_Block]) -> bool:
        core = [block for key in group.keys for block in offered[key].core]
        extra = (block for block in made if not block.imports and block not in asked)
        return (
            all(_is_made(block, made, known) for block in group.asked)
            and not any(block.meets(one) for block in extra for one in core)
            and all(any(block.meets(one) for one in asked) for key in answer for block in offered[key].core)
        )

    chosen, made = attempt()
    unsettled = [n for n, group in enumerate(groups) if not fits(group, answers[n], made)]
    failed: list[int] = []
    while unsettled:
        for n in unsettled:
            answer = next(trials[n], None)
            answers[n] = guesses[n] if answer is None else answer
            failed += [n] if answer is None else []
        unsettled = [n for n in unsettled if n not in failed]
        if unsettled:
            chosen, made = attempt()
            unsettled = [n for n in unsettled if not fits(groups[n], answers[n], made)]
    for n in sorted(failed):
        for key in sorted(guesses[n], key=groups[n].keys.index):
            _refuse_part(offered[key].core, asked, kept)
    if failed:
        chosen, made = attempt()
    _verify(asked, made, known, kept)
    return chosen


@dataclass(frozen=True, slots=True)
class _Offered:
    """A change: its blocks without those of imports, if it has others, and whether it is among all changes at once."""

    core: tuple[_Block, ...]
    safety: Safety
    taken: bool


@dataclass(frozen=True, slots=True)
class _Group:
    """Changes that meet the same blocks of a patch."""

    keys: tuple[str, ...]
    asked: tuple[_Block, ...]


def _offered(full: FileResult) -> dict[str, _Offered]:
    alone = {p.keys[0]: tuple(_blocks(p.hunks)) for p in full.proposals if len(p.keys) == 1 and p.choice == 0}
    found: dict[str, _Offered] = {}
    for finding in full.findings:
        key, before = finding.decision_key, found.get(finding.decision_key)
        if key in alone and finding.outcome is Outcome.REWRITE:
            core = tuple(block for block in alone[key] if not block.imports) or alone[key]
            taken = finding.key in full.accepted or (before is not None and before.taken)
            found[key] = _Offered(core, finding.safety, taken)
    return found


def _groups(offered: Mapping[str, _Offered], asked: Sequence[_Block]) -> list[_Group]:
    groups: list[_Group] = []
    for key, one in offered.items():
        there = [block for block in asked if any(block.meets(own) for own in one.core)]
        if there:
            joined = [group for group in groups if any(block in group.asked for block in there)]
            keys = (*(k for group in joined for k in group.keys), key)
            blocks = dict.fromkeys((*(block for group in joined for block in group.asked), *there))
            groups = [group for group in groups if group not in joined] + [_Group(keys, tuple(blocks))]
    return groups


def _subsets(group: _Group, offered: Mapping[str, _Offered]) -> Iterator[frozenset[str]]:
    """Which changes of a group a patch may have: those of one safety, none, each alone, some of a few, all."""
    levels = [frozenset(key for key in group.keys if offered[key].safety is safety) for safety in Safety]
    sizes = range(len(group.keys) + 1) if len(group.keys) <= _FEW else (0, 1, len(group.keys))
    some = (frozenset(keys) for size in sizes for keys in combinations(group.keys, size))
    return iter(dict.fromkeys((*filter(None, levels), *some)))


def _is_made(block: _Block, made: Sequence[_Block], known: AbstractSet[bytes]) -> bool:
    return block in made or (block.imports and known >= set(block.new))


def _refuse_part(core: Sequence[_Block], asked: Sequence[_Block], kept: Kept) -> None:
    """Refuse a change that the patch has in part."""
    there = [block for block in core if any(block.meets(one) for one in asked)]
    if len(there) < len(core):
        gone = next(block for block in core if block not in there)
        why = f"goes together with a change at line {gone.start + 1}, which was deleted; keep both or none"
        raise Refused(kept.line_of(there[0].start), why)


def _verify(asked: Sequence[_Block], made: Sequence[_Block], known: AbstractSet[bytes], kept: Kept) -> None:
    """Make sure that the changes made are what the patch asks for, imports aside. Raises Refused."""
    for block in asked:
        if not _is_made(block, made, known):
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
