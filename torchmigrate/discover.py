"""Which files a run looks at: walking and ignore rules.

Inside a git repository git's own index and ignore rules decide, elsewhere a walk that reads `.gitignore` files. Files
come in batches, so that reading can begin before the walk has ended. No file is opened here except ignore files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from torchmigrate import git
from torchmigrate.ignored import Ignored, compiled
from torchmigrate.kinds import KINDS, kind_of
from torchmigrate.model import FileError, Settings, UsageError

if TYPE_CHECKING:
    import pathspec

SKIPPED = frozenset(
    {".git", ".hg", ".svn", ".jj", ".tox", ".nox", ".eggs", ".direnv", "node_modules", "__pycache__", "__pypackages__"}
    | {".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis", ".ipynb_checkpoints"}
    | {"site-packages", "dist-packages"}
)
"""Folders that hold no source of the project. A folder with a `pyvenv.cfg` is left out too, whatever its name."""
_QUOTED = "; git ls-files and git diff quote no names with -z"
INSTALLED = frozenset({"site-packages", "dist-packages"})
BATCH = 512
SLICE = 1 << 19
"""Bytes of git's listing that are looked at before the first of their files are offered."""


def _says_python(path: str) -> bool:
    """Whether a file with a name of no known kind calls itself Python: by its suffix, or in its first line."""
    if re.search(r"\.py\w*$", path):
        return True
    if not os.path.isfile(path):
        return False
    try:
        with open(path, "rb") as file:
            return re.match(rb"#!.*python", file.read(128)) is not None
    except OSError:
        return True  # it cannot be read, which the scan tells


@dataclass(frozen=True, slots=True)
class Batch:
    """Some files of one root: paths relative to `folder` ("" for the current one), `/` between names, as bytes.

    `named` files were given on the command line one by one. The state of the files of a `watched` batch is noted when
    they are read; they need not be read where it is the `known` one.
    """

    folder: str
    names: tuple[bytes, ...]
    named: bool = False
    watched: bool = False
    known: bytes = b""

    def paths(self) -> Iterator[str]:
        """The paths as they are printed."""
        return (join(self.folder, os.fsdecode(name)) for name in self.names)


@dataclass(slots=True)
class Discovery:
    """The files below the paths of some settings, for some kinds; `errors` and `notes` fill while they are taken."""

    settings: Settings
    kinds: frozenset[str]
    errors: list[FileError] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    _keep: _Filter = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._keep = _Filter.of(self.settings, self.kinds)

    def batches(self) -> Iterator[Batch]:
        """Every file once, in batches. Raises UsageError for a path that does not exist, before anything else."""
        folders, files = self._given()
        files = list(dict.fromkeys(files))
        for start in range(0, len(files), BATCH):
            yield Batch("", tuple(os.fsencode(path) for path in files[start : start + BATCH]), named=True)
        real = {folder: os.path.realpath(folder or os.curdir) for folder in folders}
        taken = {os.path.realpath(path) for path in files}
        for folder, home in real.items():
            inner = tuple(below(other, home) for other in real.values() if other != home and below(other, home))
            apart = frozenset(filter(None, (below(path, home) for path in taken)))
            for kept in self._below(folder):
                if apart:
                    kept = [name for name in kept if name not in apart]
                if inner:
                    kept = [name for name in kept if not name.startswith(tuple(other + b"/" for other in inner))]
                for start in range(0, len(kept), BATCH):
                    yield Batch(folder, tuple(kept[start : start + BATCH]))

    def _given(self) -> tuple[list[str], list[str]]:
        """The folders and files that were asked for; folders once each, whatever they are called."""
        folders: dict[str, str] = {}
        files: list[str] = []
        for path in self.settings.paths:
            shown = shown_path(path)
            if os.path.isdir(path):
                folders.setdefault(os.path.realpath(path), shown)
            elif os.path.exists(path):
                kind = kind_of(os.path.basename(path)) or ("python" if _says_python(path) else None)
                if kind is None:
                    self.notes.append(f"{shown} is no Python file, and of no other kind that rules know; not looked at")
                elif kind in self.kinds:
                    files.append(shown)
            else:
                raise UsageError(f"no such file or folder: {path}")
        if self.settings.files_from is not None:
            return [], [*files, *self._listed(self.settings.files_from)]
        return list(folders.values()), files

    def _listed(self, source: str) -> Iterator[str]:
        """The paths in a file of paths, one a line or NUL-separated, of the kinds that are looked for."""
        for path in read_list(source):
            if not os.path.lexists(path):
                raise UsageError(f"no such file: {path} (listed in {source})" + _QUOTED * path.startswith('"'))
            if not os.path.isdir(path) and self._is_offered(path):
                yield shown_path(path)

    def _is_offered(self, path: str) -> bool:
        return kind_of(os.path.basename(path)) in self.kinds and (
            self.settings.include_stubs or not path.endswith(".pyi")
        )

    def _below(self, folder: str) -> Iterator[list[bytes]]:
        """The wanted names below one folder."""
        where = folder or os.curdir
        tree = git.toplevel(where) if self.settings.git else None
        if self.settings.changed_since is not None:
            if tree is None:
                raise UsageError(f"--changed-since needs a git repository, and {where} is in none")
            yield from self._changed(folder, where, self.settings.changed_since)
        elif tree is not None and self.settings.gitignore:
            yield from self._listed_by_git(folder, where, tree)
        else:
            yield from self._walked(folder, where)

    def _changed(self, folder: str, where: str, reference: str) -> Iterator[list[bytes]]:
        try:
            beside = git.untracked(where)
            changed = b"".join(name + b"\0" for name in git.changed_since(where, reference))
            for listed in (changed, beside.output()[0]):
                yield from self._kept(folder, where, listed)
        except git.GitError as error:
            raise UsageError(f"--changed-since {reference}: {error}") from None

    def _walked(self, folder: str, where: str) -> Iterator[list[bytes]]:
        kept: list[bytes] = []
        for names in self._walk(where):
            kept += self._keep(folder, names)
            if len(kept) >= BATCH:
                yield kept
                kept = []
        yield kept

    def _listed_by_git(self, folder: str, where: str, tree: str) -> Iterator[list[bytes]]:
        """Tracked files first; git looks for the untracked ones meanwhile."""
        try:
            beside = git.untracked(where)
        except git.GitError as error:
            yield from self._instead_of_git(folder, where, error)
            return
        try:
            try:
                tracked = git.tracked(where).output()[0]
            except git.GitError as error:
                yield from self._instead_of_git(folder, where, error)
                return
            yield from self._kept(folder, where, tracked)
            others, said = beside.output()
        finally:
            beside.stop()
        self.errors.extend(_unreadable_folders(folder, said))
        if not tracked and not others and git.is_ignored(where):
            yield from self._walked(folder, where)
            return
        yield from self._kept(folder, where, others)
        nested = [os.fsdecode(name[:-1]) for name in others.split(b"\0") if name.endswith(b"/")]
        if os.path.exists(os.path.join(tree, ".gitmodules")):
            home = os.path.realpath(where)
            inside = (below(os.path.join(tree, module), home) for module in git.submodules(tree))
            nested.extend(os.fsdecode(name) for name in inside if name)
        if nested:
            listed = ", ".join(join(folder, name) for name in sorted(nested)[:5]) + (", ..." if len(nested) > 5 else "")
            noun = "repository" if len(nested) == 1 else "repositories"
            self.notes.append(f"{len(nested)} nested {noun} not entered: {listed} (name one to look at it)")

    def _kept(self, folder: str, where: str, listed: bytes) -> Iterator[list[bytes]]:
        """The wanted names of a listing in which each ends in NUL, some at a time."""
        environments = _environments(listed)
        start = 0
        while start < len(listed):
            end = listed.find(b"\0", start + SLICE) + 1 or len(listed)
            names = listed[start : end - 1].split(b"\0")
            yield _outside_environments(where, environments, self._keep(folder, names))
            start = end

    def _instead_of_git(self, folder: str, where: str, error: git.GitError) -> Iterator[list[bytes]]:
        self.notes.append(f"git could not list {where} ({error}); its folders were walked instead")
        yield from self._walked(folder, where)

    def _walk(self, where: str) -> Iterator[list[bytes]]:
        """All files below a folder, a folder at a time; symbolic links to folders are not followed."""
        root = os.fsencode(where)
        skipped = {os.fsencode(name) for name in SKIPPED}
        if os.path.exists(os.path.join(where, "pyvenv.cfg")):
            skipped -= {os.fsencode(name) for name in INSTALLED}
        ignored = Ignored.above(where) if self.settings.gitignore else None
        pending: list[tuple[bytes, Ignored | None]] = [(b"", ignored)]
        while pending:
            names: list[bytes] = []
            prefix, rules = pending.pop()
            try:
                with os.scandir(os.path.join(root, prefix) if prefix else root) as entries:
                    found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
            except FileNotFoundError:
                continue
            except OSError as error:
                path = join(shown_path(where), os.fsdecode(prefix.rstrip(b"/"))) or os.curdir
                self.errors.append(FileError(path, None, None, "TM010", f"cannot list this folder: {error.strerror}"))
                continue
            inside = {name for name, _ in found}
            if prefix and b"pyvenv.cfg" in inside:
                continue
            if rules is not None and b".gitignore" in inside:
                rules = rules.entering(os.path.join(where, os.fsdecode(prefix)), prefix)
            for name, is_folder in found:
                full = prefix + name
                if is_folder:
                    if name not in skipped and not (rules is not None and rules.ignores(full + b"/")):
                        pending.append((full + b"/", rules))
                elif rules is None or not rules.ignores(full):
                    names.append(full)
            yield names


class _Filter:
    """Keeps the names that are of the wanted kinds and that the include and exclude patterns allow."""

    def __init__(self, wanted: Callable[[bytes], bool], settings: Settings) -> None:
        self._wanted = wanted
        self._include = _Patterns.of(settings.include, settings.include_from)
        self._exclude = _Patterns.of(settings.exclude, settings.exclude_from)

    @classmethod
    def of(cls, settings: Settings, kinds: frozenset[str]) -> _Filter:
        patterns = [p for kind in KINDS if kind in kinds for p in KINDS[kind] if settings.include_stubs or p != "*.pyi"]
        if all(re.fullmatch(r"\*\.\w+", pattern) for pattern in patterns):
            endings = tuple(os.fsencode(pattern[1:]) for pattern in patterns)
            return cls(lambda name: name.endswith(endings), settings)

        is_python = "python" in kinds

        def wanted(name: bytes) -> bool:
            if is_python and name.endswith(b".py"):
                return True
            base = os.fsdecode(name.rpartition(b"/")[2])
            return kind_of(base) in kinds and (settings.include_stubs or not base.endswith(".pyi"))

        return cls(wanted, settings)

    def __call__(self, folder: str, names: Iterable[bytes]) -> list[bytes]:
        kept = list(filter(self._wanted, names))
        if self._include is not None:
            kept = self._include.split(folder, kept)[0]
        if self._exclude is not None:
            kept = self._exclude.split(folder, kept)[1]
        return kept


@dataclass(frozen=True, slots=True)
class _Patterns:
    """Patterns of one option, relative to `home` where they come from a configuration file."""

    spec: pathspec.GitIgnoreSpec
    home: str | None

    @classmethod
    def of(cls, given: Sequence[str], home: str | None) -> _Patterns | None:
        spec = _patterns(given)
        return None if spec is None else cls(spec, home)

    def split(self, folder: str, names: Iterable[bytes]) -> tuple[list[bytes], list[bytes]]:
        """The names below a root that the patterns match, and the others."""
        forms = self._forms(folder)
        found: tuple[list[bytes], list[bytes]] = ([], [])
        for name in names:
            path = os.fsdecode(name)
            found[not any(self.spec.match_file(form(path)) for form in forms)].append(name)
        return found

    def _forms(self, folder: str) -> list[Callable[[str], str]]:
        if self.home is None:
            as_printed: list[Callable[[str], str]] = [lambda path: join(folder, path)] if folder else []
            return [lambda path: path, *as_printed]
        root, home = os.path.realpath(folder or os.curdir), os.path.realpath(self.home)
        if root == home:
            return [lambda path: path]
        if under := os.fsdecode(below(root, home)):
            return [lambda path: join(under, path)]
        above = os.fsdecode(below(home, root)) + "/"
        return [lambda path: path.removeprefix(above) if path.startswith(above) else ""]


def _patterns(given: Sequence[str]) -> pathspec.GitIgnoreSpec | None:
    try:
        return compiled(given)
    except ValueError as error:
        raise UsageError(f"not a file pattern: {error}") from None


_SKIPPED_PART = re.compile(b"(?:^|/)(?:" + b"|".join(re.escape(os.fsencode(name)) for name in sorted(SKIPPED)) + b")/")
_NOT_INSTALLED_PART = re.compile(
    b"(?:^|/)(?:" + b"|".join(re.escape(os.fsencode(name)) for name in sorted(SKIPPED - INSTALLED)) + b")/"
)


def _environments(listed: bytes) -> tuple[bytes, ...]:
    """The virtual environments below a folder, by a listing of it in which each name ends in NUL."""
    if b"/pyvenv.cfg\0" not in listed:
        return ()
    return tuple(name[: -len(b"pyvenv.cfg")] for name in listed.split(b"\0") if name.endswith(b"/pyvenv.cfg"))


def _outside_environments(where: str, environments: tuple[bytes, ...], kept: list[bytes]) -> list[bytes]:
    """Names without those in virtual environments and other folders that hold no source of the project."""
    is_environment = os.path.exists(os.path.join(where, "pyvenv.cfg"))
    skipped = (_NOT_INSTALLED_PART if is_environment else _SKIPPED_PART).search
    if environments:
        kept = [name for name in kept if not name.startswith(environments)]
    folders = {name.rpartition(b"/")[0] for name in kept}
    left_out = {folder for folder in folders if skipped(folder + b"/")}
    if left_out:
        kept = [name for name in kept if name.rpartition(b"/")[0] not in left_out]
    return kept


def _unreadable_folders(folder: str, said: str) -> Iterator[FileError]:
    """What git warned about while it looked for untracked files."""
    for name, cause in re.findall(r"could not open directory '(.*)': (.*)", said):
        path = join(folder, name.rstrip("/"))
        yield FileError(path, None, None, "TM010", f"cannot list this folder: {cause}")


def below(path: str, home: str) -> bytes:
    """A path relative to a folder that it lies in, `/` between names; empty when it lies elsewhere."""
    inside = home if home.endswith(os.sep) else home + os.sep
    return os.fsencode(path[len(inside) :].replace(os.sep, "/")) if path.startswith(inside) else b""


def join(folder: str, name: str) -> str:
    """A path below a root as it is printed."""
    if not folder or not name:
        return folder or name
    return folder + name if folder.endswith("/") else f"{folder}/{name}"


def shown_path(path: str) -> str:
    """A path as it is printed: `/` between names, no `./` in front, none at the end; "" for the current folder."""
    shown = path.replace(os.sep, "/")
    while shown.startswith("./"):
        shown = shown[2:].lstrip("/")
    shown = shown.rstrip("/") or ("/" if shown.startswith("/") else "")
    return "" if shown == "." else shown


def read_list(source: str) -> list[str]:
    """The paths that a file lists, or standard input for `-`: NUL-separated or one a line. Raises UsageError."""
    try:
        if source == "-":
            import sys

            text = sys.stdin.buffer.read()
        else:
            with open(source, "rb") as file:
                text = file.read()
    except OSError as error:
        raise UsageError(f"cannot read {source}: {error.strerror}") from None
    parts = text.split(b"\0") if b"\0" in text else text.splitlines()
    return [os.fsdecode(part) for part in parts if part]
