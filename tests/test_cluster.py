"""A fleet on a real Dask cluster: a scheduler and three workers on this machine, one of them killed."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import fleets
import pytest
from commandline import Done, Shell, environment

pytest.importorskip("distributed")

TOYS = ("--load", str(fleets.RULES), "--select", "XX")
SCHEDULER = "import sys; from distributed.cli.dask_scheduler import main; main(sys.argv[1:])"
WORKER = "import sys; from distributed.cli.dask_worker import main; main(sys.argv[1:])"


class Cluster:
    """Processes that end with the test."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell
        self.address = ""
        self.workers: list[subprocess.Popen[bytes]] = []
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        where = self._shell.folder.parent
        described = where / "scheduler.json"
        self.scheduler = self._run(
            SCHEDULER, "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(described)
        )
        self._until(lambda: described.exists() and described.stat().st_size > 0)
        time.sleep(0.2)
        text = described.read_text()
        self.address = text[text.index("tcp://") :].split('"')[0]
        for number in range(3):
            flags = ("--nthreads", "1", "--no-dashboard", "--no-nanny", "--local-directory", str(where / f"w{number}"))
            self.workers.append(self._run(WORKER, self.address, *flags))
        logs = [where / f"{process.pid}.log" for process in self.workers]
        self._until(lambda: all("Registered to" in log.read_text() for log in logs))

    def _run(self, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        log = self._shell.folder.parent / "starting.log"
        with open(log, "wb") as file:
            process = subprocess.Popen(
                [sys.executable, "-c", program, *arguments],
                env=environment(self._shell.state, **fleets.IDENTITY),
                stdout=file,
                stderr=file,
            )
        log.rename(log.with_name(f"{process.pid}.log"))
        self._processes.append(process)
        return process

    def _until(self, holds: object) -> None:
        assert callable(holds)
        until = time.monotonic() + 120
        while not holds():
            assert time.monotonic() < until
            time.sleep(0.1)

    def end(self) -> None:
        for process in reversed(self._processes):
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            process.wait()


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    (tmp_path / "here").mkdir()
    return Shell(tmp_path / "here", tmp_path / "state")


@pytest.fixture
def cluster(shell: Shell) -> Iterator[Cluster]:
    made = Cluster(shell)
    try:
        made.start()
        yield made
    finally:
        made.end()


def bulk(shell: Shell, *flags: str) -> Done:
    return shell("bulk", "fleet.toml", *TOYS, "--branch", "b", *flags, env=fleets.IDENTITY)


def test_the_same_result_though_a_worker_is_lost(shell: Shell, cluster: Cluster) -> None:
    base = shell.folder.parent / "repositories"
    base.mkdir()
    makers = (fleets.empty, fleets.detached, fleets.crash, fleets.named, fleets.hooked, fleets.missing)
    members = [*(make(base) for make in makers), *(fleets.healthy(base, n) for n in range(1, 8))]
    (shell.folder / "fleet.toml").write_text(fleets.listed(members), encoding="utf-8")
    flags = ("--verify", "sleep 1")
    local = bulk(shell, "--work-dir", "local", *flags)
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "torchmigrate", "bulk", "fleet.toml", *TOYS, "--branch", "b", *flags),
            *("--work-dir", "far", "--engine", cluster.address),
        ],
        cwd=shell.folder,
        env=environment(shell.state, **fleets.IDENTITY),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    state = shell.folder / "far" / "state"
    until = time.monotonic() + 120
    while not (state.exists() and len(list(state.iterdir())) >= 4):
        assert time.monotonic() < until
        time.sleep(0.05)
    os.kill(cluster.workers[1].pid, signal.SIGKILL)
    assert len(list(state.iterdir())) < len(members)
    out, err = process.communicate(timeout=120)
    assert process.returncode == local.code == 3, err.decode()
    assert out == local.raw
    assert (shell.folder / "far/result.json").read_bytes() == (shell.folder / "local/result.json").read_bytes()
    for folder in ("patches", "state"):
        names = [sorted(path.name for path in (shell.folder / work / folder).iterdir()) for work in ("far", "local")]
        assert names[0] == names[1]
    for patch in (shell.folder / "local" / "patches").iterdir():
        assert (shell.folder / "far" / "patches" / patch.name).read_bytes() == patch.read_bytes()


def test_a_lost_scheduler_ends_the_run_and_keeps_what_is_done(shell: Shell, cluster: Cluster) -> None:
    base = shell.folder.parent / "repositories"
    members = [fleets.healthy(base, n) for n in range(1, 8)]
    (shell.folder / "fleet.toml").write_text(fleets.listed(members), encoding="utf-8")
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "torchmigrate", "bulk", "fleet.toml", *TOYS, "--verify", "sleep 2"),
            *("--engine", cluster.address),
        ],
        cwd=shell.folder,
        env=environment(shell.state, **fleets.IDENTITY),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    state = shell.folder / "torchmigrate-work" / "state"
    until = time.monotonic() + 120
    while not (state.exists() and list(state.iterdir())):
        assert time.monotonic() < until
        time.sleep(0.05)
    cluster.scheduler.kill()
    _, err = process.communicate(timeout=120)
    assert process.returncode == 2
    assert err.decode().startswith("error: the Dask scheduler is lost: ")
    assert b"Traceback" not in err
    totals = json.loads((shell.folder / "torchmigrate-work" / "result.json").read_text())["totals"]
    assert 1 <= totals["done"] < 7


def test_without_a_scheduler_or_a_worker(shell: Shell) -> None:
    member = fleets.healthy(shell.folder.parent / "repositories", 1)
    (shell.folder / "fleet.toml").write_text(fleets.listed([member]), encoding="utf-8")
    done = bulk(shell, "--engine", "tcp://127.0.0.1:1")
    assert done.code == 2
    assert "error: no Dask scheduler at tcp://127.0.0.1:1: " in done.err
    done = bulk(shell, "--engine", "nonsense://x")
    assert (done.code, "nonsense://x: not the address of a Dask scheduler" in done.err) == (2, True)
