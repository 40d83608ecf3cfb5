"""The pairs of `fixtures/**/runs` on two releases of torch: `pytest -m torch`.

TORCHMIGRATE_TORCH names the interpreters, separated by the system's path separator; CONTRIBUTING.md says how to make
them (`nox -s torch` does it all). With TORCHMIGRATE_RECORD=1 the printed results beside the pairs are written anew.
"""

from __future__ import annotations

import functools
import json
import os
import sys

import pytest
from pairs import Pair, faults, kept_at, observations, observe, pairs, record, version_of

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
    value = json.loads(text)
    assert isinstance(value, dict)
    return value


FOUND = {"before 2.14": {"x": 1, "t": 5}, "after 2.15": {"x": 1, "t": 7}, "before 2.15": {"error": "RuntimeError: no"}}


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        pytest.param({"same": ["before 2.14", "after 2.15"], "ignore": ["t"]}, [], id="same"),
        pytest.param(
            {"same": ["before 2.14", "after 2.15"]},
            ["after 2.15 observes {'x': 1, 't': 7}, before 2.14 {'x': 1, 't': 5}"],
            id="not the same",
        ),
        pytest.param({"differ": [["before 2.14", "before 2.15"]]}, [], id="differ"),
        pytest.param(
            {"differ": [["before 2.14", "after 2.15"]], "ignore": ["t"]},
            ["before 2.14 and after 2.15 observe the same: {'x': 1}"],
            id="no difference",
        ),
        pytest.param({"observed": {"before 2.15": {"error": "RuntimeError"}}}, [], id="part of an error"),
        pytest.param({"observed": {"before 2.14": {"x": 2}}}, ["before 2.14 observes x 1, not 2"], id="another value"),
        pytest.param({}, ["nothing is asserted"], id="nothing"),
    ],
)
def test_faults(wanted: dict[str, object], said: list[str]) -> None:
    assert faults(Pair("XX1.a", "", "", **wanted), FOUND) == said  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("script", "seen"),
    [
        pytest.param("print('noise'); print('{\"x\": 1}')", {"x": 1}, id="observation"),
        pytest.param("raise ValueError('oops')", {"error": "ValueError: oops"}, id="error"),
        pytest.param("import os; os._exit(3)", {"error": "ended with 3"}, id="silent end"),
        pytest.param("import time; time.sleep(60)", {"hangs": True}, id="hang"),
        pytest.param("import os, time; os.fork(); time.sleep(60)", {"hangs": True}, id="children hang"),
        pytest.param("import os, json; print(json.dumps({'a': os.environ['A']}))", {"a": "b"}, id="environment"),
    ],
)
def test_observing(script: str, seen: dict[str, object]) -> None:
    assert observe(sys.executable, script, Pair("XX1.a", "", "", timeout=3, environment={"A": "b"})) == seen
