"""The fingerprint of a file's content. A module of its own, which costs a starting worker next to nothing."""

from __future__ import annotations

import hashlib


def digest(data: bytes) -> str:
    """What tells the states of a file apart everywhere: blake2b, 16 bytes, in hex."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()
