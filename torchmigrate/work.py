"""What worker processes do: the tasks of a run as plain data, and the object in each worker that does them."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from torchmigrate import registry
from torchmigrate.discover import Batch
from torchmigrate.facts import Facts, Gathered
from torchmigrate.homes import Home
from torchmigrate.ignored import compiled
from torchmigrate.kinds import kinds_of
from torchmigrate.model import FileError, FileResult, Override, Policy, Project, Selection
from torchmigrate.scan import Found, Hit, Scanner
from torchmigrate.siblings import Setters, Siblings, WithSiblings
from torchmigrate.sieve import Sieve, Wanted

if TYPE_CHECKING:
    from torchmigrate.codemod import Codemod

PYTHON_KINDS = frozenset({"python", "notebook"})


@dataclass(frozen=True, slots=True)
class Look:
    """Task: look at one file and carry out what the policy accepts.

    Without `facts` those of the project are not known yet: the file is asked for its own.
    """

    hit: Hit
    root: str
    policy: Policy
    facts: Facts | None = None
    data: bytes | None = None
    """The content where it does not come from the file."""
    home: Home | None = None
    """What counts for the file where that is not what counts for the run."""


@dataclass(frozen=True, slots=True)
class Looked:
    """What a `Look` gave; the project comes with it the first time that a worker meets it.

    `gathered` are the file's own facts if it was asked for them, `read` the names of those on which the result hangs.
    """

    result: FileResult
    project: Project | None = None
    gathered: Gathered = ()
    read: frozenset[str] = frozenset()
    consulted: tuple[tuple[str, str], ...] = ()
    """What else the result hangs on, as `siblings` notes it."""


@dataclass(frozen=True, slots=True)
class Job:
    """What a worker has to know for a whole run, as plain data."""

    selection: Selection
    overrides: tuple[Override, ...]
    wanted: Mapping[str, tuple[Wanted, ...]]
    """What the rules look for, by kind of file."""
    max_size: int
    include_generated: bool
    min_torch: str | None

    @property
    def home(self) -> Home:
        """What counts for the files of the run."""
        return Home(self.selection, self.overrides, self.min_torch)

    def scanner(self) -> Scanner:
        return Scanner(self.wanted, self.max_size, self.include_generated)


class Worker:
    """Does the tasks of a run in a worker process: `Batch` and `Look`."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._scanner: Scanner | None = None
        self._registry: registry.Registry[type[Codemod]] | None = None
        self._projects: dict[tuple[str, str | None], Project] = {}
        self._told: set[tuple[str, str | None]] = set()
        self._sieves: dict[str, Sieve] = {}
        self._setters = Setters()
        self._home = job.home

    def __call__(self, task: Batch | Look) -> Found | Looked:
        return self._scan(task) if isinstance(task, Batch) else self._look(task)

    def _scan(self, batch: Batch) -> Found:
        if self._scanner is None:
            self._scanner = self._job.scanner()
        return self._scanner.scan(batch)

    def _look(self, task: Look) -> Looked:
        from torchmigrate import engine

        hit = task.hit
        try:
            data = _read(hit.path) if task.data is None else task.data
        except OSError as error:
            said = f"cannot read: {error.strerror or error}; not looked at"
            return Looked(FileResult(hit.path, errors=(FileError(hit.path, None, None, "TM010", said),)))
        home = task.home or self._home
        project = self._project(task.root, home.min_torch)
        codemods = self._codemods(hit, data, home)
        gathered: Gathered = ()
        read: frozenset[str] = frozenset()
        siblings = Siblings(task.root, self._setters)
        here = replace(project, facts=WithSiblings(task.facts or {}, siblings, hit.real))
        if not codemods:
            result = FileResult(hit.path, digest=engine.digest(data))
        elif task.facts is None:
            result, gathered, read = engine.process_first(hit.path, data, codemods, here, task.policy, hit.kind)
        else:
            result = engine.process(hit.path, data, codemods, here, task.policy, hit.kind)
        is_new = (task.root, home.min_torch) not in self._told
        self._told.add((task.root, home.min_torch))
        return Looked(result, project if is_new else None, gathered, read, tuple(siblings.consulted.items()))

    def _project(self, root: str, min_torch: str | None) -> Project:
        if (root, min_torch) not in self._projects:
            from torchmigrate import project

            self._projects[root, min_torch] = project.read(root, min_torch)
        return self._projects[root, min_torch]

    def _codemods(self, hit: Hit, data: bytes, home: Home) -> list[Codemod]:
        """The codemods that have something to look for in a file, with the options that hold there."""
        if self._registry is None:
            self._registry = registry.load(self._job.selection.load)
        selection = home.selection
        for override in home.overrides:
            spec = _spec(override.paths)
            inside = os.path.relpath(hit.real, override.folder).replace(os.sep, "/")
            if spec is not None and not inside.startswith("../") and spec.match_file(inside):
                selection = registry.overridden(self._registry, selection, override)
        format_ = "python" if hit.kind in PYTHON_KINDS else hit.kind
        if hit.kind not in self._sieves:
            self._sieves[hit.kind] = Sieve(self._job.wanted.get(hit.kind, ()), hit.kind)
        concerned = self._sieves[hit.kind].codes(data)
        return [
            codemod(selection.options.get(codemod.code))
            for codemod in self._registry.of(selection.codes)
            if format_ in codemod.formats and codemod.code in concerned
        ]


@functools.cache
def _spec(patterns: tuple[str, ...]) -> Any:
    return compiled(patterns)


def wanted(codemods: Iterable[registry.Rule | type[Codemod]]) -> dict[str, tuple[Wanted, ...]]:
    """What some rules look for, by kind of file."""
    found: dict[str, list[Wanted]] = {}
    for codemod in codemods:
        for kind in kinds_of(codemod.formats):
            # What a notebook hands to a shell, or writes to files, is no Python.
            is_text = kind not in PYTHON_KINDS or (kind == "notebook" and len(codemod.formats) > 1)
            triggers = (*codemod.triggers, *codemod.text_triggers) if is_text else codemod.triggers
            requires = codemod.requires if not is_text else codemod.text_requires if kind != "notebook" else {}
            found.setdefault(kind, []).append(Wanted(codemod.code, triggers, requires, codemod.awaits))
    return {kind: tuple(found[kind]) for kind in sorted(found)}


def literals(wanted: Mapping[str, Sequence[Wanted]]) -> dict[str, tuple[bytes, ...]]:
    """The bytes to look for in each kind of file."""
    return {kind: tuple(sorted({one for rule in rules for one in rule.triggers})) for kind, rules in wanted.items()}


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()
