"""The entry points of the group `torchmigrate.codemods`, through which installed codemods are found.

They are read from the metadata folders on `sys.path` directly: `importlib.metadata` takes longer to import than a run
over a small repository. It is still asked where a path entry is an archive.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

GROUP = "torchmigrate.codemods"


@dataclass(frozen=True, slots=True)
class EntryPoint:
    """One entry of the group: who offers it, and the `module:attribute` that it stands for."""

    distribution: str
    name: str
    value: str

    def __str__(self) -> str:
        return f"{self.distribution}: {self.name}"


def entry_points(path: Sequence[str] | None = None) -> list[EntryPoint]:
    """The group's entries on `path` (default `sys.path`), the first of each distribution, ordered by name."""
    found: dict[tuple[str, str], EntryPoint] = {}
    seen: set[str] = set()
    for folder in sys.path if path is None else path:
        folder = folder or os.curdir
        if os.path.isfile(folder):
            metadata: Iterable[tuple[str, str]] = _metadata_in_archive(folder)
        else:
            metadata = _metadata_in_folder(folder)
        here = set()
        for distribution, text in metadata:
            normal = re.sub(r"[-_.]+", "-", distribution).lower()
            here.add(normal)
            if normal not in seen:
                for name, value in _entries(text):
                    found.setdefault((normal, name), EntryPoint(normal, name, value))
        seen |= here
    return [found[key] for key in sorted(found)]


def _metadata_in_folder(folder: str) -> Iterator[tuple[str, str]]:
    """Name and `entry_points.txt` of each distribution whose metadata lies in a folder."""
    try:
        names = os.listdir(folder)
    except OSError:
        return
    for name in names:
        stem, _, ending = name.rpartition(".")
        if ending in {"dist-info", "egg-info"}:
            inside = os.path.join(folder, name)
        elif ending == "egg":
            inside = os.path.join(folder, name, "EGG-INFO")
        else:
            continue
        try:
            with open(os.path.join(inside, "entry_points.txt"), encoding="utf-8") as file:
                text = file.read()
        except (OSError, UnicodeDecodeError):
            text = ""
        yield stem.partition("-")[0], text


def _metadata_in_archive(path: str) -> Iterator[tuple[str, str]]:
    import importlib.metadata

    for distribution in importlib.metadata.distributions(path=[path]):
        yield distribution.metadata["Name"] or "", distribution.read_text("entry_points.txt") or ""


def _entries(text: str) -> Iterator[tuple[str, str]]:
    """The group's lines of an `entry_points.txt`."""
    if GROUP not in text:
        return
    inside = False
    for line in text.splitlines():
        line = line.strip()
        if line.startswith("["):
            inside = line == f"[{GROUP}]"
        elif inside and "=" in line and not line.startswith(("#", ";")):
            name, _, value = line.partition("=")
            yield name.strip(), value.strip()
