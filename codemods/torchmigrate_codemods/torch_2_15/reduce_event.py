"""TM811: torch.multiprocessing.reductions.reduce_event is gone."""

from __future__ import annotations

from collections.abc import Iterator

from torchmigrate.codemod import Codemod, Plan
from torchmigrate.module import Module
from torchmigrate_codemods.spellings import RELEASE_NOTES
from torchmigrate_codemods.uses import uses


class ReduceEvent(Codemod):
    """Find torch.multiprocessing.reductions.reduce_event, which is gone.

    The function that pickles a `torch.cuda.Event` for another process became private and knows the event's class, for
    XPU. Importing or reading `reduce_event` fails. `rebuild_event` is still there, for CUDA events.

    A report: torch registers its own reducers at import, so most code needs none. Where a pickler of your own has to
    know events, register one: `pickler.register(torch.cuda.Event, lambda e: (rebuild_event, (e.device,
    e.ipc_handle())))` works on both releases.
    """

    code, name, area = "TM811", "reduce-event", "multiprocessing"
    triggers = (b"reduce_event",)
    reference = RELEASE_NOTES
    example = """
    from torch.multiprocessing.reductions import reduce_event

    handle = reduce_event(event)
    """

    def check(self, module: Module) -> Iterator[Plan]:
        """Report every use."""
        for use in uses(module, "torch.multiprocessing.reductions.reduce_event"):
            yield self.report(
                use.node,
                "torch.multiprocessing.reductions.reduce_event is gone in torch 2.15; torch registers its own reducer "
                f"for events, and (rebuild_event, (event.device, event.ipc_handle())) does the same{use.note}",
            )
