"""Rewritten calls that would be too long for their line get one argument a line."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchmigrate.edits import Edit, RewriteCall, Transform
from torchmigrate.module import Module

if TYPE_CHECKING:
    import libcst as cst

_LIMIT = 120


def fitted(module: Module, edit: RewriteCall) -> tuple[Edit, ...]:
    """The edit, and one that breaks the new call where it does not fit into the line of the old one."""
    start, end = module.extent(edit.node)
    quoted = any(isinstance(at, ast.JoinedStr) for at in module.ancestors(edit.node))
    if quoted or len(module.text[start:end].splitlines()) > 1:
        return (edit,)
    first, last = module.lines.line_start(start), module.lines.line_end(end)
    before, behind = module.text[first:start], module.text[end:last].rstrip()
    indent = before[: len(before) - len(before.lstrip())]
    newline = module.lines.newline_near(start)

    def change(original: cst.BaseExpression, updated: cst.BaseExpression) -> cst.BaseExpression:
        import libcst as cst

        lines = cst.Module([]).code_for_node(updated).splitlines()
        lines[0], lines[-1] = before + lines[0], lines[-1] + behind
        fits = max(map(len, lines)) <= _LIMIT
        return updated if fits or not isinstance(updated, cst.Call) else _one_a_line(updated, indent, newline)

    return (edit, Transform(edit.node, change))


def _one_a_line(call: cst.Call, indent: str, newline: str) -> cst.Call:
    import libcst as cst

    def line(margin: str) -> cst.ParenthesizedWhitespace:
        return cst.ParenthesizedWhitespace(
            first_line=cst.TrailingWhitespace(newline=cst.Newline(newline)),
            last_line=cst.SimpleWhitespace(margin),
        )

    inner, outer = line(indent + "    "), line(indent)
    args = [
        arg.with_changes(
            comma=cst.Comma(whitespace_after=inner if position < len(call.args) - 1 else outer),
            whitespace_after_arg=cst.SimpleWhitespace(""),
        )
        for position, arg in enumerate(call.args)
    ]
    return call.with_changes(whitespace_before_args=inner, args=args)
