"""A whole run: discover, find triggers, look at each candidate. Results stream as files finish.

    with Migration(settings, selection, policy) as migration:
        for result in migration.run():
            ...

Every candidate is looked at in a worker process, so that no file can take the run down or hold it up. It gives its
facts at the same time; only a file that asks for facts which other files of its project have is looked at again.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Self

from torchmigrate import registry
from torchmigrate.discover import BATCH, Batch, Discovery, shown_path
from torchmigrate.facts import Facts, hangs_on, merged
from torchmigrate.homes import Homes
from torchmigrate.kinds import kind_of, kinds_of
from torchmigrate.memory import Memory
from torchmigrate.model import LOOK, FileError, FileResult, Policy, Project, ScanCounts, Selection, Settings, UsageError
from torchmigrate.narrow import Narrow
from torchmigrate.pool import Engine, Failure, Pool, Prepare
from torchmigrate.roots import Projects
from torchmigrate.scan import Found, Hit
from torchmigrate.sieve import AT_ONCE
from torchmigrate.versions import release
from torchmigrate.work import Job, Look, Looked, Worker, wanted

if TYPE_CHECKING:
    from types import TracebackType

_NO_FACTS: Facts = {}
SMALL = 2048
"""Up to this many files are scanned by the calling process; starting workers would take longer."""


class Migration:
    """One run over the paths of the settings with the codemods of a selection.

    `errors` are those that belong to no single file (folders that cannot be listed, plugins); `projects` are the
    projects met so far, by root. `progress` is called now and then with the counts so far and the number of candidates
    that wait. `engine` makes what does the work, where that is not to be processes of this machine.
    """

    def __init__(
        self,
        settings: Settings,
        selection: Selection | None = None,
        policy: Policy = LOOK,
        *,
        progress: Callable[[ScanCounts, int], None] | None = None,
        engine: Callable[[Prepare, tuple[Any, ...]], Engine] | None = None,
    ) -> None:
        """Raises UsageError when the selection cannot be made."""
        known = registry.rules(selection.load if selection else settings.load, settings.cache)
        self.settings = settings
        self.selection = selection or registry.selection(known, settings)
        self.policy = policy
        self.errors: list[FileError] = list(known.errors)
        self.projects: dict[str, Project] = {}
        self._homes = Homes(settings, known)
        rules = self._homes.rules(self.selection)
        self._gathers = any(rule.gathers for rule in rules)
        self._job = Job(
            self.selection,
            settings.overrides,
            wanted(rules),
            settings.max_size,
            settings.include_generated,
            settings.min_torch,
        )
        self._progress = progress
        self._engine: Engine = (
            engine(Worker, (self._job,)) if engine else Pool(Worker, (self._job,), settings.jobs, settings.timeout)
        )
        self._side: Pool | None = None
        self._roots = Projects.of(settings)
        self._wanted = Narrow(settings, self._roots) if settings.only_projects or settings.only_owners else None
        self._unusable: set[str] = set()
        self._memory = Memory(settings, self._job, {rule.module for rule in rules}, self._roots)
        self._admission = _Admission(settings.paths)
        self._facts: dict[str, Facts] = {}
        self._first: list[tuple[Look, Looked]] = []
        self._later: list[Hit] = []
        self._generated: list[str] = []
        self._notes: list[str] = []
        self._seen = self._looked_at = self._waiting = self._unread = 0
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
        return ScanCounts(self._seen, self._looked_at, seconds, tuple(self._notes), self._unread)

    def run(self) -> Iterator[FileResult]:
        """Results of all files that have findings, errors or changes, as they finish. To be called once.

        Raises UsageError.
        """
        discovery = Discovery(self.settings, kinds_of(self._job.wanted))
        batches = discovery.batches()
        first = list(islice(batches, SMALL // BATCH + 1))
        if len(first) <= SMALL // BATCH:
            scanner = self._job.scanner()
            for batch in first:
                yield from self._take(batch, scanner.scan(batch))
            if self._waiting:
                self._warm()
            yield from self._drive(())
        else:
            yield from self._drive(self._memory.recall(batch) for batch in chain(first, batches))
        yield from self._receive(self._admission.of_links())
        yield from self._drive(())
        yield from self._admit(self._awaited())
        yield from self._drive(())
        yield from self._with_facts()
        yield from self._drive(())
        self.errors += discovery.errors
        self._notes += discovery.notes
        self._notes += _left_out(self._generated, self._admission.outside)
        self._seconds = time.monotonic() - self._began
        self._memory.save()

    def root_of(self, path: str) -> str:
        """The root of a file's project."""
        return self._roots.root_of(path) or os.curdir

    def process_one(self, path: str, policy: Policy) -> FileResult:
        """Look at one file again under another policy, with the facts of the run before."""
        return self._process(path, policy, None)

    def process_bytes(self, path: str, data: bytes, policy: Policy) -> FileResult:
        """Look at a content as if it were that of a file, which need not be there."""
        self._seen, self._looked_at = self._seen + 1, self._looked_at + 1
        return self._process(path, policy, data)

    def _process(self, path: str, policy: Policy, data: bytes | None) -> FileResult:
        shown = shown_path(path)
        hit = Hit(shown, os.path.realpath(path), kind_of(os.path.basename(path)) or "python", 0, "")
        root = self._roots.root_of(shown)
        home = self._homes.of(hit.real)
        if self._side is None:
            self._side = Pool(Worker, (self._job,), 1, self.settings.timeout)
        look = Look(hit, root, policy, self._facts_of(root), data, home)
        outcomes = [outcome for _, outcome in self._side.run([look])]
        return self._result(look, outcomes[0])

    def _warm(self) -> None:
        """Import what workers need once, where they are forked from this process."""
        if sys.platform == "linux" and isinstance(self._engine, Pool):
            from torchmigrate import engine  # noqa: F401 (forked workers find it imported)

            registry.load(self.selection.load)

    def _drive(self, tasks: Iterable[Any]) -> Iterator[FileResult]:
        for task, outcome in self._engine.run(tasks):
            yield from self._take(task, outcome)
            if self._progress:
                self._progress(self.counts, self._waiting)

    def _take(self, task: Batch | Look, outcome: Any) -> Iterator[FileResult]:
        """What one task gave: results, and more tasks for the engine."""
        if isinstance(task, Batch):
            yield from self._scanned(task, outcome)
            return
        if isinstance(outcome, Looked):
            self._meet(task, outcome)
            self._memory.keep_look(task, outcome)
            if outcome.read:
                self._first.append((task, outcome))
            elif outcome.gathered:
                self._first.append((task, Looked(FileResult(task.hit.path), gathered=outcome.gathered)))
            if outcome.read:  # final only with the facts of all files
                return
        yield from self._final(task, outcome)

    def _final(self, task: Look, outcome: Looked | Failure) -> Iterator[FileResult]:
        self._waiting -= 1
        result = self._result(task, outcome)
        if result.findings or result.errors or result.after is not None:
            yield result

    def _scanned(self, batch: Batch, outcome: Found | Failure) -> Iterator[FileResult]:
        if isinstance(outcome, Failure):
            yield from self._narrow(batch, outcome)
            return
        found = self._memory.settle(batch, outcome)
        self._seen += len(batch.names)
        self._generated.extend(found.generated)
        self._unread += len(found.errors)
        yield from (FileResult(error.path, errors=(error,)) for error in found.errors)
        yield from self._receive(self._admission.of(found.hits))

    def _narrow(self, batch: Batch, failure: Failure) -> Iterator[FileResult]:
        """Look at a batch in halves after its scan was lost, until the one file is known."""
        names = batch.names
        if len(names) > 1:
            for half in (names[: len(names) // 2], names[len(names) // 2 :]):
                self._engine.push(replace(batch, names=half))
            return
        self._seen += 1
        path = next(batch.paths())
        yield FileResult(path, errors=(FileError(path, None, None, failure.code, failure.message),))

    def _receive(self, hits: Iterable[Hit]) -> Iterator[FileResult]:
        """Have candidates looked at, but put off those that may turn out to be none."""
        for hit in hits:
            if hit.awaits:
                self._later.append(hit)
            else:
                yield from self._admit((hit,))

    def _admit(self, hits: Iterable[Hit]) -> Iterator[FileResult]:
        """Have candidates looked at; what an earlier run knows is there at once."""
        for hit in hits:
            root = self._roots.root_of(hit.path)
            if self._wanted and not self._wanted.allows(hit.path, root):
                continue
            try:
                home = self._homes.of(hit.real)
                if self._homes.leaves_out(hit.real):
                    continue
            except UsageError as error:
                yield from self._without_home(hit, error)
                continue
            self._looked_at += 1
            self._waiting += 1
            yield from self._give(Look(hit, root, self.policy, None if self._gathers else _NO_FACTS, None, home))

    def _awaited(self) -> Iterator[Hit]:
        """The candidates whose project has turned out to have one of the facts that they wait for."""
        wanted = frozenset().union(*(hit.awaits for hit in self._later))
        facts: dict[str, set[str]] = {}
        for task, looked in self._first:
            for name in wanted.intersection(name for name, _ in looked.gathered):
                facts.setdefault(task.root, set()).add(name)
        if not facts:
            return iter(())
        return (hit for hit in self._later if facts.get(self._roots.root_of(hit.path), AT_ONCE) & hit.awaits)

    def _without_home(self, hit: Hit, error: UsageError) -> Iterator[FileResult]:
        """A candidate below a configuration that cannot be used: told once for all of them, at the configuration."""
        file = self._homes.file(hit.real) or hit.real
        path = shown_path(os.path.relpath(file)) if file.startswith(os.path.realpath(os.curdir) + os.sep) else file
        if file not in self._unusable:
            self._unusable.add(file)
            said = f"{str(error).removeprefix(f'{file}: ')}; the files that it counts for were not looked at"
            yield FileResult(path, errors=(FileError(path, None, None, "TM012", said),))

    def _give(self, task: Look) -> Iterator[FileResult]:
        known = self._memory.look(task)
        if known is None:
            self._engine.push(task)
        else:
            yield from self._take(task, known)

    def _facts_of(self, root: str) -> Facts:
        """The facts of a project, as far as they are known yet."""
        if root in self._facts:
            return self._facts[root]
        first = sorted(self._first, key=lambda one: one[0].hit.path)
        return merged(pair for task, looked in first if task.root == root for pair in looked.gathered)

    def _with_facts(self) -> Iterator[FileResult]:
        """The end of a run with facts: what asked for facts of its project gets those that all of its files gave."""
        self._first.sort(key=lambda one: one[0].hit.path)
        pairs: dict[str, list[tuple[str, object]]] = {}
        for task, looked in self._first:
            pairs.setdefault(task.root, []).extend(looked.gathered)
        self._facts.update((root, merged(found)) for root, found in pairs.items())
        for task, looked in sorted(self._first, key=lambda one: -one[0].hit.size):
            facts = self._facts[task.root]
            if hangs_on(looked.read, looked.gathered, facts):
                yield from self._give(replace(task, facts=facts))
            elif looked.read:
                yield from self._final(task, looked)

    def _result(self, task: Look, outcome: Looked | Failure) -> FileResult:
        if isinstance(outcome, Failure):
            return FileResult(task.hit.path, errors=(_failed(task.hit, outcome),), digest=task.hit.digest)
        self._meet(task, outcome)
        return outcome.result

    def _meet(self, task: Look, outcome: Looked) -> None:
        """Note the project that came with an outcome; of several readings of one, that with the oldest torch."""
        if outcome.project is not None:
            known = self.projects.get(task.root, outcome.project)
            self.projects[task.root] = min(known, outcome.project, key=_oldest_first)


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
            elif hit.linked and not hit.named:
                self._links.append(hit)
            elif hit.real not in self._taken:
                self._taken.add(hit.real)
                yield hit

    def of_links(self) -> Iterator[Hit]:
        """Files that only a link leads to; asked for at the end."""
        for hit in sorted(self._links, key=lambda hit: hit.path):
            if hit.real not in self._taken:
                self._taken.add(hit.real)
                yield hit


def _oldest_first(project: Project) -> tuple[tuple[int, ...], str]:
    return release(project.torch_min), project.torch_min_source


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
