"""Where a value was made: the expressions in sight that a name or an attribute can go back to."""

from __future__ import annotations

import ast
import collections
from collections.abc import Iterator

from torchmigrate.module import Module
from torchmigrate.reaching import key_of
from torchmigrate.scopes import Kind

_DEPTH = 6


def origins(module: Module, node: ast.expr, depth: int = 0) -> list[ast.expr] | None:
    """The expressions that a value can come from; None when some of them are out of sight.

    Names are followed through the function that reads them, closures and the module's top level; `self.x` through the
    methods of its class. What is none of these is its own origin.
    """
    if depth > _DEPTH:
        return None
    match node:
        case ast.IfExp(body=body, orelse=orelse):
            return _joined(module, [body, orelse], depth)
        case ast.BoolOp(values=values):
            return _joined(module, values, depth)
        case ast.NamedExpr(value=value):
            return origins(module, value, depth + 1)
        case ast.Name() | ast.Attribute() if not module.resolve(node).names:
            return _of_key(module, node, depth)
    return [node]


def visible(module: Module, node: ast.expr) -> list[ast.expr]:
    """The origins in sight, whether or not there are others."""
    found = origins(module, node)
    if found is not None:
        return found
    assigned = _assignments(module, node)
    return [one for value in assigned or () for one in origins(module, value, 1) or ()]


def _joined(module: Module, values: list[ast.expr], depth: int) -> list[ast.expr] | None:
    found: list[ast.expr] = []
    for value in values:
        one = origins(module, value, depth + 1)
        if one is None:
            return None
        found += one
    return found


def _of_key(module: Module, node: ast.Name | ast.Attribute, depth: int) -> list[ast.expr] | None:
    values = _assignments(module, node)
    return _joined(module, values, depth) if values else None


def _assignments(module: Module, node: ast.expr) -> list[ast.expr] | None:
    """The values that are assigned to a name or an attribute wherever it can have got its value; None if not all."""
    key = key_of(node)
    if key is None:
        return None
    values: list[ast.expr] = []
    for definition in module.flow(node).definitions(key, node):
        if definition.how == "assign" and definition.value is not None:
            values.append(definition.value)
        elif definition.how == "free":
            outside = _attribute(module, node) if isinstance(node, ast.Attribute) else _outer(module, node)
            if outside is None:
                return None
            values += outside
        elif definition.how != "unbound":
            return None
    return values


def _outer(module: Module, node: ast.expr) -> list[ast.expr] | None:
    """The assignments of a name in the scopes around the function that reads it."""
    if not isinstance(node, ast.Name):
        return None
    found = module.names.lookup(node.id, module.names.scope_of(node))
    if found is None or any(b.kind is not Kind.ASSIGN or b.value is None for b in found[1]):
        return None
    return [b.value for b in found[1] if b.value is not None]


def _attribute(module: Module, node: ast.Attribute) -> list[ast.expr] | None:
    """The assignments of `self.x` in the methods of the class around, or of a class attribute."""
    owner = module.enclosing_class(node)
    if owner is None or not isinstance(node.value, ast.Name) or node.value.id not in ("self", "cls"):
        return None
    values: list[ast.expr] = []
    for target, value in attribute_assignments(owner, node.attr):
        if value is None:
            return None
        if target is not node:
            values.append(value)
    return values or None


def attribute_assignments(owner: ast.ClassDef, name: str) -> Iterator[tuple[ast.expr, ast.expr | None]]:
    """The assignments of an attribute in a class: target and value (None where the value cannot be told)."""
    for at in _statements(owner):
        if isinstance(at, (ast.Assign, ast.AnnAssign)):
            for target in at.targets if isinstance(at, ast.Assign) else [at.target]:
                own = isinstance(target, ast.Attribute) and target.attr == name and _is_self(target.value)
                if own or (isinstance(target, ast.Name) and target.id == name and at in owner.body):
                    if at.value is not None:
                        yield target, at.value
                elif isinstance(target, (ast.Tuple, ast.List)):
                    for element in target.elts:
                        if isinstance(element, ast.Attribute) and element.attr == name and _is_self(element.value):
                            yield element, None
        elif isinstance(at, (ast.For, ast.With, ast.AugAssign)):
            inner = at.target if not isinstance(at, ast.With) else None
            if isinstance(inner, ast.Attribute) and inner.attr == name and _is_self(inner.value):
                yield inner, None


def _statements(owner: ast.AST) -> Iterator[ast.AST]:
    """What `ast.walk` gives, in its order, without expressions."""
    todo = collections.deque([owner])
    while todo:
        at = todo.popleft()
        yield at
        for block in ("body", "handlers", "orelse", "finalbody", "cases"):
            todo.extend(getattr(at, block, ()))


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("self", "cls")
