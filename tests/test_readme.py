"""What the README shows is what the tool does."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from regenerate_readme import regenerated

from torchmigrate import config
from torchmigrate.cli import COMMANDS

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def torchmigrate(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "torchmigrate", *arguments],
        cwd=ROOT,
        env={k: v for k, v in os.environ.items() if k != "FORCE_COLOR"},
        capture_output=True,
        text=True,
    )


@pytest.fixture(scope="module")
def demo() -> subprocess.CompletedProcess[str]:
    return torchmigrate("apply", "--dry-run", "fixtures/demo", "--no-cache")


def test_the_table_of_rules_is_the_list() -> None:
    assert "| TM401 | fsdp-reduce-dtype |" in README
    assert regenerated(README) == README, "run: python tests/regenerate_readme.py"


def test_the_first_command_shows_pending_changes(demo: subprocess.CompletedProcess[str]) -> None:
    (command, _) = blocks("sh")
    assert command.strip().endswith("torchmigrate apply --dry-run fixtures/demo")
    assert demo.returncode == 1
    assert demo.stdout.count("diff --git") >= 3
    assert "TM101" in demo.stdout
    assert "TM401" in demo.stdout


def test_the_change_that_is_shown_is_real(demo: subprocess.CompletedProcess[str]) -> None:
    for block in blocks("diff"):
        assert block in demo.stdout


def test_the_commands_that_are_shown_exist() -> None:
    (console,) = blocks("console")
    named = re.findall(r"torchmigrate (\w+)", console)
    assert named
    assert set(named) <= set(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_mentioned(command: str) -> None:
    assert re.search(rf"\btorchmigrate {command}\b|`{command}`", README)


def test_the_patch_that_is_shown_applies_though_places_for_a_person_are_left(tmp_path: Path) -> None:
    (line,) = (line for line in "".join(blocks("console")).splitlines() if "git apply" in line)
    shutil.copytree(ROOT / "fixtures/demo", tmp_path / "demo")
    command = line.removeprefix("$ ").replace("torchmigrate", f"'{sys.executable}' -m torchmigrate")
    done = subprocess.run(["sh", "-c", command], cwd=tmp_path / "demo", capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "device_id=" in (tmp_path / "demo/larch/parallel/start.py").read_text(encoding="utf-8")


def test_the_configuration_that_is_shown_is_valid(tmp_path: Path) -> None:
    (shown,) = blocks("toml")
    file = tmp_path / "pyproject.toml"
    file.write_text(shown)
    assert set(tomllib.loads(shown)["tool"]) == {"torchmigrate"}
    loaded = config.load(str(file))
    assert loaded.values["options"] == {"TM401": {"reduce-dtype": "float32"}}
    for key in config.KEYS:
        assert re.search(rf"\b{key}\b", shown), f"{key} is not mentioned"


def test_exit_codes_are_those_of_the_report() -> None:
    from torchmigrate.report import summary

    listed = re.findall(r"^\| (\d+) \|", README, re.MULTILINE)
    assert [int(code) for code in listed] == [
        summary.DONE,
        summary.PENDING,
        summary.REFUSED,
        summary.FAILED,
        summary.INTERRUPTED,
    ]
