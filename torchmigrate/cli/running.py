"""One run of a migration from the command line: results in order, progress, and Ctrl-C that loses nothing."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Self

from torchmigrate import config, registry
from torchmigrate.cli.terminal import Progress
from torchmigrate.migration import Migration
from torchmigrate.model import (
    Decision,
    FileError,
    FileResult,
    Policy,
    Project,
    ScanCounts,
    Selection,
    Settings,
    Verdict,
)

if TYPE_CHECKING:
    from torchmigrate.commits import Stages


Narrow = Callable[[Migration, Sequence[FileResult]], list[FileResult]]


@dataclass(frozen=True, slots=True)
class Ran:
    """What a run gave: the results in order of path, and what it saw. An interrupted run gave what was ready."""

    results: Sequence[FileResult]
    counts: ScanCounts
    projects: Sequence[Project]
    interrupted: bool = False
    stages: Stages = field(default_factory=dict)
    roots: Mapping[str, str] = field(default_factory=dict)


def select(settings: Settings, source: str = "configuration") -> Selection:
    """The rules that the settings pick, with options that exist. Raises UsageError."""
    known = registry.rules(settings.load, settings.cache)
    chosen = registry.selection(known, settings)
    config.check_options(settings, {rule.code: rule.options for rule in known.codemods}, source)
    return chosen


def run_all(
    settings: Settings, policy: Policy, *, quiet: bool, stages: bool = False, narrow: Narrow | None = None
) -> Ran:
    """Run over all files of the settings; with `stages` also say what each rule by itself adds.

    `narrow` may take less than the policy does. Raises UsageError.
    """
    progress = Progress(quiet=quiet)

    def tell(counts: ScanCounts, waiting: int) -> None:
        progress.update(counts.seen, counts.looked_at - waiting, counts.looked_at)

    results: list[FileResult] = []
    interrupted = False
    with Migration(settings, select(settings), policy, progress=tell) as migration:
        try:
            for result in migration.run():
                results.append(result)  # noqa: PERF402 (what is there at Ctrl-C is kept)
        except KeyboardInterrupt:
            interrupted = True
        finally:
            progress.clear()
        results += (FileResult(error.path, errors=(error,)) for error in _once(migration.errors))
        results.sort(key=lambda result: result.path)
        if settings.max_changes is not None and not interrupted:
            results = _capped(migration, results, policy, settings.max_changes)
        if narrow and not interrupted:
            results = narrow(migration, results)
        by_code = _stages(migration, results, policy) if stages and not interrupted else {}
        roots = {result.path: migration.root_of(result.path) for result in results}
        return Ran(results, migration.counts, list(migration.projects.values()), interrupted, by_code, roots)


def _stages(migration: Migration, results: Sequence[FileResult], policy: Policy) -> Stages:
    """The contents on the way of files that several rules change, rule after rule."""
    from torchmigrate import commits

    found: dict[str, list[tuple[str, bytes]]] = {}
    for result in results:
        codes = commits.codes_of(result) if result.after is not None else []
        if len(codes) < 2 or result.after is None:
            continue
        steps: list[tuple[str, bytes]] = []
        for number, code in enumerate(codes[:-1], 1):
            kept = set(commits.keys_of(result, codes[:number]))
            left = (f.decision_key for f in result.findings if f.decision_key not in kept)
            declined = dict.fromkeys(left, Decision(Verdict.DECLINE))
            partial = migration.process_one(result.path, replace(policy, decisions={**policy.decisions, **declined}))
            if partial.after is not None and partial.before == result.before:
                steps.append((code, partial.after))
        found[result.path] = [*steps, (codes[-1], result.after)]
    return found


def _once(errors: Sequence[FileError]) -> list[FileError]:
    return list(dict.fromkeys(errors))


def _capped(migration: Migration, results: Sequence[FileResult], policy: Policy, most: int) -> list[FileResult]:
    """The results with only the first changes taken, in order of path and position."""
    kept: list[FileResult] = []
    left = most
    for result in results:
        keys = list(dict.fromkeys(f.decision_key for f in result.findings if f.key in result.accepted))
        if len(keys) > left:
            declined = dict.fromkeys(keys[left:], Decision(Verdict.DECLINE))
            result = migration.process_one(result.path, replace(policy, decisions={**policy.decisions, **declined}))
            keys = keys[:left]
        left -= len(keys)
        kept.append(result)
    return kept


class Stop:
    """While files are written, Ctrl-C is kept for the moment between two of them; the second one ends at once."""

    def __init__(self) -> None:
        self._asked = False

    def __call__(self) -> bool:
        return self._asked

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self._asked:
            raise KeyboardInterrupt
        self._asked = True

    def __enter__(self) -> Self:
        self._before = signal.signal(signal.SIGINT, self._ask)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        signal.signal(signal.SIGINT, self._before)
