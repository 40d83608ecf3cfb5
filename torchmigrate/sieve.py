"""Which rules the bytes of a file concern: it holds one of a rule's triggers, and what that trigger asks for beside."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from torchmigrate.literals import Literals

ALWAYS = b""
"""Among what a rule requires: holds for each of its triggers."""
SUPPRESSES = b"torchmigrate"
"""In the comments that silence a rule; one that silences nothing is told, so such files are looked at."""
AT_ONCE: frozenset[str] = frozenset()

Test = Callable[[bytes], bool]
Required = bytes | tuple[bytes, ...]
"""A regular expression, or several of which one is enough."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What one rule looks for in files of one kind; `requires` and `awaits` as in `Codemod`."""

    code: str
    triggers: tuple[bytes, ...]
    requires: Mapping[bytes, tuple[Required, ...]]
    awaits: Mapping[bytes, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Demand:
    """What one trigger of one rule asks for beside; `patterns` are indexes, `awaits` is a fact or nothing."""

    code: str
    patterns: tuple[int, ...]
    awaits: str


class Sieve:
    """Tells which of some rules a file's bytes concern."""

    def __init__(self, wanted: Iterable[Wanted], kind: str = "python") -> None:
        self._wanted = tuple(wanted)
        self._is_json = kind == "notebook"
        self._codes = {one.code: one.code.encode() for one in self._wanted}
        self.literals = Literals(trigger for one in self._wanted for trigger in one.triggers)
        patterns: dict[Required, int] = {}
        self._demands: dict[bytes, list[_Demand]] = {}
        for one in self._wanted:
            for trigger in one.triggers:
                asked = [*one.requires.get(ALWAYS, ()), *one.requires.get(trigger, ())]
                asked.sort(key=lambda one: isinstance(one, tuple) or not plain_texts(one))  # plain texts are fast
                indexes = tuple(patterns.setdefault(pattern, len(patterns)) for pattern in dict.fromkeys(asked))
                self._demands.setdefault(trigger, []).append(_Demand(one.code, indexes, one.awaits.get(trigger, "")))
        self._patterns = tuple(patterns)

    def codes(self, data: bytes) -> frozenset[str]:
        """The codes of the rules that a file's content concerns."""
        known: dict[int, bool] = {}
        held = self.literals.held(data)
        code = code_in_json(data) if held and self._is_json else data
        found = {one.code for one in self._demanded(held) if self._is_met(one, code, known)}
        if SUPPRESSES in data:
            found.update(code for code, written in self._codes.items() if written in data)
        return frozenset(found)

    def awaited(self, data: bytes, held: frozenset[bytes]) -> frozenset[str] | None:
        """The facts of which the project must have one before the file concerns a rule: none where it does at once.

        `held` are the triggers that `data` holds, one at least. None for a file that concerns no rule.
        """
        if SUPPRESSES in data:
            return AT_ONCE
        known: dict[int, bool] = {}
        met: set[str] = set()
        code = code_in_json(data) if self._is_json else data
        for one in self._demanded(held):
            if one.awaits not in met and self._is_met(one, code, known):
                if not one.awaits:
                    return AT_ONCE
                met.add(one.awaits)
        return frozenset(met) if met else None

    def _demanded(self, held: frozenset[bytes]) -> Iterable[_Demand]:
        return (one for trigger in held for one in self._demands[trigger])

    def _is_met(self, demand: _Demand, data: bytes, known: dict[int, bool]) -> bool:
        """Whether a trigger counts; `known` keeps what has been searched in the same data."""
        for pattern in demand.patterns:
            if pattern not in known:
                known[pattern] = _test(self._patterns[pattern])(data)
            if not known[pattern]:
                return False
        return True


def code_in_json(data: bytes) -> bytes:
    """The bytes of a notebook with the code in its strings, and in its lists of lines, as it would stand in a file."""
    data = data.replace(rb"\\", b"\0").replace(rb"\r", b"")
    data = re.sub(rb'\\n",\s*"', b"\n", data).replace(rb"\n", b"\n").replace(rb"\"", b'"').replace(rb"\t", b"\t")
    return data.replace(b"\0", b"\\")


@functools.cache
def plain_texts(pattern: bytes) -> tuple[bytes, ...]:
    """The texts of which a regular expression stands for any, none where it is more than a list of them."""
    texts = [_plain_text(part) for part in pattern.split(b"|")]
    return () if None in texts else tuple(text for text in texts if text is not None)


def _plain_text(pattern: bytes) -> bytes | None:
    if re.search(rb"[][.^$*+?{}|()\\]", re.sub(rb"\\[^\w\s]", b"", pattern)):
        return None
    return re.sub(rb"\\([^\w\s])", rb"\1", pattern)


@functools.cache
def _test(pattern: Required) -> Test:
    """Whether data holds a pattern; one that is none leaves nothing out."""
    if isinstance(pattern, tuple):
        tests = [_test(one) for one in pattern]
        return lambda data: any(test(data) for test in tests)
    if len(texts := plain_texts(pattern)) == 1:
        return lambda data: texts[0] in data
    if texts:
        return lambda data: any(text in data for text in texts)
    try:
        search = re.compile(pattern).search
    except re.error:
        return lambda data: True
    return lambda data: search(data) is not None
