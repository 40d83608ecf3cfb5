"""Reads many files fast and finds those that hold a trigger of a selected codemod.

Opening a file costs more than searching it, so each is opened once, without a look at its size, and read in one piece.
"""

from __future__ import annotations

import errno
import hashlib
import marshal
import os
import re
import stat
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torchmigrate.digest import digest
from torchmigrate.discover import Batch, join
from torchmigrate.kinds import kind_of
from torchmigrate.literals import Literals
from torchmigrate.model import FileError
from torchmigrate.sieve import AT_ONCE, Sieve, Wanted

FIRST_READ = 1 << 16
NEXT_READ = 1 << 20
GENERATED = re.compile(rb"@generated\b|\bCode generated\b[^\r\n]*\bDO NOT EDIT\b")
GENERATED_WITHIN = 1024
SETTLED = 2_000_000_000
"""Nanoseconds: clocks of file systems tick in steps of up to this."""

_LEAST, _WIDE = b"\x01", b"\xfe"
"""A text in UTF-8 begins with a byte between these, one in UTF-16 or UTF-32 with a mark does not."""

_FLAGS = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0)
_NOT_THROUGH_LINKS = getattr(os, "O_NOFOLLOW", 0)
_NO_FILE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP})

State = tuple[int, int, int, int]
_LINK: State = (0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Hit:
    """A file that holds a trigger: its path as printed and with all links resolved, and what its content hashes to.

    `named` files were given on the command line one by one; `linked` ones are symbolic links themselves. With `awaits`
    a file is worth a look only where its project has one of these facts.
    """

    path: str
    real: str
    kind: str
    size: int
    digest: str
    named: bool = False
    linked: bool = False
    awaits: frozenset[str] = AT_ONCE


@dataclass(frozen=True, slots=True)
class Found:
    """What one batch gave: hits, errors, and the paths of files left out because they say that they are generated.

    `state` fingerprints the files of a watched batch as they were read, empty where that cannot be relied upon.
    `unchanged` says that nothing was read because the batch is in the state that is known.
    """

    hits: tuple[Hit, ...] = ()
    errors: tuple[FileError, ...] = ()
    generated: tuple[str, ...] = ()
    state: bytes = b""
    unchanged: bool = False


class Scanner:
    """Searches batches for what some rules look for in each kind of file.

    `max_size` is in bytes: a larger file that holds a trigger is an error, never silence.
    """

    def __init__(self, wanted: Mapping[str, Sequence[Wanted]], max_size: int, include_generated: bool) -> None:
        self._wanted = wanted
        self._sieves: dict[str, Sieve] = {}
        self._max_size = max_size
        self._include_generated = include_generated

    def scan(self, batch: Batch) -> Found:
        """Look at every file of a batch. Folders, dead links and files that have vanished are passed over."""
        if batch.known and state_of(batch) == batch.known:
            return Found(unchanged=True)
        hits: list[Hit] = []
        errors: list[FileError] = []
        generated: list[str] = []
        states: list[State] = []
        began = time.time_ns()
        folder = os.fsencode(join(batch.folder, "x"))[:-1]
        sieves = self._sieves
        flags = _FLAGS if batch.named else _FLAGS | _NOT_THROUGH_LINKS
        open_, read, close, fstat = os.open, os.read, os.close, os.fstat
        for name in batch.names:
            path = folder + name
            kind = "python" if name.endswith(b".py") else kind_of(os.fsdecode(name)) or "python"
            sieve = sieves.get(kind) or self._sieve(kind)
            try:
                try:
                    file = open_(path, flags)
                except OSError as error:
                    if error.errno != errno.ELOOP or flags == _FLAGS:
                        raise
                    file = open_(path, _FLAGS)
                    states.append(_LINK)
                try:
                    if batch.watched:
                        states.append(_state(fstat(file)))
                    data = read(file, FIRST_READ)
                    if len(data) == FIRST_READ:
                        data = self._read_on(file, data, sieve.literals)
                finally:
                    close(file)
            except OSError as error:
                if batch.named or error.errno not in _NO_FILE:
                    errors.append(_cannot_read(path, error))
                continue
            except _TooLarge as error:
                errors.append(FileError(os.fsdecode(path), None, None, "TM009", str(error)))
                continue
            held = sieve.literals.held(data)
            if not held:
                if not _LEAST <= data < _WIDE and (wide := _in_wide(path, data, sieve)) is not None:
                    errors.append(wide)
                continue
            awaits = sieve.awaited(data, held)
            if awaits is None:
                continue
            shown = os.fsdecode(path)
            if not (self._include_generated or batch.named) and GENERATED.search(data, 0, GENERATED_WITHIN):
                generated.append(shown)
            else:
                real, linked = os.path.realpath(shown), os.path.islink(shown)
                hits.append(Hit(shown, real, kind, len(data), digest(data), batch.named, linked, awaits))
        state = _fingerprint(states) if len(states) == len(batch.names) and _is_settled(states, began) else b""
        return Found(tuple(hits), tuple(errors), tuple(generated), state)

    def _sieve(self, kind: str) -> Sieve:
        sieve = self._sieves[kind] = Sieve(self._wanted.get(kind, ()), kind)
        return sieve

    def _read_on(self, file: int, data: bytes, literals: Literals) -> bytes:
        """The whole content of a file that begins with `data`; nothing for one that is no regular file.

        Raises _TooLarge for one over the size limit that holds a trigger; one without is as good as empty.
        """
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode):
            return b""
        if found.st_size <= self._max_size:  # once more and whole: cheaper than to join two parts
            os.lseek(file, 0, os.SEEK_SET)
            data = os.read(file, found.st_size + 1)
            if len(data) <= found.st_size:
                return data
        pieces, size = [data], len(data)
        while size <= self._max_size:
            piece = os.read(file, NEXT_READ)
            if not piece:
                return b"".join(pieces)
            pieces.append(piece)
            size += len(piece)
        window = b"".join(pieces)
        while window:
            if literals.any(window):
                raise _TooLarge(found.st_size, self._max_size)
            piece = os.read(file, NEXT_READ)
            window = piece and window[len(window) - literals.longest + 1 :] + piece
        return b""


class _TooLarge(Exception):
    def __init__(self, size: int, limit: int) -> None:
        super().__init__(f"larger than the size limit ({size} bytes, limit {limit}); raise --max-size or exclude it")


def _state(found: os.stat_result) -> State:
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _fingerprint(states: list[State]) -> bytes:
    return hashlib.blake2b(marshal.dumps(states, 2), digest_size=16).digest()


def _is_settled(states: list[State], began: int) -> bool:
    """Whether all files had been left alone for a while when they were read."""
    return all(state[2] < began - SETTLED and state[3] < began - SETTLED for state in states)


def state_of(batch: Batch) -> bytes:
    """The state of a batch's files now; nothing if one is gone or is a link."""
    folder = os.fsencode(join(batch.folder, "x"))[:-1]
    lstat = os.lstat
    try:
        return _fingerprint([_state(lstat(folder + name)) for name in batch.names])
    except OSError:
        return b""


def _in_wide(path: bytes, data: bytes, sieve: Sieve) -> FileError | None:
    """The error of a file in UTF-16 or UTF-32 that would concern a rule."""
    from torchmigrate.source import SourceError, narrow, read_text

    try:
        read_text(data)
    except SourceError as error:
        if sieve.codes(narrow(data)):
            return error.in_file(os.fsdecode(path))
    return None


def _cannot_read(path: bytes, error: OSError) -> FileError:
    return FileError(os.fsdecode(path), None, None, "TM010", f"cannot read: {error.strerror or error}; not looked at")
