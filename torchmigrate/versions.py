"""Comparing release numbers without a dependency: "2.9" is older than "2.10"."""

from __future__ import annotations

import re


def release(version: str) -> tuple[int, ...]:
    """The numeric release of a version text, trailing zeros dropped: "2.15.0rc1" gives (2, 15)."""
    found = re.match(r"\s*v?(\d+(?:\.\d+)*)", version)
    parts = [int(part) for part in found[1].split(".")] if found else []
    while parts and parts[-1] == 0:
        parts.pop()
    return tuple(parts)


def older(version: str, than: str) -> bool:
    """Whether one version's release comes before another's."""
    return release(version) < release(than)
