"""Which rules a file concerns: triggers, and what they require."""

from __future__ import annotations

import json
import re

import pytest

from torchmigrate import registry
from torchmigrate.sieve import ALWAYS, AT_ONCE, Sieve, Wanted, code_in_json, plain_texts
from torchmigrate.work import wanted
from torchmigrate_codemods.spellings import leads_to


def awaited(sieve: Sieve, data: bytes) -> frozenset[str] | None:
    held = sieve.literals.held(data)
    return sieve.awaited(data, held) if held else None


CALLS = Wanted("XX1", (b"reduce(", b"Rare"), {b"reduce(": (rb"except\s+\w", rb"torch")})
BOTH = Wanted("XX2", (b"save", b"load"), {ALWAYS: (rb"\bdcp\b",)})
PLAIN = Wanted("XX3", (b"plain",), {})
OPTIMIZER = registry.load().select(["TM801"])


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
    if b"#" not in data:
        assert awaited(sieve, data) == (AT_ONCE if codes else None)


def test_a_comment_counts_in_files_that_hold_a_trigger() -> None:
    sieve = Sieve([CALLS, BOTH, PLAIN])
    assert awaited(sieve, b"save  # torchmigrate: ignore[XX2] why") == AT_ONCE
    assert awaited(sieve, b"x  # torchmigrate: ignore[XX2] why") is None


def test_one_of_several_patterns_is_enough() -> None:
    sieve = Sieve([Wanted("XX1", (b"optim",), {ALWAYS: (b"torch", (rb"\(\{", rb"set\("))})])
    assert not sieve.codes(b"optim torch")
    assert not sieve.codes(b"optim set(x)")
    assert sieve.codes(b"torch.optim.SGD({p})") == sieve.codes(b"torch.optim.SGD(set(p))") == {"XX1"}


def test_a_file_waits_for_a_fact_where_all_that_counts_in_it_does() -> None:
    waiting = Wanted("XX1", (b"setup", b"init"), {b"setup": (b"import",)}, {b"setup": "wrapper"})
    sieve = Sieve([waiting, PLAIN])
    assert awaited(sieve, b"import setup") == {"wrapper"}
    assert sieve.codes(b"import setup") == {"XX1"}
    assert awaited(sieve, b"setup") is None
    for data in (b"import setup init", b"import setup plain", b"import setup  # torchmigrate: ignore[XX1] no"):
        assert awaited(sieve, data) == AT_ONCE


@pytest.mark.parametrize(
    ("pattern", "texts"),
    [
        (rb"optim", (b"optim",)),
        (rb"\(\{", (b"({",)),
        (rb"torch\.x", (b"torch.x",)),
        (rb"\\", (b"\\",)),
        (rb"nccl|NCCL", (b"nccl", b"NCCL")),
        (rb"a\|b|c", ()),
        (rb"(?:a|b)c", ()),
        (rb"torch.x", ()),
        (rb"a\sb", ()),
        (rb"\bfoo", ()),
        (rb"nccl|\bNCCL", ()),
        (rb"|a", (b"", b"a")),
        (rb"(", ()),
    ],
)
def test_patterns_that_are_plain_texts(pattern: bytes, texts: tuple[bytes, ...]) -> None:
    assert plain_texts(pattern) == texts


def test_code_in_a_notebook_is_searched_as_it_runs() -> None:
    lines = ["from torch import (\n", "    nn,\n", "    optim,\n", ")\n", 'optim.SGD({p for p in m}) or "\\n"']
    code = "".join(lines).encode()
    for cell in (lines, "".join(lines), "".join(lines).replace("\n", "\r\n")):
        for indent in (None, 1):
            text = json.dumps({"cells": [{"source": cell}]}, indent=indent).encode()
            assert code in code_in_json(text)
            assert Sieve(wanted(OPTIMIZER)["notebook"], "notebook").codes(text) == {"TM801"}


def test_a_pattern_that_is_none_leaves_nothing_out() -> None:
    assert Sieve([Wanted("XX1", (b"a",), {b"a": (rb"(",)})]).codes(b"a") == {"XX1"}


def test_all_patterns_of_the_rules_are_patterns_and_for_triggers_that_they_have() -> None:
    found = [one for codemod in registry.load().codemods for one in wanted([codemod]).get("python", ()) if one.requires]
    assert found
    for one in found:
        assert set(one.requires) <= {ALWAYS, *one.triggers}, one.code
        for patterns in one.requires.values():
            for pattern in patterns:
                assert all(re.compile(part) for part in (pattern if isinstance(pattern, tuple) else (pattern,)))
        assert set(one.awaits) <= set(one.triggers)


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


def test_a_notebook_is_searched_for_what_its_commands_hold() -> None:
    [rule] = registry.load().select(["TM703"])
    sieve = Sieve(wanted([rule])["notebook"], "notebook")
    for line in (
        "!pip install torch==2.3 --index-url x",
        "!pip install --pre torch -f https://download.pytorch.org/whl/cu101",
    ):
        text = json.dumps({"cells": [{"cell_type": "code", "source": [line]}]}).encode()
        assert sieve.codes(text) == {"TM703"}
