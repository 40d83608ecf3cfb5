"""Brings the screens of a review in CONTRIBUTING.md up to date: `python tests/regenerate_screens.py`."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from pathlib import Path

from commandline import Shell
from reviewing import Reviewer

CONTRIBUTING = Path(__file__).resolve().parent.parent / "CONTRIBUTING.md"
_SCREEN = re.compile(r"(<!-- screen: (?P<name>\w+) -->\n```text\n).*?(```\n)", re.DOTALL)
_COLUMNS = 80

_LAUNCH = b"""\
import os

import torch
import torch.distributed as dist
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard


def setup() -> None:
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")


def shard(model: torch.nn.Module) -> None:
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16)
    fully_shard(model, mp_policy=policy)
"""
_PRODUCT = b"""\
import torch


def product(a, b, scale_a, scale_b):
    return torch._scaled_mm(a, b, scale_a, scale_b, out_dtype=torch.bfloat16)
"""


def screens() -> Mapping[str, str]:
    """The screens by name, as a terminal of 80 columns without colour shows them. Ids of runs are always 7f3a."""
    found: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        shell = Shell(Path(folder) / "repo", Path(folder) / "state")
        shell.write({"launch.py": _LAUNCH, "product.py": _PRODUCT})
        with _review(shell, "launch.py") as reviewer:
            found["prompt"] = reviewer.screen
            found["help"] = reviewer.type("?")
            reviewer.type("y")
            found["summary"] = reviewer.type("q")
        with _review(shell, "product.py") as reviewer:
            found["choices"] = reviewer.screen
            reviewer.type("q")
    return {name: _cleaned(screen) for name, screen in found.items()}


def _review(shell: Shell, file: str) -> Reviewer:
    return Reviewer(shell, ("apply", "--no-cache", file), columns=_COLUMNS)


def _cleaned(screen: str) -> str:
    """A screen without what differs from run to run: the id, and whether other files are still being looked at."""
    text = re.sub(r"\b(undo|resume) \w+", r"\1 7f3a", screen)
    text = re.sub(r"( of \d+) so far$|\+(?=\) )", r"\1", text, flags=re.MULTILINE)
    return "\n".join(line.rstrip() for line in text.strip("\n").splitlines()) + "\n"


def regenerated(text: str) -> str:
    """The text with each screen that it names in a comment."""
    shown = screens()
    return _SCREEN.sub(lambda found: found[1] + shown[found["name"]] + found[3], text)


if __name__ == "__main__":
    CONTRIBUTING.write_text(regenerated(CONTRIBUTING.read_text(encoding="utf-8")), encoding="utf-8")
