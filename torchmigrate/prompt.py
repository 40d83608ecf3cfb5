"""The reviewer's terminal: hunks, the prompt, the editor and the pager. Decides nothing.

Answers are lines, as in `git add -p`, so that scripts, dumb terminals and screen readers work; nothing is drawn over
and the screen is never taken away. Text of the reviewed files is shown with its control characters made visible.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from torchmigrate import highlight, write
from torchmigrate.model import Choice, Finding, Hunk

_TAB = 8
_WIDTH, _NARROWEST = 80, 20
_RED, _GREEN, _CYAN, _BOLD = "31", "32", "36", "1"
_DEFAULT_EDITOR = "vi"

HELP = {
    "y": "take this change",
    "n": "leave this change",
    "a": "take this and the rest of this file",
    "d": "leave this and the rest of this file",
    "A": "take this and all later changes of this rule",
    "D": "leave this and all later changes of this rule",
    "q": "stop; what was taken is written",
    "s": "split into the single changes",
    "e": "edit the new lines",
    "j": "go to the next undecided change",
    "k": "go to the previous undecided change",
    "u": "take the last answer back",
    "i": "write an ignore comment there instead",
    "w": "why: the rule's page",
    "p": "show the change again",
    "P": "show the change in a pager",
    "g": "go to a change: g and its number, such as g 3",
    "?": "this help",
}
"""What each key does, in the order in which the prompt lists them. Upper and lower case differ."""


@dataclass(frozen=True, slots=True)
class Card:
    """One question as it is shown: `hunks`, or for what has none the `source` around `place`."""

    place: str
    findings: tuple[Finding, ...]
    hunks: tuple[Hunk, ...]
    source: tuple[bytes, ...]
    choices: tuple[Choice, ...]
    selected: int | None
    number: int
    total: int
    growing: bool
    was: str
    python: bool


class Terminal:
    """Where a review is shown and answered: text goes to `out`, answers are lines of `keys`."""

    def __init__(self, keys: TextIO, out: TextIO, *, colour: bool) -> None:
        self._keys = keys
        self._out = out
        self._colour = colour

    # -- showing -----------------------------------------------------------------------------------------------

    def say(self, *lines: str) -> None:
        """Print lines."""
        for line in lines:
            self._out.write(line.encode("utf-8", "backslashreplace").decode() + "\n")
        self._out.flush()

    def file(self, path: str, note: str) -> None:
        """Head what follows with a file's name."""
        self.say("", f"{self._paint(visible(path), _BOLD)}   {note}")

    def card(self, card: Card) -> None:
        """Show a question: its hunks, its rules, its choices."""
        self.say("", *self._card(card))

    def _card(self, card: Card) -> list[str]:
        lines: list[str] = []
        if card.hunks:
            for hunk in card.hunks:
                lines += self._hunk(hunk, card.python)
        else:
            lines.append(self._paint(visible(card.place), _CYAN))
            lines += (self._line(b" " + line, card.python) for line in card.source)
        lines.append("")
        told: set[tuple[str, str]] = set()
        for finding in card.findings:
            if (finding.code, finding.message) not in told:
                told.add((finding.code, finding.message))
                head = f"{finding.code} {finding.name}, {finding.safety.value}: "
                lines += self._wrapped(visible(head + finding.message), "  ")
        for number, choice in enumerate(card.choices, 1):
            mark = ">" if card.selected == number - 1 else " "
            why = f" ({choice.evidence})" if choice.evidence else ""
            lines += self._wrapped(visible(f"{mark} {number}  {choice.label}{why}"), "     ")
        return lines

    def _wrapped(self, text: str, indent: str) -> list[str]:
        try:
            width = os.get_terminal_size(self._out.fileno()).columns
        except OSError:
            width = 0
        return wrapped(text, max(width or _WIDTH, _NARROWEST), indent)

    def _hunk(self, hunk: Hunk, python: bool) -> list[str]:
        head = hunk.header().decode().rstrip("\n")
        return [self._paint(head, _CYAN), *(self._line(line, python) for line in hunk.lines)]

    def _line(self, line: bytes, python: bool) -> str:
        """A line of a hunk; tabs become blanks so that the sign in front moves no column."""
        sign = line[:1].decode()
        end = "" if line.endswith(b"\n") else "  (no newline at the end of the file)"
        text = line[1:].decode("utf-8", "backslashreplace").rstrip("\n")
        text = visible(expanded(text.removesuffix("\r"))) + ("^M" if text.endswith("\r") else "")
        colour = {"-": _RED, "+": _GREEN}.get(sign, "")
        if not self._colour:
            return sign + text + end
        body = highlight.python(text, colour) if python else text
        return (f"\x1b[{colour}m{sign}{body}\x1b[0m" if colour else sign + body) + end

    def _paint(self, text: str, code: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self._colour else text

    def help(self, keys: Sequence[str], choices: int) -> None:
        """List the keys that mean something now."""
        if choices:
            self.say(f"{_numbers(choices)}  show that choice; y then takes it")
        for key in keys:
            self.say(*self._wrapped(f"{key}  {HELP[key]}", "   "))
        self.say(*self._wrapped("Upper and lower case differ. End of input is q.", ""))

    def ask(self, card: Card, keys: Sequence[str]) -> str | None:
        """Ask once; the line that was typed, without blanks around it. None at the end of input."""
        listed = [*([_numbers(len(card.choices))] if card.choices else []), *keys]
        more = "+" if card.growing else ""
        was = f" (was: {card.was})" if card.was else ""
        what = "Apply this change" if card.hunks else "Leave this to a person"
        question = f"({card.number}/{card.total}{more}) {what}{was} [{','.join(listed)}]?"
        self._out.write(self._paint(question, _BOLD) + " ")
        self._out.flush()
        try:
            line = self._keys.readline()
        except OSError:  # the terminal is gone
            return None
        if not line:
            self.say("")
            return None
        return line.strip()

    # -- other programs ----------------------------------------------------------------------------------------

    def page(self, lines: Iterable[str]) -> None:
        """Show text in the user's pager, or plainly where there is none."""
        text = "\n".join(lines) + "\n"
        pager = _words(os.environ.get("PAGER", "")) or ["less", "-R"]
        if shutil.which(pager[0]) is None:
            self.say(text.rstrip("\n"))
            return
        try:
            subprocess.run(pager, input=text.encode("utf-8", "backslashreplace"), check=False)
        except OSError as error:
            self.say(text.rstrip("\n"), f"cannot run {pager[0]}: {error.strerror or error}")

    def card_in_pager(self, card: Card) -> None:
        """Show a question in the pager."""
        self.page(self._card(card))

    def edit(self, text: str, suffix: str) -> str | None:
        """Have the user edit a text in $VISUAL or $EDITOR; None when the editor failed or nothing is left."""
        command = _words(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "") or [_DEFAULT_EDITOR]
        with tempfile.TemporaryDirectory(prefix="torchmigrate-") as folder:
            path = Path(folder) / f"new-lines{suffix}"
            try:
                write.create(path, text.encode("utf-8", "surrogateescape"))
                ended = subprocess.run([*command, str(path)], check=False).returncode
                new = path.read_bytes().decode("utf-8", "surrogateescape")
            except OSError as error:
                self.say(f"cannot run {command[0]}: {error.strerror or error}; set $VISUAL or $EDITOR")
                return None
        if ended != 0:
            self.say(f"{command[0]} ended with {ended}; nothing was taken from it")
            return None
        return new if new.strip() else None


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:  # a quotation mark that is not closed
        return command.split()


def _numbers(choices: int) -> str:
    return f"1-{choices}" if choices > 1 else "1"


def visible(text: str) -> str:
    """A text whose control characters cannot reach the terminal."""
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" if ord(c) < 256 else f"\\u{ord(c):04x}" for c in text)


def columns(text: str) -> int:
    """How many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in unicodedata.normalize("NFC", text)
    )


def expanded(text: str) -> str:
    """A text with blanks for tabs, which stand where they would in an editor."""
    first, *rest = text.split("\t")
    for piece in rest:
        first += " " * (_TAB - columns(first) % _TAB) + piece
    return first


def wrapped(text: str, width: int, indent: str) -> list[str]:
    """A text in lines of at most `width` columns, broken at blanks and, where there are none, anywhere."""
    lines: list[str] = []
    line, *words = text.split(" ")
    for word in words:
        if columns(f"{line} {word}") <= width:
            line = f"{line} {word}"
            continue
        lines.append(line.rstrip(" "))
        line = indent
        for character in word:
            if columns(line + character) > width:
                lines.append(line)
                line = indent
            line += character
    return [*lines, line]
