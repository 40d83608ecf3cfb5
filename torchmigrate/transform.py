"""The libcst side of `compose`: one transformer that carries out all edits of one expression.

Everything here works on an expression in parentheses, so that its own line breaks mean nothing. Positions are asked
of the original tree, results are built on the updated one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider

from torchmigrate.arguments import remove_argument, rewrite_call, set_argument
from torchmigrate.edits import ExpressionEdit, RemoveArgument, Replace, RewriteCall, SetArgument, Transform
from torchmigrate.source import Lines, SourceError

Place = tuple[tuple[int, int], tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Anchored:
    """An edit, the extent of its node in the file's text, and the extents of its holes by name."""

    start: int
    end: int
    edit: ExpressionEdit
    holes: Mapping[str, tuple[int, int]] = field(default_factory=dict)


def rewrite(text: str, offset: int, edits: Sequence[Anchored]) -> str:
    """The new text of an expression that begins at `offset` of its file, with its edits carried out.

    Raises SourceError TM006 where libcst does not give the expression back byte for byte.
    """
    wrapped = f"({text})"
    try:
        tree = cst.parse_module(wrapped)
    except cst.ParserSyntaxError as error:
        raise SourceError("TM006", f"libcst cannot parse this expression ({error.message})") from None
    if tree.code != wrapped:
        raise SourceError("TM006", "cannot be reproduced byte for byte (form feed or lone carriage return)")
    lines = Lines(wrapped)

    def place(start: int, end: int) -> Place:
        (line, column), (end_line, end_column) = (lines.position(at - offset + 1) for at in (start, end))
        return (line, column - 1), (end_line, end_column - 1)

    wanted: dict[Place, list[tuple[ExpressionEdit, Mapping[str, Place]]]] = {}
    for one in edits:
        holes = {name: place(*extent) for name, extent in one.holes.items()}
        wanted.setdefault(place(one.start, one.end), []).append((one.edit, holes))
    composed = _Composed(wanted, _whole(tree))
    result = MetadataWrapper(tree, unsafe_skip_copy=True).visit(composed)
    if composed.left:
        raise SourceError("TM006", "libcst does not find an expression again at its place")
    return result.code[1:-1]


def _whole(tree: cst.Module) -> cst.BaseExpression:
    """The expression that a module of one wrapped expression holds."""
    match tree.body:
        case [cst.SimpleStatementLine(body=[cst.Expr(value=value)])]:
            return value
    raise SourceError("TM006", "this is not one expression")


class _Composed(cst.CSTTransformer):
    """Calls every edit of a node in order, each with the node that the one before it returned.

    The parentheses around the `whole` are not its own: its edits do not see them and cannot take them away.
    """

    METADATA_DEPENDENCIES = (PositionProvider,)

    def __init__(
        self,
        wanted: dict[Place, list[tuple[ExpressionEdit, Mapping[str, Place]]]],
        whole: cst.BaseExpression,
    ) -> None:
        super().__init__()
        self.left = dict(wanted)
        self._whole = whole
        self._holes = {hole for edits in wanted.values() for _, holes in edits for hole in holes.values()}
        self._done: dict[Place, cst.BaseExpression] = {}

    def on_leave(self, original_node: cst.CSTNode, updated_node: cst.CSTNode) -> cst.CSTNode:  # type: ignore[override]
        if not isinstance(original_node, cst.BaseExpression) or not isinstance(updated_node, cst.BaseExpression):
            return updated_node
        where = self.get_metadata(PositionProvider, original_node)
        key = ((where.start.line, where.start.column), (where.end.line, where.end.column))
        edits = self.left.pop(key, ())
        if edits and original_node is self._whole:
            left, right = updated_node.lpar[0], updated_node.rpar[-1]
            updated_node = updated_node.with_changes(lpar=updated_node.lpar[1:], rpar=updated_node.rpar[:-1])
            for edit, holes in edits:
                updated_node = self._apply(edit, holes, original_node, updated_node)
            return updated_node.with_changes(lpar=[left, *updated_node.lpar], rpar=[*updated_node.rpar, right])
        for edit, holes in edits:
            updated_node = self._apply(edit, holes, original_node, updated_node)
        if key in self._holes:
            self._done[key] = updated_node
        return updated_node

    def _apply(
        self,
        edit: ExpressionEdit,
        holes: Mapping[str, Place],
        original: cst.BaseExpression,
        updated: cst.BaseExpression,
    ) -> cst.BaseExpression:
        match edit, updated:
            case SetArgument(), cst.Call():
                return set_argument(updated, edit.keyword, edit.value, edit.position)
            case RemoveArgument(), cst.Call():
                return remove_argument(updated, edit.keyword)
            case RewriteCall(), cst.Call():
                return rewrite_call(updated, edit)
            case Transform(), _:
                return edit.function(original, updated)
            case Replace(), _:
                return self._replace(edit, holes, updated)
        raise SourceError("TM006", f"{type(edit).__name__} does not fit a {type(updated).__name__}")

    def _replace(self, edit: Replace, holes: Mapping[str, Place], updated: cst.BaseExpression) -> cst.BaseExpression:
        sources = {name: cst.Module([]).code_for_node(self._done[place]) for name, place in holes.items()}
        new = cst.parse_expression(re.sub(r"\$(\w+)", lambda m: sources[m[1]], edit.code))
        if updated.lpar and not new.lpar:
            return new.with_changes(lpar=updated.lpar, rpar=updated.rpar)
        return new
