"""What around a call speaks against changing it unseen: other devices, other functions in its place, handlers."""

from __future__ import annotations

import ast

from torchmigrate.module import Module

_PLUGINS = {
    "torch_npu": "npu",
    "torch_musa": "musa",
    "torch_mlu": "mlu",
    "habana_frameworks": "hpu",
    "torch_xla": "xla",
}


def plugin(module: Module) -> str | None:
    """A device that torch knows through a plug-in of its own, where the file names one."""
    for node in ast.walk(module.tree):
        match node:
            case ast.Import(names=names):
                found = [_PLUGINS[top] for a in names if (top := a.name.partition(".")[0]) in _PLUGINS]
            case ast.ImportFrom(module=str() as source):
                found = [_PLUGINS[top]] if (top := source.partition(".")[0]) in _PLUGINS else []
            case ast.Constant(value=str() as text):
                found = [text] if text in _PLUGINS.values() else []
            case _:
                continue
        if found:
            return found[0]
    return None


def replacements(module: Module) -> list[ast.Attribute]:
    """Where the file puts another function in the place of the old one."""
    stores = [a for a in module.names.attributes if isinstance(a.ctx, ast.Store) and a.attr == "_scaled_mm"]
    return [a for a in stores if "torch" in module.resolve(a.value).names]


def missed_errors(module: Module, call: ast.Call) -> int | None:
    """The line of a handler around a call that catches the old call's RuntimeError but no ValueError."""
    child: ast.AST = call
    for at in module.ancestors(call):
        if isinstance(at, ast.Try) and child in at.body:
            caught = {name: handler for handler in at.handlers for name in _caught(handler)}
            if "RuntimeError" in caught and not caught.keys() & {"", "ValueError", "Exception", "BaseException"}:
                return module.line(caught["RuntimeError"])
        if isinstance(at, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            return None
        child = at
    return None


def _caught(handler: ast.ExceptHandler) -> list[str]:
    if handler.type is None:
        return [""]
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return [kind.id for kind in kinds if isinstance(kind, ast.Name)]
