"""Subprocesses for which file permissions count, also where the tests run as root."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable

import pytest

_PR_CAPBSET_DROP = 24
_DAC_OVERRIDE, _DAC_READ_SEARCH = 1, 2


def permissions_count() -> Callable[[], None] | None:
    """A `preexec_fn` that gives up root's right to read and write everything; None where it is not needed.

    The process stays the owner of its files, so it can still read its own interpreter.
    """
    if os.geteuid() != 0:
        return None
    if sys.platform != "linux":
        pytest.skip("as root, permissions count for nothing here")
    libc = ctypes.CDLL(None, use_errno=True)

    def drop() -> None:
        for capability in (_DAC_OVERRIDE, _DAC_READ_SEARCH):
            if libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0):
                raise OSError(ctypes.get_errno(), "cannot drop a capability")

    return drop
