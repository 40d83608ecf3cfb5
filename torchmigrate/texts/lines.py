"""Formats whose lines each say one thing: ini files, `.env` files, makefiles, version files."""

from __future__ import annotations

import re
from collections.abc import Iterator

from torchmigrate.edits import ReplaceText
from torchmigrate.texts import shell
from torchmigrate.texts.tokens import Command, Copy, Entry, Role, Use

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n|\Z)")
_SECTION = re.compile(r"\[(?P<name>[^\]\r\n]+)\]")
_KEY = re.compile(r"(?P<key>[^\s=:#;\[][^=:\r\n]*?)[ \t]*[=:][ \t]*(?P<value>[^\r\n]*)")
_CONTINUED = re.compile(r"(?:[^\r\n\\]|\\\r\n|\\[\s\S]|\\\Z)+")
_MAKE_COMMENT = re.compile(r"(?<!\\)#")
_MAKE_SET = re.compile(
    r"(?P<lead>[ ]*(?:[\w./%$(){}-]+[ ]*:[ ]*)?(?:(?:export|override)[ ]+)*)"
    r"(?P<name>[A-Za-z_]\w*)[ \t]*(?:[:?+!]{0,3}=)[ \t]*(?P<value>[^\r\n#]*)"
)
_DOTENV_SET = re.compile(r"(?P<lead>[ \t]*(?:export[ \t]+)?)(?P<name>[A-Za-z_]\w*)[ \t]*=[ \t]*(?P<value>[^\r\n]*)")


def _lines(text: str) -> Iterator[tuple[int, int]]:
    for match in _LINE.finditer(text):
        if match.end() > match.start():
            yield match.span()


def _bare(value: str) -> str:
    value = value.strip()
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'" else value


def _set_line(text: str, line: tuple[int, int], name: tuple[int, int], value: str, copyable: bool = True) -> Use:
    """A setting that has its line for itself."""
    (low, high), (start, end) = line, name
    whole = text[low:high]
    after = text[end:high] if whole.endswith(("\n", "\r")) else text[end:high] + "\n"
    copy = Copy(low, text[low:start], after) if copyable else None
    shown = low + len(whole) - len(whole.lstrip()), low + len(whole.rstrip())
    return Use(text[start:end], Role.SET, start, end, shown, value, copy, (ReplaceText(low, high, ""),))


# -- ini -------------------------------------------------------------------------------------------------------


def ini_entries(text: str) -> Iterator[Entry]:
    """`key = value` under (section, key); further lines of a value are items of a list."""
    section, key, item = "", "", 0
    for low, high in _lines(text):
        line = text[low:high].rstrip("\r\n")
        body = line.strip()
        if not body or body[0] in "#;":
            continue
        start = low + line.index(body)
        if line[0] in " \t" and key:
            yield Entry((section, key), body, start, start + len(body), "", item, (ReplaceText(low, high, ""),))
            item += 1
        elif match := _SECTION.match(body):
            section, key = match["name"], ""
        elif match := _KEY.match(body):
            key, item = match["key"], 0
            if match["value"]:
                at = start + match.start("value")
                yield Entry((section, key), match["value"].strip(), at, at + len(match["value"].rstrip()))


def ini_uses(text: str, names: re.Pattern[str]) -> Iterator[Use]:
    """Keys and `NAME = value` lines within a value are settings, all else is a mention."""
    for low, high in _lines(text):
        body = text[low:high].strip()
        if body[:1] in "#;":
            continue
        start = low + text[low:high].index(body) if body else low
        for match in names.finditer(text, low, high):
            given = re.compile(r"(?:[ \t]*\w+[ \t]*=[ \t]*)??").match(text, start)
            value = re.compile(r"[ \t]*=[ \t]*([^\r\n]*)").match(text, match.end(), high)
            if match.start() == start and value is not None:
                yield _set_line(text, (low, high), match.span(), _bare(value[1]))
            elif (
                value is not None
                and given is not None
                and re.fullmatch(r"[\w-]+[ \t]*=[ \t]*", text[start : match.start()])
            ):
                copy = None
                yield Use(match[0], Role.SET, *match.span(), (match.start(), high), _bare(value[1]), copy)
            else:
                yield Use(match[0], Role.MENTION, *match.span(), match.span())


# -- .env ------------------------------------------------------------------------------------------------------


def dotenv_entries(text: str) -> Iterator[Entry]:
    """`NAME=value` under (NAME,)."""
    for low, high in _lines(text):
        if match := _DOTENV_SET.match(text, low, high):
            at, raw = match.start("value"), match["value"].rstrip()
            quoted = bool(raw) and _bare(raw) != raw
            yield Entry((match["name"],), _bare(raw), at + quoted, at + len(raw) - quoted, raw[0] if quoted else "")


def dotenv_uses(text: str, names: re.Pattern[str]) -> Iterator[Use]:
    """Lines `NAME=value` and `export NAME=value` are settings, `$NAME` is a read."""
    for low, high in _lines(text):
        if text[low:high].lstrip().startswith("#"):
            continue
        line = _DOTENV_SET.match(text, low, high)
        for match in names.finditer(text, low, high):
            if line is not None and match.span() == line.span("name"):
                yield _set_line(text, (low, high), match.span(), _bare(line["value"]))
            else:
                yield _other(text, match)


def _other(text: str, match: re.Match[str]) -> Use:
    read = text[: match.start()].endswith(("$", "${", "$("))
    return Use(match[0], Role.READ if read else Role.MENTION, *match.span(), match.span())


# -- makefiles -------------------------------------------------------------------------------------------------


def make_commands(text: str) -> Iterator[Command]:
    """The commands of the recipes."""
    for low, high in _lines(text):
        if text[low] == "\t":
            yield from shell.commands(text, _recipe_start(text, low, high), high)


def make_comments(text: str) -> Iterator[tuple[int, int]]:
    """Comments of lines with those that continue them; in recipes those that the shell sees."""
    for match in _CONTINUED.finditer(text):
        low, high = match.span()
        if text[low] == "\t":
            yield from shell.comments(text, _recipe_start(text, low, high), high)
        elif found := _MAKE_COMMENT.search(text, low, high):
            yield found.start(), high


def _recipe_start(text: str, low: int, high: int) -> int:
    match = re.compile(r"\t[ \t]*[@+-]*").match(text, low, high)
    return match.end() if match else low


def make_uses(text: str, names: re.Pattern[str]) -> Iterator[Use]:
    """Assignments to variables and what the recipes do; `$(NAME)` is a read."""
    for low, high in _lines(text):
        if text[low] == "\t":
            yield from shell.uses(text, _recipe_start(text, low, high), high, names)
            continue
        comment = text.find("#", low, high)
        stop = comment if comment >= 0 else high
        line = _MAKE_SET.match(text, low, stop)
        for match in names.finditer(text, low, stop):
            if line is not None and match.span() == line.span("name"):
                continued = text[low:high].rstrip().endswith("\\")
                use = _set_line(text, (low, high), match.span(), line["value"].strip(), not continued)
                yield use if not continued else Use(*_place(use), use.value)
            else:
                yield _other(text, match)


def _place(use: Use) -> tuple[str, Role, int, int, tuple[int, int]]:
    return use.name, use.role, use.start, use.end, use.extent


# -- version files ---------------------------------------------------------------------------------------------


def version_entries(text: str) -> Iterator[Entry]:
    """Each line of `.python-version`, as an item without a key."""
    for item, (low, high) in enumerate(_lines(text)):
        body = text[low:high].strip()
        if body and not body.startswith("#"):
            start = low + text[low:high].index(body)
            yield Entry(("python-version",), body, start, start + len(body), "", item, (ReplaceText(low, high, ""),))
