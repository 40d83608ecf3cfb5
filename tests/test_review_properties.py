"""Whatever is answered: a review writes what `apply` restricted to it writes, and undo gives the bytes back."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from torchmigrate import diff, engine, from_patch, journal, recall, runs, write
from torchmigrate.cli.filing import Filing
from torchmigrate.from_patch import Kept, Refused
from torchmigrate.model import Decision, FileResult, Policy, Project, Safety, Verdict
from torchmigrate.review import Given, Review
from torchmigrate_codemods.torch_2_15 import CODEMODS

ROOT = Path(__file__).resolve().parent.parent
FILES = sorted((ROOT / "fixtures" / "torch_2_15").glob("*/*/*.in.py")) + sorted((ROOT / "fixtures/demo").rglob("*.py"))
RULES = [rule() for rule in CODEMODS]
PROJECT = Project()
EVERY = Policy(frozenset({Safety.SAFE, Safety.UNSAFE}), propose=True)
TAKE, LEAVE, IGNORE = (Given(Decision(verdict)) for verdict in (Verdict.ACCEPT, Verdict.DECLINE, Verdict.SUPPRESS))


def look(data: bytes, policy: Policy) -> FileResult:
    triggered = [
        rule
        for rule in RULES
        if any(trigger in data for trigger in rule.triggers) and (rule.code == "TM101" or not rule.gathers)
    ]
    return engine.process("x.py", data, triggered, PROJECT, policy)


class InProcess:
    """Stands for a migration: looks at files right here."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def process_bytes(self, path: str, data: bytes, policy: Policy) -> FileResult:
        assert path == str(self.path)
        return look(data, policy)


@pytest.fixture(scope="module", autouse=True)
def state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    before = os.environ.get(journal.VARIABLE)
    os.environ[journal.VARIABLE] = str(tmp_path_factory.mktemp("state"))
    yield
    os.environ.pop(journal.VARIABLE)
    if before is not None:
        os.environ[journal.VARIABLE] = before


def written(data: bytes, review: Review, log: journal.Journal) -> bytes:
    """What the writing thread makes of a file with the answers of its review; the file is put back by undo."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.py"
        path.write_bytes(data)
        filing = Filing(InProcess(path), lambda: log)  # type: ignore[arg-type]
        for file in review.files:
            filing.bring(str(path), file.digest, file.given)
        filing.finish()
        log.close()
        content = path.read_bytes()
        for filed in filing.files.values():
            assert filed.is_changed == (content != data)
        for undone in runs.plan_undo(journal.load(log.run)):
            assert undone.refusal is None
            if undone.edit:
                path.write_bytes(undone.edit.after)
        assert path.read_bytes() == data
        return content


def blocks(before: bytes, after: bytes) -> set[tuple[int, tuple[bytes, ...]]]:
    return {(hunk.old_start, hunk.lines) for hunk in diff.hunks(before, after, 0)}


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(FILES), st.data())
def test_a_review_is_apply_restricted_to_its_answers(path: Path, data: st.DataObject) -> None:
    before = path.read_bytes()
    full = look(before, EVERY)
    review = Review()
    review.add(full)
    while review.seek() or review.rewind():
        current = review.current
        assert current is not None
        keys = (
            ["n", "i", "j", "d"] + (["y", "a", "A"] if current[1].offers else []) + (["s"] if current[1].parts else [])
        )
        match data.draw(st.sampled_from([*keys, "u"] if review.can_undo else keys)):
            case "y":
                review.answer(TAKE)
            case "n":
                review.answer(LEAVE)
            case "i":
                review.answer(IGNORE)
            case "a":
                review.answer_file(TAKE)
            case "A":
                review.answer_rule(TAKE)
            case "d":
                review.answer_file(LEAVE)
            case "s":
                review.split()
            case "j":
                review.step(1)
                review.answer(LEAVE)
            case "u":
                review.undo()
    given_ = review.files[0].given if review.files else {}
    restricted = look(before, Policy(decisions={key: one.decision for key, one in given_.items()}))
    after = before if restricted.after is None else restricted.after
    assert written(before, review, journal.Journal.start("review", ".")) == after


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(FILES), st.data())
def test_a_patch_with_some_changes_is_those_changes(path: Path, data: st.DataObject) -> None:
    before = path.read_bytes()
    full = look(before, EVERY)
    keys = list(dict.fromkeys(f.decision_key for f in full.findings if f.key in full.accepted))
    if not keys:
        return
    chosen = data.draw(st.sets(st.sampled_from(keys), min_size=1))
    verdicts = {key: Verdict.ACCEPT if key in chosen else Verdict.DECLINE for key in keys}
    some = look(before, Policy(decisions={key: Decision(verdict) for key, verdict in verdicts.items()}))
    if some.after is None:
        return
    (kept,) = from_patch.read(diff.patch("a b/\u00e9.py", before, some.after))
    assert kept.name == "a b/\u00e9.py"
    assert from_patch.wanted(before, kept) == some.after
    assert full.after is not None
    try:
        again = from_patch.choose(full, kept, lambda decisions: look(before, Policy(decisions=decisions)))
    except Refused:
        assert not blocks(before, some.after) <= blocks(before, full.after)
    else:
        assert again.after == some.after


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(FILES), st.data())
def test_what_was_decided_is_not_asked_again_and_what_was_not_is(path: Path, data: st.DataObject) -> None:
    """A review that is stopped after some answers, and gone on with: the rest is asked, nothing else."""
    before = path.read_bytes()
    first = look(before, EVERY)
    review = Review()
    review.add(first)
    if not review.files:
        return
    file = review.files[0]
    answers = {}
    for question in file.questions:
        answer = data.draw(st.sampled_from([None, TAKE, LEAVE] if question.offers else [None, LEAVE]))
        if answer is not None:
            answers.update(dict.fromkeys(question.keys, answer))
    made = look(before, Policy(decisions={key: one.decision for key, one in answers.items()}))
    after = before if made.after is None else made.after
    left = look(after, EVERY)
    digest = write.digest(after)
    fingerprints = recall.offers(first.findings)
    kept = [recall.answer("x.py", key, one, file.digest, fingerprints[key]) for key, one in answers.items()]
    if after != before:
        kept += recall.left(made, answers, left, digest)
    run = journal.Run("1", "review", ".", 0.0, answers=tuple(kept), states={"x.py": digest})
    known = recall.Memories(run).of(left)
    asked = {f.decision_key for f in left.findings if f.suppressed is None} - set(known)
    undecided = {key for question in file.questions for key in question.keys} - set(answers)
    assert len(asked) >= len(undecided)
    if len(left.findings) == len(first.findings) - sum(f.key in made.accepted for f in first.findings):
        assert len(asked) == len(undecided)
    declined = {key for key, one in known.items() if one.decision.verdict is Verdict.DECLINE}
    assert {recall.stem(key) for key in declined} <= {recall.stem(key) for key, one in answers.items() if one is LEAVE}


def test_a_hunk_tells_its_line() -> None:
    hunks = diff.hunks(b"a\n" * 30, b"b\n" + b"a\n" * 28 + b"b\n")
    kept = Kept("x", tuple(hunks), (4, 20))
    assert kept.line_of(0) == 4
    assert kept.line_of(29) == 20
