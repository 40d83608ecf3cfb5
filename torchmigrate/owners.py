"""Who owns a file, by the CODEOWNERS file of its repository: the last pattern that matches wins."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchmigrate import git, plain

if TYPE_CHECKING:
    import pathspec

PLACES = (".github/CODEOWNERS", "CODEOWNERS", "docs/CODEOWNERS", ".gitlab/CODEOWNERS")
"""Where forges look, in their order; the first file that exists counts."""

_SECTION = re.compile(r"^\^?\[[^\]]+\](?:\[\d+\])?\s*(?P<owners>.*)$")
_COMMENT = re.compile(r"(?:^|\s)#.*$")


@dataclass(frozen=True, slots=True)
class Owners:
    """The rules of one CODEOWNERS file, in its order. Without a file nobody owns anything."""

    rules: tuple[tuple[pathspec.GitIgnoreSpec, tuple[str, ...]], ...] = ()

    def of(self, path: str) -> tuple[str, ...]:
        """The owners of a file, named relative to the repository with `/`; empty for a file that nobody owns."""
        for spec, owners in reversed(self.rules):
            if spec.match_file(path):
                return owners
        return ()

    @property
    def names(self) -> frozenset[str]:
        """Everybody who is named."""
        return frozenset(owner for _, owners in self.rules for owner in owners)


def read(top: str) -> Owners:
    """The owners that a repository names; lines that are no pattern are passed over, as forges do."""
    for place in PLACES:
        try:
            return parse(plain.read(os.path.join(top, place)).decode("utf-8", "replace").splitlines())
        except OSError:
            continue
    return Owners()


def parse(lines: Iterable[str]) -> Owners:
    """Read the lines of a CODEOWNERS file, with GitLab's sections, whose owners hold for patterns without any."""
    import pathspec

    rules: list[tuple[pathspec.GitIgnoreSpec, tuple[str, ...]]] = []
    default: tuple[str, ...] = ()
    for raw in lines:
        line = _COMMENT.sub("", raw.replace("\\#", "\0")).replace("\0", "\\#").strip()
        if not line:
            continue
        section = _SECTION.match(line)
        if section:
            default = tuple(section["owners"].split())
            continue
        pattern, *owners = _words(line)
        if pattern.startswith("!"):
            continue
        try:
            rules.append((pathspec.GitIgnoreSpec.from_lines([pattern]), tuple(owners) or default))
        except ValueError:
            continue
    return Owners(tuple(rules))


def _words(line: str) -> list[str]:
    """Split at blanks that no backslash precedes."""
    return [word.replace("\\ ", " ") for word in re.split(r"(?<!\\)\s+", line) if word]


class Ownership:
    """Who owns the files of a run, in whichever working trees they lie; elsewhere the current folder's file counts.

    Links are not resolved: a file belongs to the owners of the name under which it is seen.
    """

    def __init__(self) -> None:
        self._by_top: dict[str, Owners] = {}
        self._tops: dict[str, str] = {}
        self._known: dict[str, tuple[str, ...]] = {}

    def of(self, path: str) -> tuple[str, ...]:
        """The owners of a file, named relative to the current folder or absolute."""
        if path not in self._known:
            folder = os.path.realpath(os.path.dirname(path) or os.curdir)
            if folder not in self._tops:
                self._tops[folder] = git.toplevel(folder) or os.path.realpath(os.curdir)
            top = self._tops[folder]
            name = os.path.relpath(os.path.join(folder, os.path.basename(path)), top).replace(os.sep, "/")
            self._known[path] = self._owners(top).of(name)
        return self._known[path]

    def names(self, path: str) -> frozenset[str]:
        """Every owner that the file for the tree of a path names."""
        return self._owners(git.toplevel(path) or os.path.realpath(os.curdir)).names

    def _owners(self, top: str) -> Owners:
        if top not in self._by_top:
            self._by_top[top] = read(top)
        return self._by_top[top]
