"""Carry out planned edits: one libcst parse and one traversal for each changed expression, all codemods together.

libcst is imported only here, and only when something changes. Each region is the outermost expression that an edit
names; edits inside it are carried out on the way up, in the order of the codemods, each on what the one before it made.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from torchmigrate.edits import (
    Edit,
    ExpressionEdit,
    InsertAfter,
    InsertBefore,
    RemoveStatement,
    Replace,
    ReplaceStatement,
    ReplaceText,
    StatementEdit,
)
from torchmigrate.source import Splice

if TYPE_CHECKING:
    from torchmigrate.module import Module


class Conflict(Exception):
    """Two edits that cannot both be carried out."""


class NotPossible(Exception):
    """An edit that does not fit the place (a statement that shares its line, for example)."""


def splices(module: Module, edits: Sequence[Edit]) -> list[Splice]:
    """The text splices of all edits together, in order of position.

    Raises Conflict when edits overlap, NotPossible when an edit does not fit its place.
    """
    result: list[Splice] = []
    expressions: list[tuple[int, int, ExpressionEdit]] = []
    for edit in edits:
        if isinstance(edit, ReplaceText):
            result.append(Splice(edit.start, edit.end, edit.text))
        elif isinstance(edit, (InsertBefore, InsertAfter, ReplaceStatement, RemoveStatement)):
            result.append(_statement_splice(module, edit))
        else:
            expressions.append((*module.extent(edit.node), edit))
    for start, end, inside in _regions(expressions):
        from torchmigrate.transform import Anchored, rewrite

        anchored = [Anchored(s, e, edit, _hole_extents(module, edit)) for s, e, edit in inside]
        result.append(Splice(start, end, rewrite(module.text[start:end], start, anchored)))
    return _merged(result)


def _hole_extents(module: Module, edit: ExpressionEdit) -> dict[str, tuple[int, int]]:
    return {name: module.extent(node) for name, node in edit.holes} if isinstance(edit, Replace) else {}


def regions(module: Module, edits: Iterable[Edit]) -> list[tuple[int, int]]:
    """The extents in the text that edits touch, insertions as empty extents."""
    found = []
    for edit in edits:
        if isinstance(edit, ReplaceText):
            found.append((edit.start, edit.end))
        elif isinstance(edit, (InsertBefore, InsertAfter)):
            start, end = module.extent(edit.node)
            at = module.lines.line_start(start) if isinstance(edit, InsertBefore) else module.lines.line_end(end)
            found.append((at, at))
        elif isinstance(edit, RemoveStatement):
            start, end = module.extent(edit.node)
            found.append((module.lines.line_start(start), module.lines.line_end(end)))
        else:
            found.append(module.extent(edit.node))
    return found


def _regions(
    edits: list[tuple[int, int, ExpressionEdit]],
) -> list[tuple[int, int, list[tuple[int, int, ExpressionEdit]]]]:
    """Edits grouped by the outermost expression that one of them names."""
    groups: list[tuple[int, int, list[tuple[int, int, ExpressionEdit]]]] = []
    for start, end, edit in sorted(edits, key=lambda e: (e[0], -e[1])):
        if groups and start < groups[-1][1]:
            if end > groups[-1][1]:
                raise Conflict("expressions overlap")
            groups[-1][2].append((start, end, edit))
        else:
            groups.append((start, end, [(start, end, edit)]))
    order = {id(edit): i for i, (_, _, edit) in enumerate(edits)}
    for _, _, inside in groups:
        _no_lost_edits(inside)
        inside.sort(key=lambda e: order[id(e[2])])
    return groups


def _no_lost_edits(inside: list[tuple[int, int, ExpressionEdit]]) -> None:
    for start, end, edit in inside:
        if not isinstance(edit, Replace):
            continue
        holes = [hole for _, hole in edit.holes]
        for other_start, other_end, other in inside:
            if other is edit or not (start <= other_start and other_end <= end):
                continue
            other_node = getattr(other, "node", None)
            same = (other_start, other_end) == (start, end)
            if same or not any(node is other_node for hole in holes for node in ast.walk(hole)):
                raise Conflict("two changes of one expression")


def _statement_splice(module: Module, edit: StatementEdit) -> Splice:
    start, end = module.extent(edit.node)
    lines = module.lines
    line_start, line_end = lines.line_start(start), lines.line_end(end)
    indent = module.text[line_start:start]
    newline = lines.newline_near(start)
    if isinstance(edit, ReplaceStatement):
        return Splice(start, end, edit.code)
    if isinstance(edit, RemoveStatement):
        tail = module.text[end:line_end].strip()
        if indent.strip() or (tail and not tail.startswith("#")) or _only_child(module, edit.node):
            raise NotPossible("the statement does not stand alone")
        return Splice(line_start, line_end, "")
    code = newline.join(indent + line if line.strip() else line for line in edit.code.splitlines())
    if isinstance(edit, InsertBefore):
        if indent.strip():
            raise NotPossible("the statement does not start its line")
        return Splice(line_start, line_start, code + newline)
    tail = module.text[end:line_end].strip()
    if indent.strip() or (tail and not tail.startswith("#")):
        raise NotPossible("the statement does not end its line")
    if line_end == len(module.text) and not module.text.endswith(("\n", "\r")):
        return Splice(line_end, line_end, newline + code)
    return Splice(line_end, line_end, code + newline)


def _only_child(module: Module, node: ast.stmt) -> bool:
    parent = module.parents.get(node)
    blocks = [getattr(parent, name, None) for name in ("body", "orelse", "finalbody")]
    return any(isinstance(block, list) and block == [node] for block in blocks)


def _merged(found: list[Splice]) -> list[Splice]:
    """Splices in order, equal insertions once; raises Conflict on overlap."""
    ordered = sorted(found, key=lambda s: (s.start, s.end))
    result: list[Splice] = []
    for one in ordered:
        if result and one == result[-1] and one.start == one.end:
            continue
        if result and one.start < result[-1].end:
            raise Conflict("changes overlap")
        result.append(one)
    return result
