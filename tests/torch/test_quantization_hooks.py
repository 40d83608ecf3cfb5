"""torch's own quantization hooks of 2.14, rewritten by TM201, against those of 2.15: `pytest -m torch`."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from pairs import version_of

from torchmigrate.engine import process
from torchmigrate.model import EVERYTHING, Outcome, Project
from torchmigrate_codemods.torch_2_15.all_gather_future import AllGatherFuture

NAMES = ("quantization_pertensor_hook", "quantization_perchannel_hook")
SCRIPT = """
import importlib.util, json, os, sys, tempfile
import torch, torch.distributed as dist, torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel

def gradients(path, name, rank):
    spec = importlib.util.spec_from_file_location("hooks", path)
    hooks = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hooks)
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(40, 30), torch.nn.ReLU(), torch.nn.Linear(30, 7))
    parallel = DistributedDataParallel(model)
    parallel.register_comm_hook(dist.group.WORLD, getattr(hooks, name))
    torch.manual_seed(10 + rank)
    try:
        parallel(torch.randn(16, 40)).pow(2).sum().backward()
    except (RuntimeError, IndexError) as error:
        return type(error).__name__
    return torch.cat([p.grad.flatten() for p in model.parameters()]).tolist()

def worker(rank, store, names, paths):
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    found = {f"{i} {name}": gradients(path, name, rank) for name in names for i, path in enumerate(paths)}
    if rank == 0:
        print(json.dumps(found), flush=True)
    os._exit(0)

if __name__ == "__main__":
    mp.spawn(worker, (tempfile.mktemp(), sys.argv[1].split(","), sys.argv[2:]), nprocs=2)
"""


def hooks_of(python: str) -> Path:
    code = "from torch.distributed.algorithms.ddp_comm_hooks import quantization_hooks as q; print(q.__file__)"
    run = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    return Path(run.stdout.strip().splitlines()[-1])


def pythons() -> dict[str, str]:
    given = [one for one in os.environ.get("TORCHMIGRATE_TORCH", "").split(os.pathsep) if one]
    if not given:
        pytest.fail("TORCHMIGRATE_TORCH names no interpreters; see CONTRIBUTING.md", pytrace=False)
    return {version_of(python): python for python in given}


@pytest.mark.torch
def test_rewritten_hooks_give_the_gradients_of_the_new_ones(tmp_path: Path) -> None:
    found = pythons()
    old = next(python for version, python in found.items() if version.startswith("2.14."))
    new = next(python for version, python in found.items() if version.startswith("2.15."))
    before = hooks_of(old).read_bytes()
    result = process("quantization_hooks.py", before, [AllGatherFuture()], Project(), EVERYTHING)
    assert [finding.outcome for finding in result.findings] == [Outcome.REWRITE] * 6
    assert result.after is not None
    rewritten = tmp_path / "rewritten.py"
    rewritten.write_bytes(result.after)
    script = tmp_path / "script.py"
    script.write_text(SCRIPT, encoding="utf-8")
    paths = [str(hooks_of(new)), str(rewritten), str(hooks_of(old))]
    run = subprocess.run([new, str(script), ",".join(NAMES), *paths], capture_output=True, text=True, timeout=300)
    lines = [line for line in run.stdout.splitlines() if line.startswith("{")]
    assert lines, run.stderr[-2000:]
    seen = json.loads(lines[-1])
    for name in NAMES:
        assert len(seen[f"0 {name}"]) == 40 * 30 + 30 + 30 * 7 + 7
        assert seen[f"1 {name}"] == seen[f"0 {name}"]
        assert seen[f"2 {name}"] != seen[f"0 {name}"], "the hooks of 2.14 work unchanged on 2.15: nothing was shown"
