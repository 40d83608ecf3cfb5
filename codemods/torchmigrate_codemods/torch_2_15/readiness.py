"""What the readiness report asks about torch 2.15, and what it advises."""

from __future__ import annotations

from collections.abc import Mapping

from torchmigrate.questions import INIT_WITH, INIT_WITHOUT, Advice, Question

QUESTIONS = (
    Question("several-gpus", "processes with several GPUs in one group", ("multi-gpu-process",)),
    Question("legacy", "ways back to the old NCCL backend", ("nccl-legacy",)),
    Question("point-to-point", "groups for point-to-point traffic", ("nccl-lazy",)),
    Question("type-checks", "checks and calls on NCCL backend objects", ("nccl-backend-class", "nccl-backend-name")),
    Question("all-gather-futures", "values of all_gather futures", ("all-gather-future",)),
    Question("policies", "FSDP2 policies without reduce_dtype", ("fsdp-reduce-dtype",)),
    Question("scaled-mm", "private FP8 matrix products", ("scaled-mm", "grouped-mm")),
    Question("checkpoint-writers", "places that write distributed checkpoints", ("dcp-one-way",)),
    Question("variables", "renamed or dead environment variables", ("flight-recorder-env", "nccl-env-dead")),
    Question("python", "gates on Python 3.10 and older", ("python-310",)),
    Question("macos", "macOS runners and targets without MPS", ("macos-14",)),
    Question("pins", "pins and package indexes that keep 2.15 out", ("torch-pins",)),
    Question("extensions", "extensions to rebuild, and casts in C++", ("cpp-extension",)),
)

Counts = Mapping[str, int]
Pins = Mapping[str, str]


def _inits(counts: Counts) -> int:
    return counts[INIT_WITH] + counts[INIT_WITHOUT]


ADVICE = (
    Advice(
        "several GPUs in one process",
        "give each GPU a process of its own first; until then only nccl-legacy works, and that goes in torch 2.16",
        lambda counts, pins: counts["several-gpus"] > 0,
    ),
    Advice(
        "pipeline or point-to-point",
        "pass device_id, then give the group that sends nccl-lazy; measure overlap and memory before and after",
        lambda counts, pins: counts["point-to-point"] > 0,
    ),
    Advice(
        "FSDP2 training",
        "state reduce_dtype and compare a loss curve, for nothing warns; pass device_id where groups are made",
        lambda counts, pins: counts["policies"] > 0,
    ),
    Advice(
        "distributed training",
        "pass device_id; every group makes its communicator at once, so expect a higher memory baseline",
        lambda counts, pins: _inits(counts) > 0,
    ),
    Advice(
        "built on a framework",
        "the framework makes the groups: first upgrade it to a release that supports torch 2.15, then torch",
        lambda counts, pins: bool(pins),
    ),
    Advice(
        "checkpoints",
        "upgrade every reader before the first writer: torch 2.14 cannot read checkpoints of 2.15",
        lambda counts, pins: counts["checkpoint-writers"] > 0,
    ),
    Advice(
        "compiled extensions",
        "rebuild against torch 2.15 and drop cached wheels",
        lambda counts, pins: counts["extensions"] > 0,
    ),
    Advice(
        "package",
        "nothing distributed was found: Python 3.11, pins and package indexes are what to look at",
        lambda counts, pins: True,
    ),
)
"""The first that holds counts."""
