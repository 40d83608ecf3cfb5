"""What `.gitignore` files leave out of a walk that does without git: the rules of git's own documentation."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from torchmigrate import git

if TYPE_CHECKING:
    import pathspec


@dataclass(frozen=True, slots=True)
class Ignored:
    """The ignore files that count in one folder, the outermost first, each with the folder it lies in.

    Those folders are relative to the working tree around the walk, if there is one; `inside` is where in that tree the
    walk began ("" or ending in `/`), and what is asked about is relative to that.
    """

    inside: str = ""
    files: tuple[tuple[str, pathspec.GitIgnoreSpec], ...] = ()

    @classmethod
    def above(cls, where: str) -> Ignored:
        """The rules that an enclosing working tree has for a folder; none if they leave that very folder out."""
        tree, home = git.toplevel(where), os.path.realpath(where)
        if tree is None or tree == home:
            return cls()
        parts = os.path.relpath(home, tree).split(os.sep)
        found = cls()
        for depth in range(len(parts)):
            found = found._with(os.path.join(tree, *parts[:depth]), "".join(part + "/" for part in parts[:depth]))
        if any(found._verdict("".join(part + "/" for part in parts[: depth + 1])) for depth in range(len(parts))):
            return cls()
        return replace(found, inside="".join(part + "/" for part in parts))

    def entering(self, folder: str, prefix: bytes) -> Ignored:
        """With the ignore file of a folder on the way; `prefix` is the folder as the walk names it."""
        return self._with(folder, self.inside + os.fsdecode(prefix))

    def ignores(self, path: bytes) -> bool:
        """Whether a file, or a folder written with a `/` at its end, is left out."""
        return self._verdict(self.inside + os.fsdecode(path))

    def _with(self, folder: str, prefix: str) -> Ignored:
        try:
            with open(os.path.join(folder, ".gitignore"), encoding="utf-8", errors="surrogateescape") as file:
                spec = compiled(line for line in file.read().splitlines() if line.strip() and line[0] != "#")
        except OSError:
            return self
        return self if spec is None else replace(self, files=(*self.files, (prefix, spec)))

    def _verdict(self, path: str) -> bool:
        for prefix, spec in reversed(self.files):
            verdict = spec.check_file(path[len(prefix) :]).include
            if verdict is not None:
                return verdict
        return False


def compiled(patterns: Iterable[str]) -> pathspec.GitIgnoreSpec | None:
    """Patterns in gitignore's language, None without any. Raises ValueError for one that is none."""
    given = list(patterns)
    if not given:
        return None
    import pathspec

    return pathspec.GitIgnoreSpec.from_lines(given)
