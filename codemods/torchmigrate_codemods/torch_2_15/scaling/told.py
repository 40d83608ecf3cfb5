"""What the conditions on the way to a place say about the number of elements of a variable."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchmigrate.module import Module
from torchmigrate_codemods.torch_2_15.scaling.shape import ROWS, SCALAR, Dim, Shape

_DEPTH = 8


def told(module: Module, node: ast.Name | ast.Attribute) -> Shape | None:
    """The shape that a condition gives to a variable where it is read."""
    normal = module.normal(node)
    found = (_told_by(test, truth, normal) for test, truth in _tests(module, node))
    return next((shape for shape in found if shape is not None), None)


def tested_many(module: Module, node: ast.expr) -> bool:
    """Whether a condition says that the variable behind an expression has more than one element."""
    normal = module.normal(_root(node))
    return any(_one(test, truth, normal) is False for test, truth in _tests(module, node))


def _tests(module: Module, node: ast.expr) -> Iterator[tuple[ast.expr, bool]]:
    for condition in module.flow(node).conditions(node):
        yield from _parts(module, condition.test, condition.truth, 0)


def _parts(module: Module, test: ast.expr, truth: bool, depth: int) -> Iterator[tuple[ast.expr, bool]]:
    """The single tests that hold when a test came out some way, behind `and`, `not` and names for tests."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield from _parts(module, operand, not truth, depth)
        case ast.BoolOp(op=op, values=values) if isinstance(op, ast.And) is truth:
            for value in values:
                yield from _parts(module, value, truth, depth)
        case ast.Name(id=name):
            definitions = module.flow(test).definitions(name, test)
            meant = definitions[0].value if len(definitions) == 1 and definitions[0].how == "assign" else None
            if meant is not None and depth < _DEPTH and _unchanged(module, meant, test):
                yield from _parts(module, meant, truth, depth + 1)
        case _:
            yield test, truth


def _unchanged(module: Module, test: ast.expr, at: ast.expr) -> bool:
    names = {part.id for part in ast.walk(test) if isinstance(part, ast.Name)}
    return all(module.flow(at).same(name, test, at) for name in names)


def _root(node: ast.expr) -> ast.expr:
    """The variable that an expression is a view of."""
    while True:
        match node:
            case ast.Call(func=ast.Attribute(value=value)):
                node = value
            case ast.Attribute(value=value, attr="T" | "mT" | "data"):
                node = value
            case ast.Subscript(value=value):
                node = value
            case _:
                return node


def _told_by(test: ast.expr, truth: bool, normal: str) -> Shape | None:
    """The shape that a single test says a variable has."""
    if _one(test, truth, normal):
        return SCALAR
    if not truth:
        return None
    match test:
        case ast.Compare(left=left, ops=[ast.Eq()], comparators=[right]):
            for one, other in ((left, right), (right, left)):
                shape = ast.unparse(one)
                if shape in (f"{normal}.shape", f"{normal}.size()", f"tuple({normal}.shape)", f"list({normal}.shape)"):
                    if isinstance(other, ast.Call) and other.args:
                        other = other.args[0]
                    if isinstance(other, (ast.Tuple, ast.List)):
                        return Shape(tuple(_size(e) for e in other.elts))
    return None


def _size(node: ast.expr) -> Dim:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, int) else ROWS


def _one(test: ast.expr, truth: bool, normal: str) -> bool | None:
    """Whether a test says that a variable has one element (True) or more (False)."""
    match test:
        case ast.Compare(left=left, ops=[op], comparators=[ast.Constant(value=int() as value)]):
            text = ast.unparse(left)
            if text in (f"{normal}.numel()", f"{normal}.nelement()") and value == 1:
                if isinstance(op, ast.Eq):
                    return truth
                return not truth if isinstance(op, (ast.NotEq, ast.Gt)) else None
            if text in (f"{normal}.dim()", f"{normal}.ndim", f"len({normal}.shape)") and value == 0:
                return True if isinstance(op, ast.Eq) and truth else None
    return None
