"""The qualified names under which one thing of torch is reached."""

from __future__ import annotations

_HOMES = ("torch.distributed", "torch.distributed.distributed_c10d")


def c10d(*names: str) -> tuple[str, ...]:
    """Both public spellings of functions and classes of `torch.distributed`."""
    return tuple(f"{home}.{name}" for name in names for home in _HOMES)
