"""Runs the real command line in a subprocess, and makes the small repositories that it runs on."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

TOYS = ("--load", str(Path(__file__).with_name("toy_rules.py")), "--select", "XX")
"""Flags that pick the toy rules alone."""

SAMPLE = {
    "train/a.py": b"from toys import toy_call\n\n\ndef f():\n    return toy_call(1)\n",
    "train/b c.py": b"\xef\xbb\xbfimport toys\r\nx = toys.toy_call(2)  # caf\xc3\xa9\r\ny = toy_sum([1])",
    "train/late.py": b'"""Text."""\n\ntotal = toy_sum([1])\n'
    + b"\n".join(b"x%d = 1" % n for n in range(30))
    + b"\ntoy_call(3)\n",
    "train/none.py": b"x = 1\n",
}


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str
    raw: bytes


def environment(state: Path, **more: str) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if k not in {"NO_COLOR", "FORCE_COLOR", "TERM", "PYTHONPATH"}}
    return kept | {"TORCHMIGRATE_STATE_DIR": str(state), "XDG_CACHE_HOME": str(state / "cache")} | more


@dataclass(frozen=True)
class Shell:
    """A folder to stand in and a state folder of its own."""

    folder: Path
    state: Path

    def __call__(
        self,
        *arguments: str,
        input: bytes | None = None,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        before: Callable[[], None] | None = None,
    ) -> Done:
        done = subprocess.run(
            [sys.executable, "-m", "torchmigrate", *arguments],
            cwd=cwd or self.folder,
            env=environment(self.state, **(env or {})),
            input=input or b"",
            capture_output=True,
            timeout=120,
            preexec_fn=before,
        )
        assert b"Traceback" not in done.stderr, done.stderr.decode()
        return Done(done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode(), done.stdout)

    def git(self, *arguments: str) -> str:
        identity = ["-c", "user.name=T", "-c", "user.email=t@example.org", "-c", "core.autocrlf=false"]
        done = subprocess.run(["git", *identity, *arguments], cwd=self.folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def write(self, files: Mapping[str, bytes]) -> None:
        for name, content in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)

    def commit(self) -> None:
        if not (self.folder / ".git").exists():
            self.git("init", "-q")
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", "state")

    def snapshot(self) -> dict[str, tuple[int, str]]:
        """Mode and hash of every file, git's own included, and every folder's mode and time."""
        found = {}
        for path in sorted(self.folder.rglob("*")):
            status = path.lstat()
            what = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else str(status.st_mtime_ns)
            found[str(path.relative_to(self.folder))] = (status.st_mode, what)
        return found

    def contents(self) -> dict[str, bytes]:
        """Every file outside of git's own folder."""
        return {
            str(path.relative_to(self.folder)): path.read_bytes()
            for path in sorted(self.folder.rglob("*"))
            if path.is_file() and ".git" not in path.parts
        }
