"""The output list of an `all_gather`: how to name it where its value is read, and how the value is used there."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from torchmigrate.edits import Edit, InsertBefore, Replace, ReplaceText
from torchmigrate.module import Module
from torchmigrate.reaching import key_of
from torchmigrate.scopes import Kind
from torchmigrate_codemods.fresh_names import FreshNames
from torchmigrate_codemods.torch_2_15.gathering.futures import Futures, Origin

_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_SIMPLE = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr, ast.Return)
_LIST_CHANGES = frozenset({"append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort"})
_VIEWS = frozenset({"chunk", "split", "tensor_split", "unbind", "tolist", "view", "unflatten"})


class Impossible(Exception):
    """The output list cannot be named at a place; the text says why."""


def output_list(call: ast.Call) -> ast.expr | None:
    """The argument of an all_gather that is the list of its outputs."""
    if isinstance(call.func, ast.Attribute) and call.func.attr == "allgather":
        first = call.args[0] if call.args else None
        return first.elts[0] if isinstance(first, ast.List) and len(first.elts) == 1 else None
    by_name = next((k.value for k in call.keywords if k.arg == "tensor_list"), None)
    if by_name is not None or not call.args or isinstance(call.args[0], ast.Starred):
        return by_name
    return call.args[0]


def input_name(call: ast.Call) -> str | None:
    """The name of the tensor that is gathered, where it has one."""
    given = next((k.value for k in call.keywords if k.arg == "tensor"), None)
    if given is None and len(call.args) > 1:
        given = call.args[1]
    if isinstance(given, ast.List) and len(given.elts) == 1:
        given = given.elts[0]
    return given.id if isinstance(given, ast.Name) else None


@dataclass(frozen=True, slots=True)
class Listed:
    """How the output list is called where a value is read, and the edits by which a callback captures it."""

    text: str
    captures: tuple[ReplaceText, ...] = ()


class Outputs:
    """The output list of one call of all_gather."""

    def __init__(self, module: Module, futures: Futures, call: ast.Call, fresh_names: FreshNames) -> None:
        self.module = module
        self.futures = futures
        self.call = call
        self.list = output_list(call)
        self.fresh_names = fresh_names
        self.alias: str | None = None

    @property
    def fresh(self) -> bool:
        """Whether the list is made for this call: no other gather writes to its tensors."""
        node = self.list
        if isinstance(node, ast.Name):
            scope = self.module.names.scope_of(self.call)
            found = self.module.names.lookup(node.id, scope)
            if found is None or found[0] is not scope or any(b.kind is not Kind.ASSIGN for b in found[1]):
                return False
            outside = set(loops(self.module, self.call)) - set(loops(self.module, found[1][-1].node))
            return not outside and all(b.value is not None and _makes_tensors(b.value) for b in found[1])
        return node is not None and _makes_tensors(node)

    def at(self, read: ast.expr, origin: Origin, *, drops: str | None) -> Listed:
        """How to call the list at a read; `drops` is the name whose assignment goes away there, if any.

        Raises Impossible with the reason where there is no way.
        """
        if self.list is None:
            raise Impossible("the output list is not an argument of its own")
        self._not_reused(read)
        self._not_changed(read)
        if self.alias is None and isinstance(self.list, ast.Name):
            if self._shadowed(read, drops) or self._visible(self.list.id, read, origin):
                return Listed(self.list.id)
            if captures := self._captured(self.list.id, read):
                return Listed(self.list.id, captures)
        self._reaches(read, origin)
        self.alias = self.alias or self._new_name()
        return Listed(self.alias)

    def _captured(self, name: str, read: ast.expr) -> tuple[ReplaceText, ...]:
        """In a loop: the default argument by which the callback around a read keeps this round's list."""
        function = self.module.function(read)
        home = self.module.function(self.call)
        around = loops(self.module, self.call)
        if not around or function is None or function is home or around != loops(self.module, function):
            return ()
        args = function.args
        plain = [*args.posonlyargs, *args.args]
        if args.vararg or args.kwarg or args.kwonlyargs or not plain or getattr(function, "decorator_list", None):
            return ()
        names = self.module.names
        owner = names.lookup(name, names.scope_of(self.call))
        there = names.lookup(name, names.scope_of(read))
        if owner is None or there is None or owner[0] is not there[0] or home is not self.module.function(function):
            return ()
        bound = self.module.flow(function).bound(name, function)
        if not bound or not self.module.flow(function).same(name, function, self.call):
            return ()
        last = max(self.module.extent(node)[1] for node in (*plain, *args.defaults))
        return (ReplaceText(last, last, f", {name}={name}"),)

    def edits(self) -> list[Edit]:
        """The edits that give the list its new name."""
        if self.alias is None or self.list is None:
            return []
        return [
            InsertBefore(self.module.statement(self.call), f"{self.alias} = {dedented(self.module, self.list)}"),
            Replace(self.list, self.alias),
        ]

    # -- the list's own name -----------------------------------------------------------------------------------

    def _visible(self, name: str, read: ast.expr, origin: Origin) -> bool:
        """Whether the list's own name means the same list at the read."""
        names = self.module.names
        owner = names.lookup(name, names.scope_of(self.call))
        there = names.lookup(name, names.scope_of(read))
        if owner is None or there is None or owner[0] is not there[0]:
            return False
        around = loops(self.module, self.call)
        if self.module.function(read) is self.module.function(self.call):
            if not self.module.flow(read).same(name, self.call, read):
                return False
            straight = not any(hop.merged for hop in origin.hops)
            return not around or (straight and set(around) <= set(loops(self.module, read)))
        return len(owner[1]) == 1 and not around and not loops(self.module, owner[1][0].node)

    def _shadowed(self, read: ast.expr, drops: str | None) -> bool:
        """A local name that hides the list's only until its assignment, the read, goes away."""
        if not isinstance(self.list, ast.Name) or drops != self.list.id:
            return False
        names = self.module.names
        inner = names.lookup(drops, names.scope_of(read))
        owner = names.lookup(drops, names.scope_of(self.call))
        if inner is None or owner is None or inner[0] is owner[0] or len(inner[1]) != 1 or inner[0].parent is None:
            return False
        outer = names.lookup(drops, inner[0].parent)
        around = loops(self.module, self.call) or loops(self.module, owner[1][0].node)
        return outer is not None and outer[0] is owner[0] and len(owner[1]) == 1 and not around

    # -- a new name --------------------------------------------------------------------------------------------

    def _reaches(self, read: ast.expr, origin: Origin) -> None:
        """Raises Impossible where a name bound just before the call would not be that call's list at the read."""
        statement = self.module.statement(self.call)
        if not isinstance(statement, _SIMPLE) or not starts_line(self.module, statement):
            raise Impossible("the output list has no name, and a line cannot be put before the call")
        if self._inside_expression():
            raise Impossible("the output list has no name, and the call stands in a lambda or comprehension")
        around = loops(self.module, self.call)
        home, place = self.module.function(self.call), self.module.function(read)
        if home is place:
            straight = not any(hop.merged for hop in origin.hops)
            lockstep = len(origin.hops) == 1 and origin.hops[0].definition.node is statement
            if lockstep or (straight and set(around) <= set(loops(self.module, read))):
                return
            raise Impossible("the future and its output list are assigned on several paths")
        if home not in list(self.module.ancestors(read)) and not (home is None and place is not None):
            raise Impossible("the output list is not visible here")
        if around or any(hop.merged for hop in origin.hops):
            raise Impossible("the output list may be another one by the time this runs")

    def _inside_expression(self) -> bool:
        for at in self.module.ancestors(self.call):
            if isinstance(at, ast.stmt):
                return False
            if isinstance(at, (ast.Lambda, *_COMPREHENSIONS)):
                return True
        return False

    def _new_name(self) -> str:
        wanted = input_name(self.call)
        name = f"gathered_{wanted}" if wanted else "gathered"
        return self.fresh_names.take(name, self.call)

    # -- other gathers -----------------------------------------------------------------------------------------

    def _not_reused(self, read: ast.expr) -> None:
        """Raises Impossible where another gather writes to the same list before the value is read."""
        if self.list is None or (key := key_of(self.list)) is None:
            return
        home = self.module.function(self.call)
        for other in self.futures.calls("all_gather"):
            listed = output_list(other)
            if other is self.call or listed is None or key_of(listed) != key:
                continue
            if self.module.function(other) is not home or not self.module.flow(other).same(key, self.call, other):
                continue
            if _exclusive(self.module, self.call, other):
                continue
            shared = set(loops(self.module, other)) & set(loops(self.module, self.call))
            between = position(self.call) < position(other) < position(read)
            if between or shared or self.module.function(read) is not home:
                raise Impossible("another all_gather writes to the same list before the value is read")

    def _not_changed(self, read: ast.expr) -> None:
        """Raises Impossible where the list gets other elements between the call and the read."""
        if self.list is None or (key := key_of(self.list)) is None:
            return
        home = self.module.function(self.call)
        for node in ast.walk(home or self.module.tree):
            if not isinstance(node, (ast.Subscript, ast.Call, ast.AugAssign)) or not _changes(node, key):
                continue
            shared = set(loops(self.module, node)) & set(loops(self.module, self.call))
            before_read = position(node) < position(read) or self.module.function(read) is not home
            if shared or (position(self.call) < position(node) and before_read):
                raise Impossible("the list gets other elements before the value is read")


def _changes(node: ast.Subscript | ast.Call | ast.AugAssign, key: str) -> bool:
    match node:
        case ast.Subscript(value=value, ctx=ast.Store() | ast.Del()):
            return key_of(value) == key
        case ast.AugAssign(target=target):
            return key_of(target) == key
        case ast.Call(func=ast.Attribute(value=value, attr=attr)):
            return attr in _LIST_CHANGES and key_of(value) == key
    return False


def _makes_tensors(node: ast.expr) -> bool:
    """Whether an expression makes a list of new tensors, none of them a view of something that lives on."""
    match node:
        case ast.ListComp(elt=element):
            return isinstance(element, ast.Call)
        case ast.List(elts=elements):
            return all(isinstance(e, ast.Call) for e in elements)
        case ast.BinOp(left=left, op=ast.Mult()):
            return _makes_tensors(left)
        case ast.Call(func=function, args=args):
            if isinstance(function, ast.Attribute) and function.attr in _VIEWS:
                return False
            return not (isinstance(function, ast.Name) and function.id in ("list", "tuple")) or all(
                _makes_tensors(a) or isinstance(a, ast.GeneratorExp) for a in args
            )
    return False


def _exclusive(module: Module, one: ast.expr, other: ast.expr) -> bool:
    """Whether two expressions stand in different branches of one `if`, outside loops."""
    if loops(module, one) or loops(module, other):
        return False
    around = dict(_path(module, other))
    for at, child in _path(module, one):
        if isinstance(at, ast.If) and at in around:
            return child is not around[at] and (child in at.body) is not (around[at] in at.body)
    return False


def _path(module: Module, node: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
    child = node
    for at in module.ancestors(node):
        yield at, child
        child = at


# -- surroundings ----------------------------------------------------------------------------------------------


def position(node: ast.expr | ast.stmt) -> tuple[int, int]:
    """Line and column."""
    return node.lineno, node.col_offset


def loops(module: Module, node: ast.AST) -> list[ast.AST]:
    """The loops around a node inside its own function, innermost first."""
    found: list[ast.AST] = []
    child = node
    for at in module.ancestors(node):
        if isinstance(at, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            break
        if isinstance(at, _LOOPS) and child not in ([getattr(at, "iter", None)], *at.orelse):
            found.append(at)
        if isinstance(at, _COMPREHENSIONS):
            found.append(at)
        child = at
    return found


def starts_line(module: Module, statement: ast.stmt) -> bool:
    """Whether lines can be put in front of a statement."""
    start, _ = module.extent(statement)
    return not module.text[module.lines.line_start(start) : start].strip()


def dedented(module: Module, node: ast.expr) -> str:
    """A node's source, moved left by the indentation of the line on which it begins."""
    start, _ = module.extent(node)
    line = module.text[module.lines.line_start(start) : start]
    return moved_left(module.source(node), line[: len(line) - len(line.lstrip())])


def moved_left(text: str, indent: str) -> str:
    """Text whose lines after the first lose an indentation."""
    first, *rest = text.splitlines()
    return "\n".join([first, *(line.removeprefix(indent) if not indent.strip() else line for line in rest)])
