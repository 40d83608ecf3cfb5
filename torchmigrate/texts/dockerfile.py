"""Dockerfiles: instructions, the images they start from, and the variables they set."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from torchmigrate.edits import ReplaceText
from torchmigrate.texts import shell
from torchmigrate.texts.tokens import Command, Copy, Entry, Role, Use, Word

_INSTRUCTION = re.compile(r"[ \t]*(?P<name>[A-Za-z]+)[ \t]+")
SHELL = frozenset({"RUN", "CMD", "ENTRYPOINT", "SHELL", "HEALTHCHECK", "ONBUILD"})
"""Instructions that run commands."""
_HEREDOC = re.compile(r"""<<-?['"]?(\w+)['"]?""")
_STRING = re.compile(r'"(?:[^"\\\r\n]|\\.)*"')
_GAP = r"(?:\s|\\\r?\n|#[^\r\n]*\r?\n)*"
_STRINGS = rf"{_STRING.pattern}(?:{_GAP},{_GAP}{_STRING.pattern})*"
_LISTED = re.compile(rf"(?:(?:--[\w-]+(?:=\S+)?|[A-Z]+)(?=\s){_GAP})*\[{_GAP}(?P<words>{_STRINGS}){_GAP}\]{_GAP}")


@dataclass(frozen=True, slots=True)
class Instruction:
    """An instruction: its name in capitals, where its first line begins, and where its arguments lie."""

    name: str
    line: int
    start: int
    end: int


def instructions(text: str) -> Iterator[Instruction]:
    """The instructions in order, with their continuation lines, comments between those, and here-documents."""
    at = 0
    while at < len(text):
        match = _INSTRUCTION.match(text, at)
        end = _line_end(text, at)
        if match is None or text[at:end].lstrip().startswith("#"):
            at = end
            continue
        start = end
        while text[at:start].rstrip("\r\n").endswith("\\") or _is_comment(text, at, start, end):
            if start >= len(text):
                break
            at, start = start, _line_end(text, start)
        for tag in _HEREDOC.findall(text[match.end() : start]) if match["name"].upper() in ("RUN", "COPY") else ():
            closing = re.compile(rf"^[ \t]*{tag}[ \t]*\r?$", re.MULTILINE).search(text, start)
            start = _line_end(text, closing.start()) if closing else start
        yield Instruction(match["name"].upper(), match.start(), match.end(), start)
        at = start


def _line_end(text: str, at: int) -> int:
    found = text.find("\n", at)
    return len(text) if found < 0 else found + 1


def _is_comment(text: str, at: int, end: int, first_end: int) -> bool:
    """Whether a line inside an instruction is a comment, which continues it."""
    return at >= first_end and text[at:end].lstrip().startswith("#")


def _words(text: str, one: Instruction) -> list[Word]:
    return [word for command in shell.commands(text, one.start, one.end) for word in command.words]


def _listed(text: str, one: Instruction) -> Command | None:
    """The command of an instruction that gives its words as a list in JSON."""
    found = _LISTED.fullmatch(text, one.start, one.end)
    if found is None:
        return None
    strings = _STRING.finditer(text, *found.span("words"))
    try:
        return Command(tuple(Word(str(json.loads(match[0])), *match.span()) for match in strings))
    except ValueError:
        return None


def commands(text: str) -> Iterator[Command]:
    """The commands of RUN, CMD and ENTRYPOINT."""
    for one in instructions(text):
        if one.name in SHELL:
            if (listed := _listed(text, one)) is not None:
                yield listed
                continue
            for command in shell.commands(text, one.start, one.end):
                yield Command(command.words)


def entries(text: str) -> Iterator[Entry]:
    """Images under (FROM,), values of ENV and ARG under (ENV, name) and (ARG, name)."""
    for one in instructions(text):
        words = _words(text, one)
        if one.name == "FROM":
            image = next((word for word in words if not word.text.startswith("--")), None)
            if image is not None:
                yield Entry(("FROM",), image.text, image.start, image.end)
        elif one.name in ("ENV", "ARG") and words:
            if "=" not in words[0].text and one.name == "ENV" and len(words) == 2:
                yield Entry(("ENV", words[0].text), words[1].text, words[1].start, words[1].end)
            for word in words:
                name, separator, value = word.text.partition("=")
                raw = text[word.start : word.end]
                at = raw.find(value, len(name) + 1) if separator and value else -1
                if at >= 0:
                    start = word.start + at
                    yield Entry((one.name, name), value, start, start + len(value))


def uses(text: str, names: re.Pattern[str]) -> Iterator[Use]:
    """Variables of ENV and ARG, and what the commands do."""
    for one in instructions(text):
        if names.search(text, one.start, one.end) is None:
            continue
        if one.name in ("ENV", "ARG"):
            yield from _settings(text, one, names)
        else:
            yield from shell.uses(text, one.start, one.end, names, lines=False)


def _settings(text: str, one: Instruction, names: re.Pattern[str]) -> Iterator[Use]:
    words = _words(text, one)
    old_form = one.name == "ENV" and bool(words) and "=" not in words[0].text
    for index, word in enumerate(words):
        for match in names.finditer(text, word.start, word.end):
            start, end = match.span()
            after = text[end : word.end]
            if text[word.start : start].endswith(("$", "${")):
                yield Use(match[0], Role.READ, start, end, (word.start, word.end))
            elif old_form and index == 0:
                value = text[words[1].start : words[-1].end] if len(words) > 1 else ""
                yield _line(text, one, start, end, value)
            elif start == word.start and after[:1] == "=":
                value = word.text.partition("=")[2]
                if len(words) == 1:
                    yield _line(text, one, start, end, value)
                    continue
                low, high = word.start, word.end
                if index + 1 < len(words):
                    removal = ReplaceText(low, words[index + 1].start, "")
                else:
                    removal = ReplaceText(words[index - 1].end, high, "")
                removals = None if "#" in text[removal.start : removal.end] else (removal,)
                yield Use(match[0], Role.SET, start, end, (low, high), value, Copy(low, "", after + " "), removals)
            else:
                yield Use(match[0], Role.MENTION, start, end, (word.start, word.end))


def _line(text: str, one: Instruction, start: int, end: int, value: str) -> Use:
    """A setting that has an instruction for itself."""
    whole = text[one.line : one.end]
    after = text[end : one.end] if whole.endswith("\n") else text[end : one.end] + "\n"
    shown = (one.line, one.line + len(whole.rstrip()))
    copy = Copy(one.line, text[one.line : start], after)
    return Use(text[start:end], Role.SET, start, end, shown, value, copy, (ReplaceText(one.line, one.end, ""),))
