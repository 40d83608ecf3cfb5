"""Shell scripts: commands with their words, and what they do with environment variables.

The reader knows words, quotes, comments, operators, continuation lines and here-documents; it expands nothing.
Directives of job schedulers (`#SBATCH --export=...`) are read as commands.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from torchmigrate.edits import ReplaceText
from torchmigrate.texts.tokens import Command, Copy, Role, Use, Word

_RESERVED = frozenset(
    {"then", "do", "else", "elif", "if", "while", "until", "!", "{", "time", "exec", "command", "sudo"}
)
_DECLARING = frozenset({"export", "declare", "typeset", "local", "readonly", "env"})
_VARIABLE_OPTIONS = frozenset({"-e", "--env", "-x", "--build-arg", "--setenv"})
_SHELLS = frozenset({"sh", "bash", "zsh", "dash", "ash", "ksh"})
_SCRIPT_OPTION = re.compile(r"-[a-z]*c")
_OPERATOR = re.compile(r"&&|\|\||;;|[;&|()]")
_DIRECTIVE = re.compile(r"#(?:SBATCH|PBS|BSUB|COBALT|\$|OAR)(?=[ \t])")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")
_HEREDOC = re.compile(r"""<<-?\s*(?P<quote>['"]?)(?P<tag>\w+)(?P=quote)""")
_ANSI_QUOTED = re.compile(r"\$'(?:[^'\\]|\\.)*'", re.DOTALL)
_OPENS_BLOCK = re.compile(r"(?:\bthen|\bdo|\belse|\{|\()[ \t]*(?:#[^\r\n]*)?\r?\n(?:[ \t]*(?:#[^\r\n]*)?\r?\n)*\Z")
_CLOSES_BLOCK = re.compile(r"(?:[ \t]*(?:#[^\r\n]*)?\r?\n)*[ \t]*(?:fi\b|done\b|\}|\)|else\b|elif\b|esac\b|;;|\Z)")


def commands(text: str, start: int = 0, end: int | None = None) -> Iterator[Command]:
    """The simple commands of text[start:end] in order, without their reserved words."""
    stop = len(text) if end is None else end
    at, words, first, heredocs = start, list[Word](), start, list[str]()
    while at < stop:
        char = text[at]
        if char in " \t\r":
            at += 1
        elif char == "\\" and text[at + 1 : at + 3].startswith(("\n", "\r\n")):
            at += 3 if text[at + 1] == "\r" else 2
        elif char == "#":
            directive = _DIRECTIVE.match(text, at, stop)
            line_end = _line_end(text, at, stop)
            if directive is not None:
                yield from commands(text, directive.end(), line_end)
            at = line_end
        elif char == "\n":
            yield from _finished(text, words, first, at, start, stop)
            at += 1
            for tag in heredocs:
                body_end, at_next = _heredoc_end(text, at, stop, tag)
                yield from commands(text, at, body_end)
                at = at_next
            words, first, heredocs = [], at, []
        elif operator := _OPERATOR.match(text, at, stop):
            yield from _finished(text, words, -1, at, start, stop)
            words, first, at = [], -1, operator.end()
        else:
            if opened := _HEREDOC.match(text, at, stop):
                heredocs.append(opened["tag"])
                word_end = opened.end()
            else:
                word_end = _word_end(text, at, stop)
            words.append(_word(text, at, word_end))
            at = word_end
    yield from _finished(text, words, first, at, start, stop)


def comments(text: str, start: int = 0, end: int | None = None) -> Iterator[tuple[int, int]]:
    """Where the comments of text[start:end] lie; those inside of a `$(...)` are taken for a part of its word."""
    stop = len(text) if end is None else end
    at, heredocs = start, list[str]()
    while at < stop:
        char = text[at]
        if char == "\\" and text[at + 1 : at + 3].startswith(("\n", "\r\n")):
            at += 3 if text[at + 1] == "\r" else 2
        elif char == "#":
            directive = _DIRECTIVE.match(text, at, stop)
            line_end = _line_end(text, at, stop)
            if directive is not None:
                yield from comments(text, directive.end(), line_end)
            else:
                yield at, line_end
            at = line_end
        elif char == "\n":
            at += 1
            for tag in heredocs:
                body_end, at_next = _heredoc_end(text, at, stop, tag)
                yield from comments(text, at, body_end)
                at = at_next
            heredocs = []
        elif opened := _HEREDOC.match(text, at, stop):
            heredocs.append(opened["tag"])
            at = opened.end()
        else:
            at = max(_word_end(text, at, stop), at + 1)


def _finished(text: str, words: list[Word], first: int, at: int, start: int, stop: int) -> Iterator[Command]:
    kept = list(words)
    while kept and kept[0].text in _RESERVED:
        kept.pop(0)
    if not kept:
        return
    alone = None
    if first >= 0 and len(kept) == len(words) and (at >= stop or text[at] == "\n"):
        line = max(text.rfind("\n", start, kept[0].start) + 1, start)
        if not text[line : kept[0].start].strip():
            alone = (line, min(at + 1, stop))
    yield Command(tuple(kept), alone)


def _line_end(text: str, at: int, stop: int) -> int:
    found = text.find("\n", at, stop)
    return stop if found < 0 else found


def _heredoc_end(text: str, at: int, stop: int, tag: str) -> tuple[int, int]:
    match = re.compile(rf"^[ \t]*{re.escape(tag)}[ \t]*\r?$", re.MULTILINE).search(text, at, stop)
    if match is None:
        return stop, stop
    return match.start(), min(match.end() + 1, stop)


def _word_end(text: str, at: int, stop: int) -> int:
    while at < stop:
        char = text[at]
        if char in " \t\r\n;&|()":
            return at
        if char == "\\":
            if text[at + 1 : at + 3].startswith(("\n", "\r\n")):
                return at
            at += 2
        elif char in "'\"`":
            at = _quoted_end(text, at, stop)
        elif char == "$" and text[at + 1 : at + 2] in ("(", "{"):
            at = _nested_end(text, at + 1, stop)
        elif escaped := _ANSI_QUOTED.match(text, at, stop):
            at = escaped.end()
        else:
            at += 1
    return min(at, stop)


def _quoted_end(text: str, at: int, stop: int) -> int:
    quote = text[at]
    at += 1
    while at < stop and text[at] != quote:
        if text[at] == "\\" and quote != "'":
            at += 1
        elif text[at] == "$" and quote == '"' and text[at + 1 : at + 2] in ("(", "{"):
            at = _nested_end(text, at + 1, stop) - 1
        at += 1
    return min(at + 1, stop)


def _nested_end(text: str, at: int, stop: int) -> int:
    opening = text[at]
    closing = {"(": ")", "{": "}"}[opening]
    depth = 0
    while at < stop:
        char = text[at]
        if char == "\\":
            at += 1
        elif char in "'\"`":
            at = _quoted_end(text, at, stop) - 1
        elif char == opening:
            depth += 1
        elif char == closing:
            depth -= 1
            if not depth:
                return at + 1
        at += 1
    return stop


def _word(text: str, start: int, end: int) -> Word:
    raw = text[start:end]
    if not re.search(r"[\\'\"`$]", raw):
        return Word(raw, start, end)
    plain = re.sub(
        r"""'([^']*)'|"((?:[^"\\]|\\.)*)"|\\(.)""", lambda m: m[1] or m[2] or m[3] or "", raw, flags=re.DOTALL
    )
    return Word(plain, start, end, not re.search(r"[`$]", raw))


def uses(text: str, start: int, end: int, names: re.Pattern[str], lines: bool = True) -> Iterator[Use]:
    """The uses of the environment variables that `names` matches in text[start:end].

    Without `lines` no command has a line for itself that could be taken away.
    """
    if names.search(text, start, end) is None:
        return
    for command in commands(text, start, end):
        if not lines:
            command = Command(command.words)
        for index, word in enumerate(command.words):
            for match in names.finditer(text, word.start, word.end):
                yield from _use(text, command, index, match, names)


def _use(text: str, command: Command, index: int, match: re.Match[str], names: re.Pattern[str]) -> Iterator[Use]:
    word, (start, end) = command.words[index], match.span()
    name, before, after = match[0], text[word.start : start], text[end : word.end]
    extent = (word.start, word.end)
    if before.endswith(("$", "${", "${!", "${#")):
        yield Use(name, Role.READ, start, end, extent)
    elif command.words[0].text == "unset":
        yield Use(name, Role.UNSET, start, end, extent)
    elif after.startswith("=") and not before:
        yield _assignment(text, command, index, start, end, name)
    elif after.startswith("=") and before.endswith(("=", ",")):
        yield _in_option(text, word, start, end, name)
    elif before[:1] in "'\"" and word.end - word.start == len(before + name + after) and after[-1:] == before[:1]:
        yield from _quoted(text, command, index, match, names)
    else:
        yield Use(name, Role.MENTION, start, end, extent)


def _quoted(text: str, command: Command, index: int, match: re.Match[str], names: re.Pattern[str]) -> Iterator[Use]:
    """A use in a quoted word: a pair (`-e "NAME=1"`), or a script (`bash -c "export NAME=1; ..."`)."""
    word, (start, end) = command.words[index], match.span()
    if start == word.start + 1 and text[end] == "=" and not re.search(r"\s(?!.*['\"]$)", text[end : word.end - 1]):
        yield _assignment(text, command, index, start, end, match[0])
        return
    inner = [use for use in uses(text, word.start + 1, word.end - 1, names) if use.start == start]
    yield from inner or [Use(match[0], Role.MENTION, start, end, (word.start, word.end))]


def _assignment(text: str, command: Command, index: int, start: int, end: int, name: str) -> Use:
    words, word = command.words, command.words[index]
    value = word.text.partition("=")[2]
    previous = words[index - 1].text if index else ""
    leading = all(_ASSIGNMENT.match(one.text) for one in words[:index])
    declared = words[0].text in _DECLARING or _after_env(words[:index])
    low = word.start
    if not leading and not declared:
        if previous not in _VARIABLE_OPTIONS:
            return Use(name, Role.MENTION, start, end, (word.start, word.end), value)
        low = words[index - 1].start
    raw = text[low : word.end]
    copyable = not re.search(r"\$\(|`", raw) and text[word.end : word.end + 1] != "("
    copy = Copy(low, text[low:start], text[end : word.end] + " ") if copyable else None
    removal = _removal(text, command, index, low, leading or declared) if copyable else None
    return Use(name, Role.SET, start, end, (low, word.end), value, copy, removal)


def _after_env(words: Sequence[Word]) -> bool:
    """Whether `env` comes before, with nothing but its options and other assignments after it."""
    for word in reversed(words):
        if word.text.rpartition("/")[2] == "env":
            return True
        if not (word.text.startswith("-") or _ASSIGNMENT.match(word.text)):
            return False
    return False


def _removal(text: str, command: Command, index: int, low: int, plain: bool) -> tuple[ReplaceText, ...] | None:
    """The splice that takes one assignment away: the word, or the line of a command that does nothing else."""
    words = command.words
    others = [one for i, one in enumerate(words) if i != index and words[i].start != low]
    if plain and (not others or (len(others) == 1 and others[0].text in _DECLARING - {"env"})):
        if command.alone is None:
            return None
        first, last = command.alone
        if _OPENS_BLOCK.search(text, max(first - 400, 0), first) and _CLOSES_BLOCK.match(text, last):
            return None
        return (ReplaceText(first, last, ""),)
    if index + 1 < len(words):
        return (ReplaceText(low, words[index + 1].start, ""),)
    before = next((one.end for one in reversed(words[:index]) if one.end <= low), None)
    return (ReplaceText(before, words[index].end, ""),) if before is not None else None


def _in_option(text: str, word: Word, start: int, end: int, name: str) -> Use:
    """`--env=NAME=value`, or one of the pairs of `--export=ALL,NAME=value`."""
    before, after = text[word.start : start], text[end : word.end]
    if "," not in before + after and re.fullmatch(r"--?[\w-]+=", before):
        copy = Copy(word.start, before, after + " ")
        return Use(name, Role.SET, start, end, (word.start, word.end), after[1:], copy)
    stop = end + len(re.match(r"[^,'\"]*", after)[0])  # type: ignore[index]
    copy = Copy(start, "", text[end:stop] + ",")
    comma = text[start - 1] == ","
    removal = (ReplaceText(start - 1, stop, ""),) if comma else None
    if not comma and text[stop : stop + 1] == ",":
        removal = (ReplaceText(start, stop + 1, ""),)
    return Use(name, Role.SET, start, end, (word.start, word.end), text[end + 1 : stop], copy, removal)


def inner(text: str, command: Command) -> Iterator[Command]:
    """The commands of the quoted script that a shell is given (`bash -c "..."`), unless it holds escapes."""
    words = command.words
    for index, word in enumerate(words[:-1]):
        if not _SCRIPT_OPTION.fullmatch(word.text) or not _has_shell(words[:index]):
            continue
        start, end = words[index + 1].start, words[index + 1].end
        raw = text[start:end]
        if raw[:1] in ("'", '"') and raw[-1:] == raw[:1] and not re.search(rf"[\\{raw[0]}]", raw[1:-1]):
            yield from (Command(one.words) for one in commands(text, start + 1, end - 1))


def _has_shell(words: Sequence[Word]) -> bool:
    return any(word.text.rpartition("/")[2] in _SHELLS for word in words)


def argument(words: Sequence[Word], *options: str) -> Word | None:
    """The word behind the first of some options on a command line."""
    for index, word in enumerate(words[:-1]):
        if word.text in options:
            return words[index + 1]
    return None
