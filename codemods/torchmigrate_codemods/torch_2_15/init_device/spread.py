"""What `**mapping` brings into a call: whether a keyword is in it, and with which value."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchmigrate.reaching import Definition, Version, key_of, settled, touches
from torchmigrate.scopes import Kind
from torchmigrate.values import Facts, Leaf, Values

_CHANGES = frozenset({"update", "setdefault", "__setitem__"})


def mentions(values: Values, mapping: ast.expr, keyword: str, call: ast.Call) -> bool:
    """Whether a mapping is seen to get a keyword, on some path at least.

    `**device_id_kwargs(rank)` counts as well: a function of another module whose name says what it gives.
    """
    seen: set[int] = set()
    stack: list[ast.AST] = [mapping]
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        for inner in ast.walk(node):
            if _names(inner, keyword):
                return True
            if isinstance(inner, ast.Call):
                called = values.functions.called(inner)
                if called is not None:
                    stack.append(called)
                elif keyword in ast.unparse(inner.func):
                    return True
            key = key_of(inner)
            if key is not None and isinstance(inner, (ast.Name, ast.Attribute)) and inner in values.module.parents:
                stack += _writes(values, inner, key)
    return False


def _names(node: ast.AST, keyword: str) -> bool:
    if isinstance(node, ast.keyword):
        return node.arg == keyword
    if isinstance(node, ast.Dict):
        return any(isinstance(k, ast.Constant) and k.value == keyword for k in node.keys)
    if isinstance(node, ast.Subscript):
        return isinstance(node.slice, ast.Constant) and node.slice.value == keyword
    return isinstance(node, ast.Constant) and node.value == keyword


def _writes(values: Values, node: ast.Name | ast.Attribute, key: str) -> Iterator[ast.AST]:
    """What is written to a mapping anywhere in its function: its definitions, its items, its updates."""
    module = values.module
    owner = module.function(node) or module.tree
    for definition in module.flow(node).definitions(key, node):
        if definition.value is not None:
            yield definition.value
    if isinstance(node, ast.Name):
        found = module.names.lookup(node.id, module.names.scope_of(node))
        for binding in found[1] if found else ():
            if binding.kind is Kind.ASSIGN and binding.value is not None:
                yield binding.value
    for attribute in module.names.attributes:
        if attribute.attr in _CHANGES and key_of(attribute.value) == key:
            parent = module.parents.get(attribute)
            if isinstance(parent, ast.Call) and (module.function(attribute) or module.tree) is owner:
                yield from (*parent.args, *parent.keywords)
    for inner in ast.walk(owner):
        if isinstance(inner, ast.Subscript) and isinstance(inner.ctx, ast.Store) and key_of(inner.value) == key:
            yield inner


def item(values: Values, mapping: ast.expr, keyword: str, facts: Facts) -> list[Leaf] | None:
    """What a mapping holds under a keyword.

    None where not all of the mapping is in sight; no leaf at all where the keyword is surely not in it.
    """
    key = key_of(mapping)
    if key is not None:
        version = values.module.flow(mapping).version(f"{key}[{keyword!r}]", mapping)
        leaves = _written(values, version, facts)
        if leaves is not None:
            return leaves
        if touches(values.module.flow(mapping).version(key, mapping)):
            return None
    found: list[Leaf] = []
    for leaf in values.leaves(mapping, facts):
        names = _literal(leaf.node)
        if names is None:
            return None
        for name, value in names:
            if name == keyword:
                found += values.leaves(value, facts)
    return found


def _written(values: Values, version: Version, facts: Facts) -> list[Leaf] | None:
    """What the item was set to, if it surely was set."""
    found: list[Leaf] = []
    for definition in values.sources(settled(version), facts):
        if not isinstance(definition, Definition) or definition.how != "assign" or definition.value is None:
            return None
        found += values.leaves(definition.value, facts)
    return found or None


def _literal(node: ast.expr | None) -> list[tuple[str, ast.expr]] | None:
    """The items of a dict that is written down completely."""
    if isinstance(node, ast.Dict):
        pairs: list[tuple[str, ast.expr]] = []
        for key, value in zip(node.keys, node.values, strict=True):
            if not isinstance(key, ast.Constant) or not isinstance(key.value, str):
                return None
            pairs.append((key.value, value))
        return pairs
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "dict" and not node.args:
        if any(k.arg is None for k in node.keywords):
            return None
        return [(k.arg, k.value) for k in node.keywords if k.arg]
    return None
