"""What runs did, kept in the user's state folder so that any of them can be undone or gone on with.

A run is one file of JSON lines that only ever grows: a head, then decisions as they are made, then for each file an
intent (with all that is needed to go back) that is on disk before the file is touched, and a note when it was replaced.
A process killed at any moment thus leaves a journal that tells, by digests, which files are old and which are new.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import secrets
import threading
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from torchmigrate import write
from torchmigrate.model import Decision, UsageError, Verdict

SCHEMA = 1
VARIABLE = "TORCHMIGRATE_STATE_DIR"
_LEVEL = 6
_LAST_LINE = b'{"finished": true}\n'


class JournalError(UsageError):
    """A run that cannot be found or read, or a state folder that cannot be used; the text is for the user."""


@dataclass(frozen=True, slots=True)
class Replacement:
    """One file of a run: what it was and what it became. `undo` gives the old content back from the new one."""

    path: str
    old: str
    new: str
    mode: int
    temporary: str | None
    prefix: int
    suffix: int
    middle: str

    @classmethod
    def of(cls, to: write.Target, before: bytes, after: bytes) -> Replacement:
        """The record of replacing `before` by `after`; a file that is written in place keeps its whole old content."""
        prefix = suffix = 0
        if to.temporary is not None:
            prefix = _common(before, after)
            suffix = _common(before[prefix:][::-1], after[prefix:][::-1])
        middle = before[prefix : len(before) - suffix]
        packed = base64.b85encode(zlib.compress(middle, _LEVEL)).decode("ascii")
        old, new = write.digest(before), write.digest(after)
        return cls(to.real, old, new, to.mode, to.temporary, prefix, suffix, packed)

    def before(self, after: bytes) -> bytes:
        """The old content, given the content that the run wrote."""
        middle = zlib.decompress(base64.b85decode(self.middle))
        return after[: self.prefix] + middle + after[len(after) - self.suffix :]


def _common(a: bytes, b: bytes) -> int:
    """The length of the longest common beginning."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


@dataclass(frozen=True, slots=True)
class Answer:
    """A decision that a person made about one change of one file.

    `edited` is what the reviewer wrote instead of the proposed code, if any; `digest` that of the file's content then.
    `offer` is a fingerprint of what was asked about.
    """

    path: str
    key: str
    decision: Decision
    edited: str | None = None
    digest: str = ""
    offer: str = ""


@dataclass(frozen=True, slots=True)
class Run:
    """A run as its journal tells it. `kind` is "apply", "review" or "undo"; `started` is in seconds since the epoch.

    `states` is the digest that each reviewed file had last, by path; `commits` are those that the run made, in order.
    """

    id: str
    kind: str
    root: str
    started: float
    settings: Mapping[str, Any] = field(default_factory=dict)
    undoes: str | None = None
    answers: tuple[Answer, ...] = ()
    replacements: tuple[Replacement, ...] = ()
    written: frozenset[int] = frozenset()
    finished: bool = False
    states: Mapping[str, str] = field(default_factory=dict)
    commits: tuple[str, ...] = ()

    @property
    def files(self) -> tuple[str, ...]:
        """The files that the run wrote or may have been about to write, each once."""
        return tuple(dict.fromkeys(r.path for r in self.replacements))


def state_folder() -> Path:
    """Where runs are kept: `TORCHMIGRATE_STATE_DIR`, else the platform's folder for the state of programs."""
    if named := os.environ.get(VARIABLE):
        return Path(named)
    import platformdirs

    return platformdirs.user_state_path("torchmigrate", appauthor=False)


class Journal:
    """The journal of a run in progress. Every method that adds something returns only when it is on disk."""

    def __init__(self, file: IO[bytes], run: str) -> None:
        self._file = file
        self.run = run
        self._count = 0
        self._lock = threading.Lock()

    @classmethod
    def start(
        cls, kind: str, root: str, *, settings: Mapping[str, Any] | None = None, undoes: str | None = None
    ) -> Journal:
        """Open the journal of a new run over the folder `root`. Raises JournalError where none can be kept."""
        folder = state_folder() / "runs"
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            run, file = _new_file(folder)
            _lock(file)
            journal = cls(file, run)
            head = {"schema": SCHEMA, "run": run, "kind": kind, "root": os.path.abspath(root), "started": time.time()}
            journal._append([head | {"settings": dict(settings or {}), "undoes": undoes}])
            write.sync_folders([file.name])
        except OSError as error:
            reason = f"cannot keep a journal in {folder}: {error.strerror or error}"
            raise JournalError(f"{reason}; set {VARIABLE} to a folder that can be written") from error
        return journal

    @classmethod
    def resume(cls, run: Run) -> Journal:
        """Go on with the journal of a run that was interrupted. Raises JournalError."""
        path = _path(run.id)
        try:
            torn = not path.read_bytes().endswith(b"\n")
            file = path.open("ab")
        except OSError as error:
            raise JournalError(f"cannot go on with run {run.id}: {error.strerror or error}") from error
        if not _lock(file):
            file.close()
            raise JournalError(f"run {run.id} is still going on in another process")
        _discard_temporaries(run)
        journal = cls(file, run.id)
        journal._count = len(run.replacements)
        if torn:
            file.write(b"\n")
        return journal

    def answers(self, answers: Iterable[Answer]) -> None:
        """Keep decisions; a later one about the same change counts."""
        self._append(_plain(answer) for answer in answers)

    def withdraw(self, taken_back: Iterable[tuple[str, str, str]]) -> None:
        """Note that decisions, named by path, key and digest, were taken back."""
        self._append({"withdrawn": key, "path": path, "digest": digest} for path, key, digest in taken_back)

    def turn(self, path: str, digest: str, answers: Iterable[Answer] = ()) -> None:
        """Note that a reviewed file is about to get a content, and the decisions that hold for what is left in it."""
        self._append([{"turned": path, "digest": digest}, *(_plain(answer) for answer in answers)])

    def intend(self, replacements: Iterable[Replacement]) -> list[int]:
        """Keep what is about to be written; the numbers returned are for `wrote`."""
        lines = [
            {name: getattr(r, name) for name in Replacement.__slots__} | {"intent": self._count + i}
            for i, r in enumerate(replacements)
        ]
        self._append(lines)
        self._count += len(lines)
        return list(range(self._count - len(lines), self._count))

    def wrote(self, numbers: Iterable[int]) -> None:
        """Note that files were replaced."""
        self._append({"wrote": number} for number in numbers)

    def committed(self, commit: str) -> None:
        """Note a commit of what was written."""
        self._append([{"committed": commit}])

    def close(self, *, finished: bool = True) -> None:
        """End the journal; a run that is not `finished` can be resumed."""
        if self._file.closed:
            return
        if finished:
            self._append([{"finished": True}])
        self._file.close()

    def _append(self, lines: Iterable[Mapping[str, Any]]) -> None:
        text = b"".join(json.dumps(line, ensure_ascii=True).encode("ascii") + b"\n" for line in lines)
        if text:
            try:
                with self._lock:
                    self._file.write(text)
                    self._file.flush()
                    os.fsync(self._file.fileno())
            except OSError as error:
                raise JournalError(f"cannot write the journal {self._file.name}: {error.strerror or error}") from error


def _plain(a: Answer) -> dict[str, Any]:
    return {
        "answer": a.key,
        "path": a.path,
        "verdict": a.decision.verdict.value,
        "choice": a.decision.choice,
        "edited": a.edited,
        "digest": a.digest,
        "offer": a.offer,
    }


def _lock(file: IO[bytes]) -> bool:
    """Mark the journal as belonging to a living process; False when it belongs to another one."""
    try:
        import fcntl
    except ImportError:
        return True
    try:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return True
    return True


def sweep() -> None:
    """Remove the temporary files that killed runs left beside the files they were about to replace."""
    folder = state_folder() / "runs"
    for path in folder.glob("*.jsonl") if folder.is_dir() else ():
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError), path.open("rb+") as file:
            file.seek(-min(len(_LAST_LINE), os.fstat(file.fileno()).st_size), os.SEEK_END)
            if file.read() != _LAST_LINE and _lock(file):
                _discard_temporaries(_parse(path))


def _discard_temporaries(run: Run) -> None:
    for number, replacement in enumerate(run.replacements):
        if number not in run.written and replacement.temporary:
            write.discard(replacement.temporary)


def _new_file(folder: Path) -> tuple[str, IO[bytes]]:
    for length in (2, 2, 2, 3, 4, 8):
        name = secrets.token_hex(length)
        with contextlib.suppress(FileExistsError):
            return name, (folder / f"{name}.jsonl").open("xb")
    raise FileExistsError(f"no free name in {folder}")


def _path(run: str) -> Path:
    return state_folder() / "runs" / f"{run}.jsonl"


def load(run: str) -> Run:
    """Read a run by its id. Raises JournalError."""
    if not run.isalnum():
        raise JournalError(f"{run} is not the id of a run; `torchmigrate runs` lists them")
    try:
        return _parse(_path(run))
    except FileNotFoundError:
        raise JournalError(f"no run {run}; `torchmigrate runs` lists them") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise JournalError(f"cannot read the journal {_path(run)}: {error}") from error


def runs() -> Iterator[Run]:
    """All runs that can be read, newest first."""
    folder = state_folder() / "runs"
    found = []
    for path in folder.glob("*.jsonl") if folder.is_dir() else ():
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            found.append(_parse(path))
    yield from sorted(found, key=lambda run: run.started, reverse=True)


def undone(found: Iterable[Run]) -> frozenset[str]:
    """Which runs, of all of a place and newest first, have been undone in all their files, and not brought back."""
    restored: dict[str, set[str]] = {}
    whole: set[str] = set()
    for run in found:
        if run.id in restored and restored[run.id].issuperset(run.files):
            whole.add(run.id)
        elif run.undoes is not None:
            restored.setdefault(run.undoes, set()).update(run.files)
    return frozenset(whole)


def _parse(path: Path) -> Run:
    lines = list(_lines(path))
    if not lines or lines[0].get("schema") != SCHEMA:
        raise ValueError("not a journal of this version")
    head, answers, replacements, written = lines[0], list[Answer](), list[Replacement](), set[int]()
    states: dict[str, str] = {}
    commits: list[str] = []
    finished = False
    for line in lines[1:]:
        if "answer" in line:
            decision = Decision(Verdict(line["verdict"]), line["choice"])
            known = line.get("digest", ""), line.get("offer", "")
            answers.append(Answer(line["path"], line["answer"], decision, line["edited"], *known))
            states[line["path"]] = known[0]
        elif "withdrawn" in line:
            gone = line["path"], line["withdrawn"], line["digest"]
            answers = [a for a in answers if (a.path, a.key, a.digest) != gone]
            states[line["path"]] = line["digest"]
        elif "turned" in line:
            states[line["turned"]] = line["digest"]
        elif "intent" in line:
            replacements.append(Replacement(**{name: line[name] for name in Replacement.__slots__}))
        elif "wrote" in line:
            written.add(line["wrote"])
        elif "committed" in line:
            commits.append(line["committed"])
        elif "finished" in line:
            finished = True
    return Run(
        head["run"],
        head["kind"],
        head["root"],
        head["started"],
        head["settings"],
        head["undoes"],
        tuple(answers),
        tuple(replacements),
        frozenset(written),
        finished,
        states,
        tuple(commits),
    )


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of a journal; one that a killed process left unfinished was never acted on and is left out."""
    for raw in path.read_bytes().split(b"\n"):
        with contextlib.suppress(ValueError):
            line = json.loads(raw)
            if isinstance(line, dict):
                yield line
