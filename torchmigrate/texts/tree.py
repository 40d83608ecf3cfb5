"""Nested data with positions: what JSON, YAML and TOML have in common, once it is parsed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from torchmigrate.edits import ReplaceText
from torchmigrate.texts import escapes, shell
from torchmigrate.texts.tokens import Command, Copy, Entry, Role, Use, Word

Removal = tuple[ReplaceText, ...]
_COMMENTED = re.compile(r"(?:^|\s)#(?!(?:SBATCH|PBS|BSUB)\b)")
_PAIR = re.compile(r"\w+=")
_LABELS = frozenset({"name", "description", "title", "summary", "help"})
"""Keys whose values are words for people."""
_ARGUMENTS = re.compile(r"(?:command|cmd|entrypoint|args|argv)$", re.IGNORECASE)
"""Keys of lists that are one command, a word an item."""
_NO_MEMBERS: list[tuple[Node, Node]] = []
_NO_ITEMS: list[Node] = []
"""Shared by all nodes that have no parts: files of data hold very many."""


class Node:
    """A value: `start` and `end` with its quotes, `inner` without. A collection is `flow` when its parts have commas
    between them, else each part has its own line. Objects have `members` (pairs of nodes), arrays `items`."""

    __slots__ = ("_extents", "end", "flow", "inner", "items", "kind", "members", "quote", "start", "value")

    def __init__(
        self,
        kind: Literal["object", "array", "scalar"],
        start: int,
        end: int,
        value: str = "",
        inner: tuple[int, int] = (0, 0),
        quote: str = "",
        flow: bool = True,
    ) -> None:
        self.kind, self.start, self.end = kind, start, end
        self.value, self.inner, self.quote, self.flow = value, inner, quote, flow
        self.members: list[tuple[Node, Node]] = [] if kind == "object" else _NO_MEMBERS
        self.items: list[Node] = [] if kind == "array" else _NO_ITEMS
        self._extents: list[tuple[int, int]] = []

    @property
    def extents(self) -> list[tuple[int, int]]:
        """Where each part of a collection lies: a key with its value, or an item."""
        if not self._extents:
            self._extents = [(item.start, item.end) for item in self.items]
            self._extents += [(key.start, max(value.end, key.end)) for key, value in self.members]
        return self._extents

    def get(self, key: str) -> Node | None:
        """The value under a key of an object."""
        return next((value for name, value in reversed(self.members) if name.value == key), None)


@dataclass(slots=True)
class _Visit:
    """A scalar on the way through a tree, with what is around it."""

    node: Node
    path: tuple[str, ...]
    item: int | None
    parent: Node | None
    role: Literal["key", "value", "item", "root"]
    index: int = 0
    above: tuple[Node, int] | None = None


def visits(roots: Sequence[Node]) -> list[_Visit]:
    """All scalars, keys too, in the order of the text; what several places share is visited once."""
    found: list[_Visit] = []
    seen: set[int] = set()
    pending = [_Visit(root, (), None, None, "root") for root in roots]
    while pending:
        at = pending.pop()
        node = at.node
        if id(node) in seen:
            continue
        seen.add(id(node))
        if node.kind == "scalar":
            found.append(at)
        above = (at.parent, at.index) if at.parent is not None else None
        for index, (key, value) in enumerate(node.members):
            path = (*at.path, key.value)
            pending.append(_Visit(key, path, None, node, "key", index, above))
            pending.append(_Visit(value, path, None, node, "value", index, above))
        for index, item in enumerate(node.items):
            pending.append(_Visit(item, at.path, index, node, "item", index, above))
    return sorted(found, key=lambda v: v.node.start)


def entries(text: str, roots: Sequence[Node]) -> Iterator[Entry]:
    """Every scalar that is no key."""
    for at in visits(roots):
        if at.role != "key":
            yield Entry(at.path, at.node.value, *at.node.inner, at.node.quote, at.item, _removal(text, at))


def commands(text: str, roots: Sequence[Node]) -> Iterator[Command]:
    """The commands in scalars that can be shell scripts, those of several words, and in lists of arguments."""
    for at in visits(roots):
        key = at.path[-1] if at.path else ""
        if at.role == "key" or (at.role == "value" and key in _LABELS):
            continue
        value = at.node.value.strip()
        if " " in value or "\n" in value:
            yield from _script(text, at.node)
        elif at.role == "item" and at.index == 0 and at.parent is not None and _ARGUMENTS.search(key):
            words = (Word(one.value, one.start, one.end) for one in at.parent.items if one.kind == "scalar")
            yield Command(tuple(words))


def _script(text: str, node: Node) -> Iterator[Command]:
    """The commands of a scalar; where it is written with escapes, the words are those of what it means."""
    low, high = node.inner
    raw = text[low:high]
    where = None if raw == node.value else escapes.places(raw, node.value, node.quote)
    if where is None:
        yield from shell.commands(text, low, high)
        return
    for command in shell.commands(node.value):
        yield Command(
            tuple(
                Word(word.text, low + where[word.start][0], low + where[word.end - 1][1], plain=False)
                for word in command.words
            )
        )


def uses(text: str, roots: Sequence[Node], names: re.Pattern[str]) -> Iterator[Use]:
    """The uses of the environment variables that `names` matches."""
    for at in visits(roots):
        low, high = at.node.inner
        for match in names.finditer(text, low, high):
            yield from _use(text, at, match, names)


def _use(text: str, at: _Visit, match: re.Match[str], names: re.Pattern[str]) -> Iterator[Use]:
    node, parent = at.node, at.parent
    low, high = node.inner
    name, start, end = match[0], match.start(), match.end()
    whole = (start, end) == (low, high)
    if whole and at.role == "key" and parent is not None:
        value = parent.members[at.index][1]
        extent = (node.start, max(value.end, node.end))
        simple = value.kind == "scalar"
        copy = _copy(text, parent, at.index, start, end) if simple else None
        yield Use(name, Role.SET, start, end, extent, value.value if simple else None, copy, _removal(text, at))
    elif whole and at.role == "value" and parent is not None and at.path[-1] == "name" and _value_beside(parent):
        given = parent.get("value")
        scalar = given is not None and given.kind == "scalar"
        holder = at.above
        copy = _copy(text, holder[0], holder[1], start, end) if holder and scalar else None
        removal = _part_removal(text, *holder) if holder and scalar else None
        extent = (parent.start, parent.end)
        yield Use(name, Role.SET, start, end, extent, given.value if given and scalar else None, copy, removal)
    elif start == low and text[end : end + 1] == "=" and at.role == "item" and parent is not None and _one_pair(node):
        copy = _copy(text, parent, at.index, start, end)
        value_text = node.value.partition("=")[2]
        yield Use(name, Role.SET, start, end, (node.start, node.end), value_text, copy, _removal(text, at))
    elif whole:
        yield Use(name, Role.MENTION, start, end, (node.start, node.end))
    elif not _COMMENTED.search(text[max(_line(text, start), low) : start]):
        inside = [use for use in shell.uses(text, low, high, names) if use.start == start]
        for use in inside or [Use(name, Role.MENTION, start, end, (start, end))]:
            yield use if "\\" not in text[low:high] or node.quote in ("|", "") else _without_copy(use)


def _without_copy(use: Use) -> Use:
    return Use(use.name, use.role, use.start, use.end, use.extent, use.value)


def _value_beside(parent: Node) -> bool:
    keys = {key.value for key, _ in parent.members}
    return bool(keys & {"value", "valueFrom"})


def _one_pair(node: Node) -> bool:
    """Whether a scalar is `NAME=value` and not a command that begins so."""
    value = node.value.partition("=")[2]
    return "\n" not in node.value and not (" " in value and _PAIR.match(node.value) and "'" not in value)


# -- parts of collections --------------------------------------------------------------------------------------


def _line(text: str, at: int) -> int:
    return max(text.rfind("\n", 0, at), text.rfind("\r", 0, at)) + 1


def _newline(text: str, at: int) -> str:
    end = text.find("\n", at)
    if end < 0:
        end = text.rfind("\n", 0, at)
    return "\r\n" if end > 0 and text[end - 1] == "\r" else "\n"


def _copy(text: str, holder: Node, index: int, start: int, end: int) -> Copy | None:
    """How to write a part of a collection a second time, before itself, with another name at text[start:end]."""
    extents = holder.extents
    low, high = extents[index]
    part = text[low:high]
    if "&" in part or part.endswith("\n"):
        return None
    if holder.flow:
        before = text[extents[index - 1][1] if index else holder.start + 1 : low]
        glue = "," + (before.lstrip(",") if "\n" in before and not before.strip(" \t\r\n,") else " ")
    else:
        prefix = text[_line(text, low) : low]
        if holder.kind == "array" and prefix.strip() != "-":
            return None
        if holder.kind == "object":
            if prefix.strip(" -\t"):
                return None
            prefix = " " * len(prefix) if prefix.strip() else prefix
        glue = _newline(text, high) + prefix
    return Copy(low, text[low:start], text[end:high] + glue)


def _removal(text: str, at: _Visit) -> Removal | None:
    return _part_removal(text, at.parent, at.index) if at.parent is not None else None


def _part_removal(text: str, holder: Node, index: int) -> Removal | None:
    """The splice that takes a part of a collection away; None where the collection would be left empty."""
    extents = holder.extents
    if len(extents) < 2:
        return None
    start, end = extents[index]
    if holder.flow:
        if index + 1 < len(extents):
            gap = text[end : extents[index + 1][0]]
            return (ReplaceText(start, extents[index + 1][0], ""),) if not gap.strip(" \t\r\n,") else None
        gap = text[extents[index - 1][1] : start]
        return (ReplaceText(extents[index - 1][1], end, ""),) if not gap.strip(" \t\r\n,") else None
    first = _line(text, start)
    prefix = text[first:start]
    if prefix.strip() != ("-" if holder.kind == "array" else ""):
        return None
    if text[end - 1 : end] == "\n":
        return (ReplaceText(first, end, ""),)
    last = text.find("\n", end)
    last = len(text) if last < 0 else last + 1
    rest = text[end:last].strip()
    return (ReplaceText(first, last, ""),) if not rest or rest.startswith("#") else None
