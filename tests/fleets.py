"""Makes fleets of real git repositories, healthy ones and every kind of nasty one.

python tests/fleets.py FOLDER 200    makes one of so many repositories, and its list FOLDER/fleet.toml
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

RULES = Path(__file__).with_name("toy_rules.py")
IDENTITY = {
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.org",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.org",
    "GIT_AUTHOR_DATE": "2026-01-01T00:00:00Z",
    "GIT_COMMITTER_DATE": "2026-01-01T00:00:00Z",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
}
HANG = "if [ -e hang ]; then sleep 600 & sleep 600; fi"
"""A verification that hangs, with a child, in the repository that says so."""


@dataclass(frozen=True)
class Member:
    """A repository of a fleet, and what has to come of it: its status, words of its reason or notes, and changes."""

    name: str
    path: Path
    status: str = "done"
    says: str = ""
    changes: int = 0


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=folder, env={**os.environ, **IDENTITY}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def write(folder: Path, files: Mapping[str, bytes]) -> None:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def commit(folder: Path, files: Mapping[str, bytes]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / ".git").exists():
        git(folder, "init", "-q", "-b", "main")
    write(folder, files)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "state")


def healthy(base: Path, number: int) -> Member:
    path = base / f"healthy-{number:03}"
    files = {f"p/m{i}.py": b"import toys\nx = toy_call(%d)\n" % i for i in range(number % 4)}
    files["setup.py"] = b"from setuptools import setup\nsetup()\n"
    files["CODEOWNERS"] = b"*.py @team-%d\n" % (number % 5)
    commit(path, files)
    return Member(path.name, path, changes=number % 4)


def empty(base: Path) -> Member:
    path = base / "empty"
    path.mkdir()
    git(path, "init", "-q", "-b", "main")
    return Member("empty", path, "empty", "has no commit yet")


def unborn(base: Path) -> Member:
    path = base / "unborn"
    commit(path, {"a.py": b"toy_call(1)\n"})
    git(path, "symbolic-ref", "HEAD", "refs/heads/later")
    return Member("unborn", path, "empty", "its HEAD names a branch without a commit; give it a ref, such as main")


def detached(base: Path) -> Member:
    path = base / "detached"
    commit(path, {"a.py": b"toy_call(1)\n"})
    commit(path, {"a.py": b"toy_call(1)\ntoy_call(2)\n"})
    git(path, "checkout", "-q", "--detach", "HEAD~")
    return Member("detached", path, changes=1)


def dirty(base: Path) -> Member:
    path = base / "dirty"
    commit(path, {"a.py": b"toy_call(1)\n"})
    write(path, {"a.py": b"toy_call(1)\ntoy_call(2)\n", "new.py": b"toy_call(3)\n"})
    return Member("dirty", path, says="uncommitted edits in 1 file were left out", changes=1)


def submodules(base: Path) -> Member:
    inner, path = base / "inner", base / "with-submodules"
    commit(inner, {"a.py": b"toy_call(1)\n"})
    commit(path, {"b.py": b"toy_call(2)\n"})
    git(path, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner), "vendored")
    commit(path, {})
    return Member("with-submodules", path, says="its submodules were not fetched", changes=1)


def large(base: Path, size: int = 50 << 20) -> Member:
    path = base / "large"
    commit(path, {"big.py": b"x = 1\n" * (size // 6) + b"toy_call(1)\n", "a.py": b"toy_call(2)\n"})
    return Member("large", path, says="larger than", changes=1)


def crash(base: Path) -> Member:
    path = base / "crash"
    commit(path, {"bad.py": b"toy_call('crash')\n", "a.py": b"toy_call(1)\n", "broken.py": b"toy_call((\n"})
    return Member("crash", path, says="TM005", changes=1)


def loop(base: Path) -> Member:
    path = base / "loop"
    path.mkdir()
    for name, to in {"here": ".", "a": "b", "b": "a", "deep/up": "..", "outside.py": "../../outside.py"}.items():
        (path / name).parent.mkdir(exist_ok=True)
        (path / name).symlink_to(to)
    commit(path, {"deep/a.py": b"toy_call(1)\n"})
    return Member("loop", path, changes=1)


def named(base: Path) -> Member:
    path = base / "Überraschung und mehr – 包"
    commit(path, {"Ordner mit ä/dä tei.py": b"toy_call(1)\n"})
    return Member(path.name, path, changes=1)


def hooked(base: Path) -> Member:
    path = base / "hooked"
    commit(path, {"a.py": b"toy_call(1)\n"})
    hook = path / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho not on a Friday >&2\nexit 1\n")
    hook.chmod(0o755)
    return Member("hooked", path, "failed", "the commit was stopped: not on a Friday")


def unreadable(base: Path) -> Member:
    path = base / "unreadable"
    commit(path, {"a.py": b"toy_call(1)\n"})
    path.chmod(0)
    return Member("unreadable", path, "failed", "Permission denied")


def hanging(base: Path) -> Member:
    path = base / "hanging"
    commit(path, {"a.py": b"toy_call(1)\n", "hang": b""})
    return Member("hanging", path, "failed", "the verification was ended after")


def missing(base: Path) -> Member:
    return Member("missing", base / "missing", "failed", "No such file or directory")


def no_repository(base: Path) -> Member:
    path = base / "no-repository"
    path.mkdir()
    write(path, {"a.py": b"toy_call(1)\n"})
    return Member("no-repository", path, "failed", "is not a git repository")


def misconfigured(base: Path) -> Member:
    path = base / "misconfigured"
    commit(path, {"a.py": b"toy_call(1)\n", "torchmigrate.toml": b"selct = []\n"})
    return Member("misconfigured", path, "failed", "torchmigrate.toml: unknown key 'selct'; did you mean 'select'?")


NASTY: tuple[Callable[[Path], Member], ...] = (
    *(empty, unborn, detached, dirty, submodules, large, crash, loop, named, hooked, unreadable, hanging, missing),
    *(no_repository, misconfigured),
)


def make(base: Path, size: int) -> list[Member]:
    """A fleet of so many repositories below `base`, the nasty ones spread among the healthy."""
    base.mkdir(parents=True, exist_ok=True)
    nasty = [one(base) for one in NASTY]
    members: list[Member] = []
    for number in range(max(size - len(nasty), 0)):
        if nasty and number % 11 == 0:
            members.append(nasty.pop(0))
        members.append(healthy(base, number))
    return [*members, *nasty]


def listed(members: list[Member]) -> str:
    """The list of a fleet as TOML."""
    return "".join(f'[[repository]]\nsource = "{one.path}"\nname = "{one.name}"\n\n' for one in members)


if __name__ == "__main__":
    folder = Path(sys.argv[1]).resolve()
    made = make(folder / "repositories", int(sys.argv[2]))
    (folder / "fleet.toml").write_text(listed(made), encoding="utf-8")
