"""Every rule on one file, several on one line and one call: any subset of decisions, and any order of separate runs."""

from __future__ import annotations

import ast
import itertools
import random

import pytest

from torchmigrate import registry
from torchmigrate.engine import process
from torchmigrate.model import EVERYTHING, LOOK, Decision, Policy, Project, Verdict

CROWDED = b"""import os
import torch
import torch.distributed as dist
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard


def main(local_rank, rank, world, model, x, timeout, a, b):
    torch.cuda.set_device(local_rank)
    os.environ["TORCH_NCCL_TRACE_BUFFER_SIZE"] = "2"; dist.init_process_group("nccl", rank=rank, world_size=world)
    if dist.get_backend() == "nccl": fully_shard(model, mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16))
    dist.distributed_c10d._set_pg_timeout(timeout, None); dist.all_reduce(x)
    dist.send(x, (rank + 1) % world); dist.recv(x, (rank - 1) % world)
    outs = [torch.empty_like(x) for _ in range(world)]
    y = dist.all_gather(outs, x, async_op=True).get_future().wait()[0]; one = torch.tensor(1.0, device="cuda")
    opt = torch.optim.SGD({p for p in model.parameters()}, lr=1); z = torch._scaled_mm(a, b, one, one)
    w = torch._grouped_mm(torch._scaled_mm(a, b, one, one), b)
    return y, opt, z, w
"""
RULES = {rule.code: rule for rule in registry.load().codemods}
READS_WHAT_TM101_WRITES = {"TM102", "TM105"}
"""TM102 leaves groups alone that had a device_id, as `explain` says, and TM105 follows it."""


def run(data: bytes, *codes: str, policy: Policy = EVERYTHING) -> bytes:
    result = process("a.py", data, [RULES[code]() for code in codes], Project(), policy)
    assert not result.errors
    return result.after or data


def offered() -> dict[str, str]:
    """The code of each change that is offered, by its decision key."""
    seen = process("a.py", CROWDED, [rule() for rule in RULES.values()], Project(), LOOK).findings
    return {found.decision_key: found.code for found in seen if found.after is not None}


CODES = sorted(set(offered().values()))


def test_the_file_is_crowded() -> None:
    assert len(CODES) >= 9
    assert {"TM101", "TM102", "TM105", "TM201", "TM301", "TM302", "TM401", "TM601", "TM801", "TM808"} <= set(CODES)


@pytest.mark.parametrize("seed", range(20))
def test_any_subset_of_decisions_leaves_the_rest_for_later_runs(seed: int) -> None:
    keys = offered()
    taken = {key for key in keys if random.Random(f"{seed}{key}").random() < 0.5}
    after = run(CROWDED, *RULES, policy=Policy(decisions={key: Decision(Verdict.ACCEPT) for key in taken}))
    ast.parse(after)
    later = run(after, *(code for code in RULES if code not in READS_WHAT_TM101_WRITES))
    all_else = run(CROWDED, *(code for code in RULES if code not in READS_WHAT_TM101_WRITES))
    if READS_WHAT_TM101_WRITES.isdisjoint(keys[key] for key in taken):
        assert later == all_else


@pytest.mark.parametrize(("first", "second"), list(itertools.combinations(CODES, 2)))
def test_separate_runs_in_either_order_write_the_same(first: str, second: str) -> None:
    if first == "TM101" and second in READS_WHAT_TM101_WRITES:
        assert run(run(CROWDED, second), first) == run(CROWDED, first, second)
        return
    together = run(CROWDED, first, second)
    assert run(run(CROWDED, first), second) == together
    assert run(run(CROWDED, second), first) == together
