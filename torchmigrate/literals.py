"""Tells which of many byte strings a text holds, in little more time than it takes to read the text.

One automaton searches up to 64 strings at once where `ahocorasick_rs` is installed (it is ten times as fast as the
standard library here, but has no wheel for musl), else there is one `in` a string.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

BUCKETS = 16
TOGETHER = 64
"""Strings that one automaton searches at full speed; with more it is several times slower."""
_NONE: frozenset[bytes] = frozenset()

Find = Callable[[bytes], Sequence[tuple[int, int, int]]]


class Literals:
    """Some byte strings to look for."""

    def __init__(self, literals: Iterable[bytes]) -> None:
        self._wanted = sorted(set(literals))
        self.longest = max(map(len, self._wanted), default=1)
        least = _least(self._wanted)
        self._least = least
        self._searches = [(find, some) for some in _together(least) if (find := _automaton(some)) is not None]
        self._beside: dict[bytes, tuple[tuple[bytes, int], ...]] = {}

    def any(self, data: bytes) -> bool:
        """Whether a text holds one of them."""
        if self._searches:
            return any(find(data) for find, _ in self._searches)
        return any(one in data for one in self._least)

    def held(self, data: bytes) -> frozenset[bytes]:
        """Those that a text holds."""
        if not self._searches:
            return frozenset(one for one in self._wanted if one in data) if self.any(data) else _NONE
        found: set[bytes] | None = None
        for find, strings in self._searches:
            if matches := find(data):
                found = found or set()
                for n, start, _ in matches:
                    told = strings[n]
                    found.add(told)
                    if told not in self._beside:
                        self._beside[told] = tuple(_beside(told, strings, self._wanted))
                    for other, at in self._beside[told]:
                        if start >= at and data.startswith(other, start - at):
                            found.add(other)
        return frozenset(found) if found else _NONE


def _beside(told: bytes, strings: Iterable[bytes], wanted: Iterable[bytes]) -> Iterator[tuple[bytes, int]]:
    """What a text may hold around a match, with how far before the match it begins: strings that hold this one, and
    those that begin inside of it, which the search does not tell since it goes on behind a match."""
    ends = {told[n:]: n for n in range(1, len(told))}
    hidden = [(one, -ends[one[:n]]) for one in strings for n in range(1, len(one)) if one[:n] in ends]
    for part, shift in ((told, 0), *hidden):
        for one in wanted:
            at = one.find(part)
            while at >= 0:
                if one != told:
                    yield one, at + shift
                at = one.find(part, at + 1)


def _least(strings: Sequence[bytes]) -> list[bytes]:
    """The strings of which no other one is a part."""
    together = b"\0".join(strings)
    parts = [one for one in strings if together.count(one) > 1]
    return [one for one in strings if not any(part in one for part in parts if part != one)]


def _together(strings: Sequence[bytes]) -> list[Sequence[bytes]]:
    """Groups for one automaton each, of sorted strings. Every `BUCKETS`-th string of a group is looked for by the same
    mask of first bytes, so those that begin alike come that far apart."""
    groups = [strings[start : start + TOGETHER] for start in range(0, len(strings), TOGETHER)]
    return [_dealt(group, -(-len(group) // BUCKETS)) for group in groups]


def _dealt(group: Sequence[bytes], size: int) -> Sequence[bytes]:
    return [one for nth in range(size) for one in group[nth::size]]


def _automaton(strings: Sequence[bytes]) -> Find | None:
    """A search for strings of which none is part of another; it gives the index, start and end of each match."""
    try:
        from ahocorasick_rs import BytesAhoCorasick, MatchKind
    except ImportError:
        return None
    return BytesAhoCorasick(strings, matchkind=MatchKind.LeftmostFirst).find_matches_as_indexes
