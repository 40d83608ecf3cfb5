"""TOML with positions. `tomllib` says what is TOML; this reader only finds where its keys and values stand."""

from __future__ import annotations

import re
import tomllib

from torchmigrate.source import SourceError
from torchmigrate.texts.tree import Node

_SPACE = re.compile(r"(?:[ \t\r\n]+|#[^\r\n]*)*")
_BLANK = re.compile(r"[ \t]*")
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_BASIC = re.compile(r'"[^"\\\r\n]*(?:\\.[^"\\\r\n]*)*"')
_LITERAL = re.compile(r"'[^'\r\n]*'")
_LONG_BASIC = re.compile(r'"""(?:[^\\]|\\.)*?"{3,5}', re.DOTALL)
_LONG_LITERAL = re.compile(r"'''.*?'{3,5}", re.DOTALL)
_ATOM = re.compile(r"[-+.:\w]+(?: \d[-+.:\w]*)?")


def parse(text: str) -> Node:
    """The document as one object; tables hold their keys, dotted keys make objects of their own.

    Raises SourceError TM001 for what is no TOML.
    """
    try:
        tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        place = re.search(r"\(at line (\d+), column (\d+)\)", str(error))
        line, column = (int(place[1]), int(place[2])) if place else (None, None)
        reason = re.sub(r" \(at .*\)$", "", str(error))
        raise SourceError("TM001", f"cannot parse: {reason} (file not looked at)", line, column) from None
    return _Reader(text).document()


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def document(self) -> Node:
        root = table = Node("object", 0, len(self.text), flow=False)
        while self._skip(_SPACE) < len(self.text):
            if self.text[self.at] == "[":
                double = self.text.startswith("[[", self.at)
                self.at += 1 + double
                table = self._table(root, self._keys())
                self.at += 1 + double
            else:
                self._member(table)
        return root

    def _skip(self, pattern: re.Pattern[str]) -> int:
        match = pattern.match(self.text, self.at)
        self.at = match.end() if match else self.at
        return self.at

    def _table(self, root: Node, keys: list[Node]) -> Node:
        for key in keys:
            child = Node("object", key.start, key.end, flow=False)
            root.members.append((key, child))
            root = child
        return root

    def _keys(self) -> list[Node]:
        keys: list[Node] = []
        while True:
            self._skip(_BLANK)
            start = self.at
            match = next(m for p in (_BARE, _BASIC, _LITERAL) if (m := p.match(self.text, start)))
            self.at = match.end()
            quote = match[0][0] if match[0][0] in "\"'" else ""
            inner = (start + bool(quote), self.at - bool(quote))
            keys.append(Node("scalar", start, self.at, self.text[slice(*inner)], inner, quote))
            self._skip(_BLANK)
            if self.text[self.at] != ".":
                return keys
            self.at += 1

    def _member(self, table: Node) -> None:
        keys = self._keys()
        self.at += 1
        self._skip(_BLANK)
        value = self._value()
        for key in keys[:-1]:
            child = Node("object", key.start, value.end, flow=table.flow)
            table.members.append((key, child))
            table = child
        table.members.append((keys[-1], value))

    def _value(self) -> Node:
        start, text = self.at, self.text
        if text[start] == "[":
            node = Node("array", start, start)
            self.at += 1
            while self._skip(_SPACE) >= 0 and text[self.at] != "]":
                node.items.append(self._value())
                self._separator()
        elif text[start] == "{":
            node = Node("object", start, start)
            self.at += 1
            while self._skip(_SPACE) >= 0 and text[self.at] != "}":
                self._member(node)
                self._separator()
        else:
            return self._scalar()
        self.at += 1
        node.end = self.at
        return node

    def _separator(self) -> None:
        if self.text[self._skip(_SPACE)] == ",":
            self.at += 1

    def _scalar(self) -> Node:
        start, text = self.at, self.text
        for pattern, width in ((_LONG_BASIC, 3), (_LONG_LITERAL, 3), (_BASIC, 1), (_LITERAL, 1)):
            if match := pattern.match(text, start):
                self.at = match.end()
                value = tomllib.loads(f"v = {match[0]}")["v"]
                return Node("scalar", start, self.at, value, (start + width, self.at - width), match[0][0])
        match = _ATOM.match(text, start)
        self.at = match.end() if match else start + 1
        return Node("scalar", start, self.at, text[start : self.at], (start, self.at))
