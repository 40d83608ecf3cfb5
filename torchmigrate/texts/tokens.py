"""What every format gives: scalars under keys, command lines, requirements, and uses of environment variables.

All offsets count characters of the file's text. Nothing here changes a text; uses carry the splices that would.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from torchmigrate.edits import Edit, ReplaceText


class Role(enum.StrEnum):
    """What happens to an environment variable at a place."""

    SET = "set"
    READ = "read"
    UNSET = "unset"
    MENTION = "mention"


@dataclass(frozen=True, slots=True)
class Copy:
    """How to write a setting a second time under another name: `before` + name + `after`, inserted at an offset."""

    at: int
    before: str
    after: str

    def edit(self, name: str) -> ReplaceText:
        """The insertion that gives another variable the same value."""
        return ReplaceText(self.at, self.at, f"{self.before}{name}{self.after}")


@dataclass(frozen=True, slots=True)
class Use:
    """One place that names an environment variable.

    `start` and `end` hold the bare name, `extent` what a finding shows. `value` is the value that is set, None where it
    cannot be told. `copy` and `removal` are None where the place does not allow that without more knowledge.
    """

    name: str
    role: Role
    start: int
    end: int
    extent: tuple[int, int]
    value: str | None = None
    copy: Copy | None = None
    removal: tuple[Edit, ...] | None = None

    def renamed(self, name: str) -> ReplaceText:
        """The replacement of the name alone."""
        return ReplaceText(self.start, self.end, name)


@dataclass(frozen=True, slots=True)
class Entry:
    """A scalar under a path of keys; items of lists have the path of their list.

    `start` and `end` hold the value without its quotes; `quote` is the quote in use or "". `raw` is the text as it
    stands there, `value` what it means. `item` is the index in the innermost list, None for a mapping's value.
    """

    path: tuple[str, ...]
    value: str
    start: int
    end: int
    quote: str = ""
    item: int | None = None
    removal: tuple[Edit, ...] | None = None

    @property
    def key(self) -> str:
        """The innermost key."""
        return self.path[-1] if self.path else ""


@dataclass(frozen=True, slots=True)
class Word:
    """One word of a command line: its meaning without quotes, and its extent with them."""

    text: str
    start: int
    end: int
    plain: bool = True


@dataclass(frozen=True, slots=True)
class Command:
    """One simple command. `alone` is the extent of the lines that hold nothing but it, None where it shares them."""

    words: tuple[Word, ...]
    alone: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Requirement:
    """A requirement on a package: its normal name, its version specifier ("" for any) and where the whole stands."""

    name: str
    specifier: str
    start: int
    end: int
