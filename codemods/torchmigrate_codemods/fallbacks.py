"""Calls of an old function that only run where torch has not the new one yet."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from torchmigrate.module import Module
from torchmigrate.reaching import key_of
from torchmigrate.scopes import Kind

_VERSION = re.compile(r"^\d+\.\d+")
_CATCHES = frozenset({"ImportError", "ModuleNotFoundError", "AttributeError"})


def is_fallback(module: Module, call: ast.Call, new: str) -> bool:
    """Whether a call is the other way of a choice whose first way is the new function, by a question about torch."""
    for branch, test in _ways(module, call):
        if (test is None or _about_torch(module, test, new)) and any(_calls(module, other, new) for other in branch):
            return True
    return False


def _ways(module: Module, call: ast.Call) -> Iterator[tuple[list[ast.AST], ast.expr | None]]:
    """The code that runs instead of a call, with the test that decides (None: an exception does)."""
    child: ast.AST = call
    for at in module.ancestors(call):
        if isinstance(at, ast.IfExp) and child is not at.test:
            yield [at.orelse if child is at.body else at.body], at.test
        elif isinstance(at, ast.If) and child is not at.test:
            yield list(at.orelse if child in at.body else at.body), at.test
        elif isinstance(at, ast.Try) and isinstance(child, ast.ExceptHandler) and _catches(child):
            yield list(at.body), None
        blocks = [getattr(at, name, None) for name in ("body", "orelse", "finalbody")]
        block = next((b for b in blocks if isinstance(b, list) and child in b), None)
        if block is not None and isinstance(child, ast.stmt):
            for earlier in block[: block.index(child)]:
                if isinstance(earlier, ast.If) and _leaves(earlier.body):
                    yield list(earlier.body), earlier.test
        child = at


def _leaves(body: list[ast.stmt]) -> bool:
    return bool(body) and isinstance(body[-1], (ast.Return, ast.Raise, ast.Continue, ast.Break))


def _catches(handler: ast.ExceptHandler) -> bool:
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return all(kind is None or (key_of(kind) or "").rpartition(".")[2] in _CATCHES for kind in kinds)


def _calls(module: Module, node: ast.AST, new: str) -> bool:
    """Whether code calls the new function, under any name that ends like it."""
    for at in ast.walk(node):
        if isinstance(at, ast.Call):
            last = (key_of(at.func) or "").rpartition(".")[2].lstrip("_")
            if last == new or f"torch.nn.functional.{new}" in module.resolve(at.func).names:
                return key_of(at.func) != f"torch._{new}"
    return False


def _about_torch(module: Module, test: ast.expr, new: str, depth: int = 0) -> bool:
    """Whether a test asks for the new function or for a version."""
    for at in ast.walk(test):
        match at:
            case ast.Constant(value=str() as text):
                if text.lstrip("_") == new or _VERSION.match(text):
                    return True
            case ast.Attribute(attr="__version__"):
                return True
            case ast.Name() | ast.Attribute():
                last = (key_of(at) or "").rpartition(".")[2].lower()
                if new in last or ("torch" in last and re.search(r"version|\d_\d|_ge_|greater|at_least", last)):
                    return True
                if isinstance(at, ast.Name) and depth < 4 and _defined_so(module, at, new, depth):
                    return True
    return False


def _defined_so(module: Module, node: ast.Name, new: str, depth: int) -> bool:
    found = module.names.lookup(node.id, module.names.scope_of(node))
    return found is not None and any(
        b.kind is Kind.ASSIGN and b.value is not None and _about_torch(module, b.value, new, depth + 1)
        for b in found[1]
    )
