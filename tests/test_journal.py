"""Journals survive whatever kills a run, and undo gives every byte back or says why not."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchmigrate import journal, runs, write
from torchmigrate.model import Decision, Verdict


@pytest.fixture(autouse=True)
def state(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path_factory.mktemp("state")
    monkeypatch.setenv(journal.VARIABLE, str(folder))
    return folder


def edits(folder: Path, number: int) -> Iterator[runs.Edit]:
    for i in range(number):
        path = folder / f"f{i}.py"
        before, after = b"head\r\nold %d\ntail" % i, b"head\r\nnew %d is longer\ntail" % i
        path.write_bytes(before)
        yield runs.Edit(str(path), before, after)


def write_run(edits: list[runs.Edit], kind: str = "apply") -> journal.Run:
    log = journal.Journal.start(kind, ".")
    assert [w.error for w in runs.replace_all(log, edits)] == [None] * len(edits)
    log.close()
    return journal.load(log.run)


def undo(run: journal.Run, *, force: bool = False) -> list[runs.Undone]:
    plans = list(runs.plan_undo(run, force=force))
    log = journal.Journal.start("undo", run.root, undoes=run.id)
    assert all(w.error is None for w in runs.replace_all(log, [p.edit for p in plans if p.edit]))
    log.close()
    return plans


@given(st.binary(max_size=60), st.binary(max_size=60), st.booleans())
def test_a_replacement_gives_the_old_content_back(before: bytes, after: bytes, in_place: bool) -> None:
    to = write.Target("x", "/x", None if in_place else "/t", 0o644)
    record = journal.Replacement.of(to, before, after)
    assert record.before(after) == before
    assert (record.old, record.new) == (write.digest(before), write.digest(after))


def test_write_then_undo_restores_every_byte(tmp_path: Path) -> None:
    planned = list(edits(tmp_path, 100))
    Path(planned[3].path).chmod(0o640)
    run = write_run(planned)
    assert [Path(e.path).read_bytes() for e in planned] == [e.after for e in planned]
    assert run.finished
    assert run.written == frozenset(range(100))
    undo(run)
    assert [Path(e.path).read_bytes() for e in planned] == [e.before for e in planned]
    assert Path(planned[3].path).stat().st_mode & 0o777 == 0o640
    assert all(plan.edit is None and plan.refusal is None for plan in runs.plan_undo(run))


def test_undo_refuses_what_changed_and_restores_the_rest(tmp_path: Path) -> None:
    planned = list(edits(tmp_path, 3))
    run = write_run(planned)
    Path(planned[0].path).write_bytes(b"edited since")
    Path(planned[1].path).unlink()
    first, second, third = undo(run)
    assert (first.refusal, third.refusal) == ("has changed since", None)
    assert second.refusal is not None
    assert second.refusal.startswith("cannot be read")
    assert Path(planned[0].path).read_bytes() == b"edited since"
    assert Path(planned[2].path).read_bytes() == planned[2].before


def test_a_file_written_twice_in_one_run_goes_back_to_the_start(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(b"one")
    log = journal.Journal.start("review", ".")
    for before, after in ((b"one", b"two"), (b"two", b"three")):
        assert [w.error for w in runs.replace_all(log, [runs.Edit(str(path), before, after)])] == [None]
    log.close()
    undo(journal.load(log.run))
    assert path.read_bytes() == b"one"


def test_an_undo_can_be_undone(tmp_path: Path) -> None:
    planned = list(edits(tmp_path, 2))
    undo(write_run(planned))
    (last,) = [run for run in journal.runs() if run.kind == "undo"]
    undo(last)
    assert [Path(e.path).read_bytes() for e in planned] == [e.after for e in planned]


def test_one_file_that_fails_does_not_stop_the_others(tmp_path: Path) -> None:
    planned = list(edits(tmp_path, 3))
    Path(planned[0].path).unlink()
    Path(planned[1].path).write_bytes(b"somebody else")
    log = journal.Journal.start("apply", ".")
    outcomes = list(runs.replace_all(log, planned))
    assert [o.path for o in outcomes] == [e.path for e in planned]
    assert [o.error.code if o.error else None for o in outcomes] == ["TM010", "TM007", None]
    assert Path(planned[1].path).read_bytes() == b"somebody else"
    assert Path(planned[2].path).read_bytes() == planned[2].after


def test_stop_leaves_the_remaining_files(tmp_path: Path) -> None:
    planned = list(edits(tmp_path, 5))
    asked = iter([False, False, False, True, True, True])
    log = journal.Journal.start("apply", ".")
    done = list(runs.replace_all(log, planned, lambda: next(asked)))
    assert [d.path for d in done] == [e.path for e in planned[:2]]
    assert [Path(e.path).read_bytes() == e.after for e in planned] == [True, True, False, False, False]


def test_answers_come_back_in_order_and_a_torn_line_is_left_out(state: Path) -> None:
    log = journal.Journal.start("review", ".", settings={"select": ["TM1"]})
    answers = [
        journal.Answer("a.py", "TM101:f:1:1", Decision(Verdict.ACCEPT, 2)),
        journal.Answer("a.py", "TM101:f:1:2", Decision(Verdict.DECLINE)),
        journal.Answer("b\udcff.py", "TM401:g:1:1", Decision(Verdict.SUPPRESS), edited="x = 1\n"),
    ]
    log.answers(answers[:1])
    log.answers(answers[1:])
    log.close(finished=False)
    path = state / "runs" / f"{log.run}.jsonl"
    path.write_bytes(path.read_bytes() + b'{"answer": "TM1')
    run = journal.load(log.run)
    assert run.answers == tuple(answers)
    assert (run.kind, run.finished, run.settings) == ("review", False, {"select": ["TM1"]})
    again = journal.Journal.resume(run)
    again.answers(answers[:1])
    again.close()
    assert journal.load(log.run).answers == (*answers, answers[0])
    assert journal.load(log.run).finished


def test_a_run_that_is_going_on_cannot_be_resumed(tmp_path: Path) -> None:
    script = textwrap.dedent(
        """
        from torchmigrate import journal
        log = journal.Journal.start("review", ".")
        print(log.run, flush=True)
        input()
        """
    )
    process = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    run = journal.load(process.stdout.readline().strip())
    with pytest.raises(journal.JournalError, match="still going on"):
        journal.Journal.resume(run)
    process.communicate("\n")
    journal.Journal.resume(run).close()


@pytest.mark.parametrize("name", ["beef", "../x", ""])
def test_unknown_runs_are_named(name: str) -> None:
    with pytest.raises(journal.JournalError, match="torchmigrate runs"):
        journal.load(name)


def test_a_state_folder_that_cannot_be_used_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(journal.VARIABLE, str(tmp_path / "file"))
    with pytest.raises(journal.JournalError, match="set TORCHMIGRATE_STATE_DIR"):
        journal.Journal.start("apply", ".")


def test_killed_at_random_moments_every_file_is_old_or_new_and_undo_knows(tmp_path: Path, state: Path) -> None:
    """A run over 150 files is killed; nothing is torn, undo restores all, and no temporary file is left."""
    tree = tmp_path / "tree"
    tree.mkdir()
    planned = list(edits(tree, 150))
    script = textwrap.dedent(
        f"""
        from pathlib import Path
        from torchmigrate import journal, runs
        planned = [runs.Edit(e, Path(e).read_bytes(), Path(e).read_bytes().replace(b"old", b"new"))
                   for e in sorted(map(str, Path({str(tree)!r}).glob("f*.py")))]
        log = journal.Journal.start("apply", ".")
        print(log.run, flush=True)
        for done in runs.replace_all(log, planned):
            pass
        log.close()
        """
    )
    chance = random.Random(5)
    states = set()
    for _ in range(12):
        process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        run = process.stdout.readline().strip()
        watched = chance.choice(planned)
        while process.poll() is None and Path(watched.path).read_bytes() == watched.before:
            pass
        process.send_signal(signal.SIGKILL)
        process.communicate()
        now = [Path(e.path).read_bytes() for e in planned]
        for content, edit in zip(now, planned, strict=True):
            assert content in (edit.before, edit.before.replace(b"old", b"new"))
        states.add(sum(content != e.before for content, e in zip(now, planned, strict=True)))
        journal.sweep()
        assert sorted(os.listdir(tree)) == sorted(Path(e.path).name for e in planned)
        assert all(plan.refusal is None for plan in undo(journal.load(run)))
        assert [Path(e.path).read_bytes() for e in planned] == [e.before for e in planned]
    assert len(states) > 1


def test_a_file_torn_while_written_in_place_needs_force(tmp_path: Path) -> None:
    path, twin = tmp_path / "a.py", tmp_path / "twin.py"
    path.write_bytes(b"old content\n")
    os.link(path, twin)
    log = journal.Journal.start("apply", ".")
    log.intend([journal.Replacement.of(write.target(str(path)), b"old content\n", b"new content\n")])
    path.write_bytes(b"new cont")
    log.close(finished=False)
    run = journal.load(log.run)
    (plan,) = runs.plan_undo(run)
    assert plan.refusal is not None
    assert "--force" in plan.refusal
    undo(run, force=True)
    assert twin.read_bytes() == b"old content\n"


def test_runs_are_listed_newest_first(tmp_path: Path) -> None:
    first = write_run(list(edits(tmp_path, 1)))
    second = write_run([runs.Edit(str(tmp_path / "f0.py"), (tmp_path / "f0.py").read_bytes(), b"again")])
    assert [run.id for run in journal.runs()] == [second.id, first.id]


def test_the_state_folder_is_private(state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(journal.VARIABLE, str(tmp_path / "fresh"))
    journal.Journal.start("apply", ".").close()
    assert (tmp_path / "fresh" / "runs").stat().st_mode & 0o077 == 0


def test_answers_that_were_taken_back_are_gone_and_files_have_states() -> None:
    log = journal.Journal.start("review", ".")
    first, second = (journal.Answer("a.py", key, Decision(Verdict.ACCEPT), None, "old", "offer") for key in "xy")
    log.answers([first, second])
    log.withdraw([("a.py", "x", "old")])
    assert journal.load(log.run).answers == (second,)
    left = journal.Answer("a.py", "z", Decision(Verdict.DECLINE), None, "new", "other")
    log.turn("a.py", "new", [left])
    run = journal.load(log.run)
    assert run.answers == (second, left)
    assert run.states == {"a.py": "new"}
    log.withdraw([("a.py", "y", "old")])
    log.close(finished=False)
    run = journal.load(log.run)
    assert (run.answers, run.states, run.finished) == ((left,), {"a.py": "old"}, False)


def test_going_on_removes_the_temporary_file_of_a_killed_write(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(b"old\n")
    log = journal.Journal.start("review", ".")
    to = write.target(str(path))
    assert to.temporary is not None
    log.intend([journal.Replacement.of(to, b"old\n", b"new\n")])
    Path(to.temporary).write_bytes(b"ne")
    log.close(finished=False)
    journal.Journal.resume(journal.load(log.run)).close(finished=False)
    assert os.listdir(tmp_path) == ["a.py"]
