"""What became of an earlier report: which of its places are gone, which remain, which are new."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from torchmigrate.model import Finding, UsageError

Key = tuple[str, str, str]
"""A place across runs: the repository ("" outside of a fleet), the path, and the finding's key."""


@dataclass(frozen=True, slots=True)
class Step:
    """The places of one rule, then and now."""

    code: str
    before: int
    gone: int
    new: int

    @property
    def now(self) -> int:
        """How many there are now."""
        return self.before - self.gone + self.new


@dataclass(frozen=True, slots=True)
class Progress:
    """The places of an earlier report, by key with their code, against those that are still open."""

    source: str
    earlier: Mapping[Key, str]
    now: Mapping[Key, str]

    def is_new(self, repository: str, finding: Finding) -> bool:
        """Whether the earlier report does not have this place."""
        return (repository, finding.path, finding.key) not in self.earlier

    @property
    def before(self) -> int:
        """Places in the earlier report."""
        return len(self.earlier)

    @property
    def gone(self) -> int:
        """Those of them that are done."""
        return len(self.earlier.keys() - self.now.keys())

    @property
    def left(self) -> int:
        """Those of them that remain."""
        return self.before - self.gone

    @property
    def new(self) -> int:
        """Places that the earlier report does not have."""
        return len(self.now.keys() - self.earlier.keys())

    @property
    def steps(self) -> list[Step]:
        """Rule by rule, in order of code."""
        before = Counter(self.earlier.values())
        gone = Counter(self.earlier[key] for key in self.earlier.keys() - self.now.keys())
        new = Counter(self.now[key] for key in self.now.keys() - self.earlier.keys())
        return [Step(code, before[code], gone[code], new[code]) for code in sorted({*before, *new})]

    def __str__(self) -> str:
        return f"Since {self.source}: {self.gone:,} of {self.before:,} done, {self.left:,} left, {self.new:,} new."


def read(path: str) -> dict[Key, str]:
    """The places of a report that was written with --format json, by key with their code. Raises UsageError."""
    try:
        with open(path, encoding="utf-8") as file:
            document = json.load(file)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from None
    except (ValueError, RecursionError):
        raise UsageError(f"{path} is no JSON; --compare takes what --format json wrote") from None
    try:
        return places(document)
    except (KeyError, TypeError, ValueError):
        raise UsageError(f"{path} is no report of torchmigrate; --compare takes what --format json wrote") from None


def places(document: Mapping[str, Any]) -> dict[Key, str]:
    """The places of a document. Raises KeyError, TypeError and ValueError for what is none."""
    if document["schema"] != 1 or document["tool"]["name"] != "torchmigrate":
        raise ValueError(document["schema"])
    if "repositories" in document:
        parts: Iterable[tuple[str, Any]] = [(one["name"], one["findings"]) for one in document["repositories"]]
    else:
        parts = [("", document["findings"])]
    return {(str(name), str(f["path"]), str(f["key"])): str(f["code"]) for name, found in parts for f in found}
