"""Which configuration counts for a file of a run over several projects: the nearest one, as if it had been run alone.

A configuration file in a folder below decides there which rules run, their options, the oldest torch, and which files
are included; flags of the command line win over all. What the configuration at the top leaves out stays out, and how a
run is done (processes, limits, kinds of files) is one thing for all of it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torchmigrate import config, registry
from torchmigrate.ignored import compiled
from torchmigrate.model import Override, Selection, Settings, UsageError


@dataclass(frozen=True, slots=True)
class Home:
    """What counts for the files of one configuration, as a worker needs it."""

    selection: Selection
    overrides: tuple[Override, ...] = ()
    min_torch: str | None = None


@dataclass(frozen=True, slots=True)
class _Nested:
    home: Home
    leaves_out: Callable[[str], bool]


class Homes:
    """Finds what counts for the files of a run."""

    def __init__(self, settings: Settings, known: registry.Registry[registry.Rule]) -> None:
        self._settings = settings
        self._registry = known
        self._looked_for: set[str] = set()
        self._files: dict[str, str | None] = {}
        self._nested: dict[str, _Nested | UsageError] = {}

    def rules(self, selection: Selection) -> list[registry.Rule]:
        """The rules that a run has to look for: its own, and those on by default where a folder may select others."""
        given = self._settings.given
        more = given is not None and "select" not in given and self._settings.select
        self._looked_for = {*selection.codes, *(r.code for r in self._registry.codemods if more and r.default)}
        return [rule for rule in self._registry.codemods if rule.code in self._looked_for]

    def of(self, real: str) -> Home | None:
        """What counts for a file, by its resolved path; None for the settings of the run. Raises UsageError."""
        nested = self._of(real)
        return None if nested is None else nested.home

    def leaves_out(self, real: str) -> bool:
        """Whether the nearest configuration leaves a file out. Raises UsageError."""
        nested = self._of(real)
        return nested is not None and nested.leaves_out(real)

    def file(self, real: str) -> str | None:
        """The configuration file that counts for a file, None for that of the run."""
        if self._settings.given is None:
            return None
        found = self._nearest(os.path.dirname(real))
        return None if found == self._settings.config_file else found

    def _of(self, real: str) -> _Nested | None:
        path = self.file(real)
        if path is None:
            return None
        if path not in self._nested:
            try:
                self._nested[path] = self._read(path)
            except UsageError as error:
                self._nested[path] = error
        nested = self._nested[path]
        if isinstance(nested, UsageError):
            raise nested
        return nested

    def _read(self, path: str) -> _Nested:
        settings, _ = config.settings(config.load(path), self._settings.given or {}, {})
        selection = registry.selection(self._registry, settings)
        config.check_options(settings, {rule.code: rule.options for rule in self._registry.codemods}, path)
        missed = [code for code in selection.codes if code not in self._looked_for]
        if missed:
            remedy = "select them for the whole run too, or run in that folder by itself"
            raise UsageError(f"{path}: selects {', '.join(missed)}, which are off by default; {remedy}")
        return _Nested(Home(selection, settings.overrides, settings.min_torch), _filter(settings))

    def _nearest(self, folder: str) -> str | None:
        passed: list[str] = []
        here = folder
        while here not in self._files:
            passed.append(here)
            found = config.at(here)
            above = os.path.dirname(here)
            if found is not None or above == here:
                break
            here = above
        else:
            found = self._files[here]
        self._files.update(dict.fromkeys(passed, found))
        return found


def _filter(settings: Settings) -> Callable[[str], bool]:
    """Whether the include and exclude patterns of a configuration leave out a file."""
    patterns: list[tuple[bool, Any, str]] = []
    for kept, texts, home in (
        (True, settings.include, settings.include_from),
        (False, settings.exclude, settings.exclude_from),
    ):
        spec = compiled(texts) if texts and home is not None else None
        if spec is not None and home is not None:
            patterns.append((kept, spec, home))

    def leaves_out(real: str) -> bool:
        return any(
            bool(spec.match_file(os.path.relpath(real, home).replace(os.sep, "/"))) != kept
            for kept, spec, home in patterns
        )

    return leaves_out
