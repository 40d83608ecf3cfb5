"""`--from-patch`: what a reviewer left in a patch is what is written, imports aside."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
from commandline import Shell
from reviewing import RULES

GAP = b"\n" * 8
MEETING = b"import os" + GAP + b"x = one('unsafe', one(two(1)))" + GAP + b"several(two(2))" + GAP + b"several(3)\n"
"""An unsafe change around two safe ones on one line, and a change of two places around another."""


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    found = Shell(tmp_path / "repo", tmp_path / "state")
    calls = [b"one(0)\n", b"one('unsafe')\n", b"x = one(two(1))\n", b"two(3)\n", b"pick(4)\n"]
    found.write({"a.py": b"import os\n" + GAP + GAP.join(calls), "b \u00e9.py": b"several(1)\n" + GAP + b"several(2)"})
    found.commit()
    return found


def patch(shell: Shell) -> list[bytes]:
    """The patch of everything in pieces: the head of a file, or one hunk."""
    path = shell.state.parent / "m.patch"
    assert shell("apply", "--unsafe", "--patch-out", str(path), *RULES, ".").code == 1
    return re.split(rb"^(?=@@ |diff )", path.read_bytes(), flags=re.MULTILINE)[1:]


def take(shell: Shell, pieces: list[bytes], *more: str) -> tuple[int, str]:
    path = shell.state.parent / "less.patch"
    path.write_bytes(b"".join(pieces))
    done = shell("apply", "--from-patch", str(path), *RULES, *more, ".")
    return done.code, done.err


def test_a_whole_patch_is_what_yes_writes(shell: Shell) -> None:
    code, _ = take(shell, patch(shell))
    assert code == 0
    contents = shell.contents()
    assert shell("undo").code == 0
    shell("apply", "--yes", "--unsafe", *RULES, ".")
    assert shell.contents() == contents


@pytest.mark.parametrize("seed", range(4))
def test_what_is_left_is_written_with_the_imports_it_needs(shell: Shell, seed: int) -> None:
    """Deleted hunks are left; `git apply` gives the same bytes wherever the hunk of the import was kept if needed."""
    pieces = patch(shell)
    chosen = random.Random(seed)
    hunks = [p for p in pieces if p.startswith(b"@@") and b"several" not in p and b"import math" not in p]
    kept = [p for p in hunks if chosen.random() < 0.5] or hunks[:1]
    code, err = take(shell, [pieces[0], *kept])
    assert code == 1, err
    text = (shell.folder / "a.py").read_bytes()
    for hunk in hunks:
        added = [line[1:] for line in hunk.split(b"\n") if line.startswith(b"+")]
        assert all((line in text.split(b"\n")) == (hunk in kept) for line in added)
    assert (b"import math\n" in text) == (b"math.e" in text)


def test_the_import_alone_is_not_written(shell: Shell) -> None:
    pieces = patch(shell)
    before = shell.contents()
    code, err = take(shell, [pieces[0], next(p for p in pieces if b"+import math" in p)])
    assert code == 1, err
    assert shell.contents() == before


def test_places_that_belong_together_stay_together(shell: Shell) -> None:
    pieces = patch(shell)
    several = [p for p in pieces if b"several" in p]
    head = next(p for p in pieces if p.startswith(b"diff") and b"a.py" not in p)
    code, err = take(shell, [head, several[0]])
    assert code == 2
    assert "less.patch:4: goes together with a change at line 10, which was deleted" in err
    assert take(shell, [head, *several])[0] == 1
    assert b"together=True" in (shell.folder / "b \u00e9.py").read_bytes()


def test_a_hunk_that_was_edited_is_refused(shell: Shell) -> None:
    pieces = patch(shell)
    before = shell.contents()
    mine = [p.replace(b"end=9)\n", b"end=8)\n") for p in pieces]
    code, err = take(shell, mine)
    assert code == 2
    assert re.search(r"less\.patch:\d+: this hunk is none of the changes", err)
    assert shell.contents() == before


def test_a_patch_of_other_files_is_refused(shell: Shell) -> None:
    pieces = patch(shell)
    code, err = take(shell, [p.replace(b"a.py", b"z.py") for p in pieces])
    assert code == 2
    assert "nothing would change in z.py" in err
    shell.write({"a.py": b"# other\n" + (shell.folder / "a.py").read_bytes()})
    shell.commit()
    code, err = take(shell, pieces)
    assert code == 2
    assert "does not fit a.py as it is now" in err
    code, err = take(shell, [pieces[0], pieces[1].replace(b"@@ -", b"@@ -1")[:-20]])
    assert code == 2
    assert "more or fewer lines" in err


def test_what_is_no_patch_is_refused(shell: Shell) -> None:
    assert take(shell, [b"{}\n"]) == (2, "error: ../less.patch:1: this is no patch\n")
    code, err = take(shell, [patch(shell)[0]])
    assert (code, "Wrote nothing" in err) == (1, True)


def test_a_look_writes_nothing(shell: Shell) -> None:
    pieces = patch(shell)
    before = shell.contents()
    path = shell.state.parent / "m.patch"
    done = shell("apply", "--dry-run", "--from-patch", str(path), *RULES, ".")
    assert done.raw == b"".join(pieces)
    assert shell.contents() == before


def test_what_decides_otherwise_is_refused(shell: Shell) -> None:
    assert "--from-patch decides what is taken" in shell("apply", "--from-patch", "x", "-i", ".").err
    assert "cannot read x" in shell("apply", "--from-patch", "x", ".").err


@pytest.fixture
def meeting(shell: Shell) -> Shell:
    shell.write({"a.py": MEETING, "train/m.py": MEETING.replace(b"several", b"none")})
    shell.commit()
    return shell


@pytest.mark.parametrize("flags", [(), ("--unsafe",)])
@pytest.mark.parametrize("way", ["diff", "dry-run", "patch-out", "split"])
def test_what_a_look_shows_is_taken_where_safe_and_unsafe_changes_meet(
    meeting: Shell, way: str, flags: tuple[str, ...]
) -> None:
    path = meeting.state.parent / "shown.patch"
    commands = {"diff": ["diff"], "dry-run": ["apply", "--dry-run"], "patch-out": ["apply", "--patch-out", str(path)]}
    commands["split"] = ["apply", "--split", "owner", "--patch-out", str(path.with_suffix(""))]
    done = meeting(*commands[way], *flags, *RULES, ".")
    assert done.code == 1, done.err
    if way == "split":
        path.write_bytes(b"".join(one.read_bytes() for one in sorted(path.with_suffix("").iterdir())))
    elif way != "patch-out":
        path.write_bytes(done.raw)
    meeting("apply", "--yes", *flags, *RULES, ".")
    expected = meeting.contents()
    assert (b"one('unsafe', one(two(1, end=9), start=math.e), start" in expected["train/m.py"]) == bool(flags)
    for more in ((), ("--yes", "--unsafe")):
        assert meeting("undo").code == 0
        taken = meeting("apply", "--from-patch", str(path), *more, *RULES, ".")
        assert taken.code == (0 if flags else 1), taken.err
        assert meeting.contents() == expected


def as_patch(shell: Shell, name: str, after: bytes) -> Path:
    """The patch of git that gives a file another content."""
    before = (shell.folder / name).read_bytes()
    shell.write({name: after})
    path = shell.state.parent / "git.patch"
    path.write_text(shell.git("diff", "--", name))
    shell.write({name: before})
    return path


@pytest.mark.parametrize("inner", [False, True])
@pytest.mark.parametrize("outer", [False, True])
@pytest.mark.parametrize("two", [False, True])
def test_each_part_of_what_meets_on_one_line_is_taken(meeting: Shell, inner: bool, outer: bool, two: bool) -> None:
    """Each subset of three changes, unsafe ones among them; imports are there exactly where they are needed."""
    start, end = (b", start=math.e" if one else b"" for one in (inner, outer))
    line = b"x = one('unsafe', one(two(1%b)%b)%b)\n" % (b", end=9" if two else b"", start, end)
    after = MEETING.replace(b"several", b"none").replace(b"x = one('unsafe', one(two(1)))\n", line)
    if inner or outer:
        after = after.replace(b"import os\n", b"import os\nimport math\n")
    done = meeting("apply", "--from-patch", str(as_patch(meeting, "train/m.py", after)), *RULES, ".")
    assert done.code == 1, done.err
    assert (meeting.folder / "train/m.py").read_bytes() == after
    assert (meeting.folder / "a.py").read_bytes() == MEETING


def test_a_change_inside_one_of_several_places_is_taken_without_it(meeting: Shell) -> None:
    after = MEETING.replace(b"two(2)", b"two(2, end=9)")
    assert meeting("apply", "--from-patch", str(as_patch(meeting, "a.py", after)), *RULES, ".").code == 1
    assert (meeting.folder / "a.py").read_bytes() == after


@pytest.mark.parametrize("kept", [(0,), (3,), (0, 1, 2, 3, 4), (0, 1, 2, 3, 4, 5)])
def test_many_changes_of_one_line_are_taken_alone_by_safety_and_all(meeting: Shell, kept: tuple[int, ...]) -> None:
    calls = [b"two(%d)" % n for n in range(5)] + [b"one('unsafe')"]
    more = [b"two(%d, end=9)" % n for n in range(5)] + [b"one('unsafe', start=math.e)"]
    before = b"import math\nx = " + b", ".join(calls) + b"\n"
    after = b"import math\nx = " + b", ".join((more if n in kept else calls)[n] for n in range(6)) + b"\n"
    meeting.write({"a.py": before})
    meeting.commit()
    assert meeting("apply", "--from-patch", str(as_patch(meeting, "a.py", after)), *RULES, ".").code == 1
    assert (meeting.folder / "a.py").read_bytes() == after


def test_an_edit_among_changes_that_meet_is_refused(meeting: Shell) -> None:
    """The line told is that of the hunk that was edited, not of one before it that has a part of the changes."""
    after = MEETING.replace(b"two(1)", b"two(1, end=9)").replace(b"two(2)", b"two(2, end=8)")
    done = meeting("apply", "--from-patch", str(path := as_patch(meeting, "a.py", after)), *RULES, ".")
    assert done.code == 2
    assert meeting.contents()["a.py"] == MEETING
    second = path.read_bytes().split(b"\n").index(b"-several(two(2))") - 2
    assert f"git.patch:{second - 1}: " in done.err, done.err
