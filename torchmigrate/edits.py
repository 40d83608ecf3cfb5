"""What a change does to the tree, as data: codemods plan with these, `compose` carries them out with libcst.

An edit names the `ast` node it acts on. Edits on one expression compose: each sees what the one before it made, so two
codemods can change one call. Arguments are named by keyword, or by their position in the file as it is on disk.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import libcst as cst


@dataclass(frozen=True, eq=False, slots=True)
class SetArgument:
    """Give a call's keyword argument a value: replaces the value that is there, else appends the argument.

    `position` is the parameter's positional index, where the call may pass it by position.
    """

    node: ast.Call
    keyword: str
    value: str
    position: int | None = None


@dataclass(frozen=True, eq=False, slots=True)
class RemoveArgument:
    """Remove a call's keyword argument (nothing happens when it is absent)."""

    node: ast.Call
    keyword: str


@dataclass(frozen=True, slots=True)
class Keep:
    """An argument of the call as it is on disk, by index among all its arguments, under a new keyword.

    `keyword` None keeps it positional.
    """

    index: int
    keyword: str | None = None


@dataclass(frozen=True, slots=True)
class New:
    """A new keyword argument."""

    keyword: str
    value: str


@dataclass(frozen=True, eq=False, slots=True)
class RewriteCall:
    """Replace a call's callee (None keeps it) and its arguments, keeping layout and comments of what is kept.

    `arguments` lists the new arguments in order. Index order of `ast`: positional arguments first, then keywords; for
    calls whose keywords stand before a starred argument use `Transform`.
    """

    node: ast.Call
    function: str | None
    arguments: tuple[Keep | New, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Replace:
    """Replace an expression by new code.

    In `code`, `$name` stands for the (already changed) source of the sub-expression `holes["name"]`, a node inside
    `node`, as a tuple of pairs.
    """

    node: ast.expr
    code: str
    holes: tuple[tuple[str, ast.expr], ...] = ()


@dataclass(frozen=True, eq=False, slots=True)
class Transform:
    """Any other change of an expression: `function(original, updated)` on libcst nodes returns the new node."""

    node: ast.expr
    function: Callable[[cst.BaseExpression, cst.BaseExpression], cst.BaseExpression]


@dataclass(frozen=True, eq=False, slots=True)
class InsertBefore:
    """Insert statements, one a line, before a statement that starts its own line, at its indentation."""

    node: ast.stmt
    code: str


@dataclass(frozen=True, eq=False, slots=True)
class InsertAfter:
    """Insert statements after a statement that ends its own line, at its indentation."""

    node: ast.stmt
    code: str


@dataclass(frozen=True, eq=False, slots=True)
class ReplaceStatement:
    """Replace a simple statement's text (comments behind it stay)."""

    node: ast.stmt
    code: str


@dataclass(frozen=True, eq=False, slots=True)
class RemoveStatement:
    """Remove a statement that has its lines for itself, with those lines."""

    node: ast.stmt


@dataclass(frozen=True, slots=True)
class ReplaceText:
    """Replace text between two offsets: for files that are not Python, and for names inside import statements."""

    start: int
    end: int
    text: str


ExpressionEdit = SetArgument | RemoveArgument | RewriteCall | Replace | Transform
StatementEdit = InsertBefore | InsertAfter | ReplaceStatement | RemoveStatement
Edit = ExpressionEdit | StatementEdit | ReplaceText
