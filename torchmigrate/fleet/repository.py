"""One repository from its source to its result, in a process of its own:

    python -P -m torchmigrate.fleet.repository FOLDER

FOLDER holds `task.json`; the clone, `result.json`, `patch` and `series` are made in it. The process ends, with all that
it started, when its parent does.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from types import FrameType
from typing import IO, Any

from torchmigrate import commits, config, git, owners, write
from torchmigrate.cli import patches
from torchmigrate.cli.running import Ran, run_all
from torchmigrate.fleet import (
    COMMIT,
    DONE,
    DRY_RUN,
    EMPTY,
    FAILED,
    MIGRATE,
    OBTAIN,
    REPOSITORY,
    RUN,
    VERIFY,
    Order,
    Repository,
    RepositoryResult,
    Task,
    Verification,
    clone,
    verify,
)
from torchmigrate.model import EVERYTHING, SAFE_ONLY, FileResult, Settings, UsageError
from torchmigrate.report import json as contract
from torchmigrate.report.summary import Summary, count
from torchmigrate.report.text import plural
from torchmigrate.roots import Projects
from torchmigrate.runs import Edit

TASK, RESULT, PATCH, SERIES, CLONE, LOG = "task.json", "result.json", "patch", "series", "clone", "log"


def dump(task: Task) -> str:
    """A task as text."""
    return json.dumps(asdict(task))


def load(text: str) -> Task:
    """A task from its text."""
    data = json.loads(text)
    order = data["order"]
    flags = {name: tuple(value) if isinstance(value, list) else value for name, value in order["flags"].items()}
    return Task(Repository(**data["repository"]), Order(**(order | {"flags": flags})), data["scratch"], data["keep"])


class _Failed(Exception):
    """The repository is not done."""

    def __init__(self, stage: str, reason: str) -> None:
        super().__init__(reason)
        self.stage = stage


class _Run:
    """The steps for one repository; `result` grows with each."""

    def __init__(self, task: Task, folder: str, log: IO[bytes]) -> None:
        self.repository, self.order, self.folder, self.log = task.repository, task.order, folder, log
        self.result = RepositoryResult(self.repository.name, self.repository.shown, DONE)

    def say(self, text: str) -> None:
        self.log.write(text.encode("utf-8", "backslashreplace") + b"\n")
        self.log.flush()

    def all(self) -> RepositoryResult:
        try:
            self._steps()
        except clone.NoCommit as error:
            self._end(status=EMPTY, reason=str(error))
        except _Failed as error:
            self._end(status=FAILED, stage=error.stage, reason=str(error))
        return self.result

    def _end(self, **values: Any) -> None:
        self.result = replace(self.result, **values)
        self.say(f"{self.result.status}: {self.result.reason}")

    def _steps(self) -> None:
        at = self._obtain()
        os.chdir(at.folder)
        summary, ran, roots = self._migrate()
        if not self.order.dry_run:
            self._write(summary, ran, roots, at)
        if summary.changed:
            self._verify(at.folder)
        self.say("done")

    def _obtain(self) -> clone.Obtained:
        order, branch = self.order, None if self.order.dry_run else self.order.branch
        self.say(f"from {self.repository.shown}")
        try:
            if order.in_place and self.repository.is_local and not order.dry_run:
                at = clone.checkout(self.repository)
            else:
                at = clone.obtain(self.repository, os.path.join(self.folder, CLONE), branch)
        except clone.CloneError as error:
            raise _Failed(OBTAIN, str(error)) from None
        self.result = replace(self.result, commit=at.commit, branch=branch, notes=at.notes)
        self.say(f"at commit {at.commit}")
        return at

    def _migrate(self) -> tuple[Summary, Ran, Projects]:
        try:
            settings = _settings(self.order)
            policy = EVERYTHING if self.order.unsafe else SAFE_ONLY
            ran = run_all(settings, policy, quiet=True, stages=self.order.commit == "per-codemod")
        except UsageError as error:
            raise _Failed(MIGRATE, str(error).replace(os.path.realpath(os.curdir) + os.sep, "")) from None
        written = not self.order.dry_run
        summary = Summary(ran.results, ran.counts, ran.projects, unsafe=self.order.unsafe, written=written)
        roots = Projects.of(settings)
        diffs = {r.path: patches.patch(r, context=3, use_git=True) for r in summary.changed}
        document = contract.document(summary, diffs)
        taken = {"changes": count(summary.taken), "files_changed": len(summary.changed), "taken": len(summary.taken)}
        totals = taken | document["totals"]
        self.result = replace(
            self.result,
            notes=(*self.result.notes, *ran.counts.notes),
            projects=_projects(ran),
            files=_files(ran.results, roots),
            findings=document["findings"],
            errors=document["errors"],
            totals=totals,
            diffs=document["diffs"],
            patch=PATCH if diffs else None,
        )
        if diffs:
            _save(os.path.join(self.folder, PATCH), b"".join(diffs.values()))
        self.say(f"{plural(totals['changes'], 'change')} in {plural(totals['files_changed'], 'file')}")
        return summary, ran, roots

    def _write(self, summary: Summary, ran: Ran, roots: Projects, at: clone.Obtained) -> None:
        order = self.order
        if order.in_place and (dirty := git.uncommitted([result.path for result in summary.changed])):
            named = ", ".join(dirty[:3]) + (", ..." if len(dirty) > 3 else "")
            raise _Failed(MIGRATE, f"files that would change have uncommitted edits: {named}")
        if at.folder == self.repository.source and order.branch and summary.changed:
            try:
                clone.branch_off(at.folder, order.branch)
            except clone.CloneError as error:
                raise _Failed(COMMIT, str(error)) from None
        if not order.branch:
            _put([Edit(r.path, r.before or b"", r.after or b"") for r in summary.changed])
            return
        parts = commits.split(order.commit, summary.changed, ran.stages, roots.root_of, owners.Ownership().of)
        try:
            for made in commits.make(parts, os.path.realpath(os.curdir), _put):
                listed = {"subject": made.part.subject, "files": [edit.path for edit in made.part.edits]}
                self.result = replace(self.result, commits=(*self.result.commits, listed))
                self.say(f"committed: {made.part.subject}")
        except commits.Stopped as error:
            raise _Failed(COMMIT, str(error)) from None
        if self.result.commits:
            _save(os.path.join(self.folder, SERIES), clone.series(os.curdir, at.commit))

    def _verify(self, folder: str) -> None:
        command = self.repository.verify or self.order.verify
        if not command:
            return
        seconds = self.repository.verify_timeout or self.order.verify_timeout
        variables = {REPOSITORY: self.repository.name} | ({DRY_RUN: "1"} if self.order.dry_run else {})
        self.say(f"verifying: {command}")
        done = verify.run(command, folder, seconds, variables, self.log)
        self.result = replace(self.result, verification=done)
        if done.outcome != "passed":
            raise _Failed(VERIFY, _told(done, seconds))


def _told(done: Verification, seconds: float) -> str:
    if done.outcome == "timed out":
        return f"the verification was ended after {seconds:g} s"
    if done.outcome == "too much output":
        return f"the verification was ended: it wrote more than {verify.MOST_OUTPUT >> 20} MB"
    code = done.exit_code or 0
    return f"the verification failed ({f'signal {-code}' if code < 0 else f'exit code {code}'})"


def _settings(order: Order) -> Settings:
    """What counts for the repository: the flags, then its own configuration, never one around it."""
    found = config.find(os.curdir, top=os.curdir)
    flags = {**order.flags, "jobs": order.jobs, "cache": False}
    settings, _ = config.settings(config.load(found) if found else config.Config(), flags, {})
    return replace(settings, given=flags, config_file=os.path.realpath(found) if found else None)


def _projects(ran: Ran) -> list[dict[str, Any]]:
    names = ("root", "torch_min", "torch_min_source", "torch_max", "python_min")
    return [
        {name: getattr(project, name) for name in names} for project in sorted(ran.projects, key=lambda one: one.root)
    ]


def _files(results: Sequence[FileResult], roots: Projects) -> list[dict[str, Any]]:
    owned = owners.Ownership()
    return [
        {"path": path, "project": roots.root_of(path) or os.curdir, "owners": list(owned.of(path))}
        for path in dict.fromkeys(r.path for r in results if r.findings or any(e.code != "TM003" for e in r.errors))
    ]


def _put(edits: Sequence[Edit]) -> Sequence[Edit]:
    for edit in edits:
        try:
            write.replace(write.target(edit.path), edit.after, write.digest(edit.before))
        except (OSError, write.ChangedMeanwhile) as error:
            raise _Failed(MIGRATE, f"{edit.path} cannot be written: {error}") from None
    return edits


def _save(path: str, data: bytes) -> None:
    with open(path, "wb") as file:
        file.write(data)


# -- the process -----------------------------------------------------------------------------------------------


def _end_all(number: int = 0, frame: FrameType | None = None) -> None:
    """End everything that this process started, and this process."""
    for group in verify.running:
        verify.kill(group)
    os.killpg(0, signal.SIGKILL)


def _follow(parent: int) -> None:
    """End when the parent has: it is looked for every second."""

    def look(number: int, frame: FrameType | None) -> None:
        if os.getppid() != parent:
            _end_all()

    signal.signal(signal.SIGTERM, _end_all)
    signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, 1, 1)


def main(arguments: Sequence[str]) -> None:
    """Do the task in the folder that is named."""
    folder, parent = os.path.abspath(arguments[0]), int(arguments[1])
    _follow(parent)
    with open(os.path.join(folder, TASK), encoding="utf-8") as file:
        task = load(file.read())
    with open(os.path.join(folder, LOG), "ab", buffering=0) as log:
        run = _Run(task, folder, log)
        try:
            result = run.all()
        except Exception as error:  # a fault of ours must not look like one of the user's
            import traceback

            run.say(traceback.format_exc())
            reason = f"internal error ({type(error).__name__}: {error}); please report it"
            result = replace(run.result, status=FAILED, stage=RUN, reason=reason)
    _save(os.path.join(folder, RESULT), _text(result.document()))
    signal.setitimer(signal.ITIMER_REAL, 0)  # the interpreter takes its handlers down before it ends


def _text(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, ensure_ascii=True).encode("ascii")


if __name__ == "__main__":
    main(sys.argv[1:])
