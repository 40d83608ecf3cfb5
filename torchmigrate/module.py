"""One Python file as codemods see it: its text, its syntax tree, positions, names, and spellings for new code."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchmigrate.flow import Flow
from torchmigrate.imports import Import, Spelling, spell
from torchmigrate.model import Project, Span
from torchmigrate.names import Names, Reference
from torchmigrate.parse import parse_python
from torchmigrate.scopes import Scope
from torchmigrate.source import Lines, SourceError, Splice, splice

if TYPE_CHECKING:
    from torchmigrate.documents import Document
    from torchmigrate.effects import Effects
    from torchmigrate.values import Values

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


@dataclass(frozen=True, slots=True)
class CallSite:
    """A call of one of the functions asked for; `certain` is false where the name may be something else as well."""

    node: ast.Call
    certain: bool


class Module:
    """The view of one Python module that every codemod of a run shares.

    `text` is the module as Python reads it, `tree` its `ast` tree, parsed when it is first asked for: a rule that finds
    nothing in the text should not ask. Offsets count characters of `text`.
    In notebooks `documents` are the shell parts, `files` the Python files that cells write, at the same offsets, and
    `problems` the cells that could not be parsed. `comment` begins a
    comment on a line of its own.
    """

    comment: str | None = "#"
    documents: Sequence[Document] = ()
    files: Sequence[Module] = ()
    problems: Sequence[SourceError] = ()

    def __init__(self, path: str, text: str, tree: ast.Module | None = None, project: Project | None = None) -> None:
        self.path = path
        self.text = text
        self.unreadable: SourceError | None = None
        """Why the text could not be parsed, once that was tried."""
        self._tree = tree
        self.project = project or Project()
        self.lines = Lines(text)
        self._flows: dict[ast.AST, Flow] = {}

    def forget(self) -> None:
        """Let go of all that was found out; the parts hold each other in circles, which would stay for a while."""
        if "names" in self.__dict__:
            self.names.forget()
        self.__dict__.clear()

    @property
    def tree(self) -> ast.Module:
        """The syntax tree. Raises SourceError TM001."""
        if self._tree is None:
            if self.unreadable is None:
                try:
                    self._tree = parse_python(self.text)
                    return self._tree
                except SourceError as error:
                    self.unreadable = error
            raise self.unreadable
        return self._tree

    @functools.cached_property
    def names(self) -> Names:
        """Scopes and name resolution."""
        return Names(self.tree)

    @functools.cached_property
    def values(self) -> Values:
        """What expressions can be."""
        from torchmigrate.values import Values

        return Values(self)

    @functools.cached_property
    def effects(self) -> Effects:
        """What calls change behind the back of the code around them."""
        from torchmigrate.effects import Effects

        return Effects(self)

    @property
    def parents(self) -> dict[ast.AST, ast.AST]:
        """The parent of each node."""
        return self.names.parents

    # -- positions ---------------------------------------------------------------------------------------------

    def extent(self, node: ast.AST) -> tuple[int, int]:
        """Start and end offset of a node in `text`; decorators count as part of what they decorate."""
        located = _located(node)
        line, column = located.lineno, located.col_offset
        if decorators := getattr(node, "decorator_list", None):
            line, column = decorators[0].lineno, decorators[0].col_offset - 1
        if located.end_lineno is None or located.end_col_offset is None:
            raise ValueError(f"node without an end: {ast.dump(node)[:80]}")
        return self.lines.offset(line, max(column, 0)), self.lines.offset(located.end_lineno, located.end_col_offset)

    def span(self, start: int, end: int) -> tuple[Span, int | None]:
        """Where text[start:end] lies in the file on disk, and in which notebook cell (None in plain files)."""
        return Span(*self.lines.position(start), *self.lines.position(end)), None

    def source(self, node: ast.AST) -> str:
        """The text of a node."""
        start, end = self.extent(node)
        return self.text[start:end]

    def line(self, node: ast.AST) -> int:
        """The 1-based line on which a node begins, for messages."""
        return self.span(*self.extent(node))[0].line

    def rebuild(self, splices: Iterable[Splice]) -> str:
        """The file's new text for splices into `text`."""
        return splice(self.text, splices)

    # -- surroundings ------------------------------------------------------------------------------------------

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """The nodes around a node, innermost first."""
        at = self.parents.get(node)
        while at is not None:
            yield at
            at = self.parents.get(at)

    def statement(self, node: ast.AST) -> ast.stmt:
        """The innermost statement that holds a node."""
        if isinstance(node, ast.stmt):
            return node
        for at in self.ancestors(node):
            if isinstance(at, ast.stmt):
                return at
        raise ValueError(f"not inside a statement: {ast.dump(node)[:80]}")

    def function(self, node: ast.AST) -> ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | None:
        """The innermost function whose body runs the node; None at module and class level."""
        scope: Scope | None = self.names.scope_of(node)
        while scope is not None and not isinstance(scope.node, ast.ClassDef):
            if isinstance(scope.node, _FUNCTIONS):
                return scope.node
            scope = scope.parent
        return None

    def enclosing_class(self, node: ast.AST) -> ast.ClassDef | None:
        """The innermost class around a node."""
        return next((at for at in self.ancestors(node) if isinstance(at, ast.ClassDef)), None)

    def scope_name(self, node: ast.AST) -> str:
        """The dotted names of the functions and classes around a node, "" at module level."""
        return ".".join(reversed([at.name for at in self.ancestors(node) if isinstance(at, _SCOPES)]))

    def normal(self, node: ast.AST) -> str:
        """A node's source without layout, for keys."""
        return ast.unparse(node)

    def flow(self, node: ast.AST) -> Flow:
        """Definitions and conditions in the function that runs a node (the module's top level outside functions)."""
        owner = self.function(node) or self.tree
        if owner not in self._flows:
            self._flows[owner] = Flow(self, owner)
        return self._flows[owner]

    # -- names -------------------------------------------------------------------------------------------------

    def resolve(self, node: ast.expr) -> Reference:
        """The qualified names that an expression may refer to."""
        return self.names.resolve(node)

    def refers_to(self, node: ast.expr, *targets: str) -> bool:
        """True when an expression surely refers to one of the qualified names."""
        return self.names.resolve(node).surely(frozenset(targets))

    def references(self, *targets: str) -> Iterator[tuple[ast.Name | ast.Attribute | ast.Call, bool]]:
        """Every read of one of the qualified names, and whether it surely is one; a call is one of `getattr`."""
        return self.names.references(targets)

    def calls(self, *targets: str) -> Iterator[CallSite]:
        """Every call of one of the qualified names, in source order."""
        for node, certain in self.names.references(targets):
            parent = self.parents.get(node)
            if isinstance(parent, ast.Call) and parent.func is node:
                yield CallSite(parent, certain)

    def spell(self, qualified: str, at: ast.AST, prefer: Import | None = None) -> Spelling | None:
        """How to write a qualified name at a place: names in scope if possible, else with a new import.

        `prefer` is the import to add when nothing in scope leads to the name (default: `import <top package>`). None
        when the name that an import would bind is taken by something else there.
        """
        return spell(self, qualified, at, prefer)


def _located(node: ast.AST) -> ast.expr | ast.stmt:
    if not hasattr(node, "lineno"):
        raise ValueError(f"node without a position: {type(node).__name__}")
    return node  # type: ignore[return-value]
