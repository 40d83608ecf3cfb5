"""What a reviewer's screen holds: the screens in CONTRIBUTING.md are true, and a real terminal shows the same."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from commandline import Shell, environment
from regenerate_screens import CONTRIBUTING, regenerated
from reviewing import RULES

PATIENCE = 60


def test_the_screens_in_the_documentation_are_true() -> None:
    text = CONTRIBUTING.read_text(encoding="utf-8")
    assert text.count("<!-- screen: ") == 4
    assert regenerated(text) == text, "run: python tests/regenerate_screens.py"


class Tmux:
    """A terminal whose screen can be looked at."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell
        self._command = ["tmux", "-S", str(shell.state.parent / "socket"), "-f", "/dev/null"]

    def __call__(self, *arguments: str) -> str:
        done = subprocess.run(
            [*self._command, *arguments],
            cwd=self._shell.folder,
            env=environment(self._shell.state, NO_COLOR="1", TERM="xterm", LC_ALL="C.UTF-8"),
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def start(self, columns: int, lines: int) -> None:
        command = shlex.join([sys.executable, "-m", "torchmigrate", "apply", *RULES, "-j", "1", "."])
        self("new-session", "-d", "-x", str(columns), "-y", str(lines), f"{command}; echo EXIT $?; sleep 600")

    def screen(self, awaited: str, above: str = "") -> list[str]:
        """The lines on the screen, once the last ends in what is awaited and one above it in `above`."""
        end = time.monotonic() + PATIENCE
        while True:
            lines = self("capture-pane", "-p").rstrip("\n").split("\n")
            if lines[-1].rstrip().endswith(awaited) and any(line.rstrip().endswith(above) for line in lines[:-1]):
                return lines
            assert time.monotonic() < end, lines
            time.sleep(0.1)

    def type(self, line: str) -> None:
        self("send-keys", line, "Enter")


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path / "repo", tmp_path / "state")


@pytest.fixture
def tmux(shell: Shell) -> Iterator[Tmux]:
    if shutil.which("tmux") is None:
        pytest.skip("tmux is not installed")
    found = Tmux(shell)
    yield found
    found("kill-server")


def test_wide_characters_and_tabs_stand_where_they_do_in_an_editor(shell: Shell, tmux: Tmux) -> None:
    shell.write({"a.py": "import math\nif x:\n\tone('\u5bbd\u5b57')\t# end\n\tone(1)\t\t# end\n".encode()})
    tmux.start(100, 40)
    lines = tmux.screen("]?")
    old = [line for line in lines if line.startswith("-") or "one(1)" in line]
    columns = {sum(2 if ord(c) > 0x2E80 else 1 for c in line.partition("#")[0]) for line in old}
    assert len(old) == 2
    assert columns == {25}
    tmux.type("q")
    assert "Wrote nothing (2 left)." in "\n".join(tmux.screen("EXIT 1"))


@pytest.mark.parametrize("columns", [40, 200])
def test_narrow_and_wide_screens(shell: Shell, tmux: Tmux, columns: int) -> None:
    shell.write({"a.py": b"import math\nx = one('" + b"word " * 20 + b"')\n"})
    tmux.start(columns, 50)
    lines = tmux.screen("]?")
    assert "RV101 one, safe: one gets a start" in lines
    text = "".join(lines).replace(" ", "")
    assert f"+x=one('{'word' * 20}',start=math.e)" in text
    assert "(1/1)Applythischange[y,n,a,d,A,D,q,e,i,w,p,P,?]?" in text.replace("+)", ")")
    tmux("resize-window", "-x", "60", "-y", "30")
    tmux.type("?")
    help_ = tmux.screen("]?", above="End of input is q.")
    assert "q  stop; what was taken is written" in help_
    tmux.type("y")
    end = tmux.screen("EXIT 0")
    assert "Wrote 1 file (1 change taken, 0 left)." in " ".join(end)
    assert b"start=math.e" in (shell.folder / "a.py").read_bytes()


def test_the_screen_is_never_taken_away(shell: Shell, tmux: Tmux) -> None:
    """No other screen, no clearing: what was shown before the review stays above it."""
    shell.write({"a.py": b"import math\none(1)\none(2)\n"})
    tmux.start(80, 60)
    tmux.screen("]?")
    tmux.type("n")
    tmux.screen("]?", above="]? n")
    tmux.type("y")
    lines = tmux.screen("EXIT 1")
    assert "a.py   file 1 of 1" in " ".join(lines)
    assert "(1 change taken, 1 left)" in " ".join(lines)
