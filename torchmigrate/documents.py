"""Files that are not Python, as rules see them, and opening any file that is not a plain Python module."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from torchmigrate.model import Project
from torchmigrate.module import Module
from torchmigrate.source import Source, SourceError, read_text
from torchmigrate.texts import comments, dockerfile, lines, requirements, shell, tree
from torchmigrate.texts.tokens import Command, Entry, Requirement, Use

_HASH_COMMENT = re.compile(r"(?:^|(?<=[\s;]))#[^\r\n]*")
_TREES = frozenset({"yaml", "toml", "json"})


def _none(text: str) -> Iterator[Entry]:
    return iter(())


@dataclass(frozen=True, slots=True)
class _Lines:
    """How a format that is no tree gives its tokens."""

    entries: Callable[[str], Iterator[Entry]] = _none
    commands: Callable[[str], Iterator[Command]] | None = None
    uses: Callable[[str, re.Pattern[str]], Iterator[Use]] | None = None


_FORMATS = {
    "shell": _Lines(commands=shell.commands, uses=lambda text, names: shell.uses(text, 0, len(text), names)),
    "dockerfile": _Lines(dockerfile.entries, dockerfile.commands, dockerfile.uses),
    "makefile": _Lines(commands=lines.make_commands, uses=lines.make_uses),
    "env": _Lines(lines.dotenv_entries, uses=lines.dotenv_uses),
    "cfg": _Lines(lines.ini_entries, uses=lines.ini_uses),
    "version": _Lines(lines.version_entries),
}


class Document(Module):
    """The view of one file that is not Python, shared by all codemods of a run. It has no syntax nodes, only extents.

    `comment` begins a comment that has a line for itself, None where the format has none. In notebooks `text` holds
    only the shell cells, blank elsewhere, and `written` all of the cells' text, at the same offsets.
    """

    def __init__(self, path: str, text: str, kind: str, project: Project, written: str | None = None) -> None:
        super().__init__(path, text, ast.Module([], []), project)
        self.written = text if written is None else written
        self.kind = kind
        self.comment = None if kind in ("json", "version") else "//" if kind == "cpp" else "#"

    @property
    def name(self) -> str:
        """The file's name without its folders."""
        return self.path.rpartition("/")[2]

    # -- tokens ------------------------------------------------------------------------------------------------

    @functools.cached_property
    def _roots(self) -> list[tree.Node]:
        if self.kind == "yaml":
            from torchmigrate.texts import yaml

            try:
                return yaml.parse(self.text)
            except yaml.NotYaml as error:
                message = f"cannot parse: {error.message} (file not looked at)"
                raise SourceError("TM001", message, error.line, error.column) from None
        if self.kind == "toml":
            from torchmigrate.texts import toml

            return [toml.parse(self.text)]
        from torchmigrate.texts import json

        return [json.parse(self.text)]

    def check(self) -> None:
        """Read the whole text. Raises SourceError TM001 where it is not what its kind says."""
        if self.kind in _TREES:
            _ = self._roots

    @functools.cached_property
    def entries(self) -> tuple[Entry, ...]:
        """The scalars under their keys, in the order of the text."""
        if self.kind in _TREES:
            return tuple(tree.entries(self.text, self._roots))
        return tuple(_FORMATS[self.kind].entries(self.text)) if self.kind in _FORMATS else ()

    @functools.cached_property
    def commands(self) -> tuple[Command, ...]:
        """The shell commands in the file, and those in scripts that these hand to another shell."""
        given = list(self._given)
        starts = {one.words[0].start for one in given}
        inner = (one for outer in given for one in shell.inner(self.text, outer) if one.words[0].start not in starts)
        return (*given, *inner)

    @property
    def _given(self) -> Iterable[Command]:
        if self.kind in _TREES:
            return tree.commands(self.text, self._roots)
        if self.kind == "cfg":
            return (c for e in self.entries if " " in e.value for c in shell.commands(self.text, e.start, e.end))
        found = _FORMATS[self.kind].commands if self.kind in _FORMATS else None
        return found(self.text) if found else ()

    @functools.cached_property
    def requirements(self) -> tuple[Requirement, ...]:
        """The requirements on packages, in metadata, environments and install commands."""
        if self.kind == "requirements":
            return tuple(requirements.of_file(self.text))
        found = list(requirements.of_entries(self.entries))
        if requirements.INSTALLS.search(self.text):
            found += requirements.of_commands(self.commands)
        return tuple(sorted(found, key=lambda one: one.start))

    def uses(self, names: Iterable[str]) -> list[Use]:
        """The places that name one of some environment variables, comments left out."""
        pattern = re.compile(rf"(?<![A-Za-z0-9_])(?:{'|'.join(sorted(names, key=len, reverse=True))})(?![A-Za-z0-9_])")
        if pattern.search(self.text) is None:
            return []
        if self.kind in _TREES:
            return list(tree.uses(self.text, self._roots, pattern))
        found = _FORMATS[self.kind].uses if self.kind in _FORMATS else None
        return list(found(self.text, pattern)) if found else []

    def matches(self, pattern: re.Pattern[str]) -> Iterator[re.Match[str]]:
        """The matches of a pattern outside comments."""
        if pattern.search(self.text) is None:
            return
        if self.kind in _TREES:
            for at in tree.visits(self._roots):
                yield from pattern.finditer(self.text, *at.node.inner)
            return
        comments = list(self._comments())
        for match in pattern.finditer(self.text):
            if not any(low <= match.start() < high for low, high in comments):
                yield match

    def _comments(self) -> Iterator[tuple[int, int]]:
        pattern = comments.C_COMMENT if self.kind == "cpp" else _HASH_COMMENT
        for match in pattern.finditer(self.text):
            if not match.lastindex:
                yield match.span()


def open_document(path: str, data: bytes, project: Project, kind: str) -> tuple[Source, Module]:
    """Read a notebook or a file of another format. Raises SourceError where it is not what its kind says."""
    source = read_text(data)
    if kind == "notebook":
        from torchmigrate.notebook import NotebookModule

        return source, NotebookModule(path, source.text, project)
    document = Document(path, source.text, kind, project)
    document.check()
    return source, document


def readable(module: Module, text: str, kind: str) -> bool:
    """Whether a file's new text is still what its kind says."""
    try:
        if kind == "notebook":
            from torchmigrate.notebook import NotebookModule, compiles

            return compiles(NotebookModule(module.path, text, module.project), module)
        Document(module.path, text, kind, module.project).check()
    except SourceError:
        return False
    return True
