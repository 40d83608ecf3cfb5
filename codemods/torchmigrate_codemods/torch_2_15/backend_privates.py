"""TM809: private names around backends that were removed or renamed."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchmigrate.codemod import Codemod, Plan
from torchmigrate.module import Module
from torchmigrate_codemods.spellings import RELEASE_NOTES
from torchmigrate_codemods.uses import guarded, uses

_OLD, _NEW = "supports_time_estimate", "_supports_time_estimate"
_ESTIMATE = (
    "supports_time_estimate of a backend is _supports_time_estimate in torch 2.15 (AttributeError); for both: "
    'getattr(backend, "_supports_time_estimate", None) or getattr(backend, "supports_time_estimate", False)'
)


class BackendPrivates(Codemod):
    """Find distributed_c10d._is_safe_to_split and Backend.supports_time_estimate.

    `torch.distributed.distributed_c10d._is_safe_to_split` is gone in torch 2.15 (AttributeError): NCCL groups are
    always bound to a device there, so they can always be split, and `split_group` works on gloo as well. The property
    `supports_time_estimate` of every backend is called `_supports_time_estimate`.

    A report: there is no function to call instead of the first, and the objects that have the second are known at
    run time only.
    """

    code, name, area = "TM809", "backend-privates", "distributed"
    triggers = (b"_is_safe_to_split", _OLD.encode())
    reference = RELEASE_NOTES
    example = """
    from torch.distributed import distributed_c10d

    if distributed_c10d._is_safe_to_split():
        split()
    """

    def check(self, module: Module) -> Iterator[Plan]:
        """Report every use that does not ask first."""
        for use in uses(module, "torch.distributed.distributed_c10d._is_safe_to_split"):
            yield self.report(
                use.node,
                "distributed_c10d._is_safe_to_split is gone in torch 2.15 (AttributeError); NCCL groups are always "
                f"bound to a device there and can be split{use.note}",
            )
        for node in module.names.attributes:
            if node.attr != _OLD or not isinstance(node.ctx, ast.Load):
                continue
            if isinstance(node.value, ast.Name) and node.value.id == "self" and _OLD in _own_names(module):
                continue
            if not guarded(module, node, _OLD) and not guarded(module, node, _NEW):
                yield self.report(node, _ESTIMATE)


def _own_names(module: Module) -> set[str]:
    return {node.name for node in module.parents if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))}
