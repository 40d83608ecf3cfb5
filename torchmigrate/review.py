"""The state of a review: questions, answers, where the reviewer is. No input or output here.

A question is one change (with all its places) or several changes of the same lines, until they are split. Files come in
one by one while the run goes on; a file is complete when each of its questions has an answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from torchmigrate.drafts import Draft
from torchmigrate.model import Choice, Decision, FileResult, Finding, Hunk, Proposal, Verdict


@dataclass(frozen=True, slots=True)
class Given:
    """An answer to one question: what was decided, and what the reviewer wrote instead of the proposed code."""

    decision: Decision
    drafts: tuple[Draft, ...] = ()


@dataclass(frozen=True, slots=True)
class Question:
    """One thing to decide. `keys` are the decision keys that an answer counts for.

    `answers` are the proposals, one for each choice; empty for a report without choices. `parts` are the questions that
    this one falls into when it is split.
    """

    path: str
    keys: tuple[str, ...]
    findings: tuple[Finding, ...]
    answers: tuple[Proposal, ...] = ()
    parts: tuple[Question, ...] = ()

    @property
    def offers(self) -> bool:
        """Whether there is code to accept, so that `y` means something."""
        return bool(self.answers) and self.findings[0].after is not None

    @property
    def choices(self) -> tuple[Choice, ...]:
        """The right answers to choose from; none for changes that are shown together."""
        return self.findings[0].choices if len(self.keys) == 1 else ()

    @property
    def codes(self) -> frozenset[str]:
        """The codes of the rules that ask."""
        return frozenset(finding.code for finding in self.findings)

    def hunks(self, choice: int = 0) -> tuple[Hunk, ...]:
        """What an answer would change."""
        return next((answer.hunks for answer in self.answers if answer.choice == choice), ())


@dataclass(eq=False, slots=True)
class FileReview:
    """The questions and answers of one file. `digest` is that of the content they speak of."""

    path: str
    digest: str
    questions: list[Question]
    given: dict[str, Given] = field(default_factory=dict)

    def decided(self, question: Question) -> Given | None:
        """The answer to a question, or None."""
        return self.given.get(question.keys[0]) if all(key in self.given for key in question.keys) else None

    @property
    def complete(self) -> bool:
        """Whether nothing is left to ask."""
        return all(self.decided(question) is not None for question in self.questions)


@dataclass(slots=True)
class Step:
    """What an answer, or taking one back, led to: answers by file and key, keys without one, and the files of both."""

    answered: list[tuple[FileReview, str, Given]] = field(default_factory=list)
    withdrawn: list[tuple[FileReview, str]] = field(default_factory=list)

    @property
    def files(self) -> list[FileReview]:
        """The files with other answers than before, each once."""
        return list(dict.fromkeys([*(file for file, _, _ in self.answered), *(file for file, _ in self.withdrawn)]))


@dataclass(eq=False, slots=True)
class _Entry:
    """One thing to take back: the answers that it replaced, and the standing answers before it."""

    replaced: list[tuple[FileReview, str, Given | None]]
    standing: dict[str, _Standing]


@dataclass(frozen=True, slots=True)
class _Standing:
    """An answer for all that a rule still asks; `label` picks among choices. `entry` takes it back."""

    decision: Decision
    label: str
    entry: _Entry


def questions(result: FileResult) -> list[Question]:
    """The questions of one file, in order of position. Suppressed findings are not asked about."""
    by_key: dict[str, list[Finding]] = {}
    for finding in result.findings:
        if finding.suppressed is None:
            by_key.setdefault(finding.decision_key, []).append(finding)
    singles: dict[str, Question] = {}
    for key, found in by_key.items():
        answers = tuple(p for p in result.proposals if p.keys == (key,))
        singles[key] = Question(result.path, (key,), tuple(found), answers)
    asked: list[Question] = []
    together: set[str] = set()
    for proposal in result.proposals:
        parts = [singles[key] for key in proposal.keys if key in singles]
        plain = len(parts) == len(proposal.keys) > 1 and all(len(part.answers) == 1 for part in parts)
        if plain and not together & set(proposal.keys):
            together |= set(proposal.keys)
            findings = tuple(f for part in parts for f in part.findings)
            asked.append(Question(result.path, proposal.keys, findings, (proposal,), tuple(parts)))
    asked += [question for key, question in singles.items() if key not in together]
    return sorted(asked, key=_position)


def _position(question: Question) -> tuple[int, int, int, str]:
    first = min(question.findings, key=lambda f: (f.cell or 0, f.span.line, f.span.column))
    return first.cell or 0, first.span.line, first.span.column, question.keys[0]


class Review:
    """A review in progress."""

    def __init__(self) -> None:
        self.files: list[FileReview] = []
        self._standing: dict[str, _Standing] = {}
        self._file = 0
        self._index = 0
        self._history: list[_Entry] = []

    # -- what there is -----------------------------------------------------------------------------------------

    def add(self, result: FileResult, remembered: Mapping[str, Given] | None = None) -> Step:
        """Take up a file that has been looked at, with answers that are already known.

        Only what standing answers decide is in the step's answers.
        """
        file = FileReview(result.path, result.digest, questions(result))
        step = Step()
        if not file.questions:
            return step
        self.files.append(file)
        known = remembered or {}
        for question in list(file.questions):
            if question.parts and len({known.get(key) for key in question.keys}) > 1:
                self._split(file, question)
        for question in file.questions:
            for key in question.keys:
                if key in known:
                    file.given[key] = known[key]
        self._apply_standing(file, step)
        return step

    @property
    def total(self) -> int:
        """How many questions are known so far."""
        return sum(len(file.questions) for file in self.files)

    @property
    def number(self) -> int:
        """The 1-based number of the current question among all known ones."""
        return sum(len(file.questions) for file in self.files[: self._file]) + self._index + 1

    @property
    def current(self) -> tuple[FileReview, Question] | None:
        """The question at the cursor, decided or not."""
        if self._file < len(self.files) and self._index < len(self.files[self._file].questions):
            file = self.files[self._file]
            return file, file.questions[self._index]
        return None

    def undecided(self, *, after: bool = False, before: bool = False) -> int:
        """How many questions have no answer: all, or only those after or before the cursor."""
        here = (self._file, self._index)
        return sum(
            file.decided(question) is None
            for at, file, question in self._all()
            if not (after and at <= here) and not (before and at >= here)
        )

    def _all(self) -> Iterator[tuple[tuple[int, int], FileReview, Question]]:
        for number, file in enumerate(self.files):
            for index, question in enumerate(file.questions):
                yield (number, index), file, question

    # -- moving ------------------------------------------------------------------------------------------------

    def seek(self) -> bool:
        """Move on to the first question from the cursor on that has no answer; False when there is none."""
        here = (self._file, self._index)
        for at, file, question in self._all():
            if at >= here and file.decided(question) is None:
                self._file, self._index = at
                return True
        return False

    def rewind(self) -> bool:
        """Move to the first question of all that has no answer; False when there is none."""
        self._file = self._index = 0
        return self.seek()

    def step(self, direction: int) -> bool:
        """Move to the next (1) or previous (-1) question without an answer; False when there is none."""
        here = (self._file, self._index)
        places = [at for at, file, question in self._all() if file.decided(question) is None and at != here]
        places = [at for at in places if (at > here) == (direction > 0)]
        if not places:
            return False
        self._file, self._index = places[0] if direction > 0 else places[-1]
        return True

    def go(self, number: int) -> bool:
        """Move to a question by its number, decided or not; False when there is no such number."""
        for position, (at, _, _) in enumerate(self._all(), 1):
            if position == number:
                self._file, self._index = at
                return True
        return False

    def split(self) -> Step | None:
        """Split the current question into its changes; None when it is only one.

        What the reviewer wrote for all of them together is an answer to none of them.
        """
        current = self.current
        if current is None or not current[1].parts:
            return None
        file, question = current
        given = file.decided(question)
        self._split(file, question)
        step = Step()
        if given and given.drafts:
            for key in question.keys:
                file.given.pop(key)
                step.withdrawn.append((file, key))
        return step

    def _split(self, file: FileReview, question: Question) -> None:
        at = file.questions.index(question)
        file.questions[at : at + 1] = sorted(question.parts, key=_position)

    # -- answering ---------------------------------------------------------------------------------------------

    def answer(self, given: Given) -> Step:
        """Answer the current question."""
        assert self.current is not None
        self._begin()
        step = Step()
        self._give(step, self._history[-1], *self.current, given)
        return step

    def answer_file(self, given: Given) -> Step:
        """Answer the current question and all later undecided ones of its file; taking leaves reports to be asked."""
        assert self.current is not None
        file, _ = self.current
        takes = given.decision.verdict is Verdict.ACCEPT
        later = [q for q in file.questions[self._index + 1 :] if file.decided(q) is None and (q.offers or not takes)]
        plain = Given(Decision(given.decision.verdict))
        step = self.answer(given)
        for question in later:
            self._give(step, self._history[-1], file, question, plain)
        return step

    def answer_rule(self, given: Given) -> Step:
        """Answer the current question, and for its rules all that is or will be undecided after it."""
        assert self.current is not None
        _, question = self.current
        step = self.answer(given)
        standing = _Standing(given.decision, _label(question, given.decision.choice), self._history[-1])
        self._standing |= dict.fromkeys(question.codes, standing)
        for number, file in enumerate(self.files[self._file :]):
            self._apply_standing(file, step, after=-1 if number else self._index)
        return step

    def _begin(self) -> None:
        self._history.append(_Entry([], dict(self._standing)))

    def _give(self, step: Step, entry: _Entry, file: FileReview, question: Question, given: Given) -> None:
        for key in question.keys:
            entry.replaced.append((file, key, file.given.get(key)))
            file.given[key] = given
            step.answered.append((file, key, given))

    def _apply_standing(self, file: FileReview, step: Step, after: int = -1) -> None:
        """Answer what standing answers decide behind the question `after`; what they decide in part is split."""
        index = after + 1
        while index < len(file.questions):
            question = file.questions[index]
            found = [self._standing.get(code) for code in question.codes]
            if file.decided(question) is None and any(found):
                if question.parts and len({one and one.decision.verdict for one in found}) > 1:
                    self._split(file, question)
                    continue
                standing = found[0]
                decision = _fitting(question, standing) if standing else None
                if standing and decision:
                    self._give(step, standing.entry, file, question, Given(decision))
            index += 1

    def undo(self) -> Step | None:
        """Take the last answer back and go to its question; None when there is nothing to take back."""
        if not self._history:
            return None
        entry = self._history.pop()
        self._standing = entry.standing
        step = Step()
        for file, key, before in reversed(entry.replaced):
            if before is None:
                file.given.pop(key, None)
                step.withdrawn.append((file, key))
            else:
                file.given[key] = before
                step.answered.append((file, key, before))
        first, first_key, _ = entry.replaced[0]
        self._file = self.files.index(first)
        self._index = next(i for i, q in enumerate(first.questions) if first_key in q.keys)
        return step

    @property
    def can_undo(self) -> bool:
        """Whether an answer of this sitting can be taken back."""
        return bool(self._history)


def _label(question: Question, choice: int) -> str:
    choices = question.findings[0].choices
    return choices[choice].label if choice < len(choices) else ""


def _fitting(question: Question, standing: _Standing) -> Decision | None:
    """The standing answer for another question of the rule: the same choice by its label, not merely by its number."""
    if standing.decision.verdict is not Verdict.ACCEPT:
        return standing.decision
    if not question.answers:
        return None
    choices = question.findings[0].choices
    for index, choice in enumerate(choices):
        if choice.label == standing.label:
            return Decision(Verdict.ACCEPT, index)
    plain = question.offers and (not standing.label or not choices)
    return Decision(Verdict.ACCEPT) if plain and standing.decision.choice == 0 else None
