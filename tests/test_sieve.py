"""Which rules a file concerns: triggers, and what they require."""

from __future__ import annotations

import re

import pytest

from torchmigrate import registry
from torchmigrate.sieve import ALWAYS, Sieve, Wanted
from torchmigrate.work import wanted
from torchmigrate_codemods.spellings import leads_to

CALLS = Wanted("XX1", (b"reduce(", b"Rare"), {b"reduce(": (rb"except\s+\w", rb"torch")})
BOTH = Wanted("XX2", (b"save", b"load"), {ALWAYS: (rb"\bdcp\b",)})
PLAIN = Wanted("XX3", (b"plain",), {})


@pytest.mark.parametrize(
    ("data", "codes"),
    [
        (b"reduce(1)", ""),
        (b"reduce(1) torch", ""),
        (b"reduce(1) torch except A", "XX1"),
        (b"Rare", "XX1"),
        (b"torch except A", ""),
        (b"save", ""),
        (b"save dcp", "XX2"),
        (b"dcp.load plain", "XX2 XX3"),
        (b"# torchmigrate: ignore[XX2] why", "XX2"),
        (b"# torchmigrate: ignore[YY2] why", ""),
    ],
)
def test_codes(data: bytes, codes: str) -> None:
    sieve = Sieve([CALLS, BOTH, PLAIN])
    assert sieve.codes(data) == set(codes.split())
    if codes:
        assert sieve.concerns(data)


def test_a_pattern_that_is_none_leaves_nothing_out() -> None:
    assert Sieve([Wanted("XX1", (b"a",), {b"a": (rb"(",)})]).codes(b"a") == {"XX1"}


def test_all_patterns_of_the_rules_are_patterns_and_for_triggers_that_they_have() -> None:
    found = [one for codemod in registry.load().codemods for one in wanted([codemod]).get("python", ()) if one.requires]
    assert found
    for one in found:
        assert set(one.requires) <= {ALWAYS, *one.triggers}, one.code
        for patterns in one.requires.values():
            assert all(re.compile(pattern) for pattern in patterns)


@pytest.mark.parametrize(
    "text",
    [
        "import torch.distributed as dist",
        "import torch\ntorch.distributed.all_reduce(x)",
        "import torch\ntorch . distributed.all_reduce(x)",
        "from torch.distributed import all_reduce",
        "from torch import nn, distributed",
        "from torch import (\n    nn,\n    distributed,\n)",
        "from torch import nn, \\\n    distributed",
        "from torch import *",
        "import os, torch as t\nt.distributed.all_reduce(x)",
        "import torch\nlib = torch\nlib.distributed.all_reduce(x)",
        "import torch\na, lib = 1, torch\nlib.distributed.all_reduce(x)",
    ],
)
def test_every_way_to_a_name_of_torch_is_seen(text: str) -> None:
    assert re.search(leads_to("distributed"), text.encode())


@pytest.mark.parametrize(
    "text", ["import torch\ntorch.cuda.synchronize()\n", "import mytorch\n", "from torch import nn\n"]
)
def test_other_uses_of_torch_are_not(text: str) -> None:
    assert not re.search(leads_to("distributed"), text.encode())
