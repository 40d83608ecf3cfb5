"""A run over a fleet: tasks to an engine, outcomes into the work folder, as they come."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from torchmigrate.fleet import FAILED, RUN, Order, Outcome, Repository, RepositoryResult, Task
from torchmigrate.fleet.state import Work
from torchmigrate.fleet.supervise import GRACE, prepare
from torchmigrate.model import UsageError
from torchmigrate.pool import Engine, Failure, Pool, Prepare

SPARE = 60.0
"""Seconds beyond a repository's own limit after which even its supervisor is given up."""

MakeEngine = Callable[[Prepare, tuple[Any, ...]], Engine]


@dataclass(frozen=True, slots=True)
class Counts:
    """How far a run is: repositories done of those wanted, how many of them failed, and changes so far."""

    wanted: int
    done: int = 0
    failed: int = 0
    changes: int = 0


def local(order: Order, repositories: Sequence[Repository], jobs: int) -> MakeEngine:
    """An engine of so many processes of this machine, 0 for as many as there are usable processors."""
    longest = max([order.timeout, *(one.timeout or 0 for one in repositories)])
    return lambda prepare, arguments: Pool(prepare, arguments, jobs, longest + GRACE + SPARE)


def carry_out(
    work: Work,
    order: Order,
    repositories: Sequence[Repository],
    make_engine: MakeEngine,
    *,
    most_failures: int | None = None,
    shares_folder: bool = True,
    tell: Callable[[Counts], None] = lambda counts: None,
) -> Iterator[tuple[Repository, dict[str, Any]]]:
    """Do the repositories; yields each with its result, once that is kept. No more are begun after `most_failures`.

    `shares_folder` says that workers see the work folder of this process.
    """
    counts = Counts(len(repositories))
    stopping = False

    def tasks() -> Iterator[Task]:
        for repository in repositories:
            if stopping:
                return
            yield Task(repository, order, work.scratch if shares_folder else None, shares_folder and bool(order.branch))

    engine = make_engine(prepare, ())
    try:
        tell(counts)
        for task, outcome in engine.run(tasks()):
            if isinstance(outcome, Failure):
                outcome = _lost(task.repository, outcome)
            try:
                result = work.keep(task.repository, outcome)
            except OSError as error:
                said = f"cannot keep the result of {task.repository.name}: {error.strerror or error}"
                raise UsageError(f"{said}\n       run again to take up what is missing") from None
            has_failed = result["status"] == FAILED
            counts = Counts(
                counts.wanted,
                counts.done + 1,
                counts.failed + has_failed,
                counts.changes + result["totals"].get("changes", 0),
            )
            stopping = most_failures is not None and counts.failed >= most_failures
            tell(counts)
            yield task.repository, result
    finally:
        engine.close()


def _lost(repository: Repository, failure: Failure) -> Outcome:
    reason = failure.message.replace("on this file", "on this repository")
    return Outcome(RepositoryResult(repository.name, repository.shown, FAILED, RUN, reason).document())
