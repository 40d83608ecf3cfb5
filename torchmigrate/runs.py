"""Replaces files under a journal, and takes what a run wrote back."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from torchmigrate import write
from torchmigrate.journal import Journal, Replacement, Run
from torchmigrate.model import FileError

BATCH = 64
"""Files whose intents share one write to the journal."""

CHANGED = "TM007"
FAILED = "TM010"


@dataclass(frozen=True, slots=True)
class Edit:
    """New content for a file. `path` is the name that messages use."""

    path: str
    before: bytes
    after: bytes


@dataclass(frozen=True, slots=True)
class Written:
    """What became of one edit: an error, or the file holds the new content. `note` is worth telling the user."""

    path: str
    error: FileError | None = None
    note: str | None = None


def replace_all(journal: Journal, edits: Iterable[Edit], stop: Callable[[], bool] = lambda: False) -> Iterator[Written]:
    """Write each edit, in order; a file that fails keeps its content and does not stop the others.

    `stop` is asked before each file; once it is true no further file is touched.
    """
    remaining = iter(edits)
    while not stop() and (batch := list(itertools.islice(remaining, BATCH))):
        yield from _replace(journal, batch, stop)


def _replace(journal: Journal, batch: list[Edit], stop: Callable[[], bool]) -> Iterator[Written]:
    outcomes: list[Written] = []
    ready: list[tuple[Edit, write.Target]] = []
    for edit in batch:
        try:
            ready.append((edit, write.target(edit.path)))
        except OSError as error:
            outcomes.append(_failed(edit.path, error))
    numbers = journal.intend(Replacement.of(to, edit.before, edit.after) for edit, to in ready)
    done: list[int] = []
    try:
        for number, (edit, to) in zip(numbers, ready, strict=True):
            if stop():
                break
            try:
                write.replace(to, edit.after, write.digest(edit.before))
            except write.ChangedMeanwhile:
                message = "changed on disk while being migrated; left as it was, run again"
                outcomes.append(Written(edit.path, FileError(edit.path, None, None, CHANGED, message)))
            except OSError as error:
                outcomes.append(_failed(edit.path, error))
            else:
                note = f"{edit.path}: written in place, since it has other hard links" if to.temporary is None else None
                done.append(number)
                outcomes.append(Written(edit.path, note=note))
    finally:
        write.sync_folders(to.real for _, to in ready)
        journal.wrote(done)
    order = {edit.path: i for i, edit in enumerate(batch)}
    yield from sorted(outcomes, key=lambda outcome: order[outcome.path])


def _failed(path: str, error: OSError) -> Written:
    message = f"cannot be written: {error.strerror or error}; left as it was"
    return Written(path, FileError(path, None, None, FAILED, message))


@dataclass(frozen=True, slots=True)
class Undone:
    """What taking back one file of a run would do: the edit, or None when the file already is as it was.

    `refusal` says why the file is left alone.
    """

    path: str
    edit: Edit | None = None
    refusal: str | None = None


def plan_undo(run: Run, *, force: bool = False) -> Iterator[Undone]:
    """How each file that a run wrote gets its old content back; files that changed since are refused.

    `force` also restores a file that a killed run was overwriting in place, whatever it holds now.
    """
    for path in run.files:
        replacements = [(i, r) for i, r in enumerate(run.replacements) if r.path == path]
        try:
            current = write.read(path)
        except OSError as error:
            yield Undone(path, refusal=f"cannot be read: {error.strerror or error}")
            continue
        content = current
        for number, replacement in reversed(replacements):
            found = write.digest(content)
            if found == replacement.new:
                content = replacement.before(content)
            elif found != replacement.old:
                in_place = replacement.temporary is None and number not in run.written
                if not (force and in_place):
                    hint = "was being overwritten when the run was killed; --force puts the old content back"
                    yield Undone(path, refusal=hint if in_place else "has changed since")
                    break
                content = replacement.before(b"")
        else:
            yield Undone(path, Edit(path, current, content) if content != current else None)
