"""Reviews in a real terminal: after each, the bytes on disk and the counts told are what was answered."""

from __future__ import annotations

import os
import re
import signal
import sys
from pathlib import Path

import pytest
from commandline import Shell
from reviewing import RULES, Reviewer
from unprivileged import permissions_count

GAP = b"\n" * 8
ONE = b"one(%d)\n"


def text(*parts: bytes) -> bytes:
    """Lines far enough from each other for hunks of their own."""
    return b"# head\n" + GAP.join(parts)


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    found = Shell(tmp_path / "repo", tmp_path / "state")
    found.write({"a.py": text(*(ONE % n for n in range(3)))})
    return found


def review(shell: Shell, *more: str, **given: object) -> Reviewer:
    return Reviewer(shell, ("apply", *RULES, "-j", "1", *more, "."), **given)  # type: ignore[arg-type]


def content(shell: Shell, name: str = "a.py") -> bytes:
    return (shell.folder / name).read_bytes()


def taken(*numbers: int, of: int = 3) -> bytes:
    """a.py with the changes of some of its calls."""
    body = text(*(b"one(%d, start=math.e)\n" % n if n in numbers else ONE % n for n in range(of)))
    return b"# head\nimport math\n" + body.removeprefix(b"# head\n") if numbers else body


def editor(shell: Shell, body: str) -> dict[str, str]:
    """An editor that runs Python code on `text`, the content of the file it is given."""
    script = shell.state.parent / "editor.py"
    script.write_text(
        "import sys, pathlib\np = pathlib.Path(sys.argv[1])\ntext = p.read_bytes().decode()\n"
        f"{body}\np.write_bytes(text.encode())\n"
    )
    return {"EDITOR": f"{sys.executable} {script}", "VISUAL": ""}


@pytest.mark.parametrize(
    ("answers", "which", "code", "told"),
    [
        (["y", "y", "y"], (0, 1, 2), 0, "Wrote 1 file (3 changes taken, 0 left)."),
        (["y", "n", "y"], (0, 2), 1, "Wrote 1 file (2 changes taken, 1 left)."),
        (["n", "n", "n"], (), 1, "Wrote nothing (3 left)."),
        (["n", "a"], (1, 2), 1, "Wrote 1 file (2 changes taken, 1 left)."),
        (["y", "d"], (0,), 1, "Wrote 1 file (1 change taken, 2 left)."),
        (["A"], (0, 1, 2), 0, "Wrote 1 file (3 changes taken, 0 left)."),
        (["D"], (), 1, "Wrote nothing (3 left)."),
        (["y", "q"], (0,), 1, "Wrote 1 file (1 change taken, 2 left)."),
        (["j", "y", "q"], (1,), 1, "Wrote 1 file (1 change taken, 2 left)."),
        (["j", "j", "k", "n", "y", "y"], (0, 2), 1, "Wrote 1 file (2 changes taken, 1 left)."),
        (["g 3", "y", "y", "n"], (0, 2), 1, "Wrote 1 file (2 changes taken, 1 left)."),
        (["y", "u", "n", "y", "y"], (1, 2), 1, "Wrote 1 file (2 changes taken, 1 left)."),
        (["y", "y", "g1", "n", "y"], (1, 2), 1, "Wrote 1 file (2 changes taken, 1 left)."),
        (["y", "g1", "n", "u", "y", "n", "n"], (0,), 1, "Wrote 1 file (1 change taken, 2 left)."),
        (["y", "y", "u", "u", "d"], (), 1, "Wrote nothing (3 left)."),
    ],
    ids=lambda value: "-".join(value).replace(" ", "") if isinstance(value, list) else "",
)
def test_what_is_answered_is_written_and_told(
    shell: Shell, answers: list[str], which: tuple[int, ...], code: int, told: str
) -> None:
    with review(shell) as reviewer:
        reviewer.type(*answers)
    assert content(shell) == taken(*which)
    assert told in reviewer.screen
    assert reviewer.code == code
    if which:
        assert shell("undo", reviewer.run).code == 0
        assert content(shell) == taken()


def test_nothing_has_a_default_and_unknown_keys_are_told(shell: Shell) -> None:
    with review(shell) as reviewer:
        assert reviewer.number == "1/3"
        assert reviewer.type("") == "(1/3) Apply this change [y,n,a,d,A,D,q,e,j,i,w,p,P,g,?]? "
        assert "'Y' means nothing here; ? lists the keys" in reviewer.type("Y")
        assert "'yy' means nothing here" in reviewer.type("yy")
        assert "there are 3 changes so far" in reviewer.type("g 9")
        assert "g and a number from 1 to 3" in reviewer.type("g")
        assert "means nothing" in reviewer.type("\N{SUPERSCRIPT TWO}")
        help_ = reviewer.type("?")
        assert help_.startswith("y  take this change\n")
        assert "\ns  " not in help_
        assert "\nk  " not in help_
        assert reviewer.number == "1/3"
        assert "Why: nobody knows." in reviewer.type("w")
        assert "+one(0, start=math.e)" in reviewer.type("p")
        reviewer.type("q")
    assert content(shell) == taken()
    assert reviewer.code == 1


def test_the_end_of_input_keeps_what_was_taken(shell: Shell) -> None:
    with review(shell) as reviewer:
        reviewer.type("y")
        assert "2 changes not decided in a.py" in reviewer.send("\x04")
    assert content(shell) == taken(0)
    assert reviewer.code == 1


def test_interrupts_keep_what_was_taken_and_resume_asks_for_the_rest(shell: Shell) -> None:
    with review(shell) as reviewer:
        reviewer.type("n", "y")
        assert "Continue with: torchmigrate resume " in reviewer.send("\x03")
    assert content(shell) == taken(1)
    assert reviewer.code == 130
    with Reviewer(shell, ("resume",)) as again:
        assert again.number == "2/2"
        assert "+one(2, start=math.e)" in again.screen
        again.type("y")
    assert content(shell) == taken(1, 2)
    assert again.code == 1
    refused = shell("resume", again.run)
    assert refused.code == 2
    assert shell("undo", again.run).code == 0
    assert content(shell) == taken()


def test_a_run_that_was_undone_is_not_gone_on_with(shell: Shell) -> None:
    with review(shell) as reviewer:
        reviewer.type("y", "q")
    assert shell("undo").code == 0
    with Reviewer(shell, ("resume",)) as again:
        assert "no review waits here" in again.screen
    assert again.code == 2
    with Reviewer(shell, ("resume", reviewer.run)) as again:
        assert "was undone" in again.screen
    assert again.code == 2


def test_answers_are_remembered_by_what_was_asked(shell: Shell) -> None:
    """Files edited between: equal offers keep their answers, others are asked again."""
    shell.write({"a.py": b"one(1)\n" + GAP + b"one(2)\n" + GAP + b"one(3)\n"})
    with review(shell) as reviewer:
        reviewer.type("n", "n", "q")
    shell.write({"a.py": b"# new line\none(1)\n" + GAP + b"one(2)\none(2)\n" + GAP + b"one(3)\n"})
    with Reviewer(shell, ("resume",)) as again:
        assert again.number == "2/4"
        assert "+one(2, start=math.e)" in again.screen
        again.type("y", "y", "y")
    assert b"one(1)\n" in content(shell)
    assert content(shell).count(b"start=math.e") == 3


def test_a_file_that_changes_during_the_review_is_left_alone(shell: Shell) -> None:
    shell.write({"b.py": ONE % 7})
    with review(shell) as reviewer:
        while "one(7" not in reviewer.screen:
            reviewer.type("n")
        shell.write({"b.py": b"# mine\n" + ONE % 7})
        reviewer.type("y")
        while reviewer.code is None:
            reviewer.type("n")
    assert "b.py: TM007 changed on disk while it was reviewed" in reviewer.screen
    assert content(shell, "b.py") == b"# mine\n" + ONE % 7
    assert reviewer.code == 1
    with Reviewer(shell, ("resume",)) as again:
        pass
    assert again.code == 1
    assert content(shell, "b.py") == b"# mine\nimport math\none(7, start=math.e)\n"


def test_undo_goes_back_over_a_file_boundary(shell: Shell) -> None:
    shell.write({"b.py": ONE % 7, "c.py": ONE % 8})
    before = shell.contents()
    with review(shell) as reviewer:
        first = reviewer.screen.split()[0]
        reviewer.type("a", "a")
        assert f"{first}   file " not in reviewer.screen
        assert "   file 2 of 3" in reviewer.type("u")
        assert f"{first}   file 1 of 3" in reviewer.type("u")
        reviewer.type("d")
        while reviewer.code is None:
            reviewer.type("n")
    assert shell.contents() == before
    assert "Wrote nothing (5 left)." in reviewer.screen


def test_rule_answers_hold_for_later_files_and_are_taken_back_with_them(shell: Shell) -> None:
    shell.write({"b.py": b"two(1)\none(7)\n", "c.py": b"one(8)\n" + GAP + b"look(1)\n"})
    with review(shell) as reviewer:
        while "RV101" not in reviewer.screen or "RV102" in reviewer.screen:
            reviewer.type("j")
        reviewer.type("A")
        seen = {reviewer.screen}
        while reviewer.code is None:
            assert "RV101 one, safe" not in reviewer.screen
            seen.add(reviewer.type("n"))
    assert content(shell) == taken(0, 1, 2)
    assert content(shell, "c.py") == b"import math\none(8, start=math.e)\n" + GAP + b"look(1)\n"
    assert content(shell, "b.py") == b"import math\ntwo(1)\none(7, start=math.e)\n"


def test_what_shares_lines_is_asked_together_and_split(shell: Shell) -> None:
    shell.write({"a.py": b"x = one(two(1))\n"})
    with review(shell) as reviewer:
        assert reviewer.number == "1/1"
        assert "+x = one(two(1, end=9), start=math.e)" in reviewer.screen
        assert "RV101 one, safe" in reviewer.screen
        assert "RV102 two, safe" in reviewer.screen
        reviewer.type("s")
        assert reviewer.number == "1/2"
        assert "s" not in reviewer.keys
        reviewer.type("n" if "RV101" in reviewer.screen else "y")
        reviewer.type("n" if "RV101" in reviewer.screen else "y")
    assert content(shell) == b"x = one(two(1, end=9))\n"
    assert "(1 change taken, 1 left)" in reviewer.screen


def test_several_places_are_one_question(shell: Shell) -> None:
    shell.write({"a.py": text(b"several(1)\n", b"several(2)\n")})
    with review(shell) as reviewer:
        assert reviewer.number == "1/1"
        assert reviewer.screen.count("together=True") == 2
        reviewer.type("y")
    assert content(shell) == text(b"several(1, together=True)\n", b"several(2, together=True)\n")
    assert "1 change taken" in reviewer.screen
    assert reviewer.code == 0


def test_choices_are_shown_and_taken_by_number(shell: Shell) -> None:
    shell.write({"a.py": text(b"pick(1)\n", b"pick(2)\n", b"choose(3)\n", b"choose(4)\n")})
    with review(shell) as reviewer:
        assert "> 1  1 (it is first)\n" in reviewer.screen
        assert "  2  2 (because of 2)\n" in reviewer.screen
        assert reviewer.keys[0] == "1-3"
        assert "+pick(1, way=2)" in reviewer.type("2")
        reviewer.type("y")
        assert "+pick(2, way=1)" in reviewer.screen
        reviewer.type("3", "n")
        assert "choose(3)" in reviewer.screen
        assert "Leave this to a person" in reviewer.screen
        assert "y" not in reviewer.keys
        reviewer.type("2")
        assert "+choose(3, way=2)" in reviewer.screen
        reviewer.type("A")
    assert content(shell) == text(b"pick(1, way=2)\n", b"pick(2)\n", b"choose(3, way=2)\n", b"choose(4, way=2)\n")
    assert "(3 changes taken, 1 left)" in reviewer.screen


def test_reports_are_left_or_ignored_or_edited(shell: Shell) -> None:
    shell.write({"a.py": text(b"look(1)\n", b"look(2)\n", b"look(3)\n")})
    with review(shell, env=editor(shell, "text = text.replace('look', 'looked')")) as reviewer:
        assert "a.py:2:1" in reviewer.screen
        assert "y" not in reviewer.keys
        reviewer.type("n", "i", "e")
        assert "+looked(3)" in reviewer.screen
        reviewer.type("y")
    ignored = b"# torchmigrate: ignore[RV401]\nlook(2)\n"
    assert content(shell) == text(b"look(1)\n", ignored, b"looked(3)\n")
    assert "Wrote 1 file (1 change taken, 1 ignored, 1 left)." in reviewer.screen


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("text = text.replace('math.e', 'math.pi(')", "this cannot be read"),
        ("text = ''", "nothing was taken from the editor"),
        ("raise SystemExit(3)", "ended with 3; nothing was taken from it"),
        ("pass", "nothing was taken from the editor"),
    ],
    ids=["broken", "empty", "failing", "unchanged"],
)
def test_nothing_is_taken_from_an_edit_that_cannot_be(shell: Shell, body: str, said: str) -> None:
    shell.write({"a.py": b"import math\n" + ONE % 0})
    with review(shell, env=editor(shell, body)) as reviewer:
        assert said in reviewer.type("e")
        assert reviewer.number == "1/1"
        reviewer.type("q")
    assert content(shell) == b"import math\n" + ONE % 0


def test_no_editor_is_told(shell: Shell) -> None:
    with review(shell, env={"EDITOR": "/nowhere/editor", "VISUAL": ""}) as reviewer:
        assert "cannot run /nowhere/editor" in reviewer.type("e")
        reviewer.type("q")


def test_a_good_edit_is_shown_again_and_written(shell: Shell) -> None:
    shell.write({"a.py": b"import math\r\nx = 1\r\n" + GAP + b"one(1)\r\n" + GAP + b"one(2)"})
    with review(shell, env=editor(shell, "text = text.replace('math.e', 'math.pi').rstrip('\\n')")) as reviewer:
        assert "+one(1, start=math.pi)" in reviewer.type("e")
        assert reviewer.type("y").count("(was: ") == 0
        assert "(was: e)" in reviewer.type("g 1")
        assert "+one(1, start=math.pi)" in reviewer.screen
        reviewer.type("y", "e", "y")
    assert content(shell) == (
        b"import math\r\nx = 1\r\n" + GAP + b"one(1, start=math.pi)\r\n" + GAP + b"one(2, start=math.pi)"
    )
    assert "Wrote 1 file (2 changes taken, 0 left)." in reviewer.screen
    assert shell("undo").code == 0


def test_an_edit_and_a_change_may_need_the_same_import(shell: Shell) -> None:
    with review(shell, env=editor(shell, "text = text.replace('math.e', 'math.pi')")) as reviewer:
        reviewer.type("y", "e", "y", "n")
    assert content(shell) == taken(0, 1).replace(b"one(1, start=math.e)", b"one(1, start=math.pi)")


def test_an_edit_over_another_change_is_told(shell: Shell) -> None:
    shell.write({"a.py": b"import math\nx = one(two(1))\n"})
    with review(shell, env=editor(shell, "text = text.replace('x =', 'y =')")) as reviewer:
        reviewer.type("s", "e", "y", "y")
    assert "what you wrote is left out: line 2 is also part of another change" in reviewer.screen
    assert "(1 change taken, 1 left)" in reviewer.screen
    assert reviewer.code == 1


def test_safe_changes_are_written_first(shell: Shell) -> None:
    shell.write({"a.py": text(ONE % 0, b"one('unsafe')\n"), "b.py": ONE % 1})
    with review(shell, "--yes-safe") as reviewer:
        assert "RV101 one, unsafe" in reviewer.screen
        reviewer.type("q")
    assert b"one(0, start=math.e)" in content(shell)
    assert b"one('unsafe')\n" in content(shell)
    assert content(shell, "b.py") == b"import math\none(1, start=math.e)\n"
    assert "(2 changes taken, 1 left)" in reviewer.screen


def test_no_escape_sequence_without_colour(shell: Shell) -> None:
    for env in ({"NO_COLOR": "1"}, {"TERM": "dumb", "NO_COLOR": ""}):
        with review(shell, env=env) as reviewer:
            reviewer.type("?", "w", "q")
        assert "\x1b" not in reviewer.seen


def test_colour_changes_no_character(shell: Shell) -> None:
    shell.write({"a.py": b"x = 'a # b'  # one\n" + b"def f(y): return one(y, *'z')  # \xc3\xa9\n"})
    with review(shell) as plain:
        plain.type("q")
    with review(shell, "--color", "always") as coloured:
        coloured.type("q")
    assert "\x1b[33m'a # b'\x1b" in coloured.seen
    first, second = (
        re.sub(r"\x1b\[[\d;]*m| so far|\+(?=\) )", "", one.seen.partition("Wrote")[0]) for one in (plain, coloured)
    )
    assert first == second


def test_tabs_and_wide_characters_keep_their_columns(shell: Shell) -> None:
    shell.write({"a.py": "if x:\n\tone(1)\t# tab\n\tone('\u5bbd\u5b57')\t# tab\n".encode()})
    with review(shell) as reviewer:
        reviewer.type("n", "q")
    assert "-        one(1)  # tab\n" in reviewer.seen
    assert "-        one('\u5bbd\u5b57')     # tab\n" in reviewer.seen


@pytest.mark.parametrize("columns", [40, 200])
def test_text_fits_the_terminal(shell: Shell, columns: int) -> None:
    with review(shell, columns=columns) as reviewer:
        reviewer.type("?")
        assert all(len(line) <= columns for line in reviewer.screen.splitlines() if "]?" not in line)
        reviewer.child.setwinsize(20, 60)
        reviewer.type("p", "a")
    assert content(shell) == taken(0, 1, 2)


def test_control_characters_do_not_reach_the_terminal(shell: Shell) -> None:
    shell.write({"a.py": b"one('\x1b[2J\xe2\x80\xae')\n"})
    with review(shell) as reviewer:
        reviewer.type("q")
    assert "\x1b[2J" not in reviewer.seen
    assert "one('\\x1b[2J\\u202e'" in reviewer.seen


def test_a_pipe_is_refused_with_the_remedy(shell: Shell) -> None:
    for arguments in (("apply", *RULES, "."), ("resume",)):
        done = shell(*arguments, input=b"y\n")
        assert done.code == 2
        assert "not a terminal" in done.err
    assert "add --yes" in shell("apply", *RULES, ".").err
    assert content(shell) == taken()


def test_uncommitted_edits_are_not_asked_about(shell: Shell) -> None:
    shell.write({"b.py": ONE % 7})
    shell.commit()
    shell.write({"b.py": ONE % 8})
    with review(shell) as reviewer:
        reviewer.type("a")
    assert "b.py: TM007 has uncommitted edits" in reviewer.seen
    assert content(shell) == taken(0, 1, 2)
    assert content(shell, "b.py") == ONE % 8
    assert reviewer.code == 1


def test_a_file_that_cannot_be_read_is_an_error(shell: Shell) -> None:
    shell.write({"b.py": b"one(\n"})
    with review(shell) as reviewer:
        reviewer.type("A")
    assert "b.py:1:4: TM001" in reviewer.seen
    assert reviewer.code == 3


def test_a_folder_that_cannot_be_written_is_told(shell: Shell) -> None:
    drop = permissions_count()
    shell.write({"sub/b.py": ONE % 1})
    (shell.folder / "sub").chmod(0o555)
    (shell.folder / "sub/b.py").chmod(0o444)
    with Reviewer(shell, ("apply", *RULES, "sub"), drop=drop) as reviewer:
        reviewer.type("y")
    (shell.folder / "sub").chmod(0o755)
    assert "sub/b.py: TM010 cannot be written" in reviewer.screen
    assert "Wrote nothing (1 left)." in reviewer.screen
    assert reviewer.code == 3
    assert content(shell, "sub/b.py") == ONE % 1


def test_a_killed_review_is_gone_on_with(shell: Shell) -> None:
    with review(shell) as reviewer:
        reviewer.type("y", "n")
        reviewer.child.kill(signal.SIGKILL)
    assert content(shell) == taken()
    with Reviewer(shell, ("resume",)) as again:
        assert again.number == "3/3"
        again.type("y")
    assert content(shell) == taken(0, 2)
    assert os.listdir(shell.folder) == ["a.py"]


def test_the_first_question_comes_while_others_are_looked_at(shell: Shell) -> None:
    from commandline import TOYS

    shell.write({f"many/f{n}.py": b"toy_call('nap')\n" for n in range(60)})
    with Reviewer(shell, ("apply", *TOYS, "-j", "1", "--no-cache", "many")) as reviewer:
        assert "file 1 of 1 so far" in reviewer.screen or "+) Apply" in reviewer.screen
        reviewer.type("A")
        assert "Wrote 60 files (60 changes taken, 0 left)." in reviewer.screen
    assert reviewer.code == 0
    assert shell.contents()["many/f7.py"] == b"toy_call('nap', device=0)\n"


def test_answers_for_all_of_a_rule_are_taken_back_with_files_that_came_later(shell: Shell) -> None:
    shell.write({"b.py": ONE % 7, "c.py": b"look(1)\n"})
    with review(shell) as reviewer:
        while "RV101" not in reviewer.screen:
            reviewer.type("j")
        reviewer.type("A")
        assert "look(1)" in reviewer.screen
        reviewer.type("u", "D")
        reviewer.type("n")
    assert "Wrote nothing (5 left)." in reviewer.screen
    assert shell.contents() == {"a.py": taken(), "b.py": ONE % 7, "c.py": b"look(1)\n"}


def test_a_review_in_use_is_not_gone_on_with_twice(shell: Shell) -> None:
    with review(shell) as reviewer:
        reviewer.type("n")
        (run,) = (path.stem for path in (shell.state / "runs").iterdir())
        with Reviewer(shell, ("resume", run)) as other:
            assert "is still going on in another process" in other.screen
        assert other.code == 2
        reviewer.type("a")
    assert content(shell) == taken(1, 2)


def test_a_change_is_shown_in_the_pager(shell: Shell) -> None:
    with review(shell, env={"PAGER": "sed s/start/PAGED/"}) as reviewer:
        assert "+one(0, PAGED=math.e)" in reviewer.type("P")
        reviewer.type("q")
    with review(shell, env={"PAGER": "no-such-pager"}) as reviewer:
        assert "+one(0, start=math.e)" in reviewer.type("P")
        reviewer.type("q")


def test_cells_of_a_notebook_are_reviewed(shell: Shell) -> None:
    cell = '{"cell_type": "code", "execution_count": 1, "metadata": {}, "outputs": [], "source": [%s]}'
    cells = ", ".join(cell % source for source in ('"one(1)\\n",\n"look(2)\\n"', '"pick(3)"'))
    text = '{"cells": [' + cells + '], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}'
    (shell.folder / "a.py").unlink()
    shell.write({"n.ipynb": text.encode()})
    with review(shell) as reviewer:
        reviewer.type("y")
        assert "n.ipynb:cell 1:" in reviewer.screen
        assert "e" not in reviewer.keys
        reviewer.type("i", "3", "y")
    written = content(shell, "n.ipynb").decode()
    assert '"one(1, start=math.e)\\n"' in written
    assert '"# torchmigrate: ignore[RV401]\\n"' in written
    assert '"pick(3, way=3)"' in written
    assert "(2 changes taken, 1 ignored, 0 left)" in reviewer.screen
    assert shell("undo").code == 0
    assert content(shell, "n.ipynb").decode() == text


def test_no_journal_means_no_answer(shell: Shell) -> None:
    shell.state.write_bytes(b"in the way")
    with review(shell, "--no-cache") as reviewer:
        reviewer.type("y")
    assert "cannot keep a journal in" in reviewer.screen
    assert reviewer.code == 2
    assert content(shell) == taken()


def test_interrupted_before_the_first_question(shell: Shell) -> None:
    shell.write({"b.py": b"x = 1\n"})
    with review(shell) as reviewer:
        reviewer.child.send("\x03")
        reviewer._read()
    assert "Wrote nothing (3 left)." in reviewer.screen
    assert reviewer.code == 130


def test_a_choice_is_kept_by_question_and_shown_again(shell: Shell) -> None:
    shell.write({"a.py": text(b"pick(1)\n", b"choose(2)\n", b"look(3)\n"), "b.py": text(b"pick(1)\n")})
    with review(shell) as reviewer:
        while "a.py   file" not in reviewer.seen:
            reviewer.type("j")
        reviewer.type("3", "y")
        assert "choose(2)" in reviewer.screen
        reviewer.type("2", "y")
        number = int(reviewer.number.partition("/")[0])
        assert "+pick(1, way=3)" in reviewer.type(f"g {number - 2}")
        assert "(was: y)" in reviewer.screen
        reviewer.type("q")
    assert content(shell) == text(b"pick(1, way=3)\n", b"choose(2, way=2)\n", b"look(3)\n")
    assert content(shell, "b.py") == text(b"pick(1)\n")
    with Reviewer(shell, ("resume",)) as again:
        while again.code is None:
            assert "way=3" not in again.screen.replace("3  3", "")
            again.type("n")


def test_a_report_that_was_left_can_be_taken_up_again(shell: Shell) -> None:
    shell.write({"a.py": text(b"choose(1)\n", b"look(2)\n")})
    with review(shell) as reviewer:
        reviewer.type("n", "g 1")
        assert "Leave this to a person (was: n)" in reviewer.screen
        assert "y" not in reviewer.keys
        reviewer.type("1", "y", "n")
    assert content(shell) == text(b"choose(1, way=1)\n", b"look(2)\n")


def test_answers_of_an_earlier_sitting_can_be_looked_at_and_changed(shell: Shell) -> None:
    shell.write({"a.py": text(b"pick(1)\n", b"pick(2)\n")})
    with review(shell) as reviewer:
        reviewer.type("2", "y")
        reviewer.child.kill(signal.SIGKILL)
    with Reviewer(shell, ("resume",)) as again:
        assert again.number == "2/2"
        again.type("g 1")
        assert "+pick(1, way=2)" in again.screen
        assert "(was: y)" in again.screen
        again.type("y", "n")
    assert content(shell) == text(b"pick(1, way=2)\n", b"pick(2)\n")


def test_a_list_of_files_from_the_terminal_is_refused(shell: Shell) -> None:
    with Reviewer(shell, ("apply", *RULES, "--files-from", "-")) as reviewer:
        assert "--files-from - leaves nobody to ask" in reviewer.screen
    assert reviewer.code == 2
