"""Runs the command that verifies a migrated repository: in a process group of its own, with a limit of time."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping
from typing import IO

from torchmigrate.fleet import Verification

MOST_OUTPUT = 64 << 20
"""Bytes that a command may write to the log."""
_LOOK = 0.1

running: set[int] = set()
"""The process groups of the commands that run now."""


def run(command: str, folder: str, seconds: float, variables: Mapping[str, str], log: IO[bytes]) -> Verification:
    """Run a shell command in a folder; what it writes goes to `log`. Nothing that it started is left running."""
    start = log.tell()
    process = subprocess.Popen(
        command,
        shell=True,
        cwd=folder,
        env={**os.environ, **variables},
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
        process_group=0,
    )
    running.add(process.pid)
    deadline = time.monotonic() + seconds
    outcome = ""
    try:
        while not outcome:
            try:
                process.wait(min(_LOOK, max(deadline - time.monotonic(), 0)))
                outcome = "passed" if process.returncode == 0 else "failed"
            except subprocess.TimeoutExpired:
                if time.monotonic() >= deadline:
                    outcome = "timed out"
                elif os.fstat(log.fileno()).st_size - start > MOST_OUTPUT:
                    outcome = "too much output"
    finally:
        kill(process.pid)
        process.wait()
        running.discard(process.pid)
    return Verification(command, outcome, process.returncode if outcome == "failed" else None)


def kill(group: int) -> None:
    """End a process group at once."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)
