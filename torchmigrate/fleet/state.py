"""The work folder of a fleet run: what each repository gave, kept so that a run can be killed and taken up again.

state/NAME.json      the result of a repository, written in one step after everything else of it
patches/NAME.patch   what its migration changes, for `git apply`
series/NAME.mbox     its commits, for `git am`
logs/NAME.log        what was done and what commands said
clones/NAME          the clone with the branch, where one was asked for
result.json          everything together: what reports render
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

from torchmigrate import __version__, write
from torchmigrate.fleet import DONE, EMPTY, FAILED, SCHEMA, Order, Outcome, Repository
from torchmigrate.model import UsageError

RETRIES = ("missing", "failed", "all")
_PATIENCE = 5.0
_KEPT = {"patch": ("patches", ".patch"), "series": ("series", ".mbox"), "log": ("logs", ".log")}


class Work:
    """A work folder that this process alone uses until `close`. Raises UsageError."""

    def __init__(self, folder: str, order: Order) -> None:
        self.folder = Path(os.path.abspath(folder))
        self._order = order
        try:
            for name in ("state", "scratch", *(where for where, _ in _KEPT.values())):
                (self.folder / name).mkdir(parents=True, exist_ok=True)
            ignore = self.folder / ".gitignore"
            if not ignore.exists():
                write.create(ignore, b"*\n")
            self._lock = _locked(self.folder / "lock")
        except OSError as error:
            raise UsageError(f"cannot use the work folder {folder}: {error.strerror or error}") from None
        for leftover in (self.folder / "scratch").iterdir():
            shutil.rmtree(leftover, ignore_errors=True)

    @property
    def scratch(self) -> str:
        """Where work in progress lies."""
        return str(self.folder / "scratch")

    def close(self) -> None:
        """Let others use the folder."""
        self._lock.close()

    def known(self, repository: Repository) -> dict[str, Any] | None:
        """What an earlier run with the same orders kept about a repository: its result, as plain data."""
        try:
            kept = json.loads((self.folder / "state" / f"{repository.key}.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        result = kept.get("result") if isinstance(kept, dict) else None
        same = isinstance(kept, dict) and kept.get("order") == self._fingerprint(repository)
        return result if same and isinstance(result, dict) else None

    def keep(self, repository: Repository, outcome: Outcome) -> dict[str, Any]:
        """Keep the outcome of a repository; its result, with the names of the files that are kept beside it."""
        result = dict(outcome.result)
        for name, (where, ending) in _KEPT.items():
            path = self.folder / where / f"{repository.key}{ending}"
            data: bytes = getattr(outcome, name)
            if data:
                write.create(path, data)
            else:
                write.discard(str(path))
        result["patch"] = f"patches/{repository.key}.patch" if outcome.patch else None
        self._place(repository, outcome.clone)
        kept = {"order": self._fingerprint(repository), "seconds": round(outcome.seconds, 3), "result": result}
        write.create(self.folder / "state" / f"{repository.key}.json", _json(kept))
        return result

    def _place(self, repository: Repository, clone: str | None) -> None:
        home = self.folder / "clones" / repository.key
        shutil.rmtree(home, ignore_errors=True)
        if clone is not None and os.path.isdir(clone):
            home.parent.mkdir(exist_ok=True)
            shutil.move(clone, home)
            with contextlib.suppress(OSError):
                os.rmdir(os.path.dirname(clone))

    def _fingerprint(self, repository: Repository) -> str:
        """A digest of everything that decides what a repository gives, but for its content."""
        order = asdict(self._order)
        for name in ("jobs", "timeout"):
            del order[name]
        about = asdict(repository)
        del about["timeout"]
        text = json.dumps([__version__, about, order], sort_keys=True)
        return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()

    def conclude(self, repositories: Sequence[Repository]) -> Counter[str]:
        """Write `result.json` from all that is kept, one repository in memory at a time; the totals."""
        totals: Counter[str] = Counter()
        path = self.folder / "result.json"
        temporary = self.folder / "scratch" / "result.json"
        try:
            with open(temporary, "wb") as file:
                for chunk in self._document(repositories, totals):
                    file.write(chunk)
            os.replace(temporary, path)
        except OSError as error:
            raise UsageError(f"cannot write {path}: {error.strerror or error}") from None
        return totals

    def _document(self, repositories: Iterable[Repository], totals: Counter[str]) -> Iterator[bytes]:
        head = {"schema": SCHEMA, "tool": {"name": "torchmigrate", "version": __version__}}
        yield _json(head)[:-3] + b',\n  "repositories": ['
        first = True
        for repository in repositories:
            result = self.known(repository)
            totals["repositories"] += 1
            if result is None:
                totals["left"] += 1
                continue
            totals[result["status"]] += 1
            totals.update(result["totals"])
            body = _json(result)[:-1].replace(b"\n", b"\n    ")
            yield (b"\n    " if first else b",\n    ") + body
            first = False
        yield (b"]" if first else b"\n  ]") + b',\n  "totals": '
        yield _json(ordered(totals))[:-1].replace(b"\n", b"\n  ") + b"\n}\n"


def ordered(totals: Mapping[str, int]) -> dict[str, int]:
    """Totals in the order of the document."""
    first = {name: totals.get(name, 0) for name in ("repositories", DONE, EMPTY, FAILED, "left")}
    return first | {name: number for name, number in totals.items() if name not in first}


def chosen(
    work: Work,
    repositories: Sequence[Repository],
    retry: str | None,
    only: Sequence[str],
    canary: int | None,
) -> list[Repository]:
    """The repositories to do now: those that are missing or failed, or what `retry` and `only` ask for.

    Raises UsageError for a name that fits none.
    """
    import fnmatch

    wanted = list(repositories)
    for name in only:
        if not any(fnmatch.fnmatchcase(one.name, name) for one in repositories):
            from torchmigrate.config import near

            raise UsageError(f"no repository is called {name!r}{near(name, [one.name for one in repositories])}")
    if only:
        wanted = [one for one in wanted if any(fnmatch.fnmatchcase(one.name, name) for name in only)]
    if retry != "all":
        states = {None: ("", FAILED), "missing": ("",), "failed": (FAILED,)}[retry]
        wanted = [one for one in wanted if ((work.known(one) or {}).get("status", "")) in states]
    return wanted if canary is None else wanted[:canary]


def _json(data: Any) -> bytes:
    return json.dumps(data, indent=2, ensure_ascii=True).encode("ascii") + b"\n"


def _locked(path: Path) -> IO[bytes]:
    """The file, locked; a run that was just killed gets a moment to end."""
    file = open(path, "ab")  # noqa: SIM115 (held open as long as the work folder is used)
    try:
        import fcntl
    except ImportError:  # no such locks there
        return file
    until = time.monotonic() + _PATIENCE
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return file
        except OSError:
            if time.monotonic() > until:
                file.close()
                raise UsageError(f"another run uses {path.parent}; wait for it or pass another --work-dir") from None
            time.sleep(0.1)
