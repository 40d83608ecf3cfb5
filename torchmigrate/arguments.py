"""Changing the arguments of a libcst call in the call's own style.

A call on one line stays on one line, a call with one argument a line gets one more line; trailing commas, comments and
the layout of what is kept stay.
"""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from torchmigrate.edits import Keep, RewriteCall
from torchmigrate.source import SourceError

_EMPTY = cst.SimpleWhitespace("")
_TIGHT = cst.AssignEqual(_EMPTY, _EMPTY)
_SPACE_AFTER = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
_LINE_LIMIT = 100


def argument(keyword: str, value: str) -> cst.Arg:
    """A keyword argument without spaces around its `=`."""
    return cst.Arg(cst.parse_expression(value), keyword=cst.Name(keyword), equal=_TIGHT)


def set_argument(call: cst.Call, keyword: str, value: str, position: int | None = None) -> cst.Call:
    """Replace the value of the argument that is passed by keyword or at `position`, else append it."""
    for index, arg in enumerate(call.args):
        by_position = position is not None and index == position and arg.keyword is None and not arg.star
        if by_position or (arg.keyword is not None and arg.keyword.value == keyword):
            changed = arg.with_changes(value=cst.parse_expression(value))
            return call.with_changes(args=[*call.args[:index], changed, *call.args[index + 1 :]])
    return append_argument(call, argument(keyword, value))


def append_argument(call: cst.Call, new: cst.Arg) -> cst.Call:
    """Append an argument after the last one."""
    if not call.args:
        inside = call.whitespace_before_args
        if isinstance(inside, cst.ParenthesizedWhitespace):
            new = new.with_changes(whitespace_after_arg=_plain(inside))
            before = _first_line(inside)
            return call.with_changes(whitespace_before_args=before, args=[new])
        return call.with_changes(args=[new])
    last = call.args[-1]
    between = _separator(call, new)
    if isinstance(last.comma, cst.Comma):
        closing = last.comma.whitespace_after
        kept = last.with_changes(comma=last.comma.with_changes(whitespace_after=_move_comment(closing, between)))
        tail = last.comma.with_changes(
            whitespace_before=_EMPTY, whitespace_after=_without_comment(closing) if _lines(closing) else closing
        )
        return call.with_changes(args=[*call.args[:-1], kept, new.with_changes(comma=tail)])
    closing = last.whitespace_after_arg
    comma = cst.Comma(whitespace_after=_move_comment(closing, between))
    kept = last.with_changes(comma=comma, whitespace_after_arg=_EMPTY)
    return call.with_changes(
        args=[*call.args[:-1], kept, new.with_changes(whitespace_after_arg=_without_comment(closing))]
    )


def _separator(call: cst.Call, new: cst.Arg) -> cst.BaseParenthesizableWhitespace:
    """The whitespace that this call writes between two arguments, after the comma."""
    gaps = [a.comma.whitespace_after for a in call.args[:-1] if isinstance(a.comma, cst.Comma)]
    broken = [gap for gap in gaps if isinstance(gap, cst.ParenthesizedWhitespace)]
    opening = call.whitespace_before_args
    if gaps and len(broken) == len(gaps):
        return _plain(broken[-1])
    if isinstance(opening, cst.ParenthesizedWhitespace) and (not gaps or broken):
        return _plain(opening)
    if broken and _last_line_length(call, new) > _LINE_LIMIT:
        return _plain(broken[-1])
    return cst.SimpleWhitespace(" ")


def _last_line_length(call: cst.Call, new: cst.Arg) -> int:
    code = cst.Module([])
    return len(code.code_for_node(call).splitlines()[-1]) + len(code.code_for_node(new)) + 2


def _plain(gap: cst.ParenthesizedWhitespace) -> cst.ParenthesizedWhitespace:
    """A line break as a separator, without the comment and the empty lines of the one it is taken from."""
    return gap.with_changes(first_line=gap.first_line.with_changes(whitespace=_EMPTY, comment=None), empty_lines=[])


def _first_line(gap: cst.ParenthesizedWhitespace) -> cst.ParenthesizedWhitespace:
    indent = cst.SimpleWhitespace(gap.last_line.value + "    ")
    return gap.with_changes(last_line=indent)


def _lines(gap: cst.BaseParenthesizableWhitespace) -> bool:
    return isinstance(gap, cst.ParenthesizedWhitespace)


def _move_comment(
    closing: cst.BaseParenthesizableWhitespace, between: cst.BaseParenthesizableWhitespace
) -> cst.BaseParenthesizableWhitespace:
    """The separator after what was the last argument: keeps the comments that stood behind that argument."""
    if not isinstance(closing, cst.ParenthesizedWhitespace) or not _has_comment(closing):
        return between
    if not isinstance(between, cst.ParenthesizedWhitespace):
        return closing
    return closing.with_changes(indent=between.indent, last_line=between.last_line)


def _without_comment(closing: cst.BaseParenthesizableWhitespace) -> cst.BaseParenthesizableWhitespace:
    if not isinstance(closing, cst.ParenthesizedWhitespace) or not _has_comment(closing):
        return closing
    return _plain(closing)


def _has_comment(gap: cst.ParenthesizedWhitespace) -> bool:
    return gap.first_line.comment is not None or any(line.comment is not None for line in gap.empty_lines)


def remove_argument(call: cst.Call, keyword: str) -> cst.Call:
    """Remove a keyword argument; what follows moves up."""
    for index, arg in enumerate(call.args):
        if arg.keyword is not None and arg.keyword.value == keyword:
            return call.with_changes(args=_rejoin(call.args, [*call.args[:index], *call.args[index + 1 :]]))
    return call


def rewrite_call(call: cst.Call, edit: RewriteCall) -> cst.Call:
    """A call with another callee and other arguments, laid out like the call it comes from."""
    if any(arg.star for arg in call.args):
        raise SourceError("TM006", "a call with starred arguments cannot be rewritten argument by argument")
    args: list[cst.Arg] = []
    for one in edit.arguments:
        if isinstance(one, Keep):
            kept = call.args[one.index]
            keyword = cst.Name(one.keyword) if one.keyword else None
            equal = (kept.equal if kept.keyword else _TIGHT) if keyword else cst.MaybeSentinel.DEFAULT
            args.append(kept.with_changes(keyword=keyword, equal=equal))
        else:
            args.append(argument(one.keyword, one.value))
    function = cst.parse_expression(edit.function) if edit.function else call.func
    return call.with_changes(func=function, args=_rejoin(call.args, args))


def _rejoin(old: Sequence[cst.Arg], new: Sequence[cst.Arg]) -> list[cst.Arg]:
    """New arguments with the separators and the closing of the old ones."""
    if not new:
        return []
    gaps = [a.comma for a in old[:-1] if isinstance(a.comma, cst.Comma)]
    gap = _SPACE_AFTER
    if gaps:
        whitespace = gaps[-1].whitespace_after
        plain = _plain(whitespace) if isinstance(whitespace, cst.ParenthesizedWhitespace) else whitespace
        gap = gaps[-1].with_changes(whitespace_after=plain)
    closing = old[-1] if old else None
    inner = {id(a.comma) for a in old[:-1]}
    result: list[cst.Arg] = []
    for position, arg in enumerate(new):
        if position < len(new) - 1:
            comma = arg.comma if id(arg.comma) in inner else gap
            result.append(arg.with_changes(comma=comma, whitespace_after_arg=_EMPTY))
        elif closing is not None:
            result.append(arg.with_changes(comma=closing.comma, whitespace_after_arg=closing.whitespace_after_arg))
        else:
            result.append(arg)
    return result
