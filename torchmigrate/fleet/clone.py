"""Fetches a repository with the user's own git: one commit, no tags, no submodules, into a folder of our own."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass

from torchmigrate.fleet import Repository, masked
from torchmigrate.git import HOOK_VARIABLES

_QUIET = ("-c", "core.fsmonitor=false", "-c", "gc.auto=0", "-c", "maintenance.auto=false")


class CloneError(Exception):
    """The repository is not at hand; the text is git's own or ours, without secrets."""


class NoCommit(Exception):
    """There is no commit to look at."""


@dataclass(frozen=True, slots=True)
class Obtained:
    """A working tree at one commit, and what someone should know about it."""

    folder: str
    commit: str
    notes: tuple[str, ...] = ()


def obtain(repository: Repository, folder: str, branch: str | None) -> Obtained:
    """Fetch the commit into a new folder and check it out, on a new branch if one is named.

    Of a local checkout the identity and the hooks are taken over; its uncommitted edits are left out, which a note
    says. Raises CloneError and NoCommit.
    """
    notes: list[str] = []
    source = repository.source
    if repository.is_local:
        notes += _look_at(source)
    _git(None, "init", "--quiet", folder)
    _git(folder, "remote", "add", "--", "origin", source)
    if repository.is_local:
        _take_over(source, folder)
    wanted = repository.ref or "HEAD"
    try:
        _git(
            folder,
            *("fetch", "--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules", "--", "origin", wanted),
        )
    except CloneError as error:
        if repository.ref is None and "HEAD" in str(error) and "find remote ref" in str(error):
            raise NoCommit(_why_no_commit(source, folder)) from None
        raise
    commit = _git(folder, "rev-parse", "--verify", "FETCH_HEAD^{commit}").strip()
    where = ("-b", branch) if branch else ("--detach",)
    _git(folder, "checkout", "--quiet", "--no-recurse-submodules", *where, commit, "--")
    if os.path.exists(os.path.join(folder, ".gitmodules")):
        notes.append("its submodules were not fetched")
    return Obtained(folder, commit, tuple(notes))


def checkout(repository: Repository) -> Obtained:
    """A local checkout itself, as it is. Raises CloneError and NoCommit."""
    _look_at(repository.source)
    if repository.ref is not None:
        raise CloneError("a ref and --in-place contradict each other: the checkout stays on its own commit")
    try:
        commit = _git(repository.source, "rev-parse", "--verify", "HEAD^{commit}").strip()
    except CloneError:
        raise NoCommit("has no commit yet") from None
    return Obtained(repository.source, commit)


def branch_off(folder: str, branch: str) -> None:
    """Go to a new branch at the commit that is checked out. Raises CloneError."""
    _git(folder, "checkout", "--quiet", "-b", branch, "--")


def _look_at(source: str) -> list[str]:
    """Refuse folders that git cannot clone with a reason that says why; what has to be said of the others."""
    try:
        names = os.listdir(source)
        is_repository = ".git" in names or {"HEAD", "objects", "refs"} <= set(names)
        if is_repository and ".git" in names and os.path.isdir(os.path.join(source, ".git")):
            os.listdir(os.path.join(source, ".git"))
    except OSError as error:
        raise CloneError(f"cannot read {source}: {error.strerror or error}") from None
    if not is_repository:
        raise CloneError(f"{source} is not a git repository")
    if ".git" not in names:
        return []
    try:
        dirty = _git(source, "status", "--porcelain", "--untracked-files=no", "--ignore-submodules=all")
    except CloneError:
        return []
    count = len(dirty.splitlines())
    files = "file" if count == 1 else "files"
    return [f"uncommitted edits in {count} {files} were left out"] if count else []


def _take_over(source: str, folder: str) -> None:
    """Have commits in the clone made as in the local checkout: by the same person, through the same hooks."""
    for key in ("user.name", "user.email"):
        try:
            _git(folder, "config", key, _git(source, "config", "--get", key).rstrip("\n"))
        except CloneError:
            continue
    try:
        hooks = os.path.join(source, _git(source, "rev-parse", "--git-path", "hooks").rstrip("\n"))
    except CloneError:
        return
    if os.path.isdir(hooks):
        _git(folder, "config", "core.hooksPath", os.path.abspath(hooks))


def _why_no_commit(source: str, folder: str) -> str:
    try:
        heads = re.findall(r"\trefs/heads/(.*)", _git(folder, "ls-remote", "--heads", "--", source))
    except CloneError:
        heads = []
    if not heads:
        return "has no commit yet"
    named = ", ".join(heads[:3]) + (", ..." if len(heads) > 3 else "")
    return f"its HEAD names a branch without a commit; give it a ref, such as {named}"


def series(folder: str, base: str) -> bytes:
    """The commits since `base` as `git am` takes them. Raises CloneError."""
    return _raw(folder, "format-patch", "--stdout", "--binary", "--full-index", "--zero-commit", f"{base}..HEAD")


def _git(folder: str | None, *arguments: str) -> str:
    return _raw(folder, *arguments).decode("utf-8", "surrogateescape")


def _raw(folder: str | None, *arguments: str) -> bytes:
    kept = {name: value for name, value in os.environ.items() if name not in HOOK_VARIABLES}
    kept |= {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0"}
    try:
        done = subprocess.run(
            ["git", *_QUIET, *arguments],
            cwd=folder,
            env=kept,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
    except OSError as error:
        raise CloneError(f"git cannot be started: {error.strerror or error}") from None
    if done.returncode:
        raise CloneError(_said(done.stderr, done.returncode))
    return done.stdout


def _said(stderr: bytes, code: int) -> str:
    lines = masked(stderr.decode("utf-8", "replace")).strip().splitlines()
    named = [line for line in lines if line.startswith(("fatal:", "error:", "ERROR:", "ssh:"))]
    return " / ".join((named or lines)[:2]) or f"git ended with {code}"
