"""Which project a file belongs to."""

from __future__ import annotations

import fnmatch
import hashlib
import os
import re
from collections.abc import Iterable
from typing import Self

from torchmigrate import git, plain
from torchmigrate.discover import below, shown_path
from torchmigrate.model import Settings


class Projects:
    """Finds the project of a file: the nearest folder with packaging metadata, else the git root, else the run's root.

    A requirements file makes a project only if it names torch, so that the one of a documentation folder does not hide
    the bounds of the whole. Above the run's roots only packaging metadata counts, and never in the home, temporary or
    topmost folder.
    """

    def __init__(self, roots: Iterable[str], patterns: Iterable[str] = (), home: str | None = None) -> None:
        """`patterns` are globs of folders below `home` that are projects of their own; `*` stops at `/`."""
        self._given = [os.path.realpath(root or os.curdir) for root in roots]
        self._here = os.path.realpath(os.curdir)
        self._patterns = [pattern.strip("/").split("/") for pattern in patterns]
        self._home = os.path.realpath(home or os.curdir)
        self._known: dict[str, str | None] = {}
        self._fingerprints: dict[str, bytes] = {}

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """Those of a run."""
        return cls(settings.paths, settings.projects, settings.projects_from)

    def root_of(self, path: str) -> str:
        """The root of a file's project: relative to the current folder where it lies below it, else absolute."""
        folder = os.path.realpath(os.path.dirname(path) or os.curdir)
        root = (
            self._named(folder) or self._nearest(folder) or git.toplevel(folder) or self._given_root(folder) or folder
        )
        if root == self._here:
            return os.curdir
        return shown_path(os.fsdecode(below(root, self._here)) or root)

    def fingerprint(self, root: str) -> bytes:
        """A digest of everything in a project's root that may state its bounds."""
        known = self._fingerprints.get(root)
        if known is None:
            summed = hashlib.blake2b(digest_size=16)
            for folder in (root, os.path.join(root, "requirements")):
                for name in sorted(_listed(folder)):
                    if _METADATA.fullmatch(name):
                        content = _content(os.path.join(folder, name))
                        summed.update(f"{name} {len(content)} ".encode("utf-8", "surrogatepass") + content)
            known = self._fingerprints[root] = summed.digest()
        return known

    def _given_root(self, folder: str) -> str | None:
        around = [root for root in self._given if folder == root or below(folder, root)]
        return max(around, key=len, default=None)

    def _named(self, folder: str) -> str | None:
        """The nearest folder around that a pattern names."""
        inside = os.fsdecode(below(folder, self._home)).split("/") if self._patterns else []
        for depth in range(len(inside), 0, -1):
            here = inside[:depth]
            if any(len(one) == depth and all(map(fnmatch.fnmatchcase, here, one)) for one in self._patterns):
                return os.path.join(self._home, *here)
        return None

    def _nearest(self, folder: str) -> str | None:
        passed: list[str] = []
        found: str | None = None
        here = folder
        while here not in self._known:
            passed.append(here)
            if _is_project(here, requirements=self._given_root(here) is not None):
                found = here
                break
            above = os.path.dirname(here)
            if os.path.exists(os.path.join(here, ".git")) or above == here or above in _shared_folders():
                break
            here = above
        else:
            found = self._known[here]
        self._known.update(dict.fromkeys(passed, found))
        return found


def _shared_folders() -> frozenset[str]:
    """Folders whose metadata, if any, belongs to no project below them."""
    import tempfile

    return frozenset({os.path.realpath(os.path.expanduser("~")), os.path.realpath(tempfile.gettempdir()), os.sep})


_PACKAGE_TABLE = {
    "pyproject.toml": re.compile(
        rb"^[ \t]*\[(?:project|build-system|tool\.poetry|tool\.pdm|tool\.flit)\b", re.MULTILINE
    ),
    "setup.cfg": re.compile(rb"^\[(?:metadata|options)\]", re.MULTILINE),
}
_METADATA = re.compile(r"pyproject\.toml|setup\.py|setup\.cfg|environment\.ya?ml|.*\.txt")
_NAMES_TORCH = re.compile(rb"^[ \t]*torch\b", re.MULTILINE)


def _is_project(folder: str, requirements: bool) -> bool:
    names = _listed(folder)
    if "setup.py" in names:
        return True
    for name in names:
        pattern = _PACKAGE_TABLE.get(name)
        if pattern is None and requirements and re.fullmatch(r"requirements.*\.txt", name):
            pattern = _NAMES_TORCH
        if pattern is not None and pattern.search(_content(os.path.join(folder, name))):
            return True
    return False


def _listed(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _content(path: str) -> bytes:
    try:
        return plain.read(path)
    except OSError:
        return b""
