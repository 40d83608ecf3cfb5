"""What differs between the formats of files: opening one, its comments, and whether a text is still one of them.

A kind is "python", "notebook", or a format of `texts`; what other files than Python need is imported only for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, cast

from torchmigrate.model import Project
from torchmigrate.module import Module
from torchmigrate.parse import compiles, parse_python
from torchmigrate.source import Source, SourceError, read_python
from torchmigrate.suppress import python_comments

if TYPE_CHECKING:
    from torchmigrate.notebook import NotebookModule

PYTHON = ("python", "notebook")
"""The kinds that hold Python code."""


def open_file(path: str, data: bytes, project: Project, kind: str) -> tuple[Source, Module]:
    """A file's text and the view of it that codemods share. Raises SourceError for what cannot be read."""
    if kind == "python":
        source = read_python(data)
        return source, Module(path, source.text, None, project)
    from torchmigrate import documents

    return documents.open_document(path, data, project, kind)


def readable(module: Module, text: str, kind: str) -> bool:
    """Whether a file's new text is still what its kind says; Python has to compile if it did before."""
    if kind != "python":
        from torchmigrate import documents

        return documents.readable(module, text, kind)
    try:
        parse_python(text)
    except SourceError:
        return False
    return compiles(text) or not compiles(module.text)


def comments_of(module: Module, kind: str) -> Callable[[str], Iterable[tuple[int, int]]]:
    """What finds the real comments of a text of a kind: that of the module, or what becomes of it."""
    if kind == "python":
        return python_comments
    if kind == "notebook":
        return lambda text: cast("NotebookModule", module).comments()
    from torchmigrate.texts import comments

    return lambda text: comments.extents(text, kind)
