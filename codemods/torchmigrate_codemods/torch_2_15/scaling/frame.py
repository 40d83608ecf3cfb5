"""The arguments with which a function of the file is looked at, and the branches that they rule out."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass

from torchmigrate.module import Module


@dataclass(frozen=True, eq=False, slots=True)
class Frame:
    """The arguments of a call of a function of the file: expressions by parameter name, with their own frame."""

    given: Mapping[str, ast.expr]
    outer: Frame | None = None


def excluded(module: Module, at: ast.AST, frame: Frame | None) -> bool:
    """Whether code cannot run with the arguments at hand, since a condition on a parameter is false."""
    if frame is None:
        return False
    for condition in module.flow(at).conditions(at):
        truth = _truth(module, condition.test, frame)
        if truth is not None and truth is not condition.truth:
            return True
    return False


def _truth(module: Module, test: ast.expr, frame: Frame) -> bool | None:
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            inner = _truth(module, operand, frame)
            return None if inner is None else not inner
        case ast.Name():
            found = constant(module, test, frame)
            return bool(found.value) if found is not None else None
        case ast.Compare(left=ast.Name() as left, ops=[op], comparators=[ast.Constant(value=value)]):
            found = constant(module, left, frame)
            if found is not None and isinstance(op, (ast.Eq, ast.Is)):
                return bool(found.value == value)
            if found is not None and isinstance(op, (ast.NotEq, ast.IsNot)):
                return bool(found.value != value)
    return None


def constant(module: Module, node: ast.Name, frame: Frame | None) -> ast.Constant | None:
    """The constant that a parameter has, where it has one and is not assigned again."""
    given = _given(module, node, frame)
    while given is not None:
        expression, outer = given
        if isinstance(expression, ast.Constant):
            return expression
        given = _given(module, expression, outer) if isinstance(expression, ast.Name) else None
    return None


def _given(module: Module, node: ast.Name, frame: Frame | None) -> tuple[ast.expr, Frame | None] | None:
    if frame is None or node.id not in frame.given:
        return None
    definitions = module.flow(node).definitions(node.id, node)
    if not definitions or any(d.how != "parameter" for d in definitions):
        return None
    return frame.given[node.id], frame.outer
