"""Drives a review in a real terminal, key by key."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pexpect
from commandline import Shell, environment

RULES = ("--load", str(Path(__file__).with_name("review_rules.py")), "--select", "RV")
PROMPT = r"\]\?(?:\x1b\[0m)? $"


@dataclass
class Reviewer:
    """A reviewer at a terminal. `seen` is all that was shown so far, the part since the last answer is `screen`."""

    shell: Shell
    arguments: tuple[str, ...]
    columns: int = 100
    env: dict[str, str] = field(default_factory=dict)
    drop: Callable[[], None] | None = None
    screen: str = ""
    seen: str = ""
    code: int | None = None

    def __enter__(self) -> Self:
        self.child: Any = pexpect.spawn(
            sys.executable,
            ["-m", "torchmigrate", *self.arguments],
            cwd=str(self.shell.folder),
            env=environment(self.shell.state, **({"TERM": "xterm", "NO_COLOR": "1"} | self.env)),
            encoding="utf-8",
            dimensions=(50, self.columns),
            timeout=120,
            echo=False,
            preexec_fn=self.drop,
        )
        self._read()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.child.close(force=True)

    def _read(self) -> str:
        ended = self.child.expect([PROMPT, pexpect.EOF])
        text = self.child.before + (self.child.after if ended == 0 else "")
        self.screen = text.replace("\r\n", "\n")
        self.seen += self.screen
        assert "Traceback" not in self.screen, self.screen
        if ended:
            self.child.close()
            self.code = -self.child.signalstatus if self.child.signalstatus else self.child.exitstatus
        return self.screen

    def type(self, *lines: str) -> str:
        """Type lines, each at a prompt; what the last one showed."""
        for line in lines:
            assert self.code is None, f"the review has ended before {line!r}: {self.seen}"
            self.child.sendline(line)
            self._read()
        return self.screen

    def send(self, raw: str) -> str:
        """Send characters without an end of line."""
        self.child.send(raw)
        return self._read()

    @property
    def run(self) -> str:
        """The id of the run, as the end tells it."""
        found = re.search(r"torchmigrate (?:undo|resume) (\w+)", self.seen)
        assert found, self.seen
        return found[1]

    @property
    def number(self) -> str:
        """Which question the prompt asks, such as `2/3`, without the sign of a run that goes on."""
        found = re.findall(r"^\((\d+/\d+)\+?\) ", self.screen, re.MULTILINE)
        assert found, self.screen
        return str(found[-1])

    @property
    def keys(self) -> list[str]:
        """The keys that the prompt lists."""
        return re.findall(r"\[([^\]]*)\]\?", self.screen)[-1].split(",")
