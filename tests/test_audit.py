"""The readiness report, through the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from commandline import Done, Shell

TRAINING = """\
import torch
import torch.distributed as dist
from lightning import Trainer
from torch.distributed.fsdp import MixedPrecisionPolicy

dist.init_process_group("nccl")
dist.init_process_group("nccl", device_id=torch.device("cuda", 0))
dist.init_process_group("nccl", device_id=None)
group = dist.new_group([0, 1])
mesh = dist.init_device_mesh("cuda", (2,))
policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16)
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Two projects: one trains, one is a package that only needs torch."""
    for name, text in {
        "train/pyproject.toml": '[project]\nname = "t"\nrequires-python = ">=3.11"\n'
        'dependencies = ["torch>=2.14,<2.15", "lightning>=2.5"]\n',
        "train/src/run.py": TRAINING,
        "package/setup.cfg": "[metadata]\nname = p\n[options]\npython_requires = >=3.10\n"
        "install_requires =\n    torch>=2.15\n",
        "package/p/ops.py": "from torch.utils.cpp_extension import load\nops = load('ops', ['ops.cpp'])\n",
        "quiet/setup.py": "from setuptools import setup\nsetup(name='q')\n",
        "quiet/q.py": "print('no torch here')\n",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def run(tree: Path, *arguments: str) -> Done:
    return Shell(tree, tree.parent / f"{tree.name}-state")("audit", *arguments, ".")


def audited(tree: Path) -> dict[str, Any]:
    done = run(tree, "--format", "json")
    assert done.code == 0, done.err
    return dict(json.loads(done.out))


def test_counts_by_project(tree: Path) -> None:
    data = audited(tree)
    package, train = data["projects"]
    assert (data["schema"], [p["root"] for p in data["projects"]]) == (1, ["package", "train"])
    assert train["torch"] == {"min": "2.14", "source": "pyproject.toml:4", "below": "2.15", "role": "required"}
    found = {key: count for key, count in train["counts"].items() if count}
    assert found == {"init-with-device-id": 1, "init-without-device-id": 2, "groups": 2, "policies": 1, "pins": 1}
    assert train["places"]["policies"] == ["train/src/run.py:11"]
    assert train["frameworks"] == {"lightning": ">=2.5"}
    assert train["kind"] == "FSDP2 training"
    assert {key: count for key, count in package["counts"].items() if count} == {"python": 1, "extensions": 1}
    assert package["kind"] == "compiled extensions"
    assert package["advice"].startswith("rebuild")
    assert data["totals"]["init-without-device-id"] == 2


def test_text(tree: Path) -> None:
    done = run(tree)
    assert done.code == 0
    lines = done.out.splitlines()
    assert lines[0] == "package  (torch from 2.15, setup.cfg:6; Python from 3.10, setup.cfg:4)"
    (line,) = (line for line in lines if line.startswith("  init_process_group without device_id"))
    assert line.split()[3:] == ["2", "train/src/run.py:6,", "train/src/run.py:8"]
    assert any("lightning >=2.5" in line for line in lines)


def test_a_suppressed_finding_does_not_count(tree: Path) -> None:
    (tree / "train/src/run.py").write_text(
        TRAINING.replace("bfloat16)\n", "bfloat16)  # torchmigrate: ignore[TM401] known\n")
    )
    assert "policies" not in audited(tree)["projects"][1]["places"]


def test_configured_selection_does_not_hide_anything(tree: Path) -> None:
    (tree / "torchmigrate.toml").write_text('select = ["TM201"]\n')
    assert audited(tree)["projects"][1]["counts"]["policies"] == 1


def test_nothing_to_tell(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("print()\n")
    done = run(tmp_path)
    assert (done.code, done.out) == (0, "Nothing found that the upgrade touches.\n")


def test_unreadable_files_are_told(tree: Path) -> None:
    (tree / "train/src/bad.py").write_text("import torch.distributed as dist\ndist.init_process_group(\n")
    done = run(tree, "--format", "json")
    assert done.code == 3
    assert [error["path"] for error in json.loads(done.out)["errors"]] == ["train/src/bad.py"]


def test_it_writes_nothing(tree: Path) -> None:
    before = {path: path.read_bytes() for path in tree.rglob("*") if path.is_file()}
    audited(tree)
    assert {path: path.read_bytes() for path in tree.rglob("*") if path.is_file()} == before


def test_owners(tree: Path) -> None:
    (tree / "CODEOWNERS").write_text("* @org/all\n/train/ @org/training @org/second\n")
    package, train = audited(tree)["projects"]
    assert package["owners"] == {"@org/all": 2}
    assert list(train["owners"]) == ["@org/training"]
    assert f"  owners: @org/training ({train['owners']['@org/training']})" in run(tree).out.splitlines()
