"""The search for triggers, with the automaton and without it, against plain `in`."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchmigrate.scan import search_for
from torchmigrate.sieve import which_of

LETTERS = st.binary(min_size=1, max_size=4).map(lambda data: bytes(b"abc"[one % 3] for one in data))
TEXTS = st.binary(max_size=200).map(lambda data: bytes(b"abcd"[one % 4] for one in data))


@pytest.fixture(params=[True, False], ids=["automaton", "standard library"], scope="module", autouse=True)
def automaton(request: pytest.FixtureRequest) -> Iterator[bool]:
    with pytest.MonkeyPatch.context() as patch:
        if not request.param:
            patch.setitem(sys.modules, "ahocorasick_rs", None)
        yield request.param


@given(literals=st.lists(LETTERS, min_size=1, max_size=100), text=TEXTS)
def test_search_is_true_where_any_literal_is(literals: list[bytes], text: bytes) -> None:
    assert bool(search_for(literals)(text)) == any(one in text for one in literals)


@given(literals=st.lists(LETTERS, max_size=30), text=TEXTS)
def test_all_literals_are_told_though_they_overlap(literals: list[bytes], text: bytes) -> None:
    assert which_of(literals)(text) == {one for one in literals if one in text}


def test_every_one_of_many_literals_is_found() -> None:
    literals = [b"name_%d;" % n for n in range(300)]
    search = search_for(literals)
    assert all(search(b"x = " + one) for one in literals)
    assert not search(b"name_300; name_1")
