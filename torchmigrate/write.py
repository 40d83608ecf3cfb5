"""Puts new content into files so that each is, at every moment, wholly old or wholly new."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from torchmigrate.digest import digest as digest


class ChangedMeanwhile(Exception):
    """The file no longer holds what the migration was computed from."""


@dataclass(frozen=True, slots=True)
class Target:
    """A file as it stands before it is replaced.

    `real` is the file itself when the path given is a symbolic link. `temporary` is the file that the new content goes
    to first, or None when the file is written in place because other names (hard links) must keep showing that file.
    """

    path: str
    real: str
    temporary: str | None
    mode: int


def read(path: str) -> bytes:
    """The content of a file. Raises OSError."""
    with open(path, "rb") as file:
        return file.read()


def target(path: str) -> Target:
    """How `path` will be replaced. Raises OSError where it cannot be: gone, no regular file, not writable."""
    real = os.path.realpath(path)
    found = os.stat(real)
    if not stat.S_ISREG(found.st_mode):
        raise OSError(f"{path} is not a regular file")
    if not os.access(real, os.W_OK):
        raise PermissionError(f"{path} is read-only")
    temporary = _beside(real) if found.st_nlink == 1 else None
    return Target(path, real, temporary, stat.S_IMODE(found.st_mode))


def replace(to: Target, content: bytes, expected: str) -> None:
    """Replace a file by `content` if its digest still is `expected`.

    Mode, owner where permitted, and extended attributes are kept. The content is on disk before the name points to it.
    Raises ChangedMeanwhile, or OSError (disk full, permission); the file then holds its old content and nothing is left
    beside it. Call `sync_folders` afterwards to make the new names survive a power cut.
    """
    if to.temporary is None:
        _overwrite(to.real, content, expected)
        return
    try:
        _create_like(to.real, to.temporary, content)
        if digest(read(to.real)) != expected:
            raise ChangedMeanwhile(to.path)
        os.replace(to.temporary, to.real)
    except BaseException:
        discard(to.temporary)
        raise


def discard(temporary: str) -> None:
    """Remove a temporary file, if it is there."""
    with contextlib.suppress(OSError):
        os.unlink(temporary)


def sync_folders(paths: Iterable[str]) -> None:
    """Write the folders of replaced files to disk, each once."""
    for folder in sorted({os.path.dirname(path) for path in paths}):
        with contextlib.suppress(OSError):
            handle = os.open(folder or ".", os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)


def create(path: Path, content: bytes) -> None:
    """Write a file of our own (a patch, a report), replacing what is there in one step. Raises OSError."""
    if path.exists() and not path.is_file():  # /dev/stdout, a pipe
        with path.open("wb") as file:
            file.write(content)
        return
    path = Path(os.path.realpath(path))
    temporary = _beside(str(path))
    try:
        with open(temporary, "xb") as file:
            file.write(content)
        if path.exists():
            os.chmod(temporary, stat.S_IMODE(path.stat().st_mode))
        os.replace(temporary, path)
    except BaseException:
        discard(temporary)
        raise


def _beside(path: str) -> str:
    return os.path.join(os.path.dirname(path), f".torchmigrate-{secrets.token_hex(6)}.tmp")


def _create_like(model: str, path: str, content: bytes) -> None:
    """Create `path` with `content` and everything that `model` has beside its content, and wait until it is on disk."""
    found = os.stat(model)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
        file.flush()
        if hasattr(os, "fchown"):
            with contextlib.suppress(OSError):
                os.fchown(handle, found.st_uid, found.st_gid)
        for name, value in _extended_attributes(model):
            with contextlib.suppress(OSError):
                os.setxattr(handle, name, value)
        os.chmod(path, stat.S_IMODE(found.st_mode))
        os.fsync(handle)


def _extended_attributes(path: str) -> Iterator[tuple[str, bytes]]:
    if hasattr(os, "listxattr"):
        with contextlib.suppress(OSError):
            for name in os.listxattr(path):
                yield name, os.getxattr(path, name)


def _overwrite(path: str, content: bytes, expected: str) -> None:
    """Write through a name that shares its file with others; room for the new content is made sure of first."""
    with open(path, "r+b") as file:
        before = file.read()
        if digest(before) != expected:
            raise ChangedMeanwhile(path)
        if len(content) > len(before) and hasattr(os, "posix_fallocate"):
            try:
                os.posix_fallocate(file.fileno(), 0, len(content))
            except OSError:
                file.truncate(len(before))
                raise
        file.seek(0)
        file.write(content)
        file.truncate()
        file.flush()
        os.fsync(file.fileno())
