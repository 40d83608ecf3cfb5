"""The search for triggers, with the automaton and without it, against plain `in`."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchmigrate.literals import Literals

LETTERS = st.binary(min_size=1, max_size=4).map(lambda data: bytes(b"abc"[one % 3] for one in data))
TEXTS = st.binary(max_size=200).map(lambda data: bytes(b"abcd"[one % 4] for one in data))


@pytest.fixture(params=[True, False], ids=["automaton", "standard library"], scope="module", autouse=True)
def automaton(request: pytest.FixtureRequest) -> Iterator[bool]:
    with pytest.MonkeyPatch.context() as patch:
        if not request.param:
            patch.setitem(sys.modules, "ahocorasick_rs", None)
        yield request.param


@given(literals=st.lists(LETTERS, max_size=100), text=TEXTS)
def test_all_literals_are_told_though_they_overlap(literals: list[bytes], text: bytes) -> None:
    known = Literals(literals)
    held = {one for one in literals if one in text}
    assert known.held(text) == held
    assert known.any(text) == bool(held)


def test_every_one_of_many_literals_is_found() -> None:
    literals = [b"name_%d;" % n for n in range(300)]
    known = Literals(literals)
    assert all(known.held(b"x = " + one) == {one} for one in literals)
    assert known.held(b"".join(literals)) == set(literals)
    assert not known.any(b"name_300; name_1")


@pytest.mark.parametrize(
    ("text", "held"),
    [
        (b"dist.send({", {b"dist.send(", b".send(", b"({"}),
        (b"undist.send({", {b"dist.send(", b".send(", b"({"}),
        (b"a.send()", {b".send("}),
        (b"dist.sendist.send(", {b"dist.send(", b".send("}),
        (b"({", {b"({"}),
        (b"dist.sen", set()),
    ],
)
def test_literals_inside_and_behind_others(text: bytes, held: set[bytes]) -> None:
    assert Literals([b"dist.send(", b".send(", b"({"]).held(text) == held
