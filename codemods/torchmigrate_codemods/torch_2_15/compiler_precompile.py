"""TM807: torch.compiler.precompile is a module now."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import ClassVar

from torchmigrate.codemod import Codemod, Plan
from torchmigrate.module import Module
from torchmigrate_codemods.spellings import RELEASE_NOTES, leads_to
from torchmigrate_codemods.uses import guarded

_NAME = "torch.compiler.precompile"
_NEW = frozenset({"capture", "load", "Capture", "MakeFxTracer", "PrecompiledRunnable", "PrecompileSummary"})


class CompilerPrecompile(Codemod):
    """Find calls of torch.compiler.precompile, which is a module in torch 2.15.

    In torch 2.14 the prototype `torch.compiler.precompile` was called with a function. In 2.15 it is a module, so the
    call raises `TypeError: 'module' object is not callable`. Its `capture` watches the calls that your own loop makes
    and writes two files when it is left, its `load` makes a runnable from them.

    A report: the new calls are made at other places and take other arguments.
    """

    code, name, area = "TM807", "compiler-precompile", "compile"
    triggers = (b"precompile",)
    requires: ClassVar = {b"": (leads_to("compiler"), rb"precompile(?<!\wprecompile)(?![\w-])")}
    reference = RELEASE_NOTES
    example = """
    import torch

    torch.compiler.precompile(model, (x,))
    """

    def check(self, module: Module) -> Iterator[Plan]:
        """Report each read that is not a use of the new module."""
        for node, _ in module.references(_NAME):
            parent = module.parents.get(node)
            if isinstance(parent, ast.Attribute) and (parent.attr in _NEW or parent.attr == "PrecompileError"):
                continue
            if isinstance(parent, ast.Call) and node in parent.args and _asks(parent.func):
                continue
            at = parent if isinstance(parent, ast.Call) and parent.func is node else node
            note = " (the code around it asks before)" if guarded(module, node, "precompile") else ""
            yield self.report(
                at,
                "torch.compiler.precompile is a module in torch 2.15 and cannot be called; use its capture(...) "
                f"around the calls to record and its load(...) to run what was written{note}",
            )


def _asks(function: ast.expr) -> bool:
    return isinstance(function, ast.Name) and function.id in ("callable", "hasattr", "getattr", "isinstance")
