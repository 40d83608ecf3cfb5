"""Measures how long a reviewer waits: from an answer to the next hunk, over one file with many changes.

    python tests/benchmark/review_latency.py --changes 200

The review runs in a real terminal, with the journal on disk. Times are from the key to the prompt that follows; the
goal is 100 ms each. The time to the first hunk, with a tree around the file, is told as well.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from commandline import Shell
from reviewing import Reviewer

GOAL = 0.1

HEAD = b"""\
import os

import torch
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

"""
BLOCK = b"""
def shard_%d(model: torch.nn.Module) -> None:
    \"\"\"Shard one model.\"\"\"
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16)
    for block in model.blocks:
        fully_shard(block, mp_policy=policy)
    fully_shard(model, mp_policy=policy)

"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--changes", type=int, default=200)
    parser.add_argument("--others", type=int, default=2000, help="files around the one that is reviewed")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as folder:
        shell = Shell(Path(folder) / "repo", Path(folder) / "state")
        shell.write({"many.py": HEAD + b"".join(BLOCK % n for n in range(given.changes))})
        shell.write({f"others/p{n // 100}/f{n}.py": HEAD + BLOCK % n for n in range(given.others)})
        waits, first = review(shell, ("apply", "many.py"))
        _, first_of_all = review(shell, ("apply", "."), answers=1)
    waits.sort()
    middle, slow = statistics.median(waits), waits[int(len(waits) * 0.99)]
    print(
        f"{len(waits)} answers: median {middle * 1e3:.0f} ms, 99 % {slow * 1e3:.0f} ms, worst {waits[-1] * 1e3:.0f} ms"
    )
    print(f"first hunk: {first:.2f} s for the file alone, {first_of_all:.2f} s among {given.others} others")
    late = [wait for wait in waits if wait > GOAL]
    print(f"{len(late)} of {len(waits)} later than {GOAL * 1e3:.0f} ms" if late else "all in time")
    return 1 if slow > GOAL else 0


def review(shell: Shell, arguments: tuple[str, ...], answers: int | None = None) -> tuple[list[float], float]:
    """The wait for each answer but the last, and the time to the first question, in seconds."""
    began = time.perf_counter()
    waits: list[float] = []
    with Reviewer(shell, (*arguments, "--no-cache", "--color", "always")) as reviewer:
        first = time.perf_counter() - began
        reviewer.child.delaybeforesend = None
        while answers is None or len(waits) < answers:
            began = time.perf_counter()
            reviewer.type("y" if len(waits) % 2 else "n")
            if reviewer.code is not None:
                break
            waits.append(time.perf_counter() - began)
        if reviewer.code is None:
            reviewer.type("q")
    return waits, first


if __name__ == "__main__":
    sys.exit(main())
