"""The review: `apply` on a terminal, and `resume`. Shows questions while the run goes on, writes each complete file."""

from __future__ import annotations

import dataclasses
import json
import os
import queue
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from torchmigrate import diff, engine, git, journal, registry, review, runs, write
from torchmigrate.cli import terminal
from torchmigrate.cli.explain import page
from torchmigrate.cli.running import select
from torchmigrate.discover import kind_of
from torchmigrate.migration import Migration
from torchmigrate.model import (
    LOOK,
    Decision,
    FileError,
    FileResult,
    Outcome,
    Override,
    Policy,
    Project,
    Safety,
    Settings,
    UsageError,
    Verdict,
)
from torchmigrate.prompt import Card, Terminal
from torchmigrate.report import text
from torchmigrate.report.summary import DONE, FAILED, INTERRUPTED, PENDING
from torchmigrate.review import Draft, FileReview, Given, Question, Review, Step

_CONTEXT = 3
_LEAVE = Given(Decision(Verdict.DECLINE))
_MARK = "#% lines "


@dataclass(slots=True)
class _Written:
    """A file as the review left it."""

    before: bytes
    after: bytes


@dataclass(slots=True)
class _Tally:
    errors: list[FileError] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def plain(settings: Settings, *, yes_safe: bool, allow_dirty: bool) -> dict[str, Any]:
    """Settings as JSON, for the journal."""
    return dataclasses.asdict(settings) | {"yes_safe": yes_safe, "allow_dirty": allow_dirty}


def from_plain(values: Mapping[str, Any]) -> tuple[Settings, bool, bool]:
    """Settings from a journal, and the flags `yes_safe` and `allow_dirty`."""
    kept = dict(values)
    yes_safe, allow_dirty = bool(kept.pop("yes_safe", False)), bool(kept.pop("allow_dirty", False))
    names = {one.name for one in dataclasses.fields(Settings)}
    made: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in kept.items() if name in names}
    overrides = []
    for one in made.get("overrides", ()):
        fields: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in one.items()}
        overrides.append(Override(**fields))
    return Settings(**{**made, "overrides": tuple(overrides)}), yes_safe, allow_dirty


class Memories:
    """What an earlier part of the same review decided, asked for when a file comes up again."""

    def __init__(self, run: journal.Run | None) -> None:
        self._settled = {one.path: one for one in run.settled} if run else {}
        self._answers: dict[str, dict[str, journal.Answer]] = {}
        self._news: dict[str, set[str]] = {}
        for answer in run.answers if run else ():
            self._answers.setdefault(answer.path, {})[answer.key] = answer
        for replacement in run.replacements if run else ():
            self._news.setdefault(replacement.path, set()).add(replacement.new)

    def of(self, result: FileResult) -> dict[str, Given]:
        """The answers that still hold for a file: all while it is the same, else those that cannot be mixed up."""
        keys = {finding.decision_key for finding in result.findings}
        settled = self._settled.get(result.path)
        answers = self._answers.get(result.path, {})
        if settled is not None:
            if settled.digest == result.digest:
                return dict.fromkeys(keys, _LEAVE)
            return dict.fromkeys(_unmistakable(keys, settled.left), _LEAVE)
        if result.digest in self._news.get(os.path.realpath(result.path), ()):
            return dict.fromkeys(keys, _LEAVE)
        same = {key: answer for key, answer in answers.items() if answer.digest == result.digest}
        if same:
            return {key: _given(answer) for key, answer in same.items()}
        usable = _unmistakable(keys, answers)
        return {key: _given(answers[key]) for key in usable if answers[key].edited is None}


def _unmistakable(keys: set[str], known: Sequence[str] | Mapping[str, object]) -> set[str]:
    """The known keys that mean the same place: equal code stands as often in the file as it was known to."""

    def stem(key: str) -> str:
        return key.rpartition(":")[0]

    def count(stems: list[str], one: str) -> int:
        return stems.count(one)

    now, then = [stem(key) for key in keys], [stem(key) for key in known]
    return {key for key in known if key in keys and count(now, stem(key)) == count(then, stem(key))}


def _given(answer: journal.Answer) -> Given:
    drafts = tuple(Draft(**one) for one in json.loads(answer.edited)) if answer.edited else ()
    return Given(answer.decision, drafts)


class Session:
    """One sitting of a review."""

    def __init__(
        self, settings: Settings, shown: Terminal, *, yes_safe: bool, allow_dirty: bool, run: journal.Run | None = None
    ) -> None:
        self._settings = settings
        self._terminal = shown
        self._yes_safe = yes_safe
        self._allow_dirty = allow_dirty
        self._run = run
        self._journal: journal.Journal | None = journal.Journal.resume(run) if run else None
        self._memories = Memories(run)
        self._review = Review()
        self._migration = Migration(settings, select(settings), Policy(propose=True))
        self._feed: queue.SimpleQueue[FileResult | BaseException | None] = queue.SimpleQueue()
        self._fed = False
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="write")
        self._writes: list[Future[None]] = []
        self._written: dict[str, _Written] = {}
        self._taken: dict[str, int] = {}
        self._tally = _Tally()
        self._selected: dict[tuple[str, ...], int] = {}
        self._drafts: dict[tuple[str, ...], tuple[Draft, ...]] = {}
        self._heading = ""

    # -- the run behind it -------------------------------------------------------------------------------------

    def run(self) -> int:
        """Ask until nothing is left, the reviewer stops, or input ends; the exit code."""
        threading.Thread(target=self._scan, daemon=True).start()
        interrupted = False
        try:
            self._ask_all()
        except KeyboardInterrupt:
            interrupted = True
            self._terminal.say("")
        finally:
            self._writer.shutdown(wait=True)
            self._migration.close()
        self._collect()
        return self._close(interrupted)

    def _scan(self) -> None:
        try:
            for result in self._migration.run():
                self._feed.put(result)
        except BaseException as error:
            self._feed.put(error)
        self._feed.put(None)

    def _take_up(self, *, wait: bool) -> bool:
        """Take up files that the scan has found; False when there will be no more."""
        while not self._fed:
            try:
                found = self._feed.get(block=wait)
            except queue.Empty:
                return True
            if found is None:
                self._fed = True
                self._tally.errors += self._migration.errors
            elif isinstance(found, BaseException):
                raise found
            else:
                self._add(found)
                wait = False
        return False

    def _add(self, result: FileResult) -> None:
        for error in result.errors:
            self._terminal.say(text.error_line(error))
        self._tally.errors += result.errors
        known = self._memories.of(result)
        if self._yes_safe:
            for finding in result.findings:
                if finding.outcome is Outcome.REWRITE and finding.safety is Safety.SAFE:
                    known.setdefault(finding.decision_key, Given(Decision(Verdict.ACCEPT)))
        asked = any(f.suppressed is None for f in result.findings)
        if asked and self._settings.git and not self._allow_dirty and self._is_dirty(result.path):
            message = "has uncommitted edits, so it is not asked about; commit or stash them, or pass --allow-dirty"
            self._tally.errors.append(FileError(result.path, None, None, "TM007", message))
            self._terminal.say(text.error_line(self._tally.errors[-1]))
            return
        self._follow(self._review.add(result, known))

    def _is_dirty(self, path: str) -> bool:
        if self._run is not None and os.path.realpath(path) in self._run.files:
            return False
        try:
            return bool(git.uncommitted([path]))
        except git.GitError as error:
            raise UsageError(f"{error}\n       pass --no-git to write without asking git") from None

    # -- asking ------------------------------------------------------------------------------------------------

    def _ask_all(self) -> None:
        while True:
            self._take_up(wait=False)
            while not (self._review.seek() or self._review.rewind()):
                if not self._take_up(wait=True) and not (self._review.seek() or self._review.rewind()):
                    return
            if not self._ask():
                return

    def _ask(self) -> bool:
        """Show the current question and act on what is typed; False to stop."""
        current = self._review.current
        assert current is not None
        file, question = current
        if self._heading != file.path:
            self._heading = file.path
            files = len(self._review.files)
            number = self._review.files.index(file) + 1
            self._terminal.file(file.path, f"file {number} of {files}" + ("" if self._fed else " so far"))
        card = self._card(file, question)
        self._terminal.card(card)
        while True:
            keys = self._keys(file, question)
            typed = self._terminal.ask(card, keys)
            self._take_up(wait=False)
            if typed is None or typed == "q":
                return False
            if not typed:
                continue
            if typed.isdigit() and 0 < int(typed) <= len(card.choices):
                self._selected[question.keys] = int(typed) - 1
                self._drafts.pop(question.keys, None)
                card = self._card(file, question)
                self._terminal.card(card)
                continue
            key, _, rest = typed.partition(" ")
            if key[0] == "g" and "g" in keys and (key[1:] or rest).strip().isdigit():
                if self._review.go(int(key[1:] or rest)):
                    return self._revisit()
                self._terminal.say(f"there are {self._review.total} changes")
                continue
            if typed not in keys:
                self._terminal.say(f"{typed!r} means nothing here; ? lists the keys")
                continue
            moved = self._act(typed, file, question, card)
            if moved:
                return True
            card = self._card(file, question)

    def _revisit(self) -> bool:
        """Ask about the question at the cursor even when it has an answer."""
        return self._ask()

    def _keys(self, file: FileReview, question: Question) -> list[str]:
        choosing = question.keys in self._selected or question.keys in self._drafts
        takes = question.offers or choosing
        more = self._review.undecided(after=True) > 0
        valid = {
            "y": takes,
            "n": True,
            "a": question.offers,
            "d": True,
            "A": takes and question.keys not in self._drafts,
            "D": True,
            "q": True,
            "s": bool(question.parts),
            "e": True,
            "j": more,
            "k": self._review.undecided(before=True) > 0,
            "u": self._review.can_undo,
            "i": True,
            "w": True,
            "p": True,
            "P": True,
            "g": self._review.total > 1,
            "?": True,
        }
        return [key for key, holds in valid.items() if holds]

    def _act(self, key: str, file: FileReview, question: Question, card: Card) -> bool:
        """Act on one key; True when the cursor may have moved or an answer was given."""
        given = Given(
            Decision(Verdict.ACCEPT, self._selected.get(question.keys, 0)), self._drafts.get(question.keys, ())
        )
        review_ = self._review
        match key:
            case "y":
                self._follow(review_.answer(given))
            case "n":
                self._follow(review_.answer(_LEAVE))
            case "a":
                self._follow(review_.answer_file(given))
            case "d":
                self._follow(review_.answer_file(_LEAVE))
            case "A":
                self._follow(review_.answer_rule(given))
            case "D":
                self._follow(review_.answer_rule(_LEAVE))
            case "i":
                self._follow(review_.answer(Given(Decision(Verdict.SUPPRESS))))
            case "s":
                review_.split()
            case "j":
                review_.step(1)
            case "k":
                review_.step(-1)
            case "u":
                self._undo()
            case "e":
                self._edit(file, question, card)
                self._terminal.card(self._card(file, question))
                return False
            case "w":
                for code in sorted(question.codes):
                    self._terminal.say(*page(registry.load(self._settings.load).get(code)))
                return False
            case "p":
                self._terminal.card(card)
                return False
            case "P":
                self._terminal.card_in_pager(card)
                return False
            case "?":
                self._terminal.help(self._keys(file, question), len(card.choices))
                return False
        return True

    def _card(self, file: FileReview, question: Question) -> Card:
        findings = question.findings
        choices = findings[0].choices if len(question.keys) == 1 else ()
        selected = self._selected.get(question.keys, 0 if question.offers and choices else None)
        hunks = question.hunks(selected or 0) if question.offers or selected is not None else ()
        source: tuple[bytes, ...] = ()
        if question.keys in self._drafts:
            before = self._original(file)
            new = review.apply_drafts(before, before, self._drafts[question.keys])
            hunks = tuple(diff.hunks(before, new))
        elif not hunks:
            source = self._source(file, question)
        given = file.decided(question)
        return Card(
            place=file.path,
            findings=findings,
            hunks=hunks,
            source=source,
            choices=choices,
            selected=selected,
            number=self._review.number,
            total=self._review.total,
            growing=not self._fed,
            was=_shown(given),
            python=file.path.endswith((".py", ".pyi")),
        )

    def _original(self, file: FileReview) -> bytes:
        """The content that the questions of a file speak of."""
        written = self._written.get(file.path)
        return written.before if written else write.read(file.path)

    def _source(self, file: FileReview, question: Question) -> tuple[bytes, ...]:
        try:
            lines = diff.split_lines(self._original(file))
        except OSError:
            return ()
        first = min(f.span.line for f in question.findings)
        last = max(f.span.end_line for f in question.findings)
        return tuple(lines[max(first - 1 - _CONTEXT, 0) : last + _CONTEXT])

    # -- answers -----------------------------------------------------------------------------------------------

    def _follow(self, step: Step) -> None:
        """Keep the answers of a step, then have the files written that are complete."""
        if step.answered:
            digests = {file.path: file.digest for file in self._review.files}
            self._log().answers(
                journal.Answer(
                    path,
                    key,
                    given.decision,
                    json.dumps([dataclasses.asdict(draft) for draft in given.drafts]) if given.drafts else None,
                    digests.get(path, ""),
                )
                for path, key, given in step.answered
            )
        for file in step.completed:
            self._writes.append(self._writer.submit(self._write, file, dict(file.decisions), file.drafts))

    def _log(self) -> journal.Journal:
        if self._journal is None:
            journal.sweep()
            kept = plain(self._settings, yes_safe=self._yes_safe, allow_dirty=self._allow_dirty)
            self._journal = journal.Journal.start("review", os.curdir, settings=kept)
        return self._journal

    def _write(self, file: FileReview, decisions: dict[str, Decision], drafts: list[Draft]) -> None:
        """Write one complete file, in the writing thread, and note that nothing is left to decide in it."""
        log = self._log()
        takes = drafts or any(d.verdict is not Verdict.DECLINE for d in decisions.values())
        if not takes:
            log.settle(journal.Settled(file.path, file.digest, tuple(decisions)))
            return
        try:
            before = write.read(file.path)
        except OSError as error:
            self._tally.errors.append(FileError(file.path, None, None, "TM010", f"cannot read: {error.strerror}"))
            return
        if write.digest(before) != file.digest:
            message = "changed on disk while it was reviewed; left as it was, run again"
            self._tally.errors.append(FileError(file.path, None, None, "TM007", message))
            return
        result = self._migration.process_bytes(file.path, before, Policy(decisions=decisions))
        after = result.after or before
        accepted = len({f.decision_key for f in result.findings if f.key in result.accepted})
        try:
            after = review.apply_drafts(before, after, drafts)
        except review.Overlap as error:
            message = f"the edit of {error} overlaps with another change that was taken; that edit is left out"
            self._tally.errors.append(FileError(file.path, None, None, "TM007", message))
        else:
            accepted += len(drafts)
        self._tally.errors += [error for error in result.errors if error.code == "TM012"]
        if after == before:
            return
        problem = engine.unreadable(
            file.path, before, after, Project(), kind_of(os.path.basename(file.path)) or "python"
        )
        if problem:
            self._tally.errors.append(FileError(file.path, None, None, "TM012", f"not written: {problem}"))
            return
        for outcome in runs.replace_all(log, [runs.Edit(file.path, before, after)]):
            if outcome.error:
                self._tally.errors.append(outcome.error)
                return
            if outcome.note:
                self._tally.notes.append(outcome.note)
        self._written[file.path] = _Written(before, after)
        self._taken[file.path] = accepted
        left = self._migration.process_bytes(file.path, after, LOOK)
        keys = dict.fromkeys(f.decision_key for f in left.findings)
        log.settle(journal.Settled(file.path, write.digest(after), tuple(keys)))

    def _collect(self) -> None:
        """Wait for the writing thread; what went wrong there comes up here."""
        writes, self._writes = self._writes, []
        for one in writes:
            one.result()

    def _undo(self) -> None:
        self._collect()
        step = self._review.undo()
        for file in step.reopened if step else ():
            written = self._written.pop(file.path, None)
            self._taken.pop(file.path, None)
            if written is None:
                continue
            for outcome in runs.replace_all(self._log(), [runs.Edit(file.path, written.after, written.before)]):
                if outcome.error:
                    self._terminal.say(text.error_line(outcome.error))
        self._heading = ""

    def _edit(self, file: FileReview, question: Question, card: Card) -> None:
        """Let the reviewer write other lines; what cannot be read is shown and not taken."""
        before = self._original(file)
        if card.hunks:
            pieces = [draft for draft, _ in review.drafts_of(card.hunks)]
        else:
            lines = diff.split_lines(before)
            first = min(f.span.line for f in question.findings) - 1
            count = max(f.span.end_line for f in question.findings) - first
            old = b"".join(lines[first : first + count]).decode("utf-8", "surrogateescape")
            pieces = [Draft(first, count, old)]
        asked = pieces[0].text if len(pieces) == 1 else "".join(f"{_mark(p)}\n{p.text}" for p in pieces)
        new = self._terminal.edit(asked, os.path.splitext(file.path)[1])
        if new is None:
            self._terminal.say("nothing was taken from the editor")
            return
        drafts = _drafts(pieces, new)
        if drafts is None:
            self._terminal.say("the lines that start with '#% lines' must stay; nothing was taken from the editor")
            return
        after = review.apply_drafts(before, before, drafts)
        problem = engine.unreadable(
            file.path, before, after, Project(), kind_of(os.path.basename(file.path)) or "python"
        )
        if problem:
            self._terminal.say(f"this cannot be read: {problem}; nothing was taken from the editor")
            return
        self._drafts[question.keys] = drafts

    # -- the end -----------------------------------------------------------------------------------------------

    def _close(self, interrupted: bool) -> int:
        undecided = [f for f in self._review.files if not f.complete]
        left = sum(f.decided(q) is None for f in self._review.files for q in f.questions)
        declined = sum(
            given.decision.verdict is Verdict.DECLINE for f in self._review.files for given in f.given.values()
        )
        stopped = interrupted or bool(left) or not self._fed
        taken = sum(self._taken.values())
        files = len(self._written)
        lines = [*self._tally.notes]
        counts = f"{text.plural(taken, 'change')} taken, {declined + left} left"
        head = (
            f"Wrote {text.plural(files, 'file')} ({counts})." if files else f"Wrote nothing ({declined + left} left)."
        )
        run = self._journal.run if self._journal else None
        lines.append(head + (f" Undo with: torchmigrate undo {run}" if files else ""))
        if undecided or not self._fed:
            where = undecided[0].path if len(undecided) == 1 else text.plural(len(undecided), "file")
            said = f"{text.plural(left, 'change')} not decided in {where}." if left else "Not all files were looked at."
            lines.append(said + (f" Continue with: torchmigrate resume {run}" if run else ""))
        errors = [error for error in self._tally.errors if error.code in ("TM007", "TM010", "TM012")]
        self._terminal.say("", *lines, *(text.error_line(error) for error in errors))
        if self._journal:
            self._journal.close(finished=not stopped)
        if interrupted:
            return INTERRUPTED
        if any(error.code not in ("TM002", "TM007") for error in self._tally.errors):
            return FAILED
        return PENDING if stopped or declined or self._tally.errors else DONE


def _problem(path: str, before: bytes, after: bytes) -> str | None:
    """Why new content cannot be taken, or None."""
    return engine.unreadable(path, before, after, Project(), kind_of(os.path.basename(path)) or "python")


def _shown(given: Given | None) -> str:
    if given is None:
        return ""
    if given.drafts:
        return "e"
    return {Verdict.ACCEPT: "y", Verdict.DECLINE: "n", Verdict.SUPPRESS: "i"}[given.decision.verdict]


def _mark(draft: Draft) -> str:
    return f"{_MARK}{draft.start + 1} to {draft.start + draft.count}"


def _drafts(pieces: Sequence[Draft], new: str) -> tuple[Draft, ...] | None:
    """The pieces with the text that came back from the editor; None when it cannot be told which is which."""
    if len(pieces) == 1:
        return (dataclasses.replace(pieces[0], text=new),)
    sections = ("\n" + new).split("\n" + _MARK)
    if len(sections) != len(pieces) + 1 or sections[0].strip():
        return None
    texts = [section.partition("\n")[2] for section in sections[1:]]
    texts = [one if one.endswith("\n") or not one else one + "\n" for one in texts]
    return tuple(dataclasses.replace(piece, text=one) for piece, one in zip(pieces, texts, strict=True))


def refuse_without_terminal() -> None:
    """Raises UsageError where nobody can be asked."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError("not a terminal: add --yes to apply everything or --dry-run to look")


def start(settings: Settings, *, colour: str, yes_safe: bool, allow_dirty: bool) -> int:
    """Review all that the settings select; the exit code. Raises UsageError."""
    shown = Terminal(sys.stdin, sys.stderr, colour=terminal.wants_colour(colour, sys.stderr))
    return Session(settings, shown, yes_safe=yes_safe, allow_dirty=allow_dirty).run()


def go_on(run: journal.Run, *, colour: str) -> int:
    """Go on with a review that was stopped; the exit code. Raises UsageError."""
    os.chdir(run.root)
    settings, yes_safe, allow_dirty = from_plain(run.settings)
    shown = Terminal(sys.stdin, sys.stderr, colour=terminal.wants_colour(colour, sys.stderr))
    return Session(settings, shown, yes_safe=yes_safe, allow_dirty=allow_dirty, run=run).run()
