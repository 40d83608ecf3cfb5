"""TM110: the old dump functions of the flight recorder see nothing of the new NCCL backend."""

from __future__ import annotations

from collections.abc import Iterator

from torchmigrate.codemod import Codemod, Plan
from torchmigrate.module import Module
from torchmigrate_codemods.spellings import pull
from torchmigrate_codemods.uses import uses

_HOMES = ("torch._C._distributed_c10d", "torch.distributed.distributed_c10d", "torch.distributed")
_OLD = tuple(f"{home}.{name}" for home in _HOMES for name in ("_dump_nccl_trace", "_dump_nccl_trace_json"))
_GENERIC = tuple(f"{home}.{name}" for home in _HOMES for name in ("_dump_fr_trace", "_dump_fr_trace_json"))
_FILES = (
    "set TORCH_FR_DUMP_TEMP_FILE (TORCH_NCCL_DEBUG_INFO_TEMP_FILE before 2.14) and read the files that a timeout "
    "writes with torch.distributed.flight_recorder"
)


class FlightRecorderRead(Codemod):
    """Find dumps of the NCCL flight recorder, which are empty with the new backend.

    The flight recorder of torch 2.15 is a hook that any backend can have, on by default for `nccl`. The old recorder of
    the legacy NCCL class is still there, and so is `torch._C._distributed_c10d._dump_nccl_trace` (and `..._json`), but
    with `backend="nccl"` it holds no entries: a watchdog or a debug page that reads it shows nothing, without an
    error. `_dump_fr_trace` reads the recorder of one backend, by default that of gloo.

    A report: dump files are the form that both releases write. Their reader is `torch.distributed.flight_recorder`.
    `backend="nccl-legacy"` fills the old recorder for this release only.
    """

    code, name, area = "TM110", "flight-recorder-read", "distributed"
    triggers = (b"_dump_nccl_trace", b"_dump_fr_trace")
    reference = pull(192233)
    example = """
    import pickle
    from torch._C._distributed_c10d import _dump_nccl_trace

    trace = pickle.loads(_dump_nccl_trace())
    """

    def check(self, module: Module) -> Iterator[Plan]:
        """Report every use."""
        for use in uses(module, *_OLD, *_GENERIC):
            short = use.name.rpartition(".")[2]
            empty = (
                "returns no entries with the nccl of torch 2.15"
                if use.name in _OLD
                else "reads the recorder of gloo unless told otherwise, not that of the nccl of torch 2.15"
            )
            yield self.report(use.node, f"{short} {empty}; {_FILES}")
