"""`bulk` over small fleets of real repositories: every kind of nasty one, killed runs, and what is kept."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fleets
import pytest
from commandline import Done, Shell, environment
from unprivileged import permissions_count

TOYS = ("--load", str(fleets.RULES), "--select", "XX")


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    (tmp_path / "here").mkdir()
    yield Shell(tmp_path / "here", tmp_path / "state")
    hidden = tmp_path / "repositories" / "unreadable"
    if hidden.exists():
        hidden.chmod(0o755)


def bulk(shell: Shell, *flags: str, before: Callable[[], None] | None = None) -> Done:
    return shell("bulk", "fleet.toml", *TOYS, *flags, env=fleets.IDENTITY, before=before)


def fleet(shell: Shell, members: list[fleets.Member]) -> None:
    (shell.folder / "fleet.toml").write_text(fleets.listed(members), encoding="utf-8")


def result(shell: Shell, work: str = "torchmigrate-work") -> dict[str, Any]:
    return dict(json.loads((shell.folder / work / "result.json").read_text()))


def members(shell: Shell, *makers: Callable[[Path], fleets.Member]) -> list[fleets.Member]:
    base = shell.folder.parent / "repositories"
    base.mkdir(exist_ok=True)
    made = [make(base) for make in makers]
    fleet(shell, made)
    return made


def healthy(number: int) -> Callable[[Path], fleets.Member]:
    return lambda base: fleets.healthy(base, number)


def digest(folder: Path) -> dict[str, str]:
    """Every file, link and folder below, git's own included: content, mode and time."""
    found = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        content = path.read_bytes() if path.is_file() and not path.is_symlink() and status.st_size < 1 << 20 else b""
        what = f"{status.st_mode} {status.st_mtime_ns} {status.st_size} {hashlib.sha256(content).hexdigest()}"
        found[str(path.relative_to(folder))] = what
    return found


def test_a_fleet_of_every_kind(shell: Shell) -> None:
    base = shell.folder.parent / "repositories"
    made = fleets.make(base, 18)
    fleet(shell, made)
    elsewhere = digest(base)
    flags = ("--branch", "torch-2.15", "--verify", fleets.HANG, "--verify-timeout", "2")
    done = bulk(shell, *flags, before=permissions_count())
    assert done.code == 3
    assert digest(base) == elsewhere
    assert sorted(path.name for path in shell.folder.iterdir()) == ["fleet.toml", "torchmigrate-work"]
    kept = result(shell)["repositories"]
    assert [one["name"] for one in kept] == [one.name for one in made]
    lines = done.out.splitlines()[1:]
    for member, one, line in zip(made, kept, lines, strict=True):
        assert one["status"] == member.status, one["reason"]
        assert line.startswith(member.name)
        if member.status != "done":
            assert member.says in one["reason"]
            assert member.says in line
        else:
            assert one["totals"]["changes"] == member.changes
            said = [*one["notes"], *(f"{error['code']} {error['message']}" for error in one["errors"])]
            assert not member.says or any(member.says in text for text in said)
            verified = one["verification"] and one["verification"]["outcome"]
            assert verified == ("passed" if member.changes else None)
    assert not list((shell.folder / "torchmigrate-work" / "scratch").iterdir())
    totals = result(shell)["totals"]
    statuses = [member.status for member in made]
    expected = {"repositories": 18, "left": 0} | {s: statuses.count(s) for s in ("done", "empty", "failed")}
    assert {name: totals[name] for name in expected} == expected
    assert f"{expected['done']} repositories of 18 done, 2 without a commit, 6 failed" in done.err
    assert not running(str(shell.folder))


def running(word: str) -> list[str]:
    """The command lines of processes that name something."""
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    return [line for line in listed.splitlines() if word in line and "ps -eo" not in line]


def test_patches_branches_and_series_are_the_same_change(shell: Shell, tmp_path: Path) -> None:
    one, _ = members(shell, healthy(3), healthy(0))
    assert bulk(shell, "--branch", "torch", "--commit", "per-owner").code == 0
    work = shell.folder / "torchmigrate-work"
    clone = work / "clones" / one.name
    assert fleets.git(clone, "branch", "--show-current") == "torch\n"
    assert fleets.git(clone, "log", "-1", "--format=%s %an") == "@team-3: migrate to torch 2.15 Ada\n"
    (kept, other) = result(shell)["repositories"]
    assert kept["commits"] == [
        {"subject": "@team-3: migrate to torch 2.15", "files": ["p/m0.py", "p/m1.py", "p/m2.py"]}
    ]
    assert (kept["commit"], kept["branch"]) == (fleets.git(one.path, "rev-parse", "HEAD").strip(), "torch")
    assert (other["patch"], other["commits"]) == (None, [])
    tree = fleets.git(clone, "rev-parse", "HEAD^{tree}")
    for how in (["apply", "--index", str(work / kept["patch"])], ["am", "-q", str(work / f"series/{one.name}.mbox")]):
        copy = tmp_path / how[0]
        fleets.git(tmp_path, "clone", "-q", str(one.path), str(copy))
        fleets.git(copy, *how)
        assert fleets.git(copy, "write-tree") == tree
    assert kept["files"][0] == {"path": "p/m0.py", "project": ".", "owners": ["@team-3"]}


def test_a_dry_run_changes_nothing_and_says_so_to_scripts(shell: Shell) -> None:
    members(shell, healthy(1))
    tell = 'echo "dry=$TORCHMIGRATE_DRY_RUN in $TORCHMIGRATE_REPOSITORY"; git status --porcelain; git branch -a'
    assert bulk(shell, "--dry-run", "--verify", tell).code == 1
    log = (shell.folder / "torchmigrate-work/logs/healthy-001.log").read_text()
    assert "dry=1 in healthy-001\n* (HEAD detached at " in log
    assert (
        "-x = toy_call(0)\n+x = toy_call(0, device=0)\n"
        in (shell.folder / "torchmigrate-work/patches/healthy-001.patch").read_text()
    )
    assert bulk(shell, "--verify", tell, "--branch", "b").code == 0
    log = (shell.folder / "torchmigrate-work/logs/healthy-001.log").read_text()
    assert "dry= in healthy-001\n* b\n" in log
    assert bulk(shell, "--dry-run", "--branch", "b").code == 2


def test_a_failed_verification_is_told_and_kept(shell: Shell) -> None:
    members(shell, healthy(1), healthy(2))
    done = bulk(shell, "--verify", "echo broken; test -e p/m1.py")
    assert done.code == 3
    assert "healthy-001: failed: the verification failed (exit code 1)" in done.err
    one, two = result(shell)["repositories"]
    assert (one["stage"], two["status"]) == ("verify", "done")
    assert one["verification"] == {
        "command": "echo broken; test -e p/m1.py",
        "outcome": "failed",
        "exit_code": 1,
    }
    assert "broken" in (shell.folder / "torchmigrate-work/logs/healthy-001.log").read_text()


def test_a_second_run_takes_up_what_is_missing_or_failed(shell: Shell) -> None:
    one, two, three = members(shell, healthy(1), fleets.missing, healthy(2))
    assert bulk(shell, "--canary", "1").code == 1
    kept = result(shell)
    assert [r["name"] for r in kept["repositories"]] == [one.name]
    assert kept["totals"]["left"] == 2
    state = shell.folder / "torchmigrate-work" / "state"
    first = (state / f"{one.name}.json").stat().st_mtime_ns
    assert bulk(shell).code == 3
    assert (state / f"{one.name}.json").stat().st_mtime_ns == first
    fleets.commit(two.path, {"a.py": b"toy_call(1)\n"})
    third = (state / f"{three.name}.json").stat().st_mtime_ns
    assert bulk(shell, "--retry", "missing").code == 3
    assert bulk(shell, "--retry", "failed").code == 0
    assert [r["status"] for r in result(shell)["repositories"]] == ["done"] * 3
    assert (state / f"{three.name}.json").stat().st_mtime_ns == third
    fleets.commit(one.path, {"new.py": b"toy_call(1)\n"})
    assert bulk(shell, "--retry", "all", "--only", "healthy-*").code == 0
    assert result(shell)["repositories"][0]["totals"]["changes"] == 2


def test_other_orders_are_other_results(shell: Shell) -> None:
    members(shell, healthy(1))
    assert bulk(shell).code == 0
    assert bulk(shell, "--ignore", "XX101").code == 0
    assert result(shell)["repositories"][0]["totals"]["changes"] == 0


def test_only_and_its_mistakes(shell: Shell) -> None:
    members(shell, healthy(1), healthy(2))
    done = bulk(shell, "--only", "healthy-02")
    assert (done.code, done.err) == (2, "error: no repository is called 'healthy-02'; did you mean 'healthy-002'?\n")
    assert bulk(shell, "--only", "healthy-002").code == 1
    assert [r["name"] for r in result(shell)["repositories"]] == ["healthy-002"]


def test_no_more_are_begun_after_too_many_failures(shell: Shell) -> None:
    base = shell.folder.parent / "repositories"
    gone = [fleets.Member(f"gone-{i}", base / f"gone-{i}") for i in range(9)]
    fleet(shell, gone)
    assert bulk(shell, "--max-failures", "2", "-j", "1").code == 3
    assert result(shell)["totals"]["failed"] == 2


def test_a_repository_out_of_time_is_ended_with_all_it_started(shell: Shell) -> None:
    (one, _) = members(shell, healthy(1), healthy(2))
    mark = f"sleep 61{os.getpid() % 1000:03}"
    flags = ("--verify", f"test -e p/m1.py || {{ {mark} & {mark}; }}", "--repository-timeout", "6")
    began = time.monotonic()
    done = bulk(shell, *flags)
    assert time.monotonic() - began < 60
    assert f"{one.name}: failed: was ended after 6 s" in done.err
    assert [r["status"] for r in result(shell)["repositories"]] == ["failed", "done"]
    assert not running(mark)


def test_a_killed_run_goes_on_to_the_same_result(shell: Shell) -> None:
    made = [fleets.healthy(shell.folder.parent / "repositories", n) for n in range(1, 9)]
    fleet(shell, made)
    flags = ("--branch", "b", "--verify", "sleep 0.3")
    assert bulk(shell, "--work-dir", "whole", *flags).code == 0
    command = [sys.executable, "-m", "torchmigrate", "bulk", "fleet.toml", *TOYS, "--work-dir", "cut", *flags]
    process = subprocess.Popen(
        command,
        cwd=shell.folder,
        env=environment(shell.state, **fleets.IDENTITY),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    state = shell.folder / "cut" / "state"
    until = time.monotonic() + 60
    while not (state.exists() and len(list(state.iterdir())) >= 2):
        assert time.monotonic() < until
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert 2 <= len(list(state.iterdir())) < 8
    assert bulk(shell, "--work-dir", "cut", *flags).code == 0
    for name in ("result.json", *(f"patches/{one.name}.patch" for one in made if one.changes)):
        assert (shell.folder / "cut" / name).read_bytes() == (shell.folder / "whole" / name).read_bytes()
    assert not running(str(shell.folder))


def test_ctrl_c_keeps_what_is_done(shell: Shell) -> None:
    made = [fleets.healthy(shell.folder.parent / "repositories", n) for n in range(1, 9)]
    fleet(shell, made)
    process = subprocess.Popen(
        [sys.executable, "-m", "torchmigrate", "bulk", "fleet.toml", *TOYS, "--verify", "sleep 0.5"],
        cwd=shell.folder,
        env=environment(shell.state, **fleets.IDENTITY),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    state = shell.folder / "torchmigrate-work" / "state"
    until = time.monotonic() + 60
    while not (state.exists() and list(state.iterdir())):
        assert time.monotonic() < until
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert err.startswith(b"interrupted; run again to go on\n")
    assert 1 <= result(shell)["totals"]["done"] < 8


def test_two_runs_do_not_share_a_work_folder(shell: Shell) -> None:
    import fcntl

    members(shell, healthy(1))
    (shell.folder / "torchmigrate-work").mkdir()
    with open(shell.folder / "torchmigrate-work" / "lock", "ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = bulk(shell)
    assert (done.code, "another run uses" in done.err) == (2, True)


def test_in_place_changes_the_checkouts_and_refuses_edits(shell: Shell) -> None:
    one, two, _ = members(shell, healthy(1), fleets.dirty, healthy(0))
    done = bulk(shell, "--in-place", "--branch", "torch")
    assert done.code == 3
    assert "dirty: failed: files that would change have uncommitted edits: a.py" in done.err
    assert fleets.git(one.path, "log", "-1", "--format=%s") == "Migrate to torch 2.15\n"
    assert fleets.git(one.path, "branch", "--show-current") == "torch\n"
    assert (two.path / "a.py").read_bytes() == b"toy_call(1)\ntoy_call(2)\n"
    assert fleets.git(two.path, "branch", "--list") == "* main\n"


def test_a_plain_list_of_folders_and_urls(shell: Shell) -> None:
    one, two = members(shell, healthy(1), healthy(2))
    (shell.folder / "list.txt").write_text(f"# all of ours\n../repositories/{one.name}\n\nfile://{two.path}\n")
    done = shell("bulk", "list.txt", *TOYS, "--format", "json", env=fleets.IDENTITY)
    assert done.code == 0, done.err
    data = json.loads(done.out)
    assert [(r["name"], r["source"]) for r in data["repositories"]] == [
        (one.name, str(one.path)),
        (two.name, f"file://{two.path}"),
    ]
    assert done.raw == (shell.folder / "torchmigrate-work" / "result.json").read_bytes()


def test_secrets_of_urls_stay_out_of_everything(shell: Shell) -> None:
    (shell.folder / "list.txt").write_text("https://ada:s3cret@localhost:1/team/x.git\n")
    done = shell("bulk", "list.txt", *TOYS, env=fleets.IDENTITY)
    assert done.code == 3
    assert "x: failed:" in done.err
    kept = b"".join(p.read_bytes() for p in (shell.folder / "torchmigrate-work").rglob("*") if p.is_file())
    assert b"s3cret" not in kept + done.raw + done.err.encode()
    assert b"https://localhost:1/team/x.git" in kept


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "names no repository"),
        ("[[repository]]\n", "number 1: has no source"),
        ('[[repository]]\nsurce = "x"\n', "unknown key 'surce'; did you mean 'source'?"),
        ('[[repository]]\nsource = "--upload-pack=x"\n', "--upload-pack=x looks like an option of git"),
        ('[[repository]]\nsource = "x"\ntimeout = -1\n', "timeout must be a number of seconds above 0"),
        ('[[repository]]\nsource = "x"\n[[repository]]\nsource = "x"\n', "is named twice"),
        ('[[repository]]\nsource = "x"\nname = "n"\n[[repository]]\nsource = "y"\nname = "n"\n', "called 'n'"),
        ("[fleet]\n", "unknown key 'fleet'"),
        ("repository = 1\n", "must be written as [[repository]] tables"),
        ("[[\n", "not valid TOML"),
    ],
)
def test_lists_that_cannot_be_used(shell: Shell, text: str, said: str) -> None:
    (shell.folder / "fleet.toml").write_text(text)
    done = bulk(shell)
    assert (done.code, said in done.err) == (2, True), done.err
    assert not (shell.folder / "torchmigrate-work").exists()


def test_names_tell_repositories_apart(shell: Shell) -> None:
    from torchmigrate.fleet import plan

    (shell.folder / "list").write_text("git@host:a/x.git\nhttps://host/b/x\nhttps://host/c/y.git\n/srv/y/\n")
    assert [one.name for one in plan.read(str(shell.folder / "list"))] == ["a/x", "b/x", "c/y", "srv/y"]
    keys = [one.key for one in plan.read(str(shell.folder / "list"))]
    assert len(set(keys)) == 4
    assert not any("/" in key for key in keys)


@pytest.mark.parametrize("flags", [["--commit", "one"], ["--branch", "a..b"], ["--in-place", "--dry-run"]])
def test_flags_that_cannot_be_used(shell: Shell, flags: list[str]) -> None:
    members(shell, healthy(1))
    assert bulk(shell, *flags).code == 2


def test_metadata_that_never_ends_is_not_read(shell: Shell) -> None:
    def endless(base: Path) -> fleets.Member:
        path = base / "endless"
        path.mkdir()
        names = ("torchmigrate.toml", "pyproject.toml", "setup.py", "requirements.txt", "CODEOWNERS", "in/setup.cfg")
        for name in names:
            (path / name).parent.mkdir(exist_ok=True)
            (path / name).symlink_to("/dev/zero")
        fleets.commit(path, {"a.py": b"toy_call(1)\n", "in/b.py": b"toy_call(2)\n"})
        return fleets.Member("endless", path)

    members(shell, endless)
    done = bulk(shell, "--repository-timeout", "60", "--branch", "b", "--commit", "per-owner")
    assert done.code == 0, done.err
    assert result(shell)["totals"]["changes"] == 2
