"""Brings the answers of a review to disk, in a thread: each file as a whole, made from the content it had first."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

from torchmigrate import drafts, engine, recall, runs, write
from torchmigrate.journal import Journal
from torchmigrate.kinds import kind_of
from torchmigrate.migration import Migration
from torchmigrate.model import LOOK, Decision, FileError, FileResult, Policy, Project, Verdict
from torchmigrate.review import Given


@dataclass(slots=True)
class Filed:
    """A file that the review has written, or was to write: its first content, packed, and the digest of what it holds.

    `taken` and `ignored` are the keys whose change, or whose comment, is in the file now.
    """

    original: bytes
    digest: str
    first: str
    taken: frozenset[str] = frozenset()
    ignored: frozenset[str] = frozenset()
    problems: list[FileError] = field(default_factory=list)

    @property
    def is_changed(self) -> bool:
        """Whether the file holds something else than at first."""
        return self.digest != self.first


class Filing:
    """Writes reviewed files, one after another. What it tells (`files`, `notes`) is complete after `finish`."""

    def __init__(self, migration: Migration, journal: Callable[[], Journal]) -> None:
        self._migration = migration
        self._journal = journal
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="write")
        self._jobs: list[Future[None]] = []
        self._sent: dict[str, Mapping[str, Given]] = {}
        self.files: dict[str, Filed] = {}
        self.notes: list[str] = []

    def bring(self, path: str, digest: str, given: Mapping[str, Given]) -> None:
        """Have a file, whose content had this digest when it was looked at, written with these answers in it."""
        given = dict(given)
        if self._sent.get(path, {}) == given and (path in self._sent or not given):
            return
        self._sent[path] = given
        self._jobs.append(self._thread.submit(self._bring, path, digest, given))

    def finish(self) -> None:
        """Wait until all is written. Raises what went wrong beyond single files."""
        jobs, self._jobs = self._jobs, []
        self._thread.shutdown(wait=True)
        for job in jobs:
            job.result()

    def original(self, path: str, digest: str) -> bytes:
        """The content of this digest that a file had when it was looked at; empty when it is gone."""
        filed = self.files.get(path)
        packed = filed.original if filed else b""
        if packed:
            return zlib.decompress(packed)
        try:
            found = write.read(path)
        except OSError:
            return b""
        return found if write.digest(found) == digest else b""

    @property
    def problems(self) -> list[FileError]:
        """What could not be done, by file."""
        return [error for filed in list(self.files.values()) for error in filed.problems]

    def _bring(self, path: str, digest: str, given: Mapping[str, Given]) -> None:
        takes = any(g.drafts or g.decision.verdict is not Verdict.DECLINE for g in given.values())
        if path not in self.files and not takes:
            return
        filed = self.files.setdefault(path, Filed(b"", digest, digest))
        filed.problems.clear()
        try:
            now = write.read(path)
        except OSError as error:
            self._problem(filed, path, "TM010", f"cannot read: {error.strerror or error}")
            return
        if write.digest(now) != filed.digest:
            self._problem(filed, path, "TM007", "changed on disk while it was reviewed; left as it was, run again")
            return
        original = zlib.decompress(filed.original) if filed.original else now
        self._write(filed, path, original, now, given)

    def _write(self, filed: Filed, path: str, original: bytes, now: bytes, given: Mapping[str, Given]) -> None:
        target, result, taken = self._target(filed, path, original, given)
        digest = write.digest(target)
        if target != now:
            log = self._journal()
            kept = []
            if target != original:
                after = self._migration.process_bytes(path, target, LOOK)
                kept = recall.left(result, given, after, digest)
            log.turn(path, digest, kept)
            filed.original = filed.original or zlib.compress(original, 1)
            for outcome in runs.replace_all(log, [runs.Edit(path, now, target)]):
                if outcome.error:
                    filed.problems.append(outcome.error)
                    return
                if outcome.note:
                    self.notes.append(outcome.note)
        if target == original:
            filed.original = b""
        filed.digest = digest
        ignored = frozenset(key for key in taken if given[key].decision.verdict is Verdict.SUPPRESS)
        filed.taken, filed.ignored = taken - ignored, ignored

    def _target(
        self, filed: Filed, path: str, original: bytes, given: Mapping[str, Given]
    ) -> tuple[bytes, FileResult, frozenset[str]]:
        """The content that the answers lead to, what the engine says of it, and the keys whose answer is in it."""
        written: dict[tuple[drafts.Draft, ...], list[str]] = {}
        for key, one in given.items():
            if one.drafts:
                written.setdefault(one.drafts, []).append(key)
        decisions = {key: one.decision for key, one in given.items()}
        result = self._made(path, original, decisions)
        after = original if result.after is None else result.after
        left_out = ""
        for wrote, keys in written.items():
            alone = self._made(path, original, {key: decisions[key] for key in keys}).after or original
            try:
                after = drafts.merge(alone, drafts.placed(original, wrote), after)
            except drafts.Overlap as error:
                left_out = f"{error} is also part of another change that was taken"
        left_out = left_out or (unreadable(path, original, after) or "" if written else "")
        edited = {key for keys in written.values() for key in keys}
        if left_out:
            self._problem(filed, path, "TM007", f"what you wrote is left out: {left_out}")
            plain = {key: one for key, one in decisions.items() if key not in edited}
            result = self._made(path, original, plain)
            after = original if result.after is None else result.after
        filed.problems += [error for error in result.errors if error.code in ("TM004", "TM005", "TM006", "TM012")]
        taken = frozenset(f.decision_key for f in result.findings if f.key in result.accepted)
        self._tell_left_out(filed, result, {k: v for k, v in decisions.items() if k not in edited}, taken)
        return after, result, taken if left_out else taken | edited

    def _made(self, path: str, original: bytes, decisions: Mapping[str, Decision]) -> FileResult:
        return self._migration.process_bytes(path, original, Policy(decisions=decisions))

    def _tell_left_out(
        self, filed: Filed, result: FileResult, decisions: Mapping[str, Decision], taken: frozenset[str]
    ) -> None:
        told: set[str] = set()
        for finding in result.findings:
            key = finding.decision_key
            decision = decisions.get(key)
            if decision is None or decision.verdict is Verdict.DECLINE or key in taken | told:
                continue
            told.add(key)
            why = (
                "no comment can be put there"
                if decision.verdict is Verdict.SUPPRESS
                else "it does not go together with another change that was taken; run again"
            )
            line, column = finding.span.line, finding.span.column
            filed.problems.append(FileError(result.path, line, column, "TM007", f"{finding.code} is left out: {why}"))

    def _problem(self, filed: Filed, path: str, code: str, message: str) -> None:
        filed.problems.append(FileError(path, None, None, code, message))


def unreadable(path: str, before: bytes, after: bytes) -> str | None:
    """Why new content cannot be taken, or None."""
    return engine.unreadable(path, before, after, Project(), kind_of(os.path.basename(path)) or "python")
