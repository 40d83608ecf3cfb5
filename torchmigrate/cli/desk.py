"""The question in front of the reviewer: which choice is shown, what was written instead, and the lines around it."""

from __future__ import annotations

import os
from collections.abc import Callable

from torchmigrate import diff, drafts
from torchmigrate.cli.filing import unreadable
from torchmigrate.drafts import Draft
from torchmigrate.model import Hunk, Verdict
from torchmigrate.prompt import Card, Terminal
from torchmigrate.review import FileReview, Question
from torchmigrate.source import SourceError, read_python

_CONTEXT = 3


class Desk:
    """What the reviewer picked and wrote, by question. `original` gives the content that a path had for a digest."""

    def __init__(self, original: Callable[[str, str], bytes]) -> None:
        self._read = original
        self._picked: dict[tuple[str, tuple[str, ...]], int] = {}
        self._written: dict[tuple[str, tuple[str, ...]], tuple[Draft, ...]] = {}
        self._known: tuple[str, str, bytes] = ("", "", b"")

    def pick(self, question: Question, choice: int) -> None:
        """Show a choice; what was written before is dropped."""
        self._picked[question.path, question.keys] = choice
        self._written[question.path, question.keys] = ()

    def choice(self, file: FileReview, question: Question) -> int | None:
        """The choice that is shown: the one picked, else the one answered, else the one proposed, if any is."""
        picked = self._picked.get((question.path, question.keys))
        if picked is not None:
            return picked
        given = file.decided(question)
        if given and given.decision.verdict is Verdict.ACCEPT and question.answers:
            return given.decision.choice
        return 0 if question.offers else None

    def drafts(self, file: FileReview, question: Question) -> tuple[Draft, ...]:
        """What the reviewer wrote, now or with an earlier answer."""
        given = file.decided(question)
        return self._written.get((question.path, question.keys), given.drafts if given else ())

    def hunks(self, file: FileReview, question: Question) -> tuple[Hunk, ...]:
        """What would be changed; empty where nothing is offered."""
        written = self.drafts(file, question)
        before = self._content(file) if written else b""
        if before:
            return tuple(diff.hunks(before, drafts.placed(before, written)))
        choice = self.choice(file, question)
        return () if choice is None else question.hunks(choice)

    def source(self, file: FileReview, question: Question) -> tuple[bytes, ...]:
        """The lines that a report speaks of; in a notebook what the finding holds, since lines there are of a cell."""
        first = question.findings[0]
        if first.cell is not None:
            return tuple(line.encode("utf-8", "surrogatepass") + b"\n" for line in first.before.splitlines())
        lines = diff.split_lines(self._content(file))
        low, high = _extent(question)
        return tuple(lines[max(low - 1 - _CONTEXT, 0) : high + _CONTEXT])

    def edit(self, terminal: Terminal, file: FileReview, question: Question, card: Card) -> str:
        """Let the reviewer write other lines; why nothing was taken from the editor, or an empty text."""
        before = self._content(file)
        if not before:
            return f"{file.path} has changed since it was looked at, so it cannot be edited here"
        pieces = drafts.pieces(card.hunks) if card.hunks else [drafts.piece(before, *_extent(question))]
        encoding = _encoding(file.path, before)
        asked = drafts.to_edit(pieces, encoding)
        new = terminal.edit(asked, os.path.splitext(file.path)[1])
        if new is None or new == asked:
            return "nothing was taken from the editor"
        try:
            made = drafts.edited(before, pieces, new, encoding)
        except UnicodeEncodeError as error:
            return f"{error.object[error.start]!r} cannot be written in {encoding}; nothing was taken from the editor"
        if made is None:
            return "the lines that start with '#% lines' must stay; nothing was taken from the editor"
        problem = unreadable(file.path, before, drafts.placed(before, made))
        if problem:
            return f"this cannot be read: {problem}; nothing was taken from the editor"
        self._written[question.path, question.keys] = made
        return ""

    def _content(self, file: FileReview) -> bytes:
        """The content that the questions of a file speak of; empty when it can no longer be had."""
        if self._known[:2] != (file.path, file.digest) or not self._known[2]:
            self._known = (file.path, file.digest, self._read(file.path, file.digest))
        return self._known[2]


def _extent(question: Question) -> tuple[int, int]:
    return min(f.span.line for f in question.findings), max(f.span.end_line for f in question.findings)


def _encoding(path: str, content: bytes) -> str:
    if not path.endswith((".py", ".pyi")):
        return "utf-8"
    try:
        return read_python(content).encoding
    except SourceError:
        return "utf-8"
