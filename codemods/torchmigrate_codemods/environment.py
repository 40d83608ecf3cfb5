"""Where a file names environment variables: the same view of Python code and of every other format."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from torchmigrate.codemod import Anchor, Extent
from torchmigrate.documents import Document
from torchmigrate.edits import Edit, RemoveStatement, ReplaceText
from torchmigrate.module import Module
from torchmigrate.texts.tokens import Copy, Role, Use

_SETTERS = re.compile(r"putenv|setdefault|setenv|(?:\w+_)?set_?env(?:_?var(?:iable)?)?|set_default_env")
_UNSETTERS = frozenset({"unsetenv", "delenv", "pop"})
_TALK = re.compile(
    r"(?:warn|warning|info|debug|error|exception|critical|log|print|filterwarnings|fail|skip|write|\w*(?:Error|Warning|Exception))"
)
_TALKING_KEYWORDS = frozenset({"help", "message", "description", "doc", "match", "reason", "title", "epilog"})
_PURE = frozenset({"str", "int", "float", "bool", "repr", "len", "os.path.join"})


@dataclass(frozen=True, slots=True)
class Found:
    """A use of a variable and the anchor of its finding."""

    use: Use
    anchor: Anchor


def found(module: Module, names: Iterable[str]) -> list[Found]:
    """The places of a file that name one of some variables, in the order of the text. Comments are left out, and so
    are texts that only talk about a variable: docstrings, messages, help."""
    if isinstance(module, Document):
        return [Found(use, _extent(module, use)) for use in module.uses(names)]
    wanted = re.compile(rf"(?<![A-Za-z0-9_])(?:{'|'.join(sorted(names, key=len, reverse=True))})(?![A-Za-z0-9_])")
    if wanted.search(module.text) is None:
        return []
    return sorted(_in_python(module, wanted), key=lambda one: one.use.start)


def _extent(document: Document, use: Use) -> Extent:
    start, end = use.extent
    return Extent(start, end, " ".join(document.written[start:end].split()))


def _in_python(module: Module, wanted: re.Pattern[str]) -> Iterator[Found]:
    for node in module.parents:
        if isinstance(node, ast.keyword) and node.arg and wanted.fullmatch(node.arg):
            yield _keyword(module, node)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            match = wanted.search(node.value)
            if match is None:
                continue
            if match[0] == node.value:
                yield _constant(module, node)
            elif re.search(rf"{wanted.pattern}=", node.value) and not _is_talk(module, node):
                yield Found(Use(match[0], Role.MENTION, *module.extent(node), module.extent(node)), node)


def _is_talk(module: Module, node: ast.expr) -> bool:
    """Whether a string is only said to people."""
    at: ast.AST = node
    for parent in module.ancestors(node):
        if isinstance(parent, ast.Call) and at is not parent.func:
            return bool(_TALK.fullmatch(_last(parent.func)))
        if isinstance(parent, ast.keyword) and parent.arg in _TALKING_KEYWORDS:
            return True
        if isinstance(parent, (ast.Expr, ast.Raise, ast.Assert)):
            return True
        if isinstance(parent, ast.stmt):
            return False
        at = parent
    return False


def _last(node: ast.expr) -> str:
    """The last part of a dotted name."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _value(node: ast.expr | None) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _pure(node: ast.expr) -> bool:
    """Whether an expression can be computed twice."""
    for one in ast.walk(node):
        if isinstance(one, (ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr, ast.Lambda)):
            return False
        if isinstance(one, ast.Call) and ast.unparse(one.func) not in _PURE:
            return False
    return True


# -- keywords --------------------------------------------------------------------------------------------------


def _keyword(module: Module, node: ast.keyword) -> Found:
    """`dict(NAME=...)`, `env.update(NAME=...)`; any other callable may not know the new name."""
    call = module.parents[node]
    start, end = module.extent(node)
    stop = start + len(node.arg or "")
    if not (isinstance(call, ast.Call) and _last(call.func) in ("dict", "update", "setenv", "OrderedDict")):
        return Found(Use(node.arg or "", Role.MENTION, start, stop, (start, end)), node.value)
    copy = None
    if _pure(node.value):
        copy = Copy(start, "", module.text[stop:end] + _glue(module, start))
    parts = sorted(module.extent(one) for one in (*call.args, *call.keywords))
    removal = _part_removal(module, parts, parts.index((start, end))) if _pure(node.value) else None
    use = Use(node.arg or "", Role.SET, start, stop, (start, end), _value(node.value), copy, removal)
    return Found(use, Extent(start, end, ast.unparse(node), module.scope_name(call)))


def _glue(module: Module, start: int) -> str:
    """What stands between two parts of a collection, one of which begins at an offset."""
    line = module.lines.line_start(start)
    indent = module.text[line:start]
    return ", " if indent.strip() else "," + module.lines.newline_near(start) + indent


# -- strings ---------------------------------------------------------------------------------------------------


def _constant(module: Module, node: ast.Constant) -> Found:
    parent = module.parents[node]
    if isinstance(parent, ast.Subscript) and parent.slice is node:
        return _subscript(module, node, parent)
    if isinstance(parent, ast.Dict) and node in parent.keys:
        return _dict_item(module, node, parent)
    if isinstance(parent, ast.Call) and parent.args and parent.args[0] is node:
        return _argument(module, node, parent)
    if isinstance(parent, ast.keyword) and parent.arg in ("name", "key", "var"):
        call = module.parents[parent]
        if isinstance(call, ast.Call):
            return _record(module, node, call)
    if isinstance(parent, ast.Compare) and all(isinstance(op, (ast.In, ast.NotIn)) for op in parent.ops):
        return _plain(module, node, Role.READ, parent)
    return _plain(module, node, Role.MENTION)


def _name(module: Module, node: ast.Constant) -> tuple[int, int] | None:
    """Where the bare name stands; None where the string is written in an unusual way."""
    low, high = module.extent(node)
    at = module.text.find(str(node.value), low, high)
    return (at, at + len(str(node.value))) if at >= 0 else None


def _plain(module: Module, node: ast.Constant, role: Role, anchor: ast.AST | None = None) -> Found:
    at = _name(module, node) or module.extent(node)
    shown = anchor or node
    return Found(Use(str(node.value), role, *at, module.extent(shown)), shown)


def _subscript(module: Module, node: ast.Constant, target: ast.Subscript) -> Found:
    if isinstance(target.ctx, ast.Del):
        return _plain(module, node, Role.UNSET, target)
    if isinstance(target.ctx, ast.Load):
        return _plain(module, node, Role.READ, target)
    statement = module.parents[target]
    if not (isinstance(statement, ast.Assign) and statement.targets == [target]):
        return _plain(module, node, Role.MENTION, target)
    return _statement(module, node, statement, statement.value, target)


def _argument(module: Module, node: ast.Constant, call: ast.Call) -> Found:
    name = _last(call.func)
    if name in _UNSETTERS:
        return _plain(module, node, Role.UNSET, call)
    if not _SETTERS.fullmatch(name):
        read = name in ("get", "getenv", "environ") or "get" in name.lower() or "env" in name.lower()
        return _plain(module, node, Role.READ if read else Role.MENTION, call)
    statement = module.parents[call]
    value = call.args[1] if len(call.args) == 2 and not call.keywords else None
    if not isinstance(statement, ast.Expr) or value is None:
        return _plain(module, node, Role.READ if name == "setdefault" else Role.MENTION, call)
    return _statement(module, node, statement, value, None)


def _statement(
    module: Module, node: ast.Constant, statement: ast.stmt, value: ast.expr, target: ast.Subscript | None
) -> Found:
    """A setting that is a statement."""
    at = _name(module, node)
    if at is None:
        return _plain(module, node, Role.MENTION, statement)
    (start, end), (low, high) = at, module.extent(statement)
    first, last = module.lines.line_start(low), module.lines.line_end(high)
    indent, tail = module.text[first:low], module.text[high:last].strip()
    newline = module.lines.newline_near(low)
    copy = None
    if not indent.strip() and (not tail or tail.startswith("#")):
        if _pure(value):
            copy = Copy(first, indent + module.text[low:start], module.text[end:high] + newline)
        elif target is not None and module.text[high:last].endswith(("\n", "\r")):
            old = module.source(target)
            stop = module.extent(target)[1]
            copy = Copy(last, indent + module.text[low:start], f"{module.text[end:stop]} = {old}{newline}")
    removal = (RemoveStatement(statement),) if _pure(value) else None
    return Found(Use(str(node.value), Role.SET, start, end, (low, high), _value(value), copy, removal), statement)


def _dict_item(module: Module, node: ast.Constant, holder: ast.Dict) -> Found:
    at = _name(module, node)
    index = holder.keys.index(node)
    value = holder.values[index]
    if at is None:
        return _plain(module, node, Role.MENTION)
    (start, end), low = at, module.extent(node)[0]
    high = module.extent(value)[1]
    copy = Copy(low, module.text[low:start], module.text[end:high] + _glue(module, low)) if _pure(value) else None
    use = Use(
        str(node.value), Role.SET, start, end, (low, high), _value(value), copy, _item_removal(module, holder, index)
    )
    return Found(use, Extent(low, high, f"{ast.unparse(node)}: {ast.unparse(value)}", module.scope_name(node)))


def _item_removal(module: Module, holder: ast.Dict, index: int) -> tuple[Edit, ...] | None:
    parts = [(module.extent(key or value)[0], module.extent(value)[1]) for key, value in _pairs(holder)]
    return _part_removal(module, parts, index) if _pure(holder.values[index]) else None


def _pairs(holder: ast.Dict) -> Iterator[tuple[ast.expr | None, ast.expr]]:
    return zip(holder.keys, holder.values, strict=True)


def _part_removal(module: Module, parts: list[tuple[int, int]], index: int) -> tuple[Edit, ...] | None:
    """The splice that takes one of several comma-separated parts away: its lines where it has them for itself."""
    text, (start, end) = module.text, parts[index]
    first, last = module.lines.line_start(start), module.lines.line_end(end)
    alone = re.fullmatch(r"[ \t]*,[ \t]*(?:#[^\r\n]*)?(?:\r\n|\r|\n)", text[end:last])
    if not text[first:start].strip() and alone:
        return (ReplaceText(first, last, ""),)
    if index + 1 < len(parts):
        stop = parts[index + 1][0]
        return (ReplaceText(start, stop, ""),) if not text[end:stop].strip(" \t\r\n,") else None
    if not index:
        return None
    before = parts[index - 1][1]
    return (ReplaceText(before, end, ""),) if not text[before:start].strip(" \t\r\n,") else None


def _record(module: Module, node: ast.Constant, call: ast.Call) -> Found:
    """`EnvVar(name="NAME", value="...")`."""
    value = next((k.value for k in call.keywords if k.arg == "value"), None)
    at = _name(module, node)
    if value is None or at is None:
        return _plain(module, node, Role.MENTION, call)
    (start, end), (low, high) = at, module.extent(call)
    copy = None
    if isinstance(module.parents[call], (ast.List, ast.Tuple, ast.Set)) and all(_pure(k.value) for k in call.keywords):
        copy = Copy(low, module.text[low:start], module.text[end:high] + _glue(module, low))
    return Found(Use(str(node.value), Role.SET, start, end, (low, high), _value(value), copy), call)
