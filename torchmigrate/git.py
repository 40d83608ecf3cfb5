"""What git knows of a folder: its tracked and untracked files, and which files hold edits that no commit keeps.

Every call names its folder and starts the user's own `git` with the variables of an enclosing git hook removed, with
file-system monitors off (a scanned repository may name a program there), and without taking optional locks, so that
looking at a repository never changes it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    import subprocess

HOOK_VARIABLES = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR")
COMMAND = ("git", "-c", "core.fsmonitor=false")


class GitError(Exception):
    """git is not installed, or refused; the text is its own last line."""


class Running:
    """A git command that runs beside us; its output is kept out of the way of pipes until `output` is asked for."""

    def __init__(self, folder: str, arguments: Sequence[str]) -> None:
        import subprocess

        self._stdout = _spool()
        self._stderr = _spool()
        try:
            self._process = subprocess.Popen(
                [*COMMAND, *arguments],
                cwd=folder,
                env=_environment(),
                stdin=subprocess.DEVNULL,
                stdout=self._stdout,
                stderr=self._stderr,
            )
        except OSError as error:
            self._close()
            raise GitError(f"git cannot be started: {error.strerror}") from error

    def output(self) -> tuple[bytes, str]:
        """Wait for the end; what it wrote to its two streams. Raises GitError if git failed."""
        code = self._process.wait()
        self._stdout.seek(0)
        self._stderr.seek(0)
        written, said = self._stdout.read(), self._stderr.read().decode("utf-8", "replace")
        self._close()
        if code:
            raise GitError(said.strip().rpartition("\n")[2] or f"git ended with {code}")
        return written, said

    def stop(self) -> None:
        """End the command if it still runs; its output is dropped."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        self._close()

    def _close(self) -> None:
        self._stdout.close()
        self._stderr.close()


def run(folder: str, *arguments: str, stdin: bytes | None = None, ceiling: str | None = None) -> bytes:
    """The output of one git command; `ceiling` is a folder in and above which no repository is looked for.

    Raises GitError.
    """
    import subprocess

    environment = _environment() | ({"GIT_CEILING_DIRECTORIES": ceiling} if ceiling else {})
    try:
        done: subprocess.CompletedProcess[bytes] = subprocess.run(
            [*COMMAND, *arguments], cwd=folder, env=environment, input=stdin or b"", capture_output=True, check=False
        )
    except OSError as error:
        raise GitError(f"git cannot be started: {error.strerror}") from error
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip()
        raise GitError(said.rpartition("\n")[2] or f"git ended with {done.returncode}")
    return done.stdout


def toplevel(folder: str) -> str | None:
    """The working tree that a folder lies in, found by its `.git` entry and without starting git."""
    here = os.path.realpath(folder)
    while True:
        if os.path.exists(os.path.join(here, ".git")):
            return here
        above = os.path.dirname(here)
        if above == here:
            return None
        here = above


def tracked(folder: str) -> Running:
    """Start listing the tracked files below a folder, NUL-separated and relative to it."""
    return Running(folder, ("ls-files", "-z"))


def untracked(folder: str) -> Running:
    """Start listing the files below a folder that are neither tracked nor ignored; a nested repository ends in `/`."""
    return Running(folder, ("ls-files", "-z", "--others", "--exclude-standard"))


def is_ignored(folder: str) -> bool:
    """Whether the enclosing repository's ignore rules leave this very folder out."""
    try:
        run(folder, "check-ignore", "-q", "--", ".")
    except GitError:
        return False
    return True


def changed_since(folder: str, reference: str) -> list[bytes]:
    """Tracked files below a folder that differ from where `reference` and HEAD parted. Raises GitError."""
    commit = run(folder, "rev-list", "-n1", "--end-of-options", f"{reference}^{{commit}}", "--").strip()
    base = run(folder, "merge-base", commit.decode("ascii"), "HEAD").strip().decode("ascii")
    listed = run(folder, "diff", "--name-only", "-z", "--relative", "--no-renames", "--diff-filter=d", base, "--", ".")
    return [name for name in listed.split(b"\0") if name]


def uncommitted(paths: Iterable[str]) -> list[str]:
    """Those of the given files whose content no commit keeps: edited, staged, untracked or ignored.

    Files outside any repository are not among them. Raises GitError if git cannot tell.
    """
    by_tree: dict[str, dict[bytes, str]] = {}
    for path in paths:
        real = os.path.realpath(path)
        tree = toplevel(os.path.dirname(real))
        if tree is not None:
            by_tree.setdefault(tree, {})[os.fsencode(os.path.relpath(real, tree).replace(os.sep, "/"))] = path
    found: set[str] = set()
    for tree, names in by_tree.items():
        for batch in _batches(list(names)):
            listed = run(
                tree,
                *(
                    "--literal-pathspecs",
                    "status",
                    "--porcelain=v1",
                    "-z",
                    "--no-renames",
                    "--untracked-files=all",
                    "--ignored=matching",
                ),
                *("--ignore-submodules=none", "--", *(os.fsdecode(name) for name in batch)),
            )
            for entry in listed.split(b"\0"):
                name = entry[3:]
                if name.endswith(b"/"):
                    found.update(path for inside, path in names.items() if inside.startswith(name))
                elif name in names:
                    found.add(names[name])
    return sorted(found)


def check_patch(folder: str, patch: str, *flags: str) -> None:
    """Let git check that a patch file applies in a folder, to the files as they are. Raises GitError if it does not.

    A repository above the folder is left out of account: inside one, git would skip what lies outside of the folder.
    """
    run(folder, "apply", "--check", *flags, patch, ceiling=os.path.dirname(os.path.realpath(folder)))


def commit(folder: str, message: str, names: Iterable[bytes]) -> str:
    """Commit the named files of a working tree as they are, and nothing else; the id of the commit.

    Identity, hooks and signing are the user's. Raises GitError with all that git and the hooks said.
    """
    import subprocess

    kept = {name: value for name, value in os.environ.items() if name not in HOOK_VARIABLES}
    listed = b"".join(b":(top,literal)" + name + b"\0" for name in names)
    arguments = ("commit", "--quiet", f"--message={message}", "--pathspec-from-file=-", "--pathspec-file-nul")
    try:
        done: subprocess.CompletedProcess[bytes] = subprocess.run(
            [*COMMAND, *arguments], cwd=folder, env=kept, input=listed, capture_output=True, check=False
        )
    except OSError as error:
        raise GitError(f"git cannot be started: {error.strerror}") from error
    if done.returncode:
        said = (done.stderr + done.stdout).decode("utf-8", "replace").strip()
        raise GitError(" / ".join(said.splitlines()[-5:]) or f"git commit ended with {done.returncode}")
    return run(folder, "rev-parse", "HEAD").decode("ascii").strip()


def _batches(names: list[bytes], room: int = 60_000) -> Iterator[list[bytes]]:
    """Lists short enough for one command line."""
    batch: list[bytes] = []
    used = 0
    for name in names:
        if batch and used + len(name) > room:
            yield batch
            batch, used = [], 0
        batch.append(name)
        used += len(name) + 1
    if batch:
        yield batch


def submodules(folder: str) -> Iterator[str]:
    """Folders of the checked-out submodules of the working tree at `folder`, as `.gitmodules` names them."""
    try:
        listed = run(folder, "config", "--file", ".gitmodules", "-z", "--get-regexp", r"\.path$")
    except GitError:
        return
    for entry in listed.split(b"\0"):
        name = os.fsdecode(entry.partition(b"\n")[2])
        if name and os.path.exists(os.path.join(folder, name, ".git")):
            yield name


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in HOOK_VARIABLES}
    return kept | {"GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}


def _spool() -> IO[bytes]:
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("git"), "w+b")
    import tempfile

    return tempfile.TemporaryFile()
