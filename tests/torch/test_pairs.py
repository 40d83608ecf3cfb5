"""The pairs of `fixtures/**/runs` on two releases of torch: `pytest -m torch`.

TORCHMIGRATE_TORCH names the interpreters, separated by the system's path separator; CONTRIBUTING.md says how to make
them (`nox -s torch` does it all). With TORCHMIGRATE_RECORD=1 the printed results beside the pairs are written anew.
"""

from __future__ import annotations

import functools
import os

import pytest
from pairs import Pair, faults, kept_at, observations, pairs, record, version_of

PAIRS = list(pairs())


@functools.cache
def pythons() -> dict[str, str]:
    given = [one for one in os.environ.get("TORCHMIGRATE_TORCH", "").split(os.pathsep) if one]
    if not given:
        pytest.fail("TORCHMIGRATE_TORCH names no interpreters; see CONTRIBUTING.md", pytrace=False)
    return {version_of(python): python for python in given}


@pytest.mark.torch
@pytest.mark.parametrize("pair", [pytest.param(pair, id=pair.name) for pair in PAIRS if not pair.gpus])
def test_pair(pair: Pair) -> None:
    found = observations(pair, pythons())
    if os.environ.get("TORCHMIGRATE_RECORD"):
        kept_at(pair).write_text(record(pair, list(pythons()), found), encoding="utf-8")
    assert faults(pair, found) == []


@pytest.mark.parametrize("pair", [pytest.param(pair, id=pair.name) for pair in PAIRS])
def test_the_printed_result_beside_a_pair_holds(pair: Pair) -> None:
    lines = kept_at(pair).read_text("utf-8").splitlines()
    assert lines[0].startswith("torch 2.")
    found = {run: json_of(seen) for run, _, seen in (line.partition(": ") for line in lines[1:])}
    assert faults(pair, found) == []


def json_of(text: str) -> dict[str, object]:
    import json

    value = json.loads(text)
    assert isinstance(value, dict)
    return value
