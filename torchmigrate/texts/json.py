"""JSON with positions; comments and trailing commas are allowed, as editors allow them in launch files."""

from __future__ import annotations

import json
import re

from torchmigrate.source import SourceError
from torchmigrate.texts.tree import Node

_SPACE = re.compile(r"(?:[ \t\r\n]+|//[^\r\n]*|/\*.*?\*/)*", re.DOTALL)
_STRING = re.compile(r'"[^"\\\r\n]*(?:\\.[^"\\\r\n]*)*"')
_ATOM = re.compile(r"[-+.\w]+")
_BLANKS = frozenset(" \t\r\n/")
_DEPTH = 200


def parse(text: str) -> Node:
    """The value that a text holds. Raises SourceError TM001."""
    node = _value(text, _skip(text, 0), 0)
    at = _skip(text, node.end)
    if at != len(text):
        raise _error(text, at, "unexpected text after the value")
    return node


def _skip(text: str, at: int) -> int:
    if text[at : at + 1] not in _BLANKS:
        return at
    match = _SPACE.match(text, at)
    return match.end() if match else at


def _error(text: str, at: int, message: str) -> SourceError:
    line = text.count("\n", 0, at) + 1
    return SourceError("TM001", f"cannot parse: {message} (file not looked at)", line, at - text.rfind("\n", 0, at))


def _value(text: str, at: int, depth: int) -> Node:
    if depth > _DEPTH:
        raise _error(text, at, "nested too deeply")
    first = text[at : at + 1]
    if first == '"':
        return _string(text, at)
    if first == "{":
        return _object(text, at, depth)
    if first == "[":
        return _array(text, at, depth)
    match = _ATOM.match(text, at)
    if match is None:
        raise _error(text, at, "expected a value")
    return Node("scalar", at, match.end(), match[0], match.span())


def _string(text: str, at: int) -> Node:
    match = _STRING.match(text, at)
    if match is None:
        raise _error(text, at, "unterminated string")
    end = match.end()
    value = text[at + 1 : end - 1]
    if "\\" in value:
        try:
            value = json.loads(match[0], strict=False)
        except ValueError:
            raise _error(text, at, "invalid escape in a string") from None
    return Node("scalar", at, end, value, (at + 1, end - 1), '"')


def _object(text: str, at: int, depth: int) -> Node:
    node = Node("object", at, at)
    at = _skip(text, at + 1)
    while text[at : at + 1] != "}":
        if text[at : at + 1] != '"':
            raise _error(text, at, "expected a key or '}'")
        key = _string(text, at)
        at = _skip(text, key.end)
        if text[at : at + 1] != ":":
            raise _error(text, at, "expected ':'")
        value = _value(text, _skip(text, at + 1), depth + 1)
        node.members.append((key, value))
        at = _separator(text, value.end, "}")
    node.end = at + 1
    return node


def _array(text: str, at: int, depth: int) -> Node:
    node = Node("array", at, at)
    at = _skip(text, at + 1)
    while text[at : at + 1] != "]":
        value = _value(text, at, depth + 1)
        node.items.append(value)
        at = _separator(text, value.end, "]")
    node.end = at + 1
    return node


def _separator(text: str, at: int, closing: str) -> int:
    at = _skip(text, at)
    if text[at : at + 1] == ",":
        return _skip(text, at + 1)
    if text[at : at + 1] != closing:
        raise _error(text, at, f"expected ',' or '{closing}'")
    return at
