"""Names for new local variables."""

from __future__ import annotations

import ast
import builtins

from torchmigrate.module import Module


class FreshNames:
    """Names for new variables that mean nothing else where they can be seen."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self._taken: dict[ast.AST, set[str]] = {}

    def take(self, wanted: str, at: ast.AST) -> str:
        """A name for a new variable of the function around a node, like the one wanted."""
        around = [a for a in self.module.ancestors(at) if isinstance(a, (ast.FunctionDef, ast.AsyncFunctionDef))]
        region = around[-1] if around else self.module.tree
        if region not in self._taken:
            self._taken[region] = _identifiers(region) | set(self.module.names.module.bindings) | set(dir(builtins))
        taken = self._taken[region]
        candidate, number = wanted, 2
        while candidate in taken:
            candidate, number = f"{wanted}_{number}", number + 1
        taken.add(candidate)
        return candidate


def _identifiers(region: ast.AST) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(region):
        match node:
            case ast.Name(id=name) | ast.arg(arg=name) | ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                found.add(name)
            case ast.Global(names=names) | ast.Nonlocal(names=names):
                found |= set(names)
            case ast.alias(name=name, asname=asname):
                found.add(asname or name.partition(".")[0])
    return found
