"""Every place of a file that reaches one of some qualified names: imports, reads, and texts that name it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from torchmigrate.module import Module

_CATCHES = frozenset({"ImportError", "ModuleNotFoundError", "AttributeError", "Exception", "BaseException"})


@dataclass(frozen=True, slots=True)
class Use:
    """One place that reaches a name; `guarded` where the code around it is ready for the name to be missing."""

    node: ast.AST
    name: str
    certain: bool
    guarded: bool

    @property
    def note(self) -> str:
        """A few words on what the code around does about a missing name, for messages."""
        return " (the code around it then takes its other way)" if self.guarded else ""


def uses(module: Module, *targets: str, below: bool = False) -> Iterator[Use]:
    """The uses of qualified names, in source order: imports, attribute reads and writes, and texts such as mock takes.

    A name that is imported by itself is found at its import, not again at its reads. What stands in a handler for a
    missing name is left out: it runs where nothing newer is there. With `below` the targets are modules, and everything
    inside them counts.
    """
    found = [*_imports(module, targets, below), *_attributes(module, targets, below), *_texts(module, targets, below)]
    found.sort(key=lambda use: (getattr(use.node, "lineno", 0), getattr(use.node, "col_offset", 0)))
    yield from (use for use in found if not _is_way_out(module, use.node))


def guarded(module: Module, node: ast.AST, name: str = "") -> bool:
    """Whether code around a node is ready for `name` to be missing: either way of a try, or a question about it."""
    if _is_way_out(module, node):
        return True
    child = node
    for at in module.ancestors(node):
        if isinstance(at, ast.Try) and child in at.body and any(_catches(handler) for handler in at.handlers):
            return True
        if isinstance(at, (ast.If, ast.IfExp)) and child is not at.test and name and _asks(at.test, name):
            return True
        if isinstance(at, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            break
        child = at
    return False


def _is_way_out(module: Module, node: ast.AST) -> bool:
    for at in module.ancestors(node):
        if isinstance(at, ast.ExceptHandler) and at.type is not None and _catches(at):
            return True
        if isinstance(at, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            break
    return False


def _catches(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(isinstance(kind, ast.Name) and kind.id in _CATCHES for kind in kinds)


def _asks(test: ast.expr, name: str) -> bool:
    return any(isinstance(node, ast.Constant) and node.value == name for node in ast.walk(test))


def _matches(name: str, targets: tuple[str, ...], below: bool) -> bool:
    return name in targets or (below and any(name.startswith(f"{target}.") for target in targets))


def _imports(module: Module, targets: tuple[str, ...], below: bool) -> Iterator[Use]:
    for node in module.names.imports:
        if isinstance(node, ast.Import):
            named = [(alias, alias.name) for alias in node.names]
        elif not node.level and node.module:
            inside = below and _matches(node.module, targets, True)
            named = [(alias, f"{node.module}.{alias.name}") for alias in node.names]
            named = [(node, node.module)] if inside else named  # type: ignore[list-item]
        else:
            continue
        for at, name in named:
            if _matches(name, targets, below):
                yield Use(at, name, True, guarded(module, node, name.rpartition(".")[2]))


def _attributes(module: Module, targets: tuple[str, ...], below: bool) -> Iterator[Use]:
    imported = {use.name for use in _imports(module, targets, below)}
    tails = {target.rpartition(".")[2] for target in targets}
    for node in module.names.attributes:
        if node.attr not in tails:
            continue
        reference = module.resolve(node)
        for name in sorted(reference.names & frozenset(targets)):
            if not (below and name in imported):
                yield Use(node, name, reference.certain, guarded(module, node, node.attr))


def _texts(module: Module, targets: tuple[str, ...], below: bool) -> Iterator[Use]:
    """Arguments that spell a target in full, as `unittest.mock.patch` takes them, and `getattr(module, "name")`."""
    for call in module.names.calls:
        for argument in call.args:
            text = argument.value if isinstance(argument, ast.Constant) else None
            if isinstance(text, str) and _matches(text, targets, below):
                yield Use(argument, text, True, guarded(module, argument))
        match call:
            case ast.Call(func=ast.Name(id="getattr"), args=[owner, ast.Constant(value=str() as attribute), *default]):
                for name in sorted(f"{one}.{attribute}" for one in module.resolve(owner).names):
                    if name in targets:
                        yield Use(call, name, True, bool(default) or guarded(module, call, attribute))
