"""TM815: inductor's use_block_ptr depends on the installed Triton."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchmigrate.codemod import Codemod, Plan
from torchmigrate.module import Module
from torchmigrate_codemods.settings import settings
from torchmigrate_codemods.spellings import RELEASE_NOTES

_HOMES = {"torch._inductor.config.triton": "use_block_ptr", "torch._inductor.config": "triton.use_block_ptr"}


class BlockPointers(Codemod):
    """Find triton.use_block_ptr of inductor, which newer Triton cannot honour.

    Triton dropped `tl.make_block_ptr`. With a Triton that has none, torch 2.15 warns once (FutureWarning) and falls
    back to masked indexing: the compiled kernels are other ones than with 2.14. The setting will go.

    A report of every place that turns it on; `triton.use_tensor_descriptor` is what GPUs with TMA use now.
    """

    code, name, area = "TM815", "block-pointers", "compile"
    triggers = (b"use_block_ptr",)
    reference = RELEASE_NOTES
    example = """
    import torch._inductor.config as config

    config.triton.use_block_ptr = True
    """

    def check(self, module: Module) -> Iterator[Plan]:
        """Report places that turn the setting on."""
        for home, setting in _HOMES.items():
            for found in settings(module, home, {setting}, options=True):
                statement = module.parents.get(found.node)
                value = statement.value if isinstance(statement, ast.Assign) else None
                if isinstance(value, ast.Constant) and not value.value:
                    continue
                if isinstance(found.node, ast.Attribute) and isinstance(found.node.ctx, ast.Load):
                    continue
                yield self.report(
                    found.node,
                    "triton.use_block_ptr has no effect with a Triton without block pointers: torch 2.15 warns and "
                    "falls back to masked indexing",
                )
