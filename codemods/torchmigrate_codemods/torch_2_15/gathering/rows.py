"""How a value of several ranks is used: as one tensor, or rank by rank."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchmigrate.module import Module
from torchmigrate.scopes import Kind

_ROW_CALLS = frozenset({"enumerate", "zip", "len", "list", "tuple", "iter", "reversed", "sum"})
_RANK_NAMES = frozenset({"rank", "local_rank", "global_rank", "group_rank", "my_rank"})
_INT_CALLS = frozenset({"len", "int"})
_INT_METHODS = frozenset({"rank", "get_rank", "get_world_size", "get_group_rank", "get_local_rank"})
_INT_FUNCTIONS = frozenset(f"torch.distributed.{n}" for n in ("get_rank", "get_world_size", "get_group_rank"))


def bound_name(module: Module, node: ast.expr) -> ast.Name | None:
    """The single name to which a statement assigns just this expression."""
    parent = module.parents.get(node)
    match parent:
        case ast.Assign(targets=[ast.Name() as target]) if parent.value is node:
            return target
        case ast.AnnAssign(target=ast.Name() as target) if parent.value is node:
            return target
        case ast.Assign(targets=[ast.Tuple(elts=[ast.Name() as target]) | ast.List(elts=[ast.Name() as target])]):
            return target if parent.value is node else None
    return None


def loads(module: Module, target: ast.Name) -> list[ast.Name]:
    """Every read of a variable, in any function that sees it."""
    names = module.names
    found = names.lookup(target.id, names.scope_of(target))
    if found is None:
        return []
    same = [load for load in names.loads if load.id == target.id]
    return [load for load in same if (there := names.lookup(load.id, names.scope_of(load))) and there[0] is found[0]]


def loads_of(module: Module, target: ast.Name) -> list[ast.Name] | None:
    """The reads that get what one statement assigns and nothing else; None where some may get other values too."""
    statement = module.statement(target)
    if _updated(module, target):
        return None
    found = module.names.lookup(target.id, module.names.scope_of(target))
    only = found is not None and len(found[1]) == 1
    result: list[ast.Name] = []
    for load in loads(module, target):
        if module.function(load) is not module.function(target):
            if not only:
                return None
            result.append(load)
            continue
        definitions = module.flow(load).definitions(load.id, load)
        reached = [d for d in definitions if d.node is statement]
        if reached and len(definitions) > 1 and any(d.how != "unbound" for d in definitions if d not in reached):
            return None
        if reached:
            result.append(load)
    return result


def _updated(module: Module, target: ast.Name) -> bool:
    """Whether `+=` and the like change the variable."""
    found = module.names.lookup(target.id, module.names.scope_of(target))
    return found is not None and any(isinstance(module.parents.get(b.node), ast.AugAssign) for b in found[1])


def picks_rows(module: Module, node: ast.expr) -> bool:
    """Whether an expression is only used rank by rank, so that the list of outputs does as well as one tensor."""
    parent = module.parents.get(node)
    match parent:
        case ast.Subscript(value=value, slice=index, ctx=ast.Load()) if value is node:
            first = index.elts[0] if isinstance(index, ast.Tuple) and index.elts else index
            return is_index(module, first) and not _changed_in_place(module, parent)
        case ast.For(iter=iterated, target=target) if iterated is node:
            return not _targets_changed(module, target, parent)
        case ast.comprehension(iter=iterated) if iterated is node:
            return True
        case ast.Call(func=ast.Name(id=name), args=args) if name in _ROW_CALLS and node in args:
            if module.names.lookup(name, module.names.scope_of(parent)) is not None:
                return False
            around = module.parents.get(parent)
            if isinstance(around, ast.For) and around.iter is parent:
                return not _targets_changed(module, around.target, around)
            return True
    return False


def _changed_in_place(module: Module, node: ast.expr) -> bool:
    """Whether what an expression gives is written to right there."""
    parent = module.parents.get(node)
    match parent:
        case ast.Attribute(attr=attr):
            return attr.endswith("_") and not attr.endswith("__")
        case ast.AugAssign(target=target):
            return target is node
        case ast.Subscript(value=value, ctx=context):
            return value is node and (not isinstance(context, ast.Load) or _changed_in_place(module, parent))
        case ast.keyword(arg="out"):
            return True
    return False


def _targets_changed(module: Module, target: ast.expr, loop: ast.For) -> bool:
    names = {n.id for n in ast.walk(target) if isinstance(n, ast.Name)}
    for node in ast.walk(loop):
        if isinstance(node, ast.Name) and node.id in names:
            parent = module.parents.get(node)
            if isinstance(parent, ast.AugAssign) and parent.target is node:
                return True
            if isinstance(node.ctx, ast.Load) and _changed_in_place(module, node):
                return True
    return False


def reindexed(module: Module, pick: ast.Subscript, listed: str) -> str:
    """`v[r, i, :]` on the list of outputs: `outs[r][i]`."""
    index = pick.slice
    if not isinstance(index, ast.Tuple):
        return f"{listed}[{module.source(index)}]"
    first, *rest = index.elts
    while rest and _everything(rest[-1]):
        rest.pop()
    tail = f"[{', '.join(module.source(e) for e in rest)}]" if rest else ""
    return f"{listed}[{module.source(first)}]{tail}"


def _everything(node: ast.expr) -> bool:
    whole = isinstance(node, ast.Slice) and node.lower is None and node.upper is None and node.step is None
    return whole or (isinstance(node, ast.Constant) and node.value is ...)


# -- numbers ---------------------------------------------------------------------------------------------------


def is_index(module: Module, node: ast.expr, depth: int = 0) -> bool:
    """Whether an expression is surely one whole number, a rank say, and no slice, mask or tensor of indices."""
    if depth > 8:
        return False

    def inner(part: ast.expr) -> bool:
        return is_index(module, part, depth + 1)

    match node:
        case ast.Constant(value=value):
            return isinstance(value, int) and not isinstance(value, bool)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return inner(operand)
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult() | ast.FloorDiv() | ast.Mod(), right=right):
            return inner(left) and inner(right)
        case ast.IfExp(body=body, orelse=orelse):
            return inner(body) and inner(orelse)
        case ast.Call(func=function):
            if isinstance(function, ast.Name) and function.id in _INT_CALLS:
                return module.names.lookup(function.id, module.names.scope_of(node)) is None
            if isinstance(function, ast.Attribute) and function.attr in _INT_METHODS:
                return True
            return module.refers_to(function, *_INT_FUNCTIONS)
        case ast.Attribute(attr=attr):
            return attr in _RANK_NAMES
        case ast.Name(id=name):
            values = list(_numbers(module, node))
            known = all(inner(v) if isinstance(v, ast.expr) else v for v in values)
            return known and (bool(values) or name in _RANK_NAMES)
    return False


def _numbers(module: Module, node: ast.Name) -> Iterator[ast.expr | bool]:
    """What a variable may hold: expressions, True for a surely whole number, False for anything."""
    names = module.names
    found = names.lookup(node.id, names.scope_of(node))
    if found is None:
        return
    scope, bindings = found
    if scope.is_comprehension:
        for generator in getattr(scope.node, "generators", []):
            if any(isinstance(n, ast.Name) and n.id == node.id for n in ast.walk(generator.target)):
                yield _counted(generator.target, generator.iter, node.id)
        return
    for binding in bindings:
        if binding.kind is Kind.ASSIGN:
            yield binding.value if binding.value is not None else False
        elif binding.kind is Kind.PARAMETER and isinstance(binding.node, ast.arg):
            annotation = binding.node.annotation
            plain = isinstance(annotation, ast.Name) and annotation.id == "int"
            yield plain or (annotation is None and node.id in _RANK_NAMES)
        elif isinstance(binding.node, ast.Name):
            loop = next((a for a in module.ancestors(binding.node) if isinstance(a, (ast.For, ast.stmt))), None)
            yield _counted(loop.target, loop.iter, node.id) if isinstance(loop, ast.For) else False
        else:
            yield False


def _counted(target: ast.expr, iterated: ast.expr, name: str) -> bool:
    """True for the numbers of `range` and the first of the pairs of `enumerate`."""
    function = iterated.func.id if isinstance(iterated, ast.Call) and isinstance(iterated.func, ast.Name) else ""
    if function == "range" and isinstance(target, ast.Name):
        return True
    if function == "enumerate" and isinstance(target, ast.Tuple) and isinstance(target.elts[0], ast.Name):
        return target.elts[0].id == name
    return False
