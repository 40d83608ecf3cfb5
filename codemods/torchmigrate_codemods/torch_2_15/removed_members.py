"""TM814: members that are gone without a successor."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchmigrate.codemod import Codemod, Plan
from torchmigrate.module import Module
from torchmigrate_codemods.spellings import RELEASE_NOTES
from torchmigrate_codemods.uses import guarded

_POOL = frozenset({"torch.xpu.MemPool", "torch.xpu.memory.MemPool"})


class RemovedMembers(Codemod):
    """Find torch.xpu.MemPool.allocator and ShapeEnv.evaluate_symexpr.

    Both are gone in torch 2.15 (AttributeError). `torch.xpu.MemPool` no longer shows the allocator that it was made
    with: keep the object that you gave it. `ShapeEnv.evaluate_symexpr`, which evaluated an expression written as text
    with the values of the backed symbols, was used by the compiler only; `ShapeEnv.deserialize_symexpr` is still there.

    A report, for pools that are made in the same function and for every call of `evaluate_symexpr`.
    """

    code, name, area = "TM814", "removed-members", "python"
    triggers = (b"evaluate_symexpr", b"xpu.MemPool", b"xpu import", b"xpu.memory")
    reference = RELEASE_NOTES
    example = """
    import torch

    pool = torch.xpu.MemPool()
    print(pool.allocator)
    """

    def check(self, module: Module) -> Iterator[Plan]:
        """Report reads of the two members."""
        own = {node.name for node in module.parents if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))}
        for node in module.names.attributes:
            if not isinstance(node.ctx, ast.Load) or guarded(module, node, node.attr):
                continue
            if node.attr == "evaluate_symexpr" and node.attr not in own:
                yield self.report(node, "ShapeEnv.evaluate_symexpr is gone in torch 2.15 (AttributeError)")
            elif node.attr == "allocator" and _is_pool(module, node.value):
                yield self.report(
                    node, "torch.xpu.MemPool.allocator is gone in torch 2.15; keep the allocator the pool was made with"
                )


def _is_pool(module: Module, node: ast.expr) -> bool:
    if isinstance(node, ast.Call):
        return module.resolve(node.func).perhaps(_POOL)
    if isinstance(node, ast.Name):
        found = module.flow(node).definitions(node.id, node)
        return any(isinstance(d.value, ast.Call) and module.resolve(d.value.func).perhaps(_POOL) for d in found)
    return False
