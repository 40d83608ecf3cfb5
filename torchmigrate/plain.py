"""Reads small files that somebody else wrote: whatever they are links to, this ends soon and takes little memory."""

from __future__ import annotations

import errno
import os
import stat

MOST = 8 << 20
"""Bytes; no metadata or configuration is larger."""


def read(path: str, most: int = MOST) -> bytes:
    """The content of a regular file. Raises OSError, also for devices, pipes and larger files."""
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with os.fdopen(handle, "rb") as file:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", path)
        data = file.read(most + 1)
    if len(data) > most:
        raise OSError(errno.EFBIG, f"larger than {most >> 20} MB", path)
    return data


def text(path: str) -> str:
    """The content as UTF-8, without a byte order mark, `\\n` between lines. Raises OSError and UnicodeDecodeError."""
    return read(path).decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
