"""A whole run: discover, find triggers, gather facts, look at each candidate. Results stream as files finish.

    with Migration(settings, selection, policy) as migration:
        for result in migration.run():
            ...

Every candidate is looked at in a worker process, so that no file can take the run down or hold it up.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Self

from torchmigrate import registry
from torchmigrate.codemod import Codemod
from torchmigrate.discover import BATCH, Batch, Discovery, kind_of, kinds_of, shown_path
from torchmigrate.ignored import compiled
from torchmigrate.model import LOOK, FileError, FileResult, Policy, Project, ScanCounts, Selection, Settings
from torchmigrate.pool import Engine, Failure, Pool
from torchmigrate.roots import Projects
from torchmigrate.scan import Found, Hit, Scanner

if TYPE_CHECKING:
    from types import TracebackType

SMALL = 2048
"""Up to this many files are scanned by the calling process; starting workers would take longer."""

PYTHON_KINDS = frozenset({"python", "notebook"})
Facts = Mapping[str, tuple[object, ...]]


@dataclass(frozen=True, slots=True)
class Gather:
    """Task: the facts of one file."""

    hit: Hit
    root: str


@dataclass(frozen=True, slots=True)
class Look:
    """Task: look at one file and carry out what the policy accepts."""

    hit: Hit
    root: str
    policy: Policy
    facts: Facts = field(default_factory=dict)
    data: bytes | None = None
    """The content where it does not come from the file."""


@dataclass(frozen=True, slots=True)
class Looked:
    """What a `Look` gave; the project comes with it the first time that a worker meets it."""

    result: FileResult
    project: Project | None = None


class Migration:
    """One run over the paths of the settings with the codemods of a selection.

    `errors` are those that belong to no single file (folders that cannot be listed, plugins); `projects` are the
    projects met so far, by root. `progress` is called now and then with the counts so far and the number of candidates
    that wait. `engine` does the work elsewhere than in processes of this machine.
    """

    def __init__(
        self,
        settings: Settings,
        selection: Selection | None = None,
        policy: Policy = LOOK,
        *,
        progress: Callable[[ScanCounts, int], None] | None = None,
        engine: Callable[[Callable[..., Any], tuple[Any, ...]], Engine] | None = None,
    ) -> None:
        """Raises UsageError when the selection cannot be made."""
        known = registry.load(selection.load if selection else settings.load)
        self.settings = settings
        self.selection = selection or registry.selection(known, settings)
        self.policy = policy
        self.errors: list[FileError] = list(known.errors)
        self.projects: dict[str, Project] = {}
        self._codemods = known.of(self.selection.codes)
        self._job = Job(
            self.selection,
            settings.overrides,
            literals(self._codemods),
            settings.max_size,
            settings.include_generated,
            settings.min_torch,
        )
        self._progress = progress
        self._engine: Engine = (
            engine(Worker, (self._job,)) if engine else Pool(Worker, (self._job,), settings.jobs, settings.timeout)
        )
        self._side: Pool | None = None
        self._roots = Projects(settings.paths)
        self._facts: dict[str, Facts] = {}
        self._seen = self._looked_at = self._waiting = 0
        self._notes: list[str] = []
        self._began = time.monotonic()
        self._seconds: float | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End all workers."""
        self._engine.close()
        if self._side:
            self._side.close()

    @property
    def counts(self) -> ScanCounts:
        """What the run has seen so far, or in all once it has ended."""
        seconds = time.monotonic() - self._began if self._seconds is None else self._seconds
        return ScanCounts(self._seen, self._looked_at, seconds, tuple(self._notes))

    def run(self) -> Iterator[FileResult]:
        """Results of all files that have findings, errors or changes, as they finish. Raises UsageError."""
        self._began, self._seconds = time.monotonic(), None
        discovery = Discovery(self.settings, kinds_of(self._job.literals))
        admitted = _Admission(self.settings.paths)
        gathers = any(codemod.gathers for codemod in self._codemods)
        gathered: list[tuple[Hit, str, tuple[tuple[str, object], ...]]] = []
        generated: list[str] = []

        def candidates(hits: Iterable[Hit]) -> None:
            for hit in hits:
                root = self._roots.root_of(hit.path)
                self._waiting += 1
                self._looked_at += 1
                self._engine.push(Gather(hit, root) if gathers else Look(hit, root, self.policy))

        def take(task: Any, outcome: Any) -> Iterator[FileResult]:
            if isinstance(task, Batch):
                if isinstance(outcome, Failure):
                    yield from self._retry(task, outcome)
                    return
                self._seen += len(task.names)
                generated.extend(outcome.generated)
                candidates(admitted.of(outcome.hits))
                yield from (FileResult(error.path, errors=(error,)) for error in outcome.errors)
            elif isinstance(task, Gather) and not isinstance(outcome, Failure):
                gathered.append((task.hit, task.root, outcome))
            else:
                self._waiting -= 1
                yield from self._finished(task, outcome)

        batches = discovery.batches()
        first = list(islice(batches, SMALL // BATCH + 1))
        if len(first) <= SMALL // BATCH:
            scanner = Scanner(self._job.literals, self._job.max_size, self._job.include_generated)
            for batch in first:
                yield from take(batch, scanner.scan(batch))
            rest: Iterator[Batch] = iter(())
        else:
            rest = chain(first, batches)
        yield from self._drive(rest, take)
        candidates(admitted.of_links())
        yield from self._drive((), take)
        if gathers:
            yield from self._drive(self._looks(gathered), take)
        self.errors += discovery.errors
        self._notes += discovery.notes
        self._notes += _left_out(generated, admitted.outside)
        self._seconds = time.monotonic() - self._began

    def process_one(self, path: str, policy: Policy) -> FileResult:
        """Look at one file again under another policy, with the facts of the run before; nothing is cached."""
        return self._process(path, policy, None)

    def process_bytes(self, path: str, data: bytes, policy: Policy) -> FileResult:
        """Look at a content as if it were that of a file, which need not be there."""
        self._seen, self._looked_at = self._seen + 1, self._looked_at + 1
        return self._process(path, policy, data)

    def _process(self, path: str, policy: Policy, data: bytes | None) -> FileResult:
        shown = shown_path(path)
        hit = Hit(shown, os.path.realpath(path), kind_of(os.path.basename(path)) or "python", 0, "")
        root = self._roots.root_of(shown)
        if self._side is None:
            self._side = Pool(Worker, (self._job,), 1, self.settings.timeout)
        look = Look(hit, root, policy, self._facts.get(root, {}), data)
        outcomes = [outcome for _, outcome in self._side.run([look])]
        return self._result(look, outcomes[0])

    def _drive(self, tasks: Iterable[Any], take: Callable[[Any, Any], Iterator[FileResult]]) -> Iterator[FileResult]:
        for task, outcome in self._engine.run(tasks):
            yield from take(task, outcome)
            if self._progress:
                self._progress(self.counts, self._waiting)

    def _looks(self, gathered: list[tuple[Hit, str, tuple[tuple[str, object], ...]]]) -> Iterator[Look]:
        """The second half of a run with facts: each file of a project gets what all of its files gave."""
        gathered.sort(key=lambda one: one[0].path)
        merged: dict[str, dict[str, tuple[object, ...]]] = {}
        for _, root, facts in gathered:
            table = merged.setdefault(root, {})
            for name, value in facts:
                table[name] = (*table.get(name, ()), value)
        self._facts.update(merged)
        for hit, root, _ in sorted(gathered, key=lambda one: -one[0].size):
            yield Look(hit, root, self.policy, self._facts[root])

    def _finished(self, task: Gather | Look, outcome: Looked | Failure) -> Iterator[FileResult]:
        result = self._result(task, outcome)
        if result.findings or result.errors or result.after is not None:
            yield result

    def _result(self, task: Gather | Look, outcome: Looked | Failure) -> FileResult:
        if isinstance(outcome, Failure):
            return FileResult(task.hit.path, errors=(_failed(task.hit, outcome),), digest=task.hit.digest)
        if outcome.project is not None:
            self.projects.setdefault(task.root, outcome.project)
        return outcome.result

    def _retry(self, batch: Batch, failure: Failure) -> Iterator[FileResult]:
        """Look at a batch in halves after its scan was lost, until the one file is known."""
        names = batch.names
        if len(names) > 1:
            for half in (names[: len(names) // 2], names[len(names) // 2 :]):
                self._engine.push(replace(batch, names=half))
            return
        self._seen += 1
        path = next(batch.paths())
        yield FileResult(path, errors=(FileError(path, None, None, failure.code, failure.message),))


class _Admission:
    """Lets each file in once: by its resolved path, inside the roots, itself rather than a link to it."""

    def __init__(self, paths: Sequence[str]) -> None:
        homes = (os.path.realpath(path) for path in paths)
        self._homes = tuple(home if home.endswith(os.sep) else home + os.sep for home in homes)
        self._taken: set[str] = set()
        self._links: list[Hit] = []
        self.outside: list[str] = []

    def of(self, hits: Iterable[Hit]) -> Iterator[Hit]:
        for hit in hits:
            if not hit.named and not hit.real.startswith(self._homes):
                self.outside.append(hit.path)
            elif hit.real in self._taken:
                continue
            elif hit.linked and not hit.named:
                self._links.append(hit)
            else:
                self._taken.add(hit.real)
                yield hit

    def of_links(self) -> Iterator[Hit]:
        """Files that only a link leads to; asked for at the end."""
        links, self._links = sorted(self._links, key=lambda hit: hit.path), []
        for hit in links:
            if hit.real not in self._taken:
                self._taken.add(hit.real)
                yield hit


@dataclass(frozen=True, slots=True)
class Job:
    """What a worker has to know for a whole run, as plain data."""

    selection: Selection
    overrides: tuple[Any, ...]
    literals: Mapping[str, tuple[bytes, ...]]
    max_size: int
    include_generated: bool
    min_torch: str | None


class Worker:
    """Does the tasks of a run in a worker process: `Batch`, `Gather` and `Look`."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._scanner: Scanner | None = None
        self._registry: registry.Registry | None = None
        self._projects: dict[str, Project] = {}
        self._patterns = [compiled(override.paths) for override in job.overrides]

    def __call__(self, task: Batch | Gather | Look) -> Found | tuple[tuple[str, object], ...] | Looked:
        if isinstance(task, Batch):
            return self._scan(task)
        return self._gather(task) if isinstance(task, Gather) else self._look(task)

    def _scan(self, batch: Batch) -> Found:
        if self._scanner is None:
            self._scanner = Scanner(self._job.literals, self._job.max_size, self._job.include_generated)
        return self._scanner.scan(batch)

    def _gather(self, task: Gather) -> tuple[tuple[str, object], ...]:
        from torchmigrate import engine

        try:
            data = _read(task.hit.path)
        except OSError:
            return ()
        codemods = [one for one in self._codemods(task.hit, data) if one.gathers]
        if not codemods:
            return ()
        return engine.gather(task.hit.path, data, codemods, self._project(task.root)[0], task.hit.kind)

    def _look(self, task: Look) -> Looked:
        from torchmigrate import engine

        hit = task.hit
        try:
            data = _read(hit.path) if task.data is None else task.data
        except OSError as error:
            said = f"cannot read: {error.strerror or error}; not looked at"
            return Looked(FileResult(hit.path, errors=(FileError(hit.path, None, None, "TM010", said),)))
        project, is_new = self._project(task.root)
        here = replace(project, facts=task.facts) if task.facts else project
        result = engine.process(hit.path, data, self._codemods(hit, data), here, task.policy, hit.kind)
        return Looked(result, project if is_new else None)

    def _project(self, root: str) -> tuple[Project, bool]:
        known = self._projects.get(root)
        if known is not None:
            return known, False
        from torchmigrate import project

        found = self._projects[root] = project.read(root, self._job.min_torch)
        return found, True

    def _codemods(self, hit: Hit, data: bytes) -> list[Codemod]:
        """The codemods that have something to look for in a file, with the options that hold there."""
        if self._registry is None:
            self._registry = registry.load(self._job.selection.load)
        selection = self._job.selection
        for override, spec in zip(self._job.overrides, self._patterns, strict=True):
            inside = os.path.relpath(hit.real, override.folder).replace(os.sep, "/")
            if spec is not None and not inside.startswith("../") and spec.match_file(inside):
                selection = registry.overridden(self._registry, selection, override)
        format_ = "python" if hit.kind in PYTHON_KINDS else hit.kind
        return [
            codemod(selection.options.get(codemod.code))
            for codemod in self._registry.of(selection.codes)
            if format_ in codemod.formats
            and (any(one in data for one in codemod.triggers) or codemod.code.encode() in data)
        ]


def literals(codemods: Iterable[type[Codemod]]) -> dict[str, tuple[bytes, ...]]:
    """The triggers to look for in each kind of file."""
    found: dict[str, set[bytes]] = {}
    for codemod in codemods:
        for kind in kinds_of(codemod.formats):
            found.setdefault(kind, set()).update(codemod.triggers)
    return {kind: tuple(sorted(found[kind])) for kind in sorted(found)}


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _failed(hit: Hit, failure: Failure) -> FileError:
    message = failure.message
    if failure.code == "TM004":
        message += f" ({hit.size / 1e6:.1f} MB); raise --timeout or exclude it"
    elif failure.code == "TM005":
        message += "; left as it was"
    return FileError(hit.path, None, None, failure.code, message)


def _left_out(generated: Sequence[str], outside: Sequence[str]) -> Iterator[str]:
    if generated:
        files = "1 generated file" if len(generated) == 1 else f"{len(generated)} generated files"
        yield f"{files} left out: {_some(generated)} (add --include-generated)"
    if outside:
        links = "1 link" if len(outside) == 1 else f"{len(outside)} links"
        yield f"{links} out of the given folders not followed: {_some(outside)}"


def _some(paths: Sequence[str]) -> str:
    return ", ".join(sorted(paths)[:3]) + (", ..." if len(paths) > 3 else "")
