"""Functions of a file as values: what a name given to `.then` refers to, where a function is mentioned."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchmigrate.module import Module
from torchmigrate.reaching import key_of
from torchmigrate.scopes import Kind

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_DEFS = (ast.FunctionDef, ast.AsyncFunctionDef)


class Callbacks:
    """Answers for one module."""

    def __init__(self, module: Module) -> None:
        self.module = module

    def functions(self, node: ast.expr) -> list[tuple[Function, int]]:
        """The functions of this file that an expression refers to, with the index of the first parameter it fills."""
        match node:
            case ast.Lambda():
                return [(node, 0)]
            case ast.Name(id=name):
                found = self.module.names.lookup(name, self.module.names.scope_of(node))
                functions: list[tuple[Function, int]] = []
                for binding in found[1] if found else ():
                    if isinstance(binding.node, _DEFS):
                        functions.append((binding.node, 0))
                    elif binding.kind is Kind.ASSIGN and isinstance(binding.value, ast.Lambda):
                        functions.append((binding.value, 0))
                return functions
            case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=attr):
                inside = self.module.enclosing_class(node)
                methods = [m for m in (inside.body if inside else []) if isinstance(m, _DEFS) and m.name == attr]
                return [(m, 0 if any(key_of(d) == "staticmethod" for d in m.decorator_list) else 1) for m in methods]
            case ast.Call(func=function, args=[inner, *given]):
                if self.module.refers_to(function, "functools.partial"):
                    return [(f, first + len(given)) for f, first in self.functions(inner)]
        return []

    def references(self, function: Function) -> Iterator[ast.expr]:
        """Every mention of a function: its name, or the lambda itself where it stands."""
        if isinstance(function, ast.Lambda):
            parent = self.module.parents.get(function)
            if isinstance(parent, ast.Assign) and len(parent.targets) == 1 and isinstance(parent.targets[0], ast.Name):
                target = parent.targets[0]
                for load in self.module.names.loads:
                    if load.id == target.id and any(f is function for f, _ in self.functions(load)):
                        yield load
                return
            yield function
            return
        for load in self.module.names.loads:
            if load.id == function.name and any(f is function for f, _ in self.functions(load)):
                yield load
        for attribute in self.module.names.attributes:
            if attribute.attr == function.name and any(f is function for f, _ in self.functions(attribute)):
                yield attribute

    def results(self, function: Function) -> list[ast.expr]:
        """The expressions that a function returns."""
        if isinstance(function, ast.Lambda):
            return [function.body]
        return [node.value for node in own_nodes(function) if isinstance(node, ast.Return) and node.value is not None]


def own_nodes(function: ast.AST) -> Iterator[ast.AST]:
    """The nodes that a function runs itself, without those of functions and classes inside it."""
    stack = list(ast.iter_child_nodes(function))
    while stack:
        at = stack.pop()
        yield at
        if not isinstance(at, (*_DEFS, ast.ClassDef, ast.Lambda)):
            stack.extend(ast.iter_child_nodes(at))
