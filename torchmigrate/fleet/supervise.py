"""Does one repository in a process that can be ended at any time, and takes its outcome: nothing that a repository
holds can reach, stop or slow down the run. What is given and what comes back is plain data, so that this can be called
on any machine."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

from torchmigrate.fleet import DONE, FAILED, RUN, Outcome, RepositoryResult, Task
from torchmigrate.fleet.repository import CLONE, LOG, PATCH, RESULT, SERIES, TASK, dump

GRACE = 3.0
"""Seconds that a process gets to end what it started before it is killed."""
MOST_LOG = 1 << 20
"""Bytes of a log that are kept: its first and its last half."""


def prepare() -> Callable[[Task], Outcome]:
    """What a worker does with tasks."""
    return supervise


def supervise(task: Task) -> Outcome:
    """Do one repository; within its limit of time there is an outcome, whatever happens."""
    began = time.monotonic()
    base = task.scratch or tempfile.gettempdir()
    os.makedirs(base, exist_ok=True)
    folder = tempfile.mkdtemp(prefix=f"{task.repository.key}-", dir=base)
    kept: str | None = None
    try:
        with open(os.path.join(folder, TASK), "w", encoding="utf-8") as file:
            file.write(dump(task))
        reason = _run(folder, task.repository.timeout or task.order.timeout)
        result = _result(folder, task, reason)
        if task.keep and result["status"] == DONE and os.path.isdir(os.path.join(folder, CLONE)):
            kept = os.path.join(folder, CLONE)
        patch, series = (_read(os.path.join(folder, name)) for name in (PATCH, SERIES))
        log = _read(os.path.join(folder, LOG), MOST_LOG)
        if result.get("patch") is None:
            patch = b""
        return Outcome(result, patch, series, log, time.monotonic() - began, kept)
    finally:
        _remove(folder, but=CLONE if kept else None)


def _run(folder: str, seconds: float) -> str | None:
    """Run the process; why it gave no result, else None."""
    with open(os.path.join(folder, LOG), "ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "torchmigrate.fleet.repository", folder, str(os.getpid())],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        code = process.wait(seconds)
    except subprocess.TimeoutExpired:
        return f"was ended after {seconds:g} s; raise --repository-timeout to give it more"
    finally:
        _end(process)
    if code:
        return f"its process ended with {f'signal {-code}' if code < 0 else f'exit code {code}'}; see its log"
    return None


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(GRACE)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _result(folder: str, task: Task, reason: str | None) -> dict[str, Any]:
    if reason is None:
        try:
            with open(os.path.join(folder, RESULT), encoding="utf-8") as file:
                return dict(json.load(file))
        except (OSError, ValueError):
            reason = "its process left no result; see its log"
    repository = task.repository
    return RepositoryResult(repository.name, repository.shown, FAILED, RUN, reason).document()


def _read(path: str, most: int | None = None) -> bytes:
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if most is None or size <= most:
                return file.read()
            first = file.read(most // 2)
            file.seek(-(most // 2), os.SEEK_END)
            return first + b"\n[...]\n" + file.read()
    except OSError:
        return b""


def _remove(folder: str, but: str | None) -> None:
    """Remove a folder, whatever permissions its files have; `but` names what stays in it."""

    def again(function: Callable[..., Any], path: str, error: Any) -> None:
        with contextlib.suppress(OSError):
            os.chmod(os.path.dirname(path), 0o700)
            os.chmod(path, 0o700)
            function(path)

    if but is None:
        shutil.rmtree(folder, onerror=again)
        return
    for name in os.listdir(folder):
        if name != but:
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(folder, name))
