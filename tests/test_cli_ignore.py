"""`ignore` silences what is left, and says what it cannot silence."""

from __future__ import annotations

from pathlib import Path

import pytest
from commandline import SAMPLE, TOYS, Shell

LOAD, RULES = TOYS[:2], TOYS[2:]


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    found = Shell(tmp_path / "repo", tmp_path / "state")
    found.write(SAMPLE | {"train/m.py": b"def f():\n    return toy_call('manual')\n"})
    found.commit()
    return found


def test_what_is_left_is_silenced_by_rule(shell: Shell) -> None:
    before = shell.contents()
    done = shell("ignore", *LOAD, "--select", "XX101", ".")
    assert done.code == 0, done.err
    assert "Silenced 4 places in 4 files." in done.err
    contents = shell.contents()
    assert contents["train/m.py"] == b"def f():\n    # torchmigrate: ignore[XX101]\n    return toy_call('manual')\n"
    assert b"# torchmigrate: ignore[XX101]\r\nx = toys.toy_call(2)" in contents["train/b c.py"]
    assert shell("check", *LOAD, "--select", "XX101", ".").code == 0
    found = shell("check", *TOYS, ".")
    assert found.code == 1
    assert "XX201" in found.out
    assert "XX101" not in found.out
    assert shell("undo").code == 0
    assert shell.contents() == before


def test_a_second_time_there_is_nothing_to_silence(shell: Shell) -> None:
    assert shell("ignore", *TOYS, ".").code == 0
    contents = shell.contents()
    shell.commit()
    done = shell("ignore", *TOYS, ".")
    assert done.code == 0
    assert "Silenced 0 places." in done.err
    assert shell.contents() == contents


def test_a_look_writes_nothing_and_shows_a_patch(shell: Shell) -> None:
    before = shell.snapshot()
    done = shell("ignore", "--dry-run", *TOYS, ".")
    assert done.code == 1
    assert "Would silence" in done.err
    assert shell.snapshot() == before
    (shell.state.parent / "p.patch").write_bytes(done.raw)
    shell.git("apply", str(shell.state.parent / "p.patch"))
    assert shell("check", *TOYS, ".").code == 0


def test_what_cannot_be_silenced_is_told(shell: Shell) -> None:
    shell.write({"train/text.py": b'x = f"""\n{toy_call(1)}\n{toy_call(2)} \\\n{toy_call(3)}"""\n'})
    shell.commit()
    done = shell("ignore", *TOYS, "train/text.py")
    left = shell("check", *TOYS, "train/text.py").out.count("XX101")
    assert left > 0
    assert done.err.count("(no comment can be put there)") == left
    assert done.code == 1


def test_refusals(shell: Shell) -> None:
    assert "--select" in shell("ignore", ".").err
    shell.write({"train/a.py": b"toy_call(1)\n"})
    done = shell("ignore", *TOYS, ".")
    assert done.code == 2
    assert "uncommitted edits: train/a.py" in done.err
    assert shell("ignore", *TOYS, "--allow-dirty", ".").code == 0
    shell.write({"train/broken.py": b"toy_call(\n"})
    assert shell("ignore", *TOYS, "--allow-dirty", ".").code == 3
