"""TM803: nvprof helpers of the profiler go."""

from __future__ import annotations

from collections.abc import Iterator

from torchmigrate.codemod import Codemod, Plan
from torchmigrate.module import Module
from torchmigrate_codemods.spellings import RELEASE_NOTES
from torchmigrate_codemods.uses import uses

_NAMES = tuple(f"torch.autograd.profiler.{name}" for name in ("load_nvprof", "parse_nvprof_trace", "EnforceUnique"))


class ProfilerNvprof(Codemod):
    """Find the nvprof readers of torch.autograd.profiler, gone with torch 2.17.

    `load_nvprof`, `parse_nvprof_trace` and `EnforceUnique` of `torch.autograd.profiler` warn from torch 2.15 on
    (FutureWarning) and are announced to go in 2.17. nvprof itself does not run on recent GPUs: record with
    `torch.profiler.profile(...)`, or with Nsight Systems and read its export.

    A report: no call takes their place.
    """

    code, name, area = "TM803", "profiler-nvprof", "profiler"
    triggers = (b"nvprof", b"EnforceUnique")
    reference = RELEASE_NOTES
    example = """
    from torch.autograd.profiler import load_nvprof

    events = load_nvprof("trace.prof")
    """

    def check(self, module: Module) -> Iterator[Plan]:
        """Report every use."""
        for use in uses(module, *_NAMES):
            short = use.name.rpartition(".")[2]
            yield self.report(
                use.node,
                f"{short} warns in torch 2.15 (FutureWarning) and goes in 2.17; record with torch.profiler.profile "
                f"instead of nvprof{use.note}",
            )
