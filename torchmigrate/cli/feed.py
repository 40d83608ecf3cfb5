"""The run behind a review: files come up while others are still being looked at."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass

from torchmigrate import git
from torchmigrate.migration import Migration
from torchmigrate.model import FileResult, UsageError

_PATIENCE = 5.0
"""Seconds that a run which is no longer wanted gets to end."""


@dataclass(frozen=True, slots=True)
class Found:
    """A file that has been looked at; `is_dirty` says that it holds edits that no commit keeps."""

    result: FileResult
    is_dirty: bool


class Feed:
    """Runs a migration in a thread. `guarded` tells of a path whether uncommitted edits in it matter."""

    def __init__(self, migration: Migration, guarded: Callable[[str], bool]) -> None:
        self._migration = migration
        self._guarded = guarded
        self._queue: queue.SimpleQueue[Found | BaseException | None] = queue.SimpleQueue()
        self._is_unwanted = False
        self.is_over = False
        self._thread = threading.Thread(target=self._run, name="scan", daemon=True)

    def start(self) -> None:
        """Begin to look at files."""
        self._thread.start()

    def next(self, *, wait: bool) -> Found | None:
        """The next file; None when there is none yet, or (see `is_over`) none will come. Raises what ended the run."""
        if self.is_over:
            return None
        try:
            found = self._queue.get(block=wait)
        except queue.Empty:
            return None
        if isinstance(found, Found):
            return found
        self.is_over = True
        if found is not None:
            raise found
        return None

    def stop(self) -> None:
        """End the run, wherever it is."""
        self._is_unwanted = True
        self._migration.close()
        self._thread.join(_PATIENCE)

    def _run(self) -> None:
        try:
            for result in self._migration.run():
                if self._is_unwanted:
                    return
                self._queue.put(Found(result, self._is_dirty(result)))
        except BaseException as error:
            self._queue.put(error)
        self._queue.put(None)

    def _is_dirty(self, result: FileResult) -> bool:
        if all(f.suppressed is not None for f in result.findings) or not self._guarded(result.path):
            return False
        try:
            return bool(git.uncommitted([result.path]))
        except git.GitError as error:
            raise UsageError(f"{error}\n       pass --no-git to write without asking git") from None
