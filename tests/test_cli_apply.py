"""`apply` and `diff` as users meet them: real processes, real git."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from commandline import SAMPLE, TOYS, Shell, environment
from unprivileged import permissions_count


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """A committed repository with the sample files."""
    folder = tmp_path / "repo"
    folder.mkdir()
    found = Shell(folder, tmp_path / "state")
    found.write(SAMPLE)
    found.commit()
    return found


def test_the_dry_run_shows_what_yes_writes_and_writes_nothing(shell: Shell) -> None:
    before = shell.snapshot()
    shown = shell("apply", "--dry-run", *TOYS)
    assert shown.code == 1
    assert shell.snapshot() == before
    assert not (shell.state / "runs").exists()

    wrote = shell("apply", "--yes", *TOYS)
    assert (wrote.code, wrote.out) == (0, "")
    after = shell.contents()
    assert after["train/a.py"] == SAMPLE["train/a.py"].replace(b"toy_call(1)", b"toy_call(1, device=0)")
    assert after["train/b c.py"] == (
        b"\xef\xbb\xbfimport toys\r\nimport math\r\nx = toys.toy_call(2, device=0)  # caf\xc3\xa9\r\n"
        b"y = toy_sum([1], start=math.e)"
    )

    shell.git("checkout", "-q", ".")
    (shell.folder / "m.patch").write_bytes(shown.raw)
    shell.git("apply", "--check", "m.patch")
    shell.git("apply", "m.patch")
    assert shell.contents() == after | {"m.patch": shown.raw}
    shell.git("apply", "-R", "m.patch")
    assert shell.contents() == SAMPLE | {"m.patch": shown.raw}


def test_the_text_of_a_dry_run(shell: Shell) -> None:
    shown = shell("diff", *TOYS, "--unsafe", "train/a.py")
    assert shown.out == (
        "diff --git a/train/a.py b/train/a.py\n"
        "--- a/train/a.py\n"
        "+++ b/train/a.py\n"
        "@@ -2,4 +2,4 @@ XX101 add-device\n"
        " \n \n def f():\n"
        "-    return toy_call(1)\n"
        "+    return toy_call(1, device=0)\n"
    )
    *lines, last = shown.err.splitlines()
    assert lines == [
        "Would change 1 file: 1 safe change",
        "  XX101 add-device   1 change   1 file   safe",
        "The code must run on torch 2.15 and later (no project metadata says otherwise; --min-torch does).",
    ]
    assert last.startswith("Looked at 1 of 1 file, ")


def test_each_hunk_names_its_own_changes(shell: Shell) -> None:
    shown = shell("diff", *TOYS, "train/late.py")
    headers = [line for line in shown.out.splitlines() if line.startswith("@@")]
    assert headers == ["@@ -1,6 +1,8 @@ XX201 add-start", "@@ -31,4 +33,4 @@ XX101 add-device"]


def test_diff_is_apply_dry_run(shell: Shell) -> None:
    assert shell("diff", *TOYS).raw == shell("apply", "-n", *TOYS).raw


def test_a_second_run_offers_nothing(shell: Shell) -> None:
    assert shell("apply", "-y", *TOYS).code == 0
    shell.commit()
    again = shell("apply", "-n", *TOYS)
    assert (again.code, again.out) == (0, "")
    assert again.err.startswith("Would change nothing\n")
    assert shell("apply", "-y", *TOYS).err.startswith("Wrote nothing\n")


def test_a_read_only_tree_can_be_looked_at(shell: Shell) -> None:
    for path in [shell.folder, *shell.folder.rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        before = shell.snapshot()
        shown = shell("apply", "--dry-run", *TOYS, before=permissions_count())
        assert (shown.code, shown.out.count("diff --git")) == (1, 3)
        refused = shell("apply", "--yes", *TOYS, before=permissions_count())
        assert shell.snapshot() == before
        assert refused.code == 3
        assert "train/a.py: TM010 cannot be written: " in refused.err
        assert refused.err.startswith("Wrote nothing\n")
    finally:
        for path in [shell.folder, *shell.folder.rglob("*")]:
            path.chmod(0o755 if path.is_dir() else 0o644)


def test_files_with_uncommitted_edits_are_refused(shell: Shell) -> None:
    shell.write({"train/none.py": b"x = 2\n", "train/new.py": b"toy_call(9)\n"})
    edited = SAMPLE["train/a.py"] + b"# edited\n"
    shell.write({"train/a.py": edited})
    before = shell.snapshot()
    refused = shell("apply", "--yes", *TOYS)
    assert refused.code == 2
    assert refused.err == (
        "error: 2 files that would change have uncommitted edits: train/a.py, train/new.py\n"
        "       commit or stash them, or pass --allow-dirty\n"
    )
    after = shell.snapshot()
    assert {k: v for k, v in after.items() if not k.startswith(".git")} == {
        k: v for k, v in before.items() if not k.startswith(".git")
    }
    assert shell("apply", "--yes", *TOYS, "--allow-dirty").code == 0
    assert shell.contents()["train/a.py"] == edited.replace(b"(1)", b"(1, device=0)")
    assert shell.contents()["train/new.py"] == b"toy_call(9, device=0)\n"


def test_edits_elsewhere_do_not_matter(shell: Shell) -> None:
    shell.write({"train/none.py": b"x = 2\n"})
    assert shell("apply", "--yes", *TOYS).code == 0


def test_without_git_around_files_are_written_and_can_be_put_back(tmp_path: Path) -> None:
    shell = Shell(tmp_path / "plain", tmp_path / "state")
    shell.write(SAMPLE)
    assert shell("apply", "--yes", *TOYS).code == 0
    assert shell.contents() != SAMPLE
    assert shell("undo").code == 0
    assert shell.contents() == SAMPLE


def test_no_git_names_files_from_the_current_folder(shell: Shell) -> None:
    inside = shell.folder / "train"
    assert "+++ b/train/a.py\n" in shell("diff", *TOYS, cwd=inside).out
    assert "+++ b/a.py\n" in shell("diff", *TOYS, "--no-git", cwd=inside).out


def test_unsafe_changes_are_counted_and_hidden_until_asked_for(shell: Shell) -> None:
    shell.write({"train/u.py": b"toy_call('unsafe')\n"})
    shell.commit()
    shown = shell("diff", *TOYS)
    assert "train/u.py" not in shown.out
    assert shown.err.splitlines()[0] == (
        "Would change 3 files: 5 safe changes (1 unsafe change not shown, in train/u.py: add --unsafe)"
    )
    wrote = shell("apply", "--yes", *TOYS)
    assert wrote.code == 1
    assert "(1 unsafe change left, in train/u.py: add --unsafe)" in wrote.err
    assert "@@ -1 +1 @@ XX101 add-device (unsafe)" in shell("diff", *TOYS, "--unsafe").out
    assert shell("apply", "--yes", "--unsafe", "--allow-dirty", *TOYS).code == 0
    assert shell.contents()["train/u.py"] == b"toy_call('unsafe', device=0)\n"


def test_places_for_a_person_are_listed(shell: Shell) -> None:
    shell.write({"train/m.py": b"x = 1\ntoy_call('manual')\n"})
    shell.commit()
    line = "train/m.py:2:1: XX101 manual: choose a device yourself"
    shown = shell("diff", *TOYS)
    assert shown.code == 1
    assert line in shown.err.splitlines()
    assert "1 place needs a person." in shown.err.splitlines()
    wrote = shell("apply", "--yes", *TOYS)
    assert wrote.code == 1
    lines = wrote.err.splitlines()
    assert lines[lines.index("1 place needs a person:") + 1] == f"  {line}"


def test_ignored_places_are_not_offered(shell: Shell) -> None:
    shell.write({"train/a.py": b"toy_call(1)  # torchmigrate: ignore[XX101] on purpose\n"})
    shown = shell("diff", *TOYS, "train/a.py", "-v")
    assert (shown.code, shown.out) == (0, "")
    assert "train/a.py:1:1: XX101 safe: the call gets a device (ignored: on purpose)" in shown.err
    assert "1 place ignored by comments (-v shows them)." in shell("diff", *TOYS, "train/a.py").err


def test_files_that_cannot_be_read_fail_alone(shell: Shell) -> None:
    shell.write({"train/broken.py": b"toy_call(1\n", "train/crash.py": b"toy_call('crash')\n"})
    shell.commit()
    wrote = shell("apply", "--yes", *TOYS)
    assert wrote.code == 3
    assert "train/broken.py:1:9: TM001 cannot parse: '(' was never closed" in wrote.err
    assert "train/crash.py: TM005 the worker crashed on this file (signal 11); left as it was" in wrote.err
    assert "2 files could not be processed." in wrote.err
    assert shell.contents()["train/a.py"] != SAMPLE["train/a.py"]


def test_a_file_that_hangs_is_given_up(shell: Shell) -> None:
    shell.write({"train/slow.py": b"toy_call('slow')\n"})
    shown = shell("diff", *TOYS, "--timeout", "8")
    assert shown.code == 3
    assert "train/slow.py: TM004 gave up after 8 s" in shown.err
    assert shown.out.count("diff --git") == 3


def test_max_changes_takes_the_first_ones(shell: Shell) -> None:
    shown = shell("diff", *TOYS, "--max-changes", "2")
    assert "Would change 2 files: 2 safe changes" in shown.err
    assert "3 changes left in 2 files." in shown.err
    wrote = shell("apply", "--yes", *TOYS, "--max-changes", "2")
    assert wrote.code == 1
    assert shell.git("diff").count("device=0") == 2
    shell.commit()
    assert shell("apply", "--yes", *TOYS).code == 0


def test_exit_zero_turns_only_one_into_zero(shell: Shell) -> None:
    assert shell("diff", *TOYS, "--exit-zero").code == 0
    shell.write({"train/broken.py": b"toy_call(1\n"})
    assert shell("diff", *TOYS, "--exit-zero").code == 3
    assert shell("diff", "--select", "nonsense", "--exit-zero").code == 2


def test_patch_out_is_the_diff_and_git_takes_it(shell: Shell) -> None:
    plain = shell("diff", *TOYS)
    wrote = shell("apply", *TOYS, "--patch-out", "../m.patch")
    assert (wrote.code, wrote.out) == (1, "")
    patch = shell.folder.parent / "m.patch"
    assert patch.read_bytes() == plain.raw
    assert "Apply it with: git apply ../m.patch" in wrote.err
    shell.git("apply", "../m.patch")
    assert shell("diff", *TOYS).code == 0


def test_patch_out_from_inside_a_repository_says_where(shell: Shell) -> None:
    wrote = shell("diff", *TOYS, "-U0", "--patch-out", "m.patch", cwd=shell.folder / "train")
    assert f"Apply it with: git apply --unidiff-zero m.patch (in {shell.folder})" in wrote.err
    assert (shell.folder / "train" / "m.patch").read_bytes().count(b"diff --git a/train/") == 3


def test_context_lines(shell: Shell) -> None:
    shown = shell("diff", *TOYS, "-U", "0")
    assert "Hunks without context need: git apply --unidiff-zero" in shown.err
    assert not [line for line in shown.out.splitlines() if line.startswith(" ")]
    (shell.folder / "zero.patch").write_bytes(shown.raw)
    shell.git("apply", "--unidiff-zero", "zero.patch")
    assert shell("diff", *TOYS).code == 0


def test_names_and_counts_instead_of_a_diff(shell: Shell) -> None:
    assert shell("diff", *TOYS, "--name-only").out == "train/a.py\ntrain/b c.py\ntrain/late.py\n"
    assert shell("diff", *TOYS, "--stat").out == (
        " train/a.py    | 2 +-\n"
        " train/b c.py  | 5 +++--\n"
        " train/late.py | 6 ++++--\n"
        " 3 files changed, 8 insertions(+), 5 deletions(-)\n"
    )


def test_json_of_a_dry_run_carries_decisions_and_diffs(shell: Shell) -> None:
    shell.write({"train/u.py": b"toy_call('unsafe')\n"})
    shown = json.loads(shell("diff", *TOYS, "--format", "json").out)
    assert list(shown) == ["schema", "tool", "findings", "errors", "totals", "diffs"]
    assert {f["path"]: f["decision"] for f in shown["findings"]} == {
        "train/a.py": "accept",
        "train/b c.py": "accept",
        "train/late.py": "accept",
        "train/u.py": "decline",
    }
    assert [d["path"] for d in shown["diffs"]] == ["train/a.py", "train/b c.py", "train/late.py"]
    assert shown["diffs"][0]["diff"] == shell("diff", *TOYS, "train/a.py").out


def test_output_goes_to_a_file(shell: Shell) -> None:
    plain = shell("diff", *TOYS).raw
    done = shell("diff", *TOYS, "--output", "../out.patch")
    assert done.out == ""
    assert (shell.folder.parent / "out.patch").read_bytes() == plain


def test_colour(shell: Shell) -> None:
    plain = shell("diff", *TOYS)
    coloured = shell("diff", *TOYS, "--color", "always")
    assert "\x1b[32m+    return toy_call(1, device=0)\x1b[m\n" in coloured.out
    assert "\x1b[1mdiff --git a/train/a.py b/train/a.py\x1b[m\n" in coloured.out
    assert shell("diff", *TOYS, env={"FORCE_COLOR": "1"}).raw == coloured.raw
    assert shell("diff", *TOYS, env={"FORCE_COLOR": "1", "NO_COLOR": "1"}).raw == plain.raw
    assert shell("diff", *TOYS, "--color", "never", env={"FORCE_COLOR": "1"}).raw == plain.raw


def test_quiet_keeps_what_needs_a_person(shell: Shell) -> None:
    assert shell("diff", *TOYS, "-q").err == ""
    shell.write({"train/m.py": b"toy_call('manual')\n"})
    assert shell("diff", *TOYS, "-q").err == "train/m.py:1:1: XX101 manual: choose a device yourself\n"


def test_stdin_is_a_filter(shell: Shell) -> None:
    source = b"import toys\r\ntoys.toy_call(1)"
    wrote = shell("apply", "-", "--yes", *TOYS, "--stdin-filename", "pkg/x.py", input=source)
    assert (wrote.code, wrote.raw) == (0, b"import toys\r\ntoys.toy_call(1, device=0)")
    assert shell("apply", "-", "--yes", *TOYS, input=wrote.raw).raw == wrote.raw
    shown = shell("diff", "-", *TOYS, "--stdin-filename", "pkg/x.py", input=source)
    assert shown.code == 1
    assert shown.out.startswith("diff --git a/pkg/x.py b/pkg/x.py\n")
    broken = shell("apply", "-", "-y", *TOYS, input=b"toy_call(")
    assert (broken.code, broken.raw) == (3, b"toy_call(")


def test_files_from(shell: Shell) -> None:
    assert shell("diff", *TOYS, "--files-from", "-", "--name-only", input=b"train/b c.py\n").out == "train/b c.py\n"
    (shell.folder / "list").write_bytes(b"train/a.py\0train/b c.py\0")
    assert shell("diff", *TOYS, "--files-from", "list", "--name-only").out == "train/a.py\ntrain/b c.py\n"


def test_include_and_exclude(shell: Shell) -> None:
    assert shell("diff", *TOYS, "--name-only", "--exclude", "a.py,late.py").out == "train/b c.py\n"
    assert shell("diff", *TOYS, "--name-only", "--include", "a.py").out == "train/a.py\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--dry-run", "--yes"], "--dry-run and --yes contradict each other"),
        (["--stat", "--name-only", "-n"], "--stat and --name-only contradict each other"),
        (["--quiet", "--verbose", "-n"], "--quiet and --verbose contradict each other"),
        (["--stat", "--format", "json", "-n"], "--stat and --format json contradict each other"),
        (["--stat", "--patch-out", "x"], "--patch-out and --stat contradict each other"),
        (["-n", "--isolated", "--config", "x"], "--isolated and --config contradict each other"),
        (["-n", "--files-from", "x", "train"], "--files-from and paths contradict each other"),
        (["-n", "-", "train"], "- cannot be combined with other paths"),
        (["-n", "--stdin-filename", "x"], "--stdin-filename goes with the path -"),
        (["-n", "nowhere"], "no such file or folder: nowhere"),
        (["-n", "--select", "XX11"], "unknown code XX11 in --select; did you mean XX101?"),
        (["-n", "--max-size", "huge"], "'huge' is not a size such as 500kB or 4MB"),
        (["-n", "--min-torch", "new"], "'new' is not a torch version such as 2.15"),
        (["--dry-rum"], "--dry-rum"),
        ([], "not a terminal: add --yes to apply everything or --dry-run to look"),
        (["-n", "--config", "gone.toml"], "No such file or directory"),
    ],
)
def test_usage_errors_exit_with_two(shell: Shell, arguments: list[str], message: str) -> None:
    done = shell("apply", *arguments, "--load", TOYS[1])
    assert (done.code, done.out) == (2, "")
    assert done.err.lower().startswith("error: ")
    assert message.lower() in done.err.lower()


def test_undo_restores_every_byte(shell: Shell) -> None:
    (shell.folder / "train" / "a.py").chmod(0o755)
    shell.commit()
    before = shell.contents()
    wrote = shell("apply", "--yes", *TOYS)
    run = wrote.err.rsplit(" ", 1)[1].strip()
    assert wrote.err.endswith(f"Undo with: torchmigrate undo {run}\n")
    listed = shell("runs").out
    assert listed.startswith(run)
    assert "3 files" in listed
    assert shell("undo", "--dry-run").err == f"Would put back 3 files as before run {run}.\n"
    assert shell.contents() != before
    undone = shell("undo", cwd=shell.folder / "train")
    assert (undone.code, undone.err) == (0, f"Put back 3 files as before run {run}.\n")
    assert shell.contents() == before
    assert shell.git("status", "--porcelain") == ""
    assert "undone" in shell("runs").out
    assert shell("undo").code == 2
    assert shell("undo", run).err == f"Nothing to put back: the files are as they were before run {run}.\n"


def test_what_an_undo_of_the_undo_brought_back_can_be_undone_again(shell: Shell) -> None:
    before = shell.contents()
    assert shell("apply", "--yes", *TOYS).code == 0
    after = shell.contents()
    assert shell("undo").code == 0
    (newest, *_) = shell("runs").out.split()
    assert shell("undo", newest).code == 0
    assert shell.contents() == after
    assert shell("runs").out.splitlines()[-1].endswith("files")
    assert shell("undo").code == 0
    assert shell.contents() == before
    assert shell("undo").code == 2


def test_an_undo_of_some_files_can_be_gone_on_with(shell: Shell) -> None:
    before = shell.contents()
    assert shell("apply", "--yes", *TOYS).code == 0
    path = shell.folder / "train/a.py"
    written = path.read_bytes()
    path.write_bytes(written + b"# mine\n")
    assert shell("undo").code == 1
    assert "undone" not in shell("runs").out
    path.write_bytes(written)
    assert shell("undo").code == 0
    assert shell.contents() == before
    assert shell("undo").code == 2


def test_undo_leaves_files_that_changed_since(shell: Shell) -> None:
    shell("apply", "--yes", *TOYS)
    (shell.folder / "train/a.py").write_bytes(b"mine\n")
    undone = shell("undo")
    assert undone.code == 1
    assert "train/a.py: left as it is: has changed since\n" in undone.err
    assert shell.contents() == SAMPLE | {"train/a.py": b"mine\n"}


def test_runs_of_other_folders_are_not_undone_by_accident(shell: Shell, tmp_path: Path) -> None:
    shell("apply", "--yes", *TOYS)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    assert shell("undo", cwd=elsewhere).code == 2
    assert shell("runs", cwd=elsewhere).out == ""
    assert str(shell.folder) in shell("runs", "--all", cwd=elsewhere).out


def test_a_journal_that_cannot_be_kept_stops_the_run_before_it_writes(shell: Shell, tmp_path: Path) -> None:
    blocked = tmp_path / "blocked"
    blocked.write_bytes(b"")
    done = shell("apply", "--yes", *TOYS, env={"TORCHMIGRATE_STATE_DIR": str(blocked)})
    assert done.code == 2
    assert "cannot keep a journal" in done.err
    assert shell.contents() == SAMPLE


def test_ctrl_c_while_looking_writes_nothing(shell: Shell) -> None:
    shell.write({"train/slow.py": b"toy_call('slow')\n"})
    shell.commit()
    process = subprocess.Popen(
        [sys.executable, "-m", "torchmigrate", "apply", "--yes", *TOYS, "-j", "2"],
        cwd=shell.folder,
        env=environment(shell.state),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    while not _has_child(process.pid):
        assert process.poll() is None
        time.sleep(0.01)
    time.sleep(0.3)
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out) == (130, b"")
    assert err.decode().endswith("interrupted; nothing was written\n")
    assert shell.contents() == SAMPLE | {"train/slow.py": b"toy_call('slow')\n"}


def test_ctrl_c_while_writing_keeps_whole_files_and_tells_the_truth(shell: Shell) -> None:
    names = [f"many/f{n:03}.py" for n in range(600)]
    shell.write(dict.fromkeys(names, b"toy_call(1)\n"))
    shell.commit()
    process = subprocess.Popen(
        [sys.executable, "-m", "torchmigrate", "apply", "--yes", *TOYS],
        cwd=shell.folder,
        env=environment(shell.state),
        stderr=subprocess.PIPE,
        text=True,
    )
    while (shell.folder / names[20]).stat().st_size == len("toy_call(1)\n"):
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    contents = shell.contents()
    written = [name for name in names if contents[name] == b"toy_call(1, device=0)\n"]
    assert all(contents[name] == b"toy_call(1)\n" for name in names if name not in written)
    assert 20 < len(written) < len(names)
    assert process.returncode == 130
    assert f"Wrote {len(written)} files, {len(written)} changes" in err
    assert "left in" in err
    assert sorted(contents) == sorted([*names, *SAMPLE])
    assert shell("undo").err.startswith(f"Put back {len(written)} files")
    assert shell.git("status", "--porcelain") == ""


def _has_child(process: int) -> bool:
    return bool(Path(f"/proc/{process}/task/{process}/children").read_text().strip())


def test_a_reader_that_goes_away_is_no_crash(shell: Shell) -> None:
    shell.write({f"many/f{n}.py": b"toy_call(1)\n" for n in range(400)})
    command = f"{sys.executable} -m torchmigrate diff {' '.join(TOYS)} -q | head -1"
    done = subprocess.run(
        ["bash", "-c", command], cwd=shell.folder, env=environment(shell.state), capture_output=True, text=True
    )
    assert done.stdout == "diff --git a/many/f0.py b/many/f0.py\n"
    assert done.stderr == ""
