"""What goes to the two streams, and how: data on stdout as bytes, talk on stderr, progress on terminals only."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable
from typing import TextIO

_CLEAR = "\r\x1b[K"
_PATIENCE = 1.0
_REFRESH = 0.1


def wants_colour(choice: str, stream: TextIO) -> bool:
    """Whether to colour a stream: the flag decides, then NO_COLOR, then FORCE_COLOR, then whether it is a terminal."""
    if choice != "auto":
        return choice == "always"
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def data(chunks: Iterable[bytes]) -> None:
    """Write bytes to stdout, whatever its encoding."""
    sys.stdout.flush()
    for chunk in chunks:
        sys.stdout.buffer.write(chunk)
    sys.stdout.buffer.flush()


def print_lines(lines: Iterable[str]) -> None:
    """Write lines to stdout as UTF-8."""
    data(line.encode("utf-8", "backslashreplace") + b"\n" for line in lines)


def say(lines: Iterable[str]) -> None:
    """Write lines to stderr."""
    for line in lines:
        sys.stderr.write(line.encode("utf-8", "backslashreplace").decode("utf-8") + "\n")
    sys.stderr.flush()


class Progress:
    """One line on stderr, on a terminal, once a run takes longer than a second; gone before anything else is said."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._start = time.monotonic()
        self._next = self._start + _PATIENCE
        self._on = not quiet and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._shown = False

    def update(self, seen: int, done: int, candidates: int) -> None:
        """Tell how many files were seen so far, and of how many candidates among them the work is done."""
        self._show(lambda: f"{seen:,} files seen, {done:,} of {candidates:,} looked at", done, candidates)

    def update_fleet(self, done: int, failed: int, wanted: int, changes: int) -> None:
        """Tell how many repositories of those wanted are done, how many of them failed, and the changes so far."""
        failures = f", {failed:,} failed" if failed else ""
        self._show(
            lambda: f"{done:,} of {wanted:,} repositories done{failures}, {changes:,} changes so far", done, wanted
        )

    def _show(self, said: Callable[[], str], done: int, wanted: int) -> None:
        now = time.monotonic()
        if not self._on or now < self._next:
            return
        self._next = now + _REFRESH
        left = (now - self._start) / done * (wanted - done) if done else 0
        soon = f", about {left:.0f} s left" if left >= 1 else ""
        sys.stderr.write(f"{_CLEAR}{said()}{soon}")
        sys.stderr.flush()
        self._shown = True

    def clear(self) -> None:
        """Take the line away."""
        if self._shown:
            sys.stderr.write(_CLEAR)
            sys.stderr.flush()
            self._shown = False
