"""Backend objects in code: `group._get_backend(device)` and `dist.get_backend_impl(group)`."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from torchmigrate.module import Module
from torchmigrate.reaching import key_of
from torchmigrate_codemods.origins import visible
from torchmigrate_codemods.spellings import c10d

NCCL_CLASS = (*c10d("ProcessGroupNCCL"), "torch._C._distributed_c10d.ProcessGroupNCCL")
_GET_IMPL = frozenset(c10d("get_backend_impl"))


@dataclass(frozen=True, eq=False, slots=True)
class Backend:
    """How a backend object came about: asked of a group (`group` None for the default one), or constructed."""

    call: ast.Call
    group: ast.expr | None = None
    constructed: bool = False
    asks_device: bool = False


def backend(module: Module, node: ast.expr) -> Backend | None:
    """The backend that an expression evidently is; None for anything else."""
    found = [_made(module, one) for one in visible(module, node) if not _is_none(one)]
    kinds = [one for one in found if one is not None]
    return kinds[0] if kinds and len(kinds) == len(found) else None


def group_at(module: Module, made: Backend, at: ast.AST) -> ast.expr | None:
    """The expression of the backend's group where it means the same at another place as where it was asked."""
    group = made.group
    if group is None:
        return None
    if made.call is at or any(around is at for around in module.ancestors(made.call)):
        return group  # asked within the place itself
    key = key_of(group)
    here, there = module.function(made.call), module.function(at)
    if key is None or here is not there or not module.flow(at).same(key, made.call, at):
        return None
    return group


def _made(module: Module, node: ast.expr) -> Backend | None:
    if not isinstance(node, ast.Call):
        return None
    if isinstance(node.func, ast.Attribute) and node.func.attr == "_get_backend" and (node.args or node.keywords):
        return Backend(node, node.func.value, asks_device=True)
    names = module.resolve(node.func)
    if names.perhaps(_GET_IMPL):
        given = next((k.value for k in node.keywords if k.arg == "group"), None)
        device = len(node.args) > 1 or any(k.arg == "device" for k in node.keywords)
        return Backend(node, given or (node.args[0] if node.args else None), asks_device=device)
    if names.perhaps(frozenset(NCCL_CLASS)):
        return Backend(node, constructed=True)
    return None


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None
