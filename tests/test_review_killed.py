"""`kill -9` at random moments of a review: nothing is half written, and `resume` asks for what was not decided.

`TORCHMIGRATE_KILLS` says how many times; a few are enough to find what is badly wrong, hundreds find the rest.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import re
import signal
import threading
from pathlib import Path

import pexpect
import pytest
from commandline import Shell
from reviewing import RULES, Reviewer

from torchmigrate import journal

KILLS = int(os.environ.get("TORCHMIGRATE_KILLS", "6"))
SEED = int(os.environ.get("TORCHMIGRATE_SEED", "0"))
LIMIT = 1.2
"""Seconds after the first question within which the review is killed."""
ROUNDS = 6
"""Kills of one review; then it may end."""

GAP = b"\n" * 8
CALLS = (b"one(%d)\n", b"one(%d)\n", b"x = one(two(%d))\n", b"look(%d)\n", b"pick(%d)\n", b"several(%d)\n")
FILES = {f"f{n}.py": b"import os\n" + GAP + GAP.join(call % n for call in (*CALLS, CALLS[-1])) for n in range(6)}
QUESTIONS = 36


class Scripted:
    """A reviewer whose answer to a question depends on the question alone."""

    def __init__(self, reviewer: Reviewer) -> None:
        self._reviewer = reviewer
        self._file = ""
        self.answered = 0

    def go_on(self) -> None:
        """Answer until the review ends, one way or the other."""
        while self._reviewer.code is None:
            answer = self._answer()
            self._reviewer.type(answer)
            self.answered += 1

    def _answer(self) -> str:
        screen = self._reviewer.screen
        named = re.findall(r"^(f\d\.py)   file", screen, re.MULTILINE)
        self._file = named[-1] if named else self._file
        shown = [line for line in screen.splitlines() if line[:1] in ("-", "+") and "import math" not in line]
        what = "Apply" if "y" in self._reviewer.keys else "Leave"
        number = hashlib.sha256("|".join([self._file, what, *shown]).encode()).digest()[0]
        return ("y", "n", "i")[number % 3] if what == "Apply" else ("n", "i")[number % 2]


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("whole")
    shell = Shell(folder / "repo", folder / "state")
    shell.write(FILES)
    with Reviewer(shell, ("apply", *RULES, "-j", "1", ".")) as reviewer:
        scripted = Scripted(reviewer)
        scripted.go_on()
    assert scripted.answered == QUESTIONS
    return shell.contents()


def killed(shell: Shell, arguments: tuple[str, ...], after: float | None) -> tuple[int, bool]:
    """Review until the end or until it is killed; how many answers were given, and whether it was killed."""
    was_killed = threading.Event()
    with Reviewer(shell, arguments) as reviewer:
        scripted = Scripted(reviewer)

        def kill() -> None:
            was_killed.set()
            with contextlib.suppress(ProcessLookupError):
                os.kill(reviewer.child.pid, signal.SIGKILL)

        timer = threading.Timer(after or 0, kill)
        if after is not None:
            timer.start()
        try:
            scripted.go_on()
        except (OSError, pexpect.ExceptionPexpect):
            assert was_killed.is_set()
        timer.cancel()
    return scripted.answered, was_killed.is_set()


def test_killed_reviews_are_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, uninterrupted: dict[str, bytes]
) -> None:
    moments = random.Random(SEED)
    kills = reviews = 0
    while kills < KILLS:
        reviews += 1
        shell = Shell(tmp_path / str(reviews), tmp_path / f"state{reviews}")
        shell.write(FILES)
        monkeypatch.setenv(journal.VARIABLE, str(shell.state))
        answered = rounds = 0
        while True:
            begun = next(journal.runs(), None)
            if begun is not None and begun.finished:
                break
            arguments = ("resume",) if begun else ("apply", *RULES, "-j", "1", ".")
            after = moments.random() * LIMIT if rounds < ROUNDS else None
            more, was_killed = killed(shell, arguments, after)
            answered += more
            for name, content in FILES.items():
                assert (shell.folder / name).read_bytes() in (content, uninterrupted[name])
            if not was_killed:
                break
            kills, rounds = kills + 1, rounds + 1
        assert QUESTIONS - rounds <= answered <= QUESTIONS + rounds
        assert shell.contents() == uninterrupted
        assert shell("undo").code == 0
        assert shell.contents() == FILES
