"""`apply --commit`: the user's git, the user's hooks, and nothing that a hook did not let through."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from commandline import TOYS, Done, Shell

IDENTITY = {
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.org",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.org",
    "GIT_CONFIG_GLOBAL": "/dev/null",
}
FILES = {
    "one/pyproject.toml": b'[project]\nname = "one"\n',
    "one/a.py": b"import toys\n\ntoy_call(1)\nx = toy_sum([1])\n",
    "two/setup.py": b"from setuptools import setup\nsetup()\n",
    "two/b.py": b"toy_call(2)\n",
    "two/own er.py": b"y = toy_sum([2])\n",
    "free.py": b"toy_call(3)\n",
    ".github/CODEOWNERS": b"/one/ @org/first\n/two/ @org/second @org/third\n",
}
AFTER = {
    "one/a.py": b"import toys\nimport math\n\ntoy_call(1, device=0)\nx = toy_sum([1], start=math.e)\n",
    "two/b.py": b"toy_call(2, device=0)\n",
    "two/own er.py": b"import math\ny = toy_sum([2], start=math.e)\n",
    "free.py": b"toy_call(3, device=0)\n",
}


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    folder = tmp_path / "repo"
    folder.mkdir()
    found = Shell(folder, tmp_path / "state")
    found.write(FILES)
    found.commit()
    return found


def commit(shell: Shell, kind: str, *more: str) -> Done:
    return shell("apply", "--yes", "--commit", kind, *TOYS, *more, env=IDENTITY)


def history(shell: Shell) -> list[tuple[str, str, list[str]]]:
    """Subject, author and files of each commit after the first, in order."""
    listed = shell.git("log", "--reverse", "--name-only", "-z", "--format=%x01%s%x02%an <%ae>%x02")
    entries = [entry.split("\2") for entry in listed.split("\1")[2:]]
    return [(s, who, sorted(f for f in files.strip("\0\n").split("\0") if f)) for s, who, files in entries]


def hook(shell: Shell, text: str, name: str = "pre-commit") -> None:
    path = shell.folder / ".git" / "hooks" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("one", [("Migrate to torch 2.15", ["free.py", "one/a.py", "two/b.py", "two/own er.py"])]),
        (
            "per-codemod",
            [
                ("XX101 add-device: migrate to torch 2.15", ["free.py", "one/a.py", "two/b.py"]),
                ("XX201 add-start: migrate to torch 2.15", ["one/a.py", "two/own er.py"]),
            ],
        ),
        (
            "per-project",
            [
                (".: migrate to torch 2.15", ["free.py"]),
                ("one: migrate to torch 2.15", ["one/a.py"]),
                ("two: migrate to torch 2.15", ["two/b.py", "two/own er.py"]),
            ],
        ),
        (
            "per-owner",
            [
                ("@org/first: migrate to torch 2.15", ["one/a.py"]),
                ("@org/second: migrate to torch 2.15", ["two/b.py", "two/own er.py"]),
                ("unowned: migrate to torch 2.15", ["free.py"]),
            ],
        ),
    ],
)
def test_commits(shell: Shell, kind: str, expected: list[tuple[str, list[str]]]) -> None:
    done = commit(shell, kind)
    assert done.code == 0, done.err
    assert history(shell) == [(subject, "Ada <ada@example.org>", files) for subject, files in expected]
    assert shell.git("status", "--porcelain") == ""
    assert shell.contents() == FILES | AFTER
    head = shell.git("rev-parse", "--short=7", "HEAD").strip()
    assert f"Committed {head}: {expected[-1][0]}" in done.err


def test_each_commit_of_a_rule_holds_that_rule_alone(shell: Shell) -> None:
    commit(shell, "per-codemod")
    assert shell.git("show", "HEAD~:one/a.py").encode() == FILES["one/a.py"].replace(b"call(1)", b"call(1, device=0)")


def test_with_a_limit_no_commit_holds_more(shell: Shell) -> None:
    done = commit(shell, "per-codemod", "--max-changes", "2")
    assert done.code == 1, done.err
    assert [files for _, _, files in history(shell)] == [["free.py", "one/a.py"]]
    assert shell.git("show", "HEAD:one/a.py").encode() == FILES["one/a.py"].replace(b"call(1)", b"call(1, device=0)")


def test_other_staged_edits_stay_staged(shell: Shell) -> None:
    shell.write({"notes.txt": b"mine\n"})
    shell.git("add", "notes.txt")
    assert commit(shell, "one").code == 0
    assert "notes.txt" not in history(shell)[0][2]
    assert shell.git("status", "--porcelain") == "A  notes.txt\n"


def run_of(done: Done) -> str:
    return done.err.rpartition("torchmigrate undo ")[2].strip()


def test_undo_says_how_its_commits_go(shell: Shell) -> None:
    run = run_of(commit(shell, "per-codemod"))
    shell.write({"mine.txt": b"mine\n"})
    undone = shell("undo", run)
    assert (undone.code, shell.contents()) == (0, FILES | {"mine.txt": b"mine\n"})
    found = re.search(rf"^2 commits of run {run} stay in the history: git (reset \S+) takes them off", undone.err, re.M)
    assert found and undone.err.count("\n") == 2
    shell.git(*found[1].split())
    assert (history(shell), shell.git("status", "--porcelain")) == ([], "?? mine.txt\n")
    assert "stay" not in shell("undo", run).err


def test_undo_of_one_commit(shell: Shell) -> None:
    run = run_of(commit(shell, "one"))
    told = shell("undo", "-n", cwd=shell.folder / "one").err
    assert f"1 commit of run {run} stays in the history: git reset" in told
    assert "takes it off the branch" in told


def test_undo_of_commits_below_others(shell: Shell) -> None:
    run = run_of(commit(shell, "per-project"))
    shell.write({"later.txt": b"later\n"})
    shell.commit()
    undone = shell("undo", run)
    assert f"3 commits of run {run} stay in the history: to revert them, git commit the files as" in undone.err
    shell.git("commit", "-q", "-a", "-m", "revert")
    assert shell.contents() == FILES | {"later.txt": b"later\n"}
    assert shell("undo", run).err == f"Nothing to put back: the files are as they were before run {run}.\n"


def test_undo_takes_no_commit_off_that_others_may_have(shell: Shell, tmp_path: Path) -> None:
    subprocess.run(["git", "clone", "-q", "--bare", str(shell.folder), str(tmp_path / "far.git")], check=True)
    shell.git("remote", "add", "origin", str(tmp_path / "far.git"))
    run = run_of(commit(shell, "one"))
    shell.git("push", "-q", "origin", "HEAD")
    assert "to revert it, git commit the files" in shell("undo", run).err


def test_undo_of_a_run_without_commits_says_nothing_of_them(shell: Shell) -> None:
    assert shell("apply", "--yes", *TOYS).code == 0
    assert shell("undo").err.count("\n") == 1


def test_a_hook_that_refuses_stops_and_is_named(shell: Shell) -> None:
    hook(shell, "git diff --cached --name-only | grep -q '^two/' && { echo no second today >&2; exit 1; }; exit 0")
    done = commit(shell, "per-owner")
    assert done.code == 3
    assert "error: the commit of @org/second was stopped: no second today; 1 more not begun" in done.err
    assert [subject for subject, *_ in history(shell)] == ["@org/first: migrate to torch 2.15"]
    assert shell.contents() == FILES | AFTER | {"free.py": FILES["free.py"]}
    assert shell.git("status", "--porcelain") == ' M two/b.py\n M "two/own er.py"\n'


def test_a_hook_that_changes_files_stops(shell: Shell) -> None:
    hook(shell, "echo '# formatted' >> one/a.py; git add one/a.py")
    done = commit(shell, "per-codemod")
    assert done.code == 3
    assert "the commit of XX101 add-device was stopped: a hook changed one/a.py" in done.err
    assert "1 more not begun" in done.err
    assert len(history(shell)) == 1
    assert "1 commit of run" in shell("undo", run_of(done)).err


def test_hooks_see_plain_pathspecs(shell: Shell) -> None:
    hook(shell, 'test "$(git ls-files "*/a.py")" = one/a.py')
    assert commit(shell, "one").code == 0


def test_no_identity_is_told_before_anything_is_written(shell: Shell) -> None:
    nobody = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null", "EMAIL": ""}
    nobody |= dict.fromkeys(("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"), "")
    shell.git("config", "user.useConfigOnly", "true")
    done = shell("apply", "--yes", "--commit", "one", *TOYS, env=nobody)
    assert (done.code, shell.contents()) == (2, FILES)
    assert history(shell) == []


def test_uncommitted_edits_are_refused(shell: Shell) -> None:
    shell.write({"free.py": b"toy_call(3)\nmine = 1\n"})
    done = commit(shell, "one")
    assert done.code == 2
    assert "uncommitted edits: free.py" in done.err


@pytest.mark.parametrize("flags", [["--dry-run"], ["--yes", "--allow-dirty"], ["--yes", "--no-git"], []])
def test_what_contradicts_is_refused(shell: Shell, flags: list[str]) -> None:
    done = shell("apply", "--commit", "one", *flags, *TOYS)
    assert done.code == 2
    assert done.err.startswith("error: --commit")
    assert shell.contents() == FILES


def test_outside_a_repository(tmp_path: Path) -> None:
    shell = Shell(tmp_path, tmp_path / "state")
    shell.write({"free.py": b"toy_call(3)\n"})
    done = shell("apply", "--yes", "--commit", "one", *TOYS, "free.py", env={"GIT_CEILING_DIRECTORIES": "/"})
    assert done.code == 2
    assert "--commit needs a git repository" in done.err
    assert (tmp_path / "free.py").read_bytes() == b"toy_call(3)\n"


def test_nothing_is_pushed(shell: Shell, tmp_path: Path) -> None:
    subprocess.run(["git", "clone", "-q", "--bare", str(shell.folder), str(tmp_path / "far.git")], check=True)
    shell.git("remote", "add", "origin", str(tmp_path / "far.git"))
    shell.git("config", "push.default", "current")
    assert commit(shell, "one").code == 0
    far = subprocess.run(["git", "-C", str(tmp_path / "far.git"), "rev-list", "--all", "--count"], capture_output=True)
    assert far.stdout == b"1\n"
