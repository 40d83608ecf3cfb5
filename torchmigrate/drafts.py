"""What a reviewer writes instead of proposed code: pieces of a file, brought together with the changes taken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from torchmigrate import diff
from torchmigrate.model import Hunk

_MARK = "#% lines "


@dataclass(frozen=True, slots=True)
class Draft:
    """Lines that the reviewer wrote in place of `count` lines of the file as it was read, from 0-based line `start`.

    `text` holds the bytes of the file as UTF-8 with surrogate escapes, whatever the file's encoding is.
    """

    start: int
    count: int
    text: str


class Overlap(Exception):
    """What the reviewer wrote covers lines that another accepted change has changed."""


def merge(base: bytes, ours: bytes, theirs: bytes) -> bytes:
    """`theirs` with what `ours` changes in `base`, line by line. Raises Overlap where both change the same lines."""
    changed = _blocks(base, theirs)
    merged = list(changed)
    for block in _blocks(base, ours):
        if block in changed:
            continue
        if any(_clash(block, other) for other in changed):
            raise Overlap(f"line {block.start + 1}")
        merged.append(block)
    return placed(base, merged)


def placed(before: bytes, drafts: Sequence[Draft]) -> bytes:
    """A file with drafts in the place of its lines."""
    lines = diff.split_lines(before)
    for draft in sorted(drafts, key=lambda one: (one.start, one.count > 0), reverse=True):
        lines[draft.start : draft.start + draft.count] = [draft.text.encode("utf-8", "surrogateescape")]
    return b"".join(lines)


def _blocks(before: bytes, after: bytes) -> list[Draft]:
    """What differs, as drafts."""
    return [
        Draft(
            hunk.old_start,
            hunk.old_count,
            b"".join(line[1:] for line in hunk.lines if line[:1] == b"+").decode("utf-8", "surrogateescape"),
        )
        for hunk in diff.hunks(before, after, context=0)
    ]


def _clash(one: Draft, other: Draft) -> bool:
    if one.count and other.count:
        return one.start < other.start + other.count and other.start < one.start + one.count
    point, block = (one, other) if not one.count else (other, one)
    return block.start < point.start < block.start + block.count


def pieces(hunks: Sequence[Hunk]) -> list[Draft]:
    """The lines that hunks change, without the context around them, with what they become."""
    found = []
    for hunk in hunks:
        lines = list(hunk.lines)
        lead = next(i for i, line in enumerate(lines) if line[:1] != b" ")
        trail = next(i for i, line in enumerate(reversed(lines)) if line[:1] != b" ")
        middle = lines[lead : len(lines) - trail]
        new = b"".join(line[1:] for line in middle if line[:1] != b"-")
        count = sum(line[:1] != b"+" for line in middle)
        found.append(Draft(hunk.old_start + lead, count, new.decode("utf-8", "surrogateescape")))
    return found


def piece(before: bytes, first: int, last: int) -> Draft:
    """The 1-based lines `first` to `last` as they are."""
    lines = diff.split_lines(before)[first - 1 : last]
    return Draft(first - 1, len(lines), b"".join(lines).decode("utf-8", "surrogateescape"))


def to_edit(asked: Sequence[Draft], encoding: str) -> str:
    """Pieces as one text for an editor, with LF; more than one are marked with their lines."""
    texts = [_recoded(one.text, encoding).replace("\r\n", "\n") for one in asked]
    if len(texts) == 1:
        return texts[0]
    return "".join(f"{_mark(one)}\n{_ended(text)}" for one, text in zip(asked, texts, strict=True))


def edited(before: bytes, asked: Sequence[Draft], text: str, encoding: str) -> tuple[Draft, ...] | None:
    """The pieces with the text that came back from an editor; None when it cannot be told which is which.

    Line ends are those of the file. Raises UnicodeEncodeError for what the file's encoding cannot hold.
    """
    texts = [text]
    if len(asked) > 1:
        sections = ("\n" + text).split("\n" + _MARK)
        heads = [section.partition("\n")[0] for section in sections[1:]]
        if sections[0].strip() or heads != [_mark(one)[len(_MARK) :] for one in asked]:
            return None
        texts = [section.partition("\n")[2] for section in sections[1:]]
    lines = diff.split_lines(before)
    found = []
    for one, new in zip(asked, texts, strict=True):
        at_end = one.start + one.count >= len(lines) and not before.endswith(b"\n")
        new = new.replace("\r\n", "\n")
        new = new.removesuffix("\n") if at_end and not one.text.endswith("\n") else _ended(new)
        near = lines[min(one.start, len(lines) - 1)] if lines else b""
        if near.endswith(b"\r\n"):
            new = new.replace("\n", "\r\n")
        found.append(replace(one, text=new.encode(encoding, "surrogateescape").decode("utf-8", "surrogateescape")))
    return tuple(found)


def _recoded(text: str, encoding: str) -> str:
    return text.encode("utf-8", "surrogateescape").decode(encoding, "surrogateescape")


def _ended(text: str) -> str:
    return text if not text or text.endswith("\n") else text + "\n"


def _mark(draft: Draft) -> str:
    last = draft.start + draft.count
    return f"{_MARK}{draft.start + 1} to {last}" if draft.count else f"{_MARK}after {draft.start}"
