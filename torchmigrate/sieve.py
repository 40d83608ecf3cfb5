"""Which rules the bytes of a file concern: it holds one of a rule's triggers, and what that trigger asks for beside."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

ALWAYS = b""
"""Among what a rule requires: holds for each of its triggers."""
SUPPRESSES = b"torchmigrate"
"""In the comments that silence a rule; one that silences nothing is told, so such files are looked at."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What one rule looks for in files of one kind; `requires` as in `Codemod`."""

    code: str
    triggers: tuple[bytes, ...]
    requires: Mapping[bytes, tuple[bytes, ...]]


class Sieve:
    """Tells which of some rules a file's bytes concern."""

    def __init__(self, wanted: Iterable[Wanted]) -> None:
        self._wanted = tuple(wanted)

    @functools.cached_property
    def _held(self) -> Callable[[bytes], frozenset[bytes]]:
        return which_of(trigger for one in self._wanted for trigger in one.triggers)

    def codes(self, data: bytes) -> frozenset[str]:
        """The codes of the rules that a file's content concerns."""
        held = self._held(data)
        suppressing = SUPPRESSES in data
        known: dict[bytes, bool] = {}
        return frozenset(
            one.code
            for one in self._wanted
            if _holds(one, held, data, known) or (suppressing and one.code.encode() in data)
        )

    def concerns(self, data: bytes) -> bool:
        """Whether any rule has something to look for in a file that holds a trigger."""
        if SUPPRESSES in data:
            return True
        held = self._held(data)
        known: dict[bytes, bool] = {}
        return any(_holds(one, held, data, known) for one in self._wanted)


def which_of(literals: Iterable[bytes]) -> Callable[[bytes], frozenset[bytes]]:
    """A function that gives those of the literals that some bytes hold."""
    wanted = sorted(set(literals))
    try:
        from ahocorasick_rs import BytesAhoCorasick
    except ImportError:
        return lambda data: frozenset(one for one in wanted if one in data)
    find = BytesAhoCorasick(wanted).find_matches_as_indexes
    return lambda data: frozenset(wanted[found[0]] for found in find(data, overlapping=True))


def _holds(one: Wanted, held: frozenset[bytes], data: bytes, known: dict[bytes, bool]) -> bool:
    """Whether a trigger counts; `known` keeps what has been searched in the same data."""
    for trigger in one.triggers:
        if trigger in held and all(
            _found(pattern, data, known) for pattern in (*one.requires.get(trigger, ()), *one.requires.get(ALWAYS, ()))
        ):
            return True
    return False


def _found(pattern: bytes, data: bytes, known: dict[bytes, bool]) -> bool:
    if pattern not in known:
        search = _search(pattern)
        known[pattern] = search is None or search(data) is not None
    return known[pattern]


@functools.cache
def _search(pattern: bytes) -> Callable[[bytes], object] | None:
    """None for a pattern that is none: then nothing is left out because of it."""
    try:
        return re.compile(pattern).search
    except re.error:
        return None
