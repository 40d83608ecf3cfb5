"""Files written for a newer Python than the running one: hide what `ast` cannot read, keep every position.

libcst reads newer syntax than the running Python. Each construct that `ast` may refuse is replaced by neutral text of
the same length, so the tree of the rest has the right positions. What is hidden is not looked at; a trigger inside it
is the caller's to find.
"""

from __future__ import annotations

import re

_NESTING = 200
"""Python's own limit for brackets inside brackets; libcst overflows the stack somewhere above."""


def masked(text: str) -> str | None:
    """The text with newer constructs hidden, or None when libcst cannot read it either or nothing was hidden."""
    if _depth(text) > _NESTING:
        return None
    import libcst as cst
    from libcst.metadata import ByteSpanPositionProvider, MetadataWrapper

    try:
        wrapper = MetadataWrapper(cst.parse_module(text), unsafe_skip_copy=True)
    except (cst.ParserSyntaxError, RecursionError):
        return None
    if wrapper.module.code != text:
        return None
    spans = wrapper.resolve(ByteSpanPositionProvider)
    data = bytearray(text.encode("utf-8"))
    before = bytes(data)

    def hide(node: cst.CSTNode, cover: str) -> None:
        span = spans[node]
        start, end = span.start, span.start + span.length
        data[start:end] = _same_length(bytes(data[start:end]), cover)

    class Hide(cst.CSTVisitor):
        def visit_TypeParameters(self, node: cst.TypeParameters) -> bool:
            hide(node, "blank")
            return False

        def visit_TypeAlias(self, node: cst.TypeAlias) -> bool:
            hide(node, "pass")
            return False

        def visit_FormattedString(self, node: cst.FormattedString) -> bool:
            hide(node, "string")
            return False

        def visit_TemplatedString(self, node: cst.TemplatedString) -> bool:
            hide(node, "string")
            return False

        def visit_ExceptHandler(self, node: cst.ExceptHandler) -> None:
            if isinstance(node.type, cst.Tuple) and not node.type.lpar:
                hide(node.type, "name")

        def visit_ExceptStarHandler(self, node: cst.ExceptStarHandler) -> None:
            if isinstance(node.type, cst.Tuple) and not node.type.lpar:
                hide(node.type, "name")

    wrapper.module.visit(Hide())
    return data.decode("utf-8") if bytes(data) != before else None


def _depth(text: str) -> int:
    """How deep brackets are nested at most, those in strings and comments included."""
    depth = deepest = 0
    for bracket in re.findall(r"[()\[\]{}]", text):
        depth = depth + 1 if bracket in "([{" else max(depth - 1, 0)
        deepest = max(deepest, depth)
    return deepest


def _same_length(old: bytes, cover: str) -> bytes:
    """Neutral bytes of the same length, with the line ends where they were."""
    blank = re.sub(rb"[^\r\n]", b" ", old)
    if cover == "pass":
        return b"pass" + blank[4:]
    if cover == "name":
        return b"_" + blank[1:]
    if cover == "string":
        return b'("' + b'")' + blank[4:] if b"\n" not in old[:4] and len(old) >= 4 else b'""' + blank[2:]
    return blank
