"""Constants that a file imports from other modules of its project: found by path, read, and evaluated there.

    facts = WithSiblings({}, Siblings(root), path)
    facts.get("constant:mypkg.config:BACKEND")    # ("nccl",)

A name counts where one file of the project can be meant, the name can only be known constants when that file has run
(set by its own top-level code, out of reach of `globals()` and star imports), and no file of the project sets such a
name from outside, as `config.BACKEND = args.backend` does. Every path that an answer hangs on is noted with the digest
of its content, and every name that was looked for with what came of it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from torchmigrate.digest import digest
from torchmigrate.facts import CONSTANT, Facts
from torchmigrate.source import SourceError, read_python

if TYPE_CHECKING:
    from torchmigrate.module import Module

_LARGEST = 256 << 10
_DEPTH = 4
"""Through how many re-exports a name is followed."""
_MANY = 6
_FOLDERS = 24
_TRICKS = re.compile(r"\b(?:globals|vars|locals|exec|eval)\s*\(|\bsys\s*\.\s*modules\b|\b__dict__\b")

_SET = re.compile(
    rb"(?<!\bself)(?<!\bcls)\.([A-Z][A-Z0-9_]*)\s*(?::[^=\n]*)?(?:[-+*/%|&^@]|//|<<|>>|\*\*)?=(?!=)"
    rb"|^[ \t]*[\w.]+\.([A-Z][A-Z0-9_]*)\s*,"
    rb"|,\s*[\w.]+\.([A-Z][A-Z0-9_]*)\s*=(?!=)",
    re.MULTILINE,
)
_NAMED = re.compile(rb"\b(?:setattr|delattr|patch(?:\.\w+)?)\s*\(([^)]*)")
_NAME = re.compile(rb"""["'.]([A-Z][A-Z0-9_]*)["']|\b([A-Z][A-Z0-9_]*)\s*=""")
_ASSIGNED = "assigned:"
_LARGEST_SETTER = 32 << 20
_FILES = 4000
"""How many folders and files are searched for what sets a name."""
_FOREIGN = frozenset({"__pycache__", "node_modules", "site-packages"})

Consulted = tuple[tuple[str, str], ...]
"""Paths with the digests of their contents, "" for what is no readable file; names that nothing may set from outside,
with the file that does."""


def holds(root: str, consulted: Consulted, setters: Setters) -> bool:
    """Whether all that was noted for a file of a project is still so."""
    root = os.path.realpath(root)
    for path, noted in consulted:
        if path.startswith(_ASSIGNED):
            found = setters.of(root, path.removeprefix(_ASSIGNED))
        else:
            data = _read(path)
            found = "" if data is None else digest(data)
        if found != noted:
            return False
    return True


class Setters:
    """Which projects set attributes of a name anywhere; each question is answered once."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], str] = {}

    def of(self, root: str, name: str) -> str:
        """The file of a project that sets an attribute of a name, "" for none; a project too large counts as one."""
        if (root, name) not in self._known:
            self._known[root, name] = self._find(root, name.encode())
        return self._known[root, name]

    def _find(self, root: str, name: bytes) -> str:
        seen = 0
        for here, folders, names in os.walk(root):
            folders[:] = sorted(one for one in folders if not one.startswith(".") and one not in _FOREIGN)
            if "pyvenv.cfg" in names:
                folders.clear()
                continue
            seen += 1
            for path in sorted(os.path.join(here, one) for one in names if one.endswith((".py", ".ipynb"))):
                seen += 1
                data = _read(path, _LARGEST_SETTER)
                if data is None or (name in data and name in _assigned(data)):
                    return path
            if seen > _FILES:
                return here
        return ""


class Siblings:
    """The modules of one project as its files import them. `consulted` is what the answers so far hang on."""

    def __init__(self, root: str, setters: Setters | None = None) -> None:
        self.root = os.path.realpath(root)
        self.consulted: dict[str, str] = {}
        self._setters = setters or Setters()

    def constant(self, importer: str, name: str, depth: int = 0) -> tuple[object, ...] | None:
        """What `module:NAME` or, by attribute access, `module.NAME` can be as the importing file names it.

        None where that is not known for sure.
        """
        imported = ":" in name
        module, _, last = name.rpartition(":" if imported else ".")
        level = len(module) - len(module.lstrip("."))
        parts = [part for part in module[level:].split(".") if part]
        if depth > _DEPTH or not (level or parts):
            return None
        found = [path for base in self._bases(importer, level) for path in self._files(base, parts)]
        if len(found) != 1:
            return None
        if not imported and parts and self._is_shadowed(found[0], parts[-1]):
            return None
        known = self._value(found[0], last, depth)
        if known is None:
            return None
        self.consulted[_ASSIGNED + last] = setter = self._setters.of(self.root, last)
        return None if setter else known

    def _bases(self, importer: str, level: int) -> Iterator[str]:
        """The folders in which the first part of a module's name may lie."""
        here = os.path.dirname(os.path.realpath(importer))
        if level:
            for _ in range(level - 1):
                here = os.path.dirname(here)
            if self._holds(here):
                yield here
            return
        for _ in range(_FOLDERS):
            if not self._holds(here):
                return
            yield here
            if here == self.root:
                break
            here = os.path.dirname(here)
        source = os.path.join(self.root, "src")
        if not os.path.realpath(importer).startswith(source + os.sep):
            yield source

    def _holds(self, folder: str) -> bool:
        return (folder + os.sep).startswith(self.root.rstrip(os.sep) + os.sep)

    def _files(self, base: str, parts: list[str]) -> Iterator[str]:
        stem = os.path.join(base, *parts)
        for path in (f"{stem}.py", os.path.join(stem, "__init__.py")) if parts else (f"{stem}/__init__.py",):
            if self._load(path) is not None:
                yield path

    def _load(self, path: str) -> bytes | None:
        data = _read(path)
        self.consulted[path] = "" if data is None else digest(data)
        return data

    def _is_shadowed(self, path: str, part: str) -> bool:
        """Whether the package around a module may use the module's name for something else."""
        folder, name = os.path.split(path)
        package = os.path.join(os.path.dirname(folder) if name == "__init__.py" else folder, "__init__.py")
        if self._load(package) is None:
            return os.path.exists(package)
        module = self._module(package)
        if module is None:
            return True
        bound = module.names.module.bindings.get(part, ())
        return bool(
            module.names.stars or any(one.qualified != f".{part}" for one in bound) or _TRICKS.search(module.text)
        )

    def _value(self, path: str, name: str, depth: int) -> tuple[object, ...] | None:
        data = self._load(path)
        if data is None or name.encode() not in data:
            return None
        module = self._module(path, depth + 1)
        if module is None or _TRICKS.search(module.text):
            return None
        return module.values.exported(name, _MANY)

    def _module(self, path: str, depth: int = _DEPTH + 1) -> Module | None:
        from torchmigrate.module import Module

        data = self._load(path)
        try:
            module = Module(path, read_python(data or b"").text)
            module.tree  # noqa: B018 (parses)
        except (SourceError, RecursionError):
            return None
        module.project = replace(module.project, facts=WithSiblings({}, self, path, depth))
        return module


class WithSiblings(Mapping[str, tuple[object, ...]]):
    """Facts of a project, and beside them the constants that one file imports, read when they are asked for."""

    def __init__(self, facts: Facts, siblings: Siblings, path: str, depth: int = 0) -> None:
        self._facts = facts
        self._siblings = siblings
        self._path = path
        self._depth = depth

    def __getitem__(self, name: str) -> tuple[object, ...]:
        if name in self._facts or not name.startswith(CONSTANT):
            return self._facts[name]
        try:
            found = self._siblings.constant(self._path, name.removeprefix(CONSTANT), self._depth)
        except RecursionError:
            found = None
        if found is None:
            raise KeyError(name)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._facts)

    def __len__(self) -> int:
        return len(self._facts)


def _assigned(data: bytes) -> Iterator[bytes]:
    """The names of attributes that a file sets, as far as its text looks like it."""
    for match in _SET.finditer(data):
        yield from (name for name in match.groups() if name)
    for call in _NAMED.finditer(data):
        yield from (name for match in _NAME.finditer(call[1]) for name in match.groups() if name)


def _read(path: str, largest: int = _LARGEST) -> bytes | None:
    try:
        if os.stat(path).st_size > largest:
            return None
        with open(path, "rb") as file:
            return file.read()
    except (OSError, ValueError):
        return None
