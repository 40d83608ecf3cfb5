"""`--from-patch`: takes the changes that a reviewer left in a patch."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

from torchmigrate import from_patch, write
from torchmigrate.cli import patches
from torchmigrate.from_patch import Kept, Refused
from torchmigrate.migration import Migration
from torchmigrate.model import FileResult, Policy, Safety, UsageError

EVERY_CHANGE = Policy(frozenset({Safety.SAFE, Safety.UNSAFE}), propose=True)
"""Reviewers saw each hunk, so unsafe ones are taken too."""


class Patch:
    """A patch file that was read. Raises UsageError."""

    def __init__(self, file: str, *, use_git: bool) -> None:
        self._file = file
        self._use_git = use_git
        try:
            self._kept = {one.name: one for one in from_patch.read(write.read(file))}
        except OSError as error:
            raise UsageError(f"cannot read {file}: {error.strerror or error}") from None
        except Refused as error:
            raise self._refusal(error) from None

    def narrow(self, migration: Migration, results: Sequence[FileResult]) -> list[FileResult]:
        """The results with only the changes that the patch holds. Raises UsageError."""
        missing = dict(self._kept)
        narrowed = []
        for result in results:
            kept = None
            if result.after is not None:
                base = patches.base(result.path, use_git=self._use_git)
                kept = missing.pop(patches.name(result.path, base), None)
            narrowed.append(_left_alone(result) if kept is None else self._chosen(migration, result, kept))
        if missing:
            name, kept = next(iter(missing.items()))
            raise self._refusal(Refused(kept.lines[0], f"nothing would change in {name}, or it is not among the paths"))
        return narrowed

    def _chosen(self, migration: Migration, result: FileResult, kept: Kept) -> FileResult:
        try:
            return from_patch.choose(
                result, kept, lambda decisions: migration.process_one(result.path, Policy(decisions=decisions))
            )
        except Refused as error:
            raise self._refusal(error) from None

    def _refusal(self, error: Refused) -> UsageError:
        return UsageError(f"{os.path.relpath(self._file)}:{error.line}: {error}")


def _left_alone(result: FileResult) -> FileResult:
    return replace(result, before=None, after=None, accepted=frozenset())
