"""TM602: environment variables that the new NCCL backend does not read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchmigrate.codemod import Codemod, Plan
from torchmigrate.module import Module
from torchmigrate_codemods.spellings import RELEASE_NOTES

if TYPE_CHECKING:
    from torchmigrate.documents import Document
    from torchmigrate_codemods.environment import Found

GONE = "TORCH_NCCL_AVOID_RECORD_STREAMS"
_NAN = "TORCH_NCCL_NAN_CHECK"
LEGACY_ONLY = (
    _NAN,
    *(
        f"TORCH_NCCL_{name}"
        for name in (
            "HEARTBEAT_TIMEOUT_SEC",
            "ENABLE_MONITORING",
            "COORD_CHECK_MILSEC",
            "DESYNC_DEBUG",
            "PROPAGATE_ERROR",
            "RETHROW_CUDA_ERRORS",
            "BCAST_UNIQUEID",
            "RANKS_PER_ROOT",
            "NONBLOCKING_TIMEOUT",
            "EXTRA_DUMP_ON_EXEC",
            "LOG_CPP_STACK_ON_UNCLEAN_SHUTDOWN",
            "DEBUG_INFO_PIPE_FILE",
            "USE_TENSOR_REGISTER_ALLOCATOR_HOOK",
            "SHOW_EAGER_INIT_P2P_SERIALIZATION_WARNING",
            "TEARDOWN_ON_TIMEOUT",
        )
    ),
)


class NcclEnvDead(Codemod):
    """Find NCCL switches of torch that have no effect any more.

    The backend `nccl` is a new implementation in torch 2.15. It reads `TORCH_NCCL_ASYNC_ERROR_HANDLING`,
    `..._BLOCKING_WAIT`, `..._ENABLE_TIMING`, `..._CUDA_EVENT_CACHE`, `..._HIGH_PRIORITY` and
    `..._USE_COMM_NONBLOCKING` as before. The watchdog's and heartbeat's switches (`..._HEARTBEAT_TIMEOUT_SEC`,
    `..._ENABLE_MONITORING`, `..._DESYNC_DEBUG`, ...) only reach `nccl-legacy`, which is announced to go in 2.16: each
    place is reported. Instead of `TORCH_NCCL_NAN_CHECK` set `TORCH_DIST_NAN_CHECK=1`, which torch 2.14 knows too.

    Nothing reads `TORCH_NCCL_AVOID_RECORD_STREAMS` any more, and 2.14 ignored it with a warning: the rule removes the
    setting. Where more than a setting depends on the name, it reports.

    NCCL's own variables (`NCCL_...`) have not changed and are never touched.
    """

    code, name, area = "TM602", "nccl-env-dead", "distributed"
    triggers = tuple(name.encode() for name in (GONE, *LEGACY_ONLY))
    formats = frozenset({"python", "shell", "yaml", "toml", "json", "dockerfile", "env", "makefile", "cfg"})
    reference = RELEASE_NOTES
    example = """
    import os

    os.environ["TORCH_NCCL_AVOID_RECORD_STREAMS"] = "1"
    os.environ["TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC"] = "1800"
    """

    def check(self, module: Module) -> Iterator[Plan]:
        """Remove the one that nothing reads, report the others."""
        from torchmigrate_codemods.environment import found

        known = found(module, (GONE, *LEGACY_ONLY))
        needed = any(one.use.name == GONE and one.use.role != "set" for one in known)
        for one in known:
            if one.use.name == GONE:
                yield self._gone(one, needed)
            else:
                yield self.report(one.anchor, _message(one.use.name))

    def check_text(self, document: Document) -> Iterator[Plan]:
        """The same for files that are not Python."""
        return self.check(document)

    def _gone(self, one: Found, needed: bool) -> Plan:
        message = f"nothing reads {GONE} in torch 2.15, and 2.14 ignored it with a warning"
        if one.use.role == "set" and one.use.removal is not None and not needed:
            return self.change(one.anchor, *one.use.removal, message=message, needs_torch="2.14")
        return self.report(one.anchor, f"{message}; remove what names it")


def _message(name: str) -> str:
    if name == _NAN:
        return f"{name} reaches only nccl-legacy in torch 2.15; set TORCH_DIST_NAN_CHECK=1 (torch 2.14 and later)"
    return f"{name} has no effect with the nccl backend of torch 2.15; only nccl-legacy reads it, which goes in 2.16"
