"""TM804: torch.profiler._cupti is called _cuspy now."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from torchmigrate.codemod import Codemod, Plan
from torchmigrate.module import Module
from torchmigrate_codemods.spellings import RELEASE_NOTES
from torchmigrate_codemods.uses import uses

_PACKAGE = "torch.profiler._cupti"


class ProfilerCupti(Codemod):
    """Find imports of torch.profiler._cupti, now torch.profiler._cuspy.

    The private CUPTI monitor of the profiler got another name: `import torch.profiler._cupti` raises
    ModuleNotFoundError. The modules inside were renamed too (`monitor` is `core`, `monitor_trace` is `trace`), and so
    were classes, so a new package name alone does not do: this is a report. The public way in is
    `torch.profiler.CuspyConfig`. Code for both releases tries one import and falls back to the other.
    """

    code, name, area = "TM804", "profiler-cupti", "profiler"
    triggers = (b"_cupti",)
    requires: ClassVar = {b"": (rb"_cupti\b(?<!\w_cupti)",)}
    reference = RELEASE_NOTES
    example = """
    from torch.profiler import _cupti
    """

    def check(self, module: Module) -> Iterator[Plan]:
        """Report every use."""
        for use in uses(module, _PACKAGE, below=True):
            yield self.report(
                use.node,
                "torch.profiler._cupti is torch.profiler._cuspy in torch 2.15 (ModuleNotFoundError), with monitor as "
                f"core and monitor_trace as trace inside; try one import, then the other{use.note}",
            )
