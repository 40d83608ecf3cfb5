"""The review: `apply` on a terminal, and `resume`. Shows questions while the run goes on, writes each complete file."""

from __future__ import annotations

import os
import sys
import threading

from torchmigrate import journal, recall, registry
from torchmigrate.cli import terminal
from torchmigrate.cli.desk import Desk
from torchmigrate.cli.explain import page
from torchmigrate.cli.feed import Feed, Found
from torchmigrate.cli.filing import Filing
from torchmigrate.cli.interrupt import Interrupt
from torchmigrate.cli.running import select
from torchmigrate.migration import Migration
from torchmigrate.model import Decision, FileError, Outcome, Policy, Safety, Settings, UsageError, Verdict
from torchmigrate.prompt import Card, Terminal
from torchmigrate.report import text
from torchmigrate.report.summary import DONE, FAILED, INTERRUPTED, PENDING
from torchmigrate.review import FileReview, Given, Question, Review, Step

_ACCEPT = Given(Decision(Verdict.ACCEPT))
_LEAVE = Given(Decision(Verdict.DECLINE))
_SUPPRESS = Given(Decision(Verdict.SUPPRESS))
_NOTES = frozenset({"TM002", "TM007"})
"""Engine codes of what leaves something pending, but is no failure."""


class Sitting:
    """One sitting of a review."""

    def __init__(
        self, settings: Settings, shown: Terminal, *, yes_safe: bool, allow_dirty: bool, run: journal.Run | None = None
    ) -> None:
        self._settings = settings
        self._terminal = shown
        self._flags = {"yes_safe": yes_safe, "allow_dirty": allow_dirty}
        self._interrupt = Interrupt()
        self._journal: journal.Journal | None = journal.Journal.resume(run) if run else None
        self._starting = threading.Lock()
        self._memories = recall.Memories(run)
        self._review = Review()
        ours = frozenset(run.files) if run else frozenset()
        guarded = settings.git and not allow_dirty
        self._migration = Migration(settings, select(settings), Policy(propose=True))
        self._feed = Feed(self._migration, lambda path: guarded and os.path.realpath(path) not in ours)
        self._filing = Filing(self._migration, self._log)
        self._errors: list[FileError] = []
        self._offers: dict[tuple[str, str], str] = {}
        self._desk = Desk(self._filing.original)
        self._heading = ""
        self._is_told = False

    def run(self) -> int:
        """Ask until nothing is left, the reviewer stops, or input ends; the exit code. Raises UsageError."""
        interrupted = False
        failure: UsageError | None = None
        with self._interrupt:
            self._feed.start()
            try:
                self._ask_all()
                if self._flags["yes_safe"]:
                    self._take_up_all()
            except KeyboardInterrupt:
                interrupted = True
                self._terminal.say("")
            except UsageError as error:
                failure = error
            self._bring_rest()
            self._filing.finish()
            self._feed.stop()
            code = self._close(interrupted)
        if failure:
            raise failure
        return code

    # -- files that come up ------------------------------------------------------------------------------------

    def _take_up(self, *, wait: bool) -> bool:
        """Take up files that the run has found, waiting for the first one or not; False when there will be no more."""
        while not self._feed.is_over:
            if wait:
                with self._interrupt.waiting():
                    found = self._feed.next(wait=True)
            else:
                found = self._feed.next(wait=False)
            if found is not None:
                self._add(found)
                wait = False
            elif not self._feed.is_over:
                return True
        if not self._is_told:
            self._is_told = True
            self._tell(list(dict.fromkeys(self._migration.errors)))
        return False

    def _take_up_all(self) -> None:
        while self._take_up(wait=True):
            pass

    def _add(self, found: Found) -> None:
        result = found.result
        self._tell(result.errors)
        if found.is_dirty:
            message = "has uncommitted edits, so it is not asked about; commit or stash them, or pass --allow-dirty"
            self._tell([FileError(result.path, None, None, "TM007", message)])
            return
        known = self._memories.of(result)
        if self._flags["yes_safe"]:
            for finding in result.findings:
                if finding.outcome is Outcome.REWRITE and finding.safety is Safety.SAFE:
                    known.setdefault(finding.decision_key, _ACCEPT)
        for key, offer in recall.offers(result.findings).items():
            self._offers[result.path, key] = offer
        before = len(self._review.files)
        self._follow(self._review.add(result, known), *self._review.files[before:])

    def _tell(self, errors: list[FileError] | tuple[FileError, ...]) -> None:
        self._errors += errors
        self._terminal.say(*(text.error_line(error) for error in errors))

    # -- asking ------------------------------------------------------------------------------------------------

    def _ask_all(self) -> None:
        stays = False
        while True:
            self._take_up(wait=False)
            while not (stays or self._review.seek() or self._review.rewind()):
                if not self._take_up(wait=True) and not self._review.rewind():
                    return
            answer = self._ask()
            if answer is None:
                return
            stays = answer

    def _ask(self) -> bool | None:
        """Show the current question and act on what is typed until that leads on.

        None to stop; True to show the question at the cursor even if it has an answer.
        """
        current = self._review.current
        assert current is not None
        file, question = current
        if self._heading != file.path:
            self._heading = file.path
            number = self._review.files.index(file) + 1
            more = "" if self._feed.is_over else " so far"
            self._terminal.file(file.path, f"file {number} of {len(self._review.files)}{more}")
        self._terminal.card(self._card(file, question))
        while True:
            card = self._card(file, question)
            keys = self._keys(file, question)
            with self._interrupt.waiting():
                typed = self._terminal.ask(card, keys)
            self._take_up(wait=False)
            if typed is None or typed == "q":
                return None
            key, number_typed = typed[:1], typed[1:].strip()
            if key == "g" and "g" in keys and _is_number(number_typed):
                if self._review.go(int(number_typed)):
                    return True
                self._terminal.say(f"there are {text.plural(self._review.total, 'change')} so far")
            elif _is_number(typed) and 0 < int(typed) <= len(card.choices):
                self._desk.pick(question, int(typed) - 1)
                self._terminal.card(self._card(file, question))
            elif typed in keys:
                if self._inform(typed, file, question, card):
                    continue
                return self._act(typed, file, question)
            elif typed:
                self._terminal.say(f"{typed!r} means nothing here; ? lists the keys")

    def _keys(self, file: FileReview, question: Question) -> list[str]:
        is_draft = bool(self._desk.drafts(file, question))
        takes = is_draft or self._desk.choice(file, question) is not None
        in_cell = any(finding.cell is not None for finding in question.findings)
        valid = {
            "y": takes,
            "n": True,
            "a": takes,
            "d": True,
            "A": takes and not is_draft,
            "D": True,
            "q": True,
            "s": bool(question.parts),
            "e": takes or not in_cell,
            "j": self._review.undecided(after=True) > 0,
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

    def _inform(self, key: str, file: FileReview, question: Question, card: Card) -> bool:
        """Act on a key that leads to no other question; False for other keys."""
        match key:
            case "e":
                with self._interrupt.away():
                    said = self._desk.edit(self._terminal, file, question, card)
                if said:
                    self._terminal.say(said)
                else:
                    self._terminal.card(self._card(file, question))
            case "w":
                rules = registry.load(self._settings.load)
                for code in sorted(question.codes):
                    self._terminal.say("", *page(rules.get(code)))
            case "p":
                self._terminal.card(card)
            case "P":
                with self._interrupt.away():
                    self._terminal.card_in_pager(card)
            case "?":
                self._terminal.help(self._keys(file, question), len(card.choices))
            case "g":
                self._terminal.say(f"g and a number from 1 to {self._review.total}, such as g 1")
            case _:
                return False
        return True

    def _act(self, key: str, file: FileReview, question: Question) -> bool:
        """Answer or move; whether the question at the cursor is to be shown even if it has an answer."""
        choice = self._desk.choice(file, question) or 0
        take = Given(Decision(Verdict.ACCEPT, choice), self._desk.drafts(file, question))
        match key:
            case "y" | "n" | "i":
                self._follow(self._review.answer({"y": take, "n": _LEAVE, "i": _SUPPRESS}[key]))
            case "a" | "d":
                self._follow(self._review.answer_file(take if key == "a" else _LEAVE))
            case "A" | "D":
                self._follow(self._review.answer_rule(take if key == "A" else _LEAVE))
            case "j" | "k":
                self._review.step(1 if key == "j" else -1)
            case "s":
                self._follow(self._review.split() or Step())
                return True
            case "u":
                self._follow(self._review.undo() or Step())
                self._heading = ""
                return True
        return False

    def _card(self, file: FileReview, question: Question) -> Card:
        hunks = self._desk.hunks(file, question)
        return Card(
            place=text.place(question.findings[0]),
            findings=question.findings,
            hunks=hunks,
            source=() if hunks else self._desk.source(file, question),
            choices=question.choices,
            selected=self._desk.choice(file, question),
            number=self._review.number,
            total=self._review.total,
            growing=not self._feed.is_over,
            was=_shown(file.decided(question)),
            python=file.path.endswith((".py", ".pyi")),
        )

    # -- answers -----------------------------------------------------------------------------------------------

    def _follow(self, step: Step, *files: FileReview) -> None:
        """Keep the answers of a step, then have the files written that are complete."""
        if step.withdrawn:
            self._log().withdraw((file.path, key, file.digest) for file, key in step.withdrawn)
        if step.answered:
            self._log().answers(
                recall.answer(file.path, key, given, file.digest, self._offers[file.path, key])
                for file, key, given in step.answered
            )
        for file in dict.fromkeys((*files, *step.files)):
            self._filing.bring(file.path, file.digest, file.given if file.complete else {})

    def _bring_rest(self) -> None:
        """Have what was taken written in files that are not complete."""
        for file in self._review.files:
            if not file.complete:
                self._filing.bring(file.path, file.digest, file.given)

    def _log(self) -> journal.Journal:
        with self._starting:
            if self._journal is None:
                journal.sweep()
                kept = recall.plain(self._settings, **self._flags)
                self._journal = journal.Journal.start("review", os.curdir, settings=kept)
            return self._journal

    # -- the end -----------------------------------------------------------------------------------------------

    def _close(self, interrupted: bool) -> int:
        review = self._review
        written = [one for one in self._filing.files.values() if one.is_changed]
        taken, ignored = (
            (sum(len(keys) for keys in counts) for counts in zip(*((w.taken, w.ignored) for w in written), strict=True))
            if written
            else (0, 0)
        )
        left = sum(len(q.keys) for f in review.files for q in f.questions) - taken - ignored
        undecided = [f for f in review.files if not f.complete]
        open_ = review.undecided()
        problems = self._filing.problems
        stopped = bool(open_) or not self._feed.is_over or bool(problems)
        if self._journal:
            self._journal.close(finished=not stopped)
        run = self._journal.run if self._journal else None
        lines = [*self._filing.notes]
        if written:
            counts = [
                f"{text.plural(taken, 'change')} taken",
                *([f"{ignored} ignored"] if ignored else []),
                f"{left} left",
            ]
            lines.append(
                f"Wrote {text.plural(len(written), 'file')} ({', '.join(counts)}). Undo with: torchmigrate undo {run}"
            )
        else:
            nothing = "Nothing to ask about." if self._feed.is_over and not review.files else "Wrote nothing."
            lines.append(f"Wrote nothing ({left} left)." if left else nothing)
        go_on = f" Continue with: torchmigrate resume {run}" if run else ""
        if open_:
            where = undecided[0].path if len(undecided) == 1 else text.plural(len(undecided), "file")
            lines.append(f"{text.plural(open_, 'change')} not decided in {text.one_line(where)}.{go_on}")
        elif not self._feed.is_over:
            lines.append(f"Not all files were looked at.{go_on}")
        elif problems:
            lines.append(f"Not all that was taken could be written.{go_on}")
        self._terminal.say("", *(text.error_line(error) for error in problems), *lines)
        if interrupted:
            return INTERRUPTED
        if any(error.code not in _NOTES for error in (*self._errors, *problems)):
            return FAILED
        conflicts = any(error.code == "TM007" for error in self._errors)
        return PENDING if stopped or left or conflicts else DONE


def _is_number(typed: str) -> bool:
    return typed.isascii() and typed.isdigit()


def _shown(given: Given | None) -> str:
    if given is None:
        return ""
    if given.drafts:
        return "e"
    return {Verdict.ACCEPT: "y", Verdict.DECLINE: "n", Verdict.SUPPRESS: "i"}[given.decision.verdict]


def refuse_without_terminal() -> None:
    """Raises UsageError where nobody can be asked."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError("not a terminal: add --yes to apply everything or --dry-run to look")


def _on_terminal(colour: str) -> Terminal:
    if hasattr(sys.stdin, "reconfigure"):
        sys.stdin.reconfigure(errors="backslashreplace")
    return Terminal(sys.stdin, sys.stderr, colour=terminal.wants_colour(colour, sys.stderr))


def start(settings: Settings, *, colour: str, yes_safe: bool, allow_dirty: bool) -> int:
    """Review all that the settings select; the exit code. Raises UsageError."""
    if settings.files_from == "-":
        raise UsageError("--files-from - leaves nobody to ask: name a file, or add --yes or --dry-run")
    return Sitting(settings, _on_terminal(colour), yes_safe=yes_safe, allow_dirty=allow_dirty).run()


def go_on(run: journal.Run, *, colour: str) -> int:
    """Go on with a review that was stopped; the exit code. Raises UsageError."""
    try:
        os.chdir(run.root)
    except OSError as error:
        raise UsageError(f"cannot go on in {run.root}: {error.strerror or error}") from None
    settings, yes_safe, allow_dirty = recall.from_plain(run.settings)
    return Sitting(settings, _on_terminal(colour), yes_safe=yes_safe, allow_dirty=allow_dirty, run=run).run()
