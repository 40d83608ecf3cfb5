"""Many repositories, one after another or at once: the data of a fleet, as plain as it crosses machines.

A fleet run leaves one JSON document, `result.json` in its work folder, which reports render. Its keys, in order:

    schema          1
    tool            {"name", "version"}
    repositories    one object a repository, in the order of the fleet: the fields of `RepositoryResult`
    totals          counts by name: "repositories", "done", "empty", "failed", "left" (not run yet), then the sums of
                    the repositories' own totals

It holds no times, no absolute paths of this machine beyond the sources that the fleet names, and no secrets of URLs, so
that two runs over the same commits give the same bytes, wherever and in whatever order the work was done. What does
differ (seconds, output of commands) is in `state/` and `logs/`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

SCHEMA = 1

DONE, EMPTY, FAILED = "done", "empty", "failed"
"""How a repository ended: migrated (whether or not that changed anything), without a commit to look at, or not done."""

OBTAIN, MIGRATE, COMMIT, VERIFY, RUN = "obtain", "migrate", "commit", "verify", "run"
"""Where a failed repository failed; `run` is its whole process: out of time, or ended by a signal."""

DRY_RUN = "TORCHMIGRATE_DRY_RUN"
"""Set to 1 for the commands of a dry run, so that scripts do nothing that lasts; not set otherwise."""
REPOSITORY = "TORCHMIGRATE_REPOSITORY"
"""Set to the name of the repository for the commands that run in it."""


@dataclass(frozen=True, slots=True)
class Repository:
    """One member of a fleet: where it comes from and what is particular to it.

    `source` is a folder or whatever git takes as a URL. `ref` is a branch, tag or commit, None for the source's HEAD.
    `verify` is the command to run after its migration, None for the one of the whole fleet.
    """

    name: str
    source: str
    is_local: bool = False
    ref: str | None = None
    verify: str | None = None
    verify_timeout: float | None = None
    timeout: float | None = None

    @property
    def key(self) -> str:
        """The name as a file name: as it is where it is plain, else with a digest, so that no two meet."""
        plain = re.sub(r"[^A-Za-z0-9._-]", "_", self.name)[:80]
        if plain == self.name and plain[:1] not in ("", ".", "-"):
            return plain
        digest = hashlib.blake2b(self.name.encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()
        return f"{plain.lstrip('.-')}-{digest}"

    @property
    def shown(self) -> str:
        """The source without the secrets that a URL may hold."""
        return masked(self.source)


@dataclass(frozen=True, slots=True)
class Order:
    """What to do with every repository of a fleet.

    `flags` are fields of `Settings` that the command line gave. `branch` is the branch to commit to, None for patches
    alone; `commit` is how changes are put into commits. Times are in seconds. `in_place` has local checkouts changed
    themselves instead of a clone. `jobs` are the processes that one repository may use.
    """

    flags: Mapping[str, Any] = field(default_factory=dict)
    unsafe: bool = False
    dry_run: bool = False
    branch: str | None = None
    commit: str = "one"
    verify: str | None = None
    verify_timeout: float = 600.0
    timeout: float = 1800.0
    in_place: bool = False
    jobs: int = 1


@dataclass(frozen=True, slots=True)
class Task:
    """One repository to do. `scratch` is the folder to work in, None for a temporary one of the machine that does it;
    with `keep` the clone stays there."""

    repository: Repository
    order: Order
    scratch: str | None = None
    keep: bool = False


@dataclass(frozen=True, slots=True)
class Verification:
    """How the user's command ended: "passed", "failed" (with its exit code), "timed out", or "too much output"."""

    command: str
    outcome: str
    exit_code: int | None = None


@dataclass(frozen=True, slots=True)
class RepositoryResult:
    """What a repository gave.

    `status` is one of `DONE`, `EMPTY`, `FAILED`; `stage` and `reason` say where and why it failed. `commit` is the
    commit that was looked at. `findings` (each with its `decision`), `errors`, `totals` and `diffs` are those of the
    JSON that `apply --format json` prints, paths relative to the repository; totals also count "changes",
    "files_changed" and the findings that were "taken". `projects` are objects of "root", "torch_min",
    "torch_min_source", "torch_max" and "python_min"; `files` are objects of "path", "project" and "owners" for every
    path that has findings or errors; `commits` are objects of "subject" and "files", in order. `patch` is the patch
    file relative to the work folder, None where nothing changes. `notes` are what else someone should know.
    """

    name: str
    source: str
    status: str
    stage: str | None = None
    reason: str | None = None
    commit: str | None = None
    branch: str | None = None
    notes: Sequence[str] = ()
    projects: Sequence[Mapping[str, Any]] = ()
    files: Sequence[Mapping[str, Any]] = ()
    findings: Sequence[Mapping[str, Any]] = ()
    errors: Sequence[Mapping[str, Any]] = ()
    totals: Mapping[str, int] = field(default_factory=dict)
    diffs: Sequence[Mapping[str, str]] = ()
    commits: Sequence[Mapping[str, Any]] = ()
    verification: Verification | None = None
    patch: str | None = None

    def document(self) -> dict[str, Any]:
        """As plain data, keys in the order of the fields."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Outcome:
    """Everything that comes back from doing a task: the result, and what is kept beside it.

    `result` is a `RepositoryResult` as plain data. `series` are the commits as `git am` takes them. `clone` is where
    the clone was left, if it was.
    """

    result: Mapping[str, Any]
    patch: bytes = b""
    series: bytes = b""
    log: bytes = b""
    seconds: float = 0.0
    clone: str | None = None


def masked(text: str) -> str:
    """A text with the user names and passwords taken out of the URLs in it."""
    return re.sub(r"(\b[A-Za-z][A-Za-z0-9+.-]*://)[^/@\s]*@", r"\1", text)
