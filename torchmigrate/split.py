"""Divides the changes of a run into patches that people review apart: by rule, by owner, by folder. Reads no file."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torchmigrate import commits
from torchmigrate.model import FileResult
from torchmigrate.runs import Edit

_FOLDERS = re.compile(r"dir:([1-9]\d*)")
_UNFIT = re.compile(r"[^\w.+-]+")
KINDS = "codemod, owner or dir:N"


@dataclass(frozen=True, slots=True)
class Part:
    """One patch file: its name, and the edits in it. Each part applies on top of the ones before it.

    `code` is the rule that makes all changes of the part, where that is one.
    """

    file: str
    edits: tuple[Edit, ...]
    code: str = ""


def check(kind: str) -> str:
    """The kind of split, if there is such a one. Raises ValueError."""
    if kind not in ("codemod", "owner") and not _FOLDERS.fullmatch(kind):
        raise ValueError(f"{kind} is not {KINDS} (N folders deep)")
    return kind


def parts(
    kind: str,
    changed: Sequence[FileResult],
    stages: commits.Stages,
    owners_of: Callable[[str], tuple[str, ...]],
    name_of: Callable[[str], str],
) -> list[Part]:
    """The patches to write. `stages` are needed for "codemod"; `name_of` gives a file's name in the patch."""
    if kind == "codemod":
        found = []
        for number, part in enumerate(commits.split("per-codemod", changed, stages, str, owners_of), 1):
            code, _, name = part.label.partition(" ")
            found.append(Part(f"{number:04}-{code}-{_fit(name)}.patch", part.edits, code))
        return found
    if kind == "owner":
        split = commits.split("per-owner", changed, stages, str, owners_of)
        groups = [(_owner(part.label), part.edits) for part in split]
    else:
        depth = int(kind.partition(":")[2])
        folders: dict[str, list[Edit]] = {}
        for part in commits.split("one", changed, stages, str, owners_of):
            for edit in part.edits:
                folders.setdefault("/".join(name_of(edit.path).split("/")[:-1][:depth]), []).append(edit)
        groups = [(f"dir-{_fit(one)}" if one else "top", tuple(folders[one])) for one in sorted(folders)]
    return [Part(f"{name}.patch", edits) for name, edits in _distinct(groups)]


def _owner(label: str) -> str:
    return label if label == commits.NOBODY else f"owner-{_fit(label)}"


def _fit(name: str) -> str:
    """A name that is a file name everywhere."""
    return _UNFIT.sub("-", name.strip("@")).strip("-.") or "x"


def _distinct(groups: Sequence[tuple[str, tuple[Edit, ...]]]) -> list[tuple[str, tuple[Edit, ...]]]:
    """The groups with names that differ in more than case."""
    seen: set[str] = set()
    found = []
    for name, edits in groups:
        free, number = name, 1
        while free.lower() in seen:
            number += 1
            free = f"{name}-{number}"
        seen.add(free.lower())
        found.append((free, edits))
    return found


def shared(
    changed: Sequence[FileResult], owners_of: Callable[[str], tuple[str, ...]]
) -> list[tuple[str, tuple[str, ...]]]:
    """The files that have more than one owner, and so are in the patch of the first."""
    return [(r.path, owners_of(r.path)) for r in changed if len(owners_of(r.path)) > 1]
