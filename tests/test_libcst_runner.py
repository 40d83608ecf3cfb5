"""Rules under LibCST's own runner."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import libcst as cst
import pytest
from libcst.codemod import CodemodContext

from torchmigrate.libcst_runner import command
from torchmigrate_codemods.torch_2_15.fsdp_reduce_dtype import FsdpReduceDtype

BEFORE = """from functools import partial

import torch
from torch.distributed.fsdp import MixedPrecisionPolicy

a = MixedPrecisionPolicy(param_dtype=torch.bfloat16)
b = partial(MixedPrecisionPolicy, param_dtype=torch.bfloat16)
c = MixedPrecisionPolicy(**kwargs)
"""


def test_safe_changes_are_made_and_the_rest_is_a_warning() -> None:
    context = CodemodContext(filename="a.py")
    tree = command(FsdpReduceDtype)(context).transform_module(cst.parse_module(BEFORE))
    assert tree.code == BEFORE.replace(
        "a = MixedPrecisionPolicy(param_dtype=torch.bfloat16",
        "a = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16",
    )
    assert len(context.warnings) == 2
    assert context.warnings[0].startswith("a.py:7: TM401 ")
    assert "pass --unsafe" in context.warnings[0]
    assert "cannot see whether" in context.warnings[1]


def test_unsafe_on_request() -> None:
    made = command(FsdpReduceDtype)(CodemodContext(), unsafe=True).transform_module(cst.parse_module(BEFORE))
    assert made.code.count("reduce_dtype=") == 2


def test_the_runner_itself(tmp_path: Path) -> None:
    (tmp_path / "mods").mkdir()
    (tmp_path / "mods" / "__init__.py").write_text("")
    (tmp_path / "mods" / "torch_rules.py").write_text(
        "from torchmigrate.libcst_runner import command\n"
        "from torchmigrate_codemods.torch_2_15.fsdp_reduce_dtype import FsdpReduceDtype\n"
        "StateReduceDtype = command(FsdpReduceDtype)\n"
    )
    (tmp_path / ".libcst.codemod.yaml").write_text("modules: [mods]\ngenerated_code_marker: none\nformatter: []\n")
    target = tmp_path / "a.py"
    target.write_bytes(BEFORE.replace("\n", "\r\n").encode())
    run = subprocess.run(
        [
            sys.executable,
            "-m",
            "libcst.tool",
            "codemod",
            "--no-format",
            "-x",
            "mods.torch_rules.StateReduceDtype",
            "a.py",
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": str(tmp_path), "PATH": ""},
    )
    if "No module named 'yaml" in run.stderr:
        pytest.skip("libcst.tool needs PyYAML")
    assert run.returncode == 0, run.stderr
    assert b"reduce_dtype=torch.bfloat16)\r\n" in target.read_bytes()
