"""Worker processes that may die or hang: one task in flight each, a deadline, and a named failure for what was lost.

A pool is given `prepare` and its arguments; each worker calls it once and then applies what it returns to one task
after another. Tasks, results and arguments are plain data. On Linux workers are forked from the caller while it has a
single thread, elsewhere they are started afresh, so `prepare` must be importable.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, Self

if TYPE_CHECKING:  # multiprocessing is what takes longest to import; a run over little starts no workers
    from concurrent.futures import Executor, Future
    from multiprocessing.connection import Connection
    from multiprocessing.process import BaseProcess
    from types import TracebackType

STACK = 512 << 20
"""Bytes of stack for the thread that does a worker's tasks: parsers recurse with the nesting of their input."""
RECURSION = 200_000
COLLECT_AFTER = 100_000
"""New objects that a worker may be left with after a task before it collects garbage: the trees of a file hold each
other in circles, but while they are in use a collection is a waste of time."""
COLLECT_WITHIN = 2_000_000
"""The same while a task is at work."""
BACKLOG = 64
"""Pushed tasks that may wait for a worker that has done such ones, as long as there are others: each worker has much to
import and to read before its first."""
WATCH = 1.0
"""Seconds between two looks of a worker at whether its parent still lives."""

Prepare = Callable[..., Callable[[Any], Any]]


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a task has no result: TM004 out of time, TM005 its worker died, TM011 the work raised an exception."""

    code: str
    message: str


class Engine(Protocol):
    """Does tasks somewhere and gives them back with their results, in any order, each exactly once."""

    def run(self, tasks: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
        """Do all tasks, taking them as workers fall idle; those pushed meanwhile do not wait for the end."""
        ...

    def push(self, task: Any) -> None:
        """Add a task to the run that goes on, or to the next one."""
        ...

    def close(self) -> None:
        """End all workers at once; what is in flight is dropped."""
        ...


class Pool:
    """Worker processes of this machine. `jobs` is how many, 0 for as many as there are usable processors.

    `timeout` is the seconds that one task may take. Workers are started when there is work for them. Pushed tasks go to
    workers that have done pushed ones before as long as few wait.
    """

    def __init__(self, prepare: Prepare, arguments: tuple[Any, ...], jobs: int = 0, timeout: float = 120.0) -> None:
        self._prepare, self._arguments = prepare, arguments
        self._jobs = jobs or usable_processors()
        self._timeout = timeout
        self._pushed: deque[Any] = deque()
        self._workers: list[_Worker] = []

    def push(self, task: Any) -> None:
        """Add a task to the run that goes on, or to the next one."""
        self._pushed.append(task)

    def run(self, tasks: Iterable[Any] = ()) -> Iterator[tuple[Any, Any]]:
        """Do all tasks; yields each with its result or a Failure as soon as it is there.

        Whatever ends the iteration early (an exception, Ctrl-C, the caller) ends the workers that are busy.
        """
        source = iter(tasks)
        try:
            while True:
                self._give(source)
                busy = [worker for worker in self._workers if worker.is_busy]
                if not busy:
                    return
                yield from self._collect(busy)
        finally:
            for worker in self._workers:
                if worker.is_busy:
                    worker.kill()
            self._workers = [worker for worker in self._workers if worker.is_alive]

    def close(self) -> None:
        """End all workers at once."""
        for worker in self._workers:
            worker.kill()
        self._workers.clear()
        self._pushed.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _give(self, source: Iterator[Any]) -> None:
        idle = sorted((worker for worker in self._workers if not worker.is_busy), key=lambda worker: worker.is_versed)
        while idle or len(self._workers) < self._jobs:
            worker = idle.pop() if idle else None
            found = self._next(source, worker)
            if found is None:
                return
            task, is_pushed = found
            worker = worker or self._start()
            worker.is_versed |= is_pushed
            if not worker.give(task, self._timeout):
                worker.kill()
                self._workers.remove(worker)
                self._pushed.appendleft(task)

    def _next(self, source: Iterator[Any], worker: _Worker | None) -> tuple[Any, bool] | None:
        """The task for a worker, None for a new one, and whether it was pushed; None when nothing is left."""
        if self._pushed:
            versed = any(one.is_versed for one in self._workers)
            if not versed or (worker is not None and worker.is_versed) or len(self._pushed) > BACKLOG:
                return self._pushed.popleft(), True
        for task in source:
            return task, False
        return (self._pushed.popleft(), True) if self._pushed else None

    def _start(self) -> _Worker:
        others = [worker.connection for worker in self._workers]
        worker = _Worker(self._prepare, self._arguments, others)
        self._workers.append(worker)
        return worker

    def _collect(self, busy: list[_Worker]) -> Iterator[tuple[Any, Any]]:
        from multiprocessing.connection import wait

        left = min(worker.deadline for worker in busy) - time.monotonic()
        ready = set(wait([worker.connection for worker in busy], max(left, 0)))
        for worker in busy:
            if worker.connection in ready:
                task, result = worker.take()
            elif worker.deadline <= time.monotonic():
                task, result = worker.task, Failure("TM004", f"gave up after {self._timeout:g} s")
                worker.kill()
            else:
                continue
            if not worker.is_alive:
                self._workers.remove(worker)
            yield task, result


class _Worker:
    """One process and the pipe to it, as the supervisor sees them."""

    def __init__(self, prepare: Prepare, arguments: tuple[Any, ...], others: list[Connection[Any, Any]]) -> None:
        import multiprocessing
        from multiprocessing.connection import Pipe

        forked = sys.platform == "linux" and threading.active_count() == 1
        context = multiprocessing.get_context("fork" if forked else "spawn")
        self.connection, theirs = Pipe()
        self.task: Any = None
        self.is_busy = False
        self.is_versed = False
        self.is_alive = True
        self.deadline = 0.0
        ours = [*others, self.connection] if forked else []
        self._process: BaseProcess = context.Process(  # type: ignore[attr-defined]
            target=_serve, args=(theirs, prepare, arguments, ours), daemon=True
        )
        with _interrupts_held():
            self._process.start()
        theirs.close()

    def give(self, task: Any, seconds: float) -> bool:
        """Hand over a task; False when the process has ended meanwhile."""
        try:
            self.connection.send(task)
        except OSError:
            return False
        self.task, self.is_busy, self.deadline = task, True, time.monotonic() + seconds
        return True

    def take(self) -> tuple[Any, Any]:
        """The task in flight and its result, once the pipe is ready."""
        try:
            result = self.connection.recv()
        except (EOFError, OSError):
            result = Failure("TM005", f"the worker crashed on this file ({self._end()})")
            self.kill()
        self.is_busy = False
        return self.task, result

    def kill(self) -> None:
        """End the process at once."""
        self._process.kill()
        self._process.join()
        self.connection.close()
        self.is_alive = self.is_busy = False

    def _end(self) -> str:
        self._process.join(5)
        code = self._process.exitcode
        if code is None:
            return "it closed its pipe"
        return f"signal {-code}" if code < 0 else f"exit code {code}"


def _serve(
    connection: Connection[Any, Any],
    prepare: Prepare,
    arguments: tuple[Any, ...],
    inherited: list[Connection[Any, Any]],
) -> None:
    """A worker's life: tasks in, results out, until the pipe is closed. Work is done in a thread with a big stack."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    parent = os.getppid()
    _leave_no_core()
    gc.freeze()
    gc.set_threshold(COLLECT_WITHIN)
    for other in inherited:
        other.close()
    with contextlib.suppress(OSError, ValueError):
        os.dup2(2, 1)  # whatever a plugin prints must not end up in the output of the run
    sys.setrecursionlimit(RECURSION)
    for size in (STACK, STACK // 8):
        threading.stack_size(size)
        thread = threading.Thread(target=_work, args=(connection, prepare, arguments))
        try:
            thread.start()
        except RuntimeError:  # no room for such a stack
            continue
        while thread.is_alive():
            thread.join(WATCH)
            if os.getppid() != parent:
                os._exit(1)  # a task that hangs would outlive the run
        return
    _work(connection, prepare, arguments)


def _work(connection: Connection[Any, Any], prepare: Prepare, arguments: tuple[Any, ...]) -> None:
    work = prepare(*arguments)
    while True:
        try:
            task = connection.recv()
        except (EOFError, OSError):
            return
        try:
            connection.send(_attempt(work, task))
        except OSError:
            return
        if gc.get_count()[0] > COLLECT_AFTER:
            gc.collect()


def _attempt(work: Callable[[Any], Any], task: Any) -> Any:
    try:
        return work(task)
    except MemoryError:
        return Failure("TM005", "out of memory")
    except RecursionError:
        return Failure("TM005", "nested too deeply")
    except Exception as error:
        return Failure("TM011", f"internal error ({type(error).__name__}: {error}); please report it")


def _leave_no_core() -> None:
    """A file that crashes a worker is told; its memory need not lie in the user's folder."""
    try:
        import resource
    except ImportError:  # not on Windows
        return
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


@contextlib.contextmanager
def _interrupts_held() -> Iterator[None]:
    """Keep Ctrl-C from a child until it ignores it; this process gets it afterwards."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def usable_processors() -> int:
    """How many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0)) or 1
    return os.cpu_count() or 1


class ExecutorPool:
    """The same interface over any `concurrent.futures.Executor` (Dask's, MPI's): only `submit` is used."""

    def __init__(self, executor: Executor, prepare: Prepare, arguments: tuple[Any, ...], in_flight: int = 32) -> None:
        self._executor, self._prepare, self._arguments = executor, prepare, arguments
        self._in_flight = in_flight
        self._pushed: deque[Any] = deque()
        self._futures: dict[Future[Any], Any] = {}

    def push(self, task: Any) -> None:
        """Add a task to the run that goes on, or to the next one."""
        self._pushed.append(task)

    def run(self, tasks: Iterable[Any] = ()) -> Iterator[tuple[Any, Any]]:
        """Do all tasks; yields each with its result or a Failure as soon as it is there."""
        from concurrent.futures import FIRST_COMPLETED
        from concurrent.futures import wait as wait_for

        source = iter(tasks)
        while True:
            while len(self._futures) < self._in_flight:
                task = self._pushed.popleft() if self._pushed else next(source, None)
                if task is None:
                    break
                self._futures[self._executor.submit(do_remotely, self._prepare, self._arguments, task)] = task
            if not self._futures:
                return
            for future in wait_for(self._futures, return_when=FIRST_COMPLETED).done:
                task = self._futures.pop(future)
                error = future.exception()
                yield task, future.result() if error is None else Failure("TM005", f"the worker was lost: {error}")

    def close(self) -> None:
        """Cancel what has not begun. The executor stays its owner's."""
        for future in self._futures:
            future.cancel()
        self._futures.clear()
        self._pushed.clear()


_prepared: dict[int, tuple[tuple[Any, ...], Callable[[Any], Any]]] = {}


def do_remotely(prepare: Prepare, arguments: tuple[Any, ...], task: Any) -> Any:
    """Do one task in whatever process this is; `prepare` is called once for equal arguments."""
    known = _prepared.get(0)
    if known is None or known[0] != (prepare, arguments):
        known = ((prepare, arguments), prepare(*arguments))
        _prepared[0] = known
    return _attempt(known[1], task)
