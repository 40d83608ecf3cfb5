"""YAML with positions. Templates that are no YAML before they are filled in are read line by line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchmigrate.texts.tree import Node

if TYPE_CHECKING:
    import yaml

_TEMPLATE = re.compile(r"\{\{|\{%|<%|@@")
_LINE = re.compile(
    r"""^(?P<indent>[ ]*)(?P<dash>-[ ]+)?(?P<key>(?P<quote>["']?)[\w./$-]+(?P=quote))[ ]*:"""
    r"""(?:[ ]+(?P<value>[^\r\n]*?))?[ ]*\r?$""",
    re.MULTILINE,
)
_ITEM = re.compile(r"""^(?P<indent>[ ]*)-[ ]+(?P<value>[^\r\n]*?)[ ]*\r?$""", re.MULTILINE)
_QUOTED = re.compile(r"""'(?:[^']|'')*'|"(?:[^"\\]|\\.)*\"""")


class NotYaml(Exception):
    """A text that is no YAML, with the position of the fault (1-based)."""

    def __init__(self, message: str, line: int | None, column: int | None) -> None:
        super().__init__(message)
        self.message, self.line, self.column = message, line, column


def parse(text: str) -> list[Node]:
    """The documents of a text. Raises NotYaml, except for templates, which give what single lines say."""
    try:
        return documents(text)
    except NotYaml:
        if _TEMPLATE.search(text) is None:
            raise
        return list(_line_by_line(text))


def documents(text: str) -> list[Node]:
    """The documents of a text that is YAML as it stands. Raises NotYaml."""
    import yaml

    try:
        known: dict[int, Node] = {}
        return [_node(text, root, known) for root in yaml.compose_all(text, Loader=yaml.SafeLoader) if root]
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        message = error.problem or "not YAML"
        raise NotYaml(message, mark.line + 1 if mark else None, mark.column + 1 if mark else None) from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise NotYaml(" ".join(str(error).split()) or type(error).__name__, None, None) from None


def _node(text: str, found: yaml.Node, known: dict[int, Node]) -> Node:
    """Our form of a node; an alias gives the very node of its anchor."""
    if id(found) in known:
        return known[id(found)]
    start, end = found.start_mark.index, found.end_mark.index
    node = known[id(found)] = Node("scalar", start, end)
    if found.id == "scalar":
        node.value, node.quote = str(found.value), found.style or ""
        node.inner = (start, end)
        if node.quote in ("'", '"'):
            node.inner = (start + 1, end - 1)
        elif node.quote in ("|", ">"):
            node.inner = (min(text.find("\n", start) + 1 or end, end), end)
        return node
    node.flow = bool(found.flow_style)
    if found.id == "mapping":
        node.kind = "object"
        node.members = [(_node(text, k, known), _node(text, v, known)) for k, v in found.value]
        parts = [part for member in node.members for part in member]
    else:
        node.kind = "array"
        node.items = parts = [_node(text, item, known) for item in found.value]
    if not node.flow and parts:
        node.end = max((part.end for part in parts if part.end <= end), default=end)
    return node


def _line_by_line(text: str) -> Iterator[Node]:
    taken: set[int] = set()
    lines = list(_LINE.finditer(text))
    for index, line in enumerate(lines):
        if index in taken or line["value"] is None:
            continue
        node = Node("object", line.start("key"), line.end("value"), flow=False)
        node.members.append(_member(line))
        if not line["dash"]:
            yield node
            continue
        following = lines[index + 1] if index + 1 < len(lines) else None
        column = len(line["indent"]) + len(line["dash"])
        beside = following is not None and not following["dash"] and len(following["indent"]) == column
        if following is not None and beside and following["value"] and not text[line.end() : following.start()].strip():
            node.members.append(_member(following))
            node.end = following.end("value")
            taken.add(index + 1)
        yield _list_of(node)
    for line in _ITEM.finditer(text):
        if _LINE.match(text, line.start()) is None:
            yield _list_of(_scalar(line["value"], line.start("value")))


def _list_of(item: Node) -> Node:
    node = Node("array", item.start, item.end, flow=False)
    node.items.append(item)
    return node


def _member(line: re.Match[str]) -> tuple[Node, Node]:
    return _scalar(line["key"], line.start("key")), _scalar(line["value"], line.start("value"))


def _scalar(raw: str, start: int) -> Node:
    quoted = _QUOTED.match(raw)
    if quoted:
        end, quote, written = start + quoted.end(), raw[0], quoted[0][1:-1]
        value = written.replace("''", "'") if quote == "'" else re.sub(r'\\(["\\/])', r"\1", written)
        return Node("scalar", start, end, value, (start + 1, end - 1), quote)
    plain = re.split(r"\s+#", raw)[0]
    return Node("scalar", start, start + len(plain), plain, (start, start + len(plain)))
