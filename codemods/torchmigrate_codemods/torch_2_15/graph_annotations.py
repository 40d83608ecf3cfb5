"""TM813: helpers around annotations of CUDA graphs go."""

from __future__ import annotations

from collections.abc import Iterator

from torchmigrate.codemod import Codemod, Plan
from torchmigrate.module import Module
from torchmigrate_codemods.spellings import RELEASE_NOTES
from torchmigrate_codemods.uses import uses

_CLEAR = (
    "torch.cuda.graph_annotations.clear_kernel_annotations",
    "torch.cuda._graph_annotations.clear_kernel_annotations",
)
_TRACE = "torch.cuda._annotate_cuda_graph_trace"


class GraphAnnotations(Codemod):
    """Find clear_kernel_annotations and torch.cuda._annotate_cuda_graph_trace.

    Annotations of CUDA graphs now belong to their graph and go when it is destroyed. So `clear_kernel_annotations` of
    `torch.cuda.graph_annotations` warns in torch 2.15 (FutureWarning): it also throws away annotations of live
    graphs. Leave the call out. The private module `torch.cuda._annotate_cuda_graph_trace` is gone
    (ModuleNotFoundError): export with `prof.export_chrome_trace(path, cuda_graph_annotations=...)` instead, which is
    new in 2.15.

    A report: without the call, 2.14 keeps old annotations, and the trace is written at another place.
    """

    code, name, area = "TM813", "graph-annotations", "cuda"
    triggers = (b"clear_kernel_annotations", b"_annotate_cuda_graph_trace")
    reference = RELEASE_NOTES
    example = """
    import torch

    torch.cuda._annotate_cuda_graph_trace(trace)
    """

    def check(self, module: Module) -> Iterator[Plan]:
        """Report every use."""
        for use in uses(module, *_CLEAR):
            yield self.report(
                use.node,
                "clear_kernel_annotations warns in torch 2.15 (FutureWarning): annotations go with their graph, and "
                f"the call drops those of live graphs too; leave it out once torch 2.14 is no longer needed{use.note}",
            )
        for use in uses(module, _TRACE, below=True):
            yield self.report(
                use.node,
                "torch.cuda._annotate_cuda_graph_trace is gone in torch 2.15 (ModuleNotFoundError); use "
                f"prof.export_chrome_trace(path, cuda_graph_annotations=...) there{use.note}",
            )
