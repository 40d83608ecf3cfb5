"""Ctrl-C in a review: it ends waiting for the reviewer at once, and other work only when that is done."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType, TracebackType
from typing import Self


class Interrupt:
    """Raises KeyboardInterrupt where the review waits; elsewhere the first Ctrl-C is kept until then.

    The second one ends the program at once.
    """

    def __init__(self) -> None:
        self._is_asked = self._waits = self._is_away = False

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """Around what waits for the reviewer or for files."""
        self._waits = True
        try:
            if self._is_asked:
                raise KeyboardInterrupt
            yield
        finally:
            self._waits = False

    @contextlib.contextmanager
    def away(self) -> Iterator[None]:
        """Around other programs on the terminal, to which Ctrl-C belongs then."""
        self._is_away = True
        try:
            yield
        finally:
            self._is_away = False

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self._is_away:
            return
        again, self._is_asked = self._is_asked, True
        if again or self._waits:
            raise KeyboardInterrupt

    def __enter__(self) -> Self:
        self._before = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        signal.signal(signal.SIGINT, self._before)
