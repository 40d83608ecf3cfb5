"""What is different on a terminal: colour, progress, and that nothing waits for an answer elsewhere."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pexpect
import pytest
from commandline import SAMPLE, TOYS, Shell, environment


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    found = Shell(tmp_path / "repo", tmp_path / "state")
    found.write(SAMPLE)
    return found


def on_a_terminal(shell: Shell, *arguments: str, **more: str) -> tuple[str, int]:
    """All that a command shows on a terminal, and its exit code."""
    child = pexpect.spawn(
        sys.executable,
        ["-m", "torchmigrate", *arguments],
        cwd=str(shell.folder),
        env=environment(shell.state, **({"TERM": "xterm"} | more)),
        encoding="utf-8",
        dimensions=(40, 120),
        timeout=60,
    )
    shown = child.read()
    child.close()
    assert child.exitstatus is not None
    return shown, child.exitstatus


def test_a_diff_on_a_terminal_is_coloured(shell: Shell) -> None:
    shown, code = on_a_terminal(shell, "diff", *TOYS, "train/a.py")
    assert code == 1
    assert "\x1b[32m+    return toy_call(1, device=0)\x1b[m" in shown


@pytest.mark.parametrize("more", [{"NO_COLOR": "1"}, {"TERM": "dumb"}], ids=["NO_COLOR", "dumb"])
def test_no_escape_sequence_where_none_is_wanted(shell: Shell, more: dict[str, str]) -> None:
    shown, _ = on_a_terminal(shell, "diff", *TOYS, "-q", **more)
    assert "return toy_call(1, device=0)" in shown
    assert "\x1b" not in shown


def test_progress_is_shown_after_a_second_and_taken_away(shell: Shell) -> None:
    shell.write({f"many/f{n}.py": b"toy_call('nap')\n" for n in range(40)})
    shown, _ = on_a_terminal(shell, "check", *TOYS, "-j", "2")
    assert " files seen, " in shown
    assert " looked at" in shown
    assert shown.index("\r\x1b[K") < shown.index("many/f0.py:1:1")
    last = shown.rindex("\r\x1b[K")
    assert shown[last:].startswith("\r\x1b[Kmany/f0.py:1:1")


def test_no_progress_without_a_terminal(shell: Shell) -> None:
    shell.write({f"many/f{n}.py": b"toy_call('nap')\n" for n in range(40)})
    assert "files seen" not in shell("check", *TOYS, "-j", "2").err


def test_control_characters_in_names_do_not_reach_the_terminal(shell: Shell) -> None:
    name = "train/\x1b[2Jx.py"
    shell.write({name: b"toy_call(1)\n"})
    shown, _ = on_a_terminal(shell, "check", *TOYS, "train")
    assert "train/\\x1b[2Jx.py:1:1: XX101" in shown
    assert "\x1b[2J" not in shown
    os.unlink(shell.folder / name)
