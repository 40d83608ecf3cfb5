"""Work on the machines of a Dask cluster, through the same interface as the processes of one machine.

Tasks and results travel as data. When a worker is lost, the scheduler gives its tasks to others; each result is taken
once. Needs the extra: pip install 'torchmigrate[dask]', here and on every worker.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from torchmigrate.model import UsageError
from torchmigrate.pool import Engine, ExecutorPool, Prepare

SCHEMES = ("tcp://", "tls://", "ws://", "wss://")
PATIENCE = 20
"""Seconds to wait for the scheduler."""
AHEAD = 2
"""Tasks that wait for each thread of the workers, so that none falls idle."""
FEWEST = 8


class Cluster:
    """An engine on the cluster of the scheduler at `address`, such as `tcp://host:8786`. Raises UsageError."""

    def __init__(self, address: str, prepare: Prepare, arguments: tuple[Any, ...]) -> None:
        if not address.startswith(SCHEMES):
            raise UsageError(f"--engine {address}: not the address of a Dask scheduler, such as tcp://host:8786")
        try:
            import distributed
        except ImportError:
            raise UsageError("--engine needs Dask: pip install 'torchmigrate[dask]'") from None
        # What it logs about a lost scheduler are tracebacks; the user is told in our words.
        for name in ("distributed", "distributed.client", "tornado.application"):
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)
        try:
            self._client = distributed.Client(address, timeout=PATIENCE, set_as_default=False)
        except (OSError, ValueError, TypeError) as error:
            said = " ".join(str(error).split()) or type(error).__name__
            raise UsageError(f"no Dask scheduler at {address}: {said}") from None
        workers = self._client.nthreads()
        if not workers:
            self._client.close()
            raise UsageError(f"the Dask scheduler at {address} has no worker; start some with: dask worker {address}")
        threads = sum(workers.values())
        # A task may be done again on another worker, so each gets a key of its own.
        executor = self._client.get_executor(pure=False)
        self._pool = ExecutorPool(executor, prepare, arguments, max(AHEAD * threads, FEWEST))

    def push(self, task: Any) -> None:
        """Add a task to the run that goes on, or to the next one."""
        self._pool.push(task)

    def run(self, tasks: Iterable[Any] = ()) -> Iterator[tuple[Any, Any]]:
        """Do all tasks; yields each with its result or a Failure. Raises UsageError when the scheduler is lost."""
        from concurrent.futures import CancelledError

        try:
            yield from self._pool.run(tasks)
        except (CancelledError, OSError) as error:
            said = str(error) or "it closed the connection"
            raise UsageError(
                f"the Dask scheduler is lost: {said}\n       run again to take up what is missing"
            ) from None

    def close(self) -> None:
        """Cancel what has not begun and leave the cluster, which stays its owner's."""
        self._pool.close()
        self._client.close()


def engine(address: str) -> Callable[[Prepare, tuple[Any, ...]], Engine]:
    """What makes the engine for an address."""
    return lambda prepare, arguments: Cluster(address, prepare, arguments)
