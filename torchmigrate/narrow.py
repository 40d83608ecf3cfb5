"""The part of a run that was asked for: files of some projects, or of some owners."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterable

from torchmigrate.config import near
from torchmigrate.discover import shown_path
from torchmigrate.model import Settings, UsageError
from torchmigrate.owners import Ownership
from torchmigrate.roots import Projects

UNOWNED = "unowned"
"""Stands in --owner for files that nobody owns."""


class Narrow:
    """Says which files --project and --owner leave. Raises UsageError for a project or an owner that is not there."""

    def __init__(self, settings: Settings, roots: Projects) -> None:
        self._projects = tuple(_project(one, roots) for one in settings.only_projects)
        self._owners = frozenset(one.casefold() for one in settings.only_owners)
        self._ownership = Ownership()
        if self._owners:
            _known_owners(settings, self._ownership)

    def allows(self, path: str, root: str) -> bool:
        """Whether a file of the project at `root` is wanted."""
        if self._projects and not any(fnmatch.fnmatchcase(root or os.curdir, one) for one in self._projects):
            return False
        if not self._owners:
            return True
        owners: Iterable[str] = self._ownership.of(path) or (UNOWNED,)
        return any(owner.casefold() in self._owners for owner in owners)


def _project(name: str, roots: Projects) -> str:
    shown = shown_path(name) or os.curdir
    if any(c in shown for c in "*?["):
        return shown
    if not os.path.isdir(name):
        raise UsageError(f"--project {name}: no such folder")
    root = roots.root_of(os.path.join(name, "file")) or os.curdir
    if root != shown and os.path.realpath(root) != os.path.realpath(name):
        raise UsageError(f"--project {name}: not a project of its own; the project around it is {root}")
    return root.replace("[", "[[]")


def _known_owners(settings: Settings, ownership: Ownership) -> None:
    names = {name for path in settings.paths for name in ownership.names(path)}
    folded = {name.casefold() for name in names} | {UNOWNED}
    for owner in settings.only_owners:
        if owner.casefold() not in folded:
            said = near(owner, sorted(names)) if names else "; there is no CODEOWNERS file"
            raise UsageError(f"--owner {owner}: nobody of that name owns anything here{said}")
