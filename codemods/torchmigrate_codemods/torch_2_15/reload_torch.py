"""TM810: torch cannot be reloaded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from torchmigrate.codemod import Codemod, Plan
from torchmigrate.module import Module
from torchmigrate_codemods.spellings import RELEASE_NOTES


class ReloadTorch(Codemod):
    """Find importlib.reload(torch), an ImportError in torch 2.15.

    Reloading torch never worked: 2.14 ended in a RuntimeError about a TORCH_LIBRARY registered twice, 2.15 raises
    `ImportError: torch can only be initialized once per process`. A handler for the RuntimeError does not catch that.

    A report: run the code that needs a fresh torch in a new process.
    """

    code, name, area = "TM810", "reload-torch", "python"
    triggers = (b"reload",)
    requires: ClassVar = {
        b"": (
            rb"torch",
            rb"reload\s*\(\s*\w+\s*\)",
            (rb"importlib", rb"imp\.", rb"imp import"),
            rb"import\s+(?:[\w., ]*\W)?torch\b",
        )
    }
    reference = RELEASE_NOTES
    example = """
    import importlib
    import torch

    importlib.reload(torch)
    """

    def check(self, module: Module) -> Iterator[Plan]:
        """Report calls of reload with torch itself."""
        for call in module.calls("importlib.reload", "imp.reload"):
            if call.node.args and module.resolve(call.node.args[0]).perhaps(frozenset({"torch"})):
                yield self.report(
                    call.node,
                    "torch 2.15 raises ImportError when torch is reloaded (RuntimeError before); start a new process "
                    "for a fresh torch",
                )
