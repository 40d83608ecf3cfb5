"""What all tests share."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's `&` has it ignored, by all children, too


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository."""
    return ROOT
