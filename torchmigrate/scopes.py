"""The scopes and bindings of a module, found in one walk over its syntax tree."""

from __future__ import annotations

import ast
import enum
import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
LOOPS = (ast.For, ast.AsyncFor, ast.While)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class Kind(enum.Enum):
    """How a name gets bound."""

    IMPORT = "import"
    ASSIGN = "assign"
    PARAMETER = "parameter"
    FUNCTION = "function"
    CLASS = "class"
    OTHER = "other"


@dataclass(frozen=True, eq=False, slots=True)
class Binding:
    """One place that binds a name.

    `node` is the binding statement or parameter; `qualified` the imported name for imports; `value` the assigned
    expression for plain assignments. `conditional` is true below an if, loop, try, with or match of its scope;
    `typing_only` below `if TYPE_CHECKING:`.
    """

    kind: Kind
    node: ast.AST
    scope: Scope
    qualified: str | None = None
    value: ast.expr | None = None
    conditional: bool = False
    typing_only: bool = False
    fallback: bool = False

    @property
    def position(self) -> tuple[int, int]:
        """Line and column of the binding, for order within one scope."""
        return (getattr(self.node, "lineno", 0), getattr(self.node, "col_offset", 0))


@dataclass(eq=False, slots=True)
class Scope:
    """A region of code with its own names."""

    node: ast.AST
    parent: Scope | None
    name: str
    bindings: dict[str, list[Binding]] = field(default_factory=dict)
    outer: dict[str, bool] = field(default_factory=dict)

    @property
    def is_class(self) -> bool:
        """Class bodies are invisible from the functions inside them."""
        return isinstance(self.node, ast.ClassDef)

    @property
    def is_comprehension(self) -> bool:
        """Comprehensions, where a walrus binds in the scope around."""
        return isinstance(self.node, _COMPREHENSIONS)


_NOT_NODES = frozenset(
    {"ctx", "op", "ops", "id", "attr", "arg", "asname", "module", "level", "conversion", "is_async", "simple", "kind"}
    | {"type_comment", "rest", "kwd_attrs"}
)
"""Fields that hold no nodes, or nodes that only mark an operator or a context."""


@functools.cache
def _fields(kind: type[ast.AST]) -> tuple[str, ...]:
    """The fields of a node that may hold others, last first."""
    return tuple(name for name in reversed(kind._fields) if name not in _NOT_NODES)


@dataclass(slots=True)
class _Frame:
    scope: Scope
    conditional: bool = False
    typing_only: bool = False
    fallback: bool = False


_Children = list[tuple[ast.AST, _Frame]]


class Walk:
    """What one walk over the tree of a module finds: parents, scopes with their bindings, and some nodes in order."""

    def __init__(self, tree: ast.Module) -> None:
        self.parents: dict[ast.AST, ast.AST] = {}
        self.calls: list[ast.Call] = []
        self.attributes: list[ast.Attribute] = []
        self.loads: list[ast.Name] = []
        self.texts: list[ast.Constant] = []
        self.imports: list[ast.Import | ast.ImportFrom] = []
        self.stars: list[tuple[ast.ImportFrom, str]] = []
        self.module = Scope(tree, None, "")
        self.scope_at: dict[ast.AST, Scope] = {tree: self.module}
        self.scope_of_load: dict[ast.AST, Scope] = {}
        self._walk(tree)

    def _walk(self, tree: ast.Module) -> None:
        parents, calls, attributes, loads = self.parents, self.calls, self.attributes, self.loads
        texts = self.texts
        scope_of_load = self.scope_of_load
        stack: list[tuple[Any, Any, _Frame]] = [
            (child, tree, _Frame(self.module)) for child in reversed(list(ast.iter_child_nodes(tree)))
        ]
        pop, push = stack.pop, stack.append
        while stack:
            node, parent, frame = pop()
            parents[node] = parent
            kind = node.__class__
            if kind is ast.Constant:
                if node.value.__class__ is str:
                    texts.append(node)
                continue
            if kind is ast.Name:
                if node.ctx.__class__ is ast.Load:
                    loads.append(node)
                    scope_of_load[node] = frame.scope
                else:
                    self._bind(node.id, Kind.OTHER, node, frame)
                continue
            if kind is ast.Attribute:
                attributes.append(node)
                push((node.value, node, frame))
                continue
            if kind is ast.Call:
                calls.append(node)
            elif kind in _ENTER:
                children = _ENTER[kind](self, node, frame)
                if children is not None:
                    stack += [(child, node, inner) for child, inner in reversed(children)]
                    continue
            for name in _fields(kind):
                value = getattr(node, name, None)
                if value.__class__ is list:
                    for one in reversed(value):
                        if isinstance(one, ast.AST):
                            push((one, node, frame))
                elif isinstance(value, ast.AST):
                    push((value, node, frame))

    def _lambda(self, node: ast.Lambda, frame: _Frame) -> _Children:
        inside = _Frame(self._scope(node, "<lambda>", frame))
        self._parameters(node.args, inside)
        return [(node.args, frame), (node.body, inside)]

    def _class(self, node: ast.ClassDef, frame: _Frame) -> _Children:
        self._bind(node.name, Kind.CLASS, node, frame)
        inside = _Frame(self._scope(node, node.name, frame))
        outside = [*node.decorator_list, *node.bases, *node.keywords, *getattr(node, "type_params", [])]
        return [*((n, frame) for n in outside), *((n, inside) for n in node.body)]

    def _comprehension(
        self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp, frame: _Frame
    ) -> _Children:
        inside = _Frame(self._scope(node, "<comprehension>", frame))
        values = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        return [*((g, inside) for g in node.generators), *((v, inside) for v in values)]

    def _generator(self, node: ast.comprehension, frame: _Frame) -> _Children:
        owner = frame.scope.node
        first = isinstance(owner, _COMPREHENSIONS) and owner.generators[0] is node
        outer = _Frame(frame.scope.parent) if first and frame.scope.parent else frame
        return [(node.target, frame), (node.iter, outer), *((test, frame) for test in node.ifs)]

    def _outer(self, node: ast.Global | ast.Nonlocal, frame: _Frame) -> None:
        for name in node.names:
            frame.scope.outer[name] = isinstance(node, ast.Global)

    def _assign(self, node: ast.Assign, frame: _Frame) -> _Children:
        parents = self.parents
        unnamed: list[tuple[ast.AST, _Frame]] = []
        for target in node.targets:
            named = _assigned(target, node.value)
            for bound, given in named:
                self._bind(bound.id, Kind.ASSIGN, node, frame, value=given)
                parents[bound] = target
            if named:
                parents[target] = node
            else:
                unnamed.append((target, frame))
        return [*unnamed, (node.value, frame)]

    def _annotated(self, node: ast.AnnAssign, frame: _Frame) -> _Children | None:
        if not isinstance(node.target, ast.Name):
            return None
        if node.value is not None:
            self._bind(node.target.id, Kind.ASSIGN, node, frame, value=node.value)
        self.parents[node.target] = node
        return [(node.annotation, frame), *([(node.value, frame)] if node.value else [])]

    def _walrus(self, node: ast.NamedExpr, frame: _Frame) -> _Children:
        scope = frame.scope
        while scope.is_comprehension and scope.parent is not None:
            scope = scope.parent
        self._bind(node.target.id, Kind.ASSIGN, node, _Frame(scope, True), value=node.value)
        self.parents[node.target] = node
        return [(node.value, frame)]

    def _named(self, node: ast.ExceptHandler | ast.MatchAs | ast.MatchStar, frame: _Frame) -> None:
        if node.name:
            self._bind(node.name, Kind.OTHER, node, frame)

    def _mapping(self, node: ast.MatchMapping, frame: _Frame) -> None:
        if node.rest:
            self._bind(node.rest, Kind.OTHER, node, frame)

    def _try(self, node: ast.Try | ast.TryStar, frame: _Frame) -> _Children:
        inside = _Frame(frame.scope, True, frame.typing_only, False)
        handler = _Frame(frame.scope, True, frame.typing_only, True)
        rest = [*node.orelse, *node.finalbody]
        return [
            *((n, inside) for n in node.body),
            *((n, handler) for n in node.handlers),
            *((n, inside) for n in rest),
        ]

    def _if(self, node: ast.If, frame: _Frame) -> _Children:
        typing_only = frame.typing_only or _type_checking(node.test)
        inside = _Frame(frame.scope, True, typing_only, frame.fallback)
        other = _Frame(frame.scope, True, frame.typing_only, True)
        return [
            (node.test, frame),
            *((n, inside) for n in node.body),
            *((n, other) for n in node.orelse),
        ]

    def _branches(self, node: ast.AST, frame: _Frame) -> _Children:
        inside = _Frame(frame.scope, True, frame.typing_only, frame.fallback)
        return [(n, inside) for n in ast.iter_child_nodes(node)]

    def _type_alias(self, node: Any, frame: _Frame) -> None:
        self._bind(node.name.id, Kind.OTHER, node, frame)

    def _bind(
        self,
        name: str,
        kind: Kind,
        node: ast.AST,
        frame: _Frame,
        qualified: str | None = None,
        value: ast.expr | None = None,
    ) -> None:
        scope = frame.scope
        conditional = frame.conditional
        if scope.outer.get(name):
            scope, conditional = self.module, True
        binding = Binding(
            kind, node, scope, qualified, value, conditional, frame.typing_only, frame.fallback or conditional
        )
        scope.bindings.setdefault(name, []).append(binding)

    def _scope(self, node: ast.AST, name: str, frame: _Frame) -> Scope:
        scope = Scope(node, frame.scope, name)
        self.scope_at[node] = scope
        return scope

    def _import(self, node: ast.Import | ast.ImportFrom, frame: _Frame) -> None:
        self.imports.append(node)
        if isinstance(node, ast.Import):
            for alias in node.names:
                bound = alias.asname or alias.name.partition(".")[0]
                self._bind(bound, Kind.IMPORT, node, frame, alias.name if alias.asname else bound)
            return
        base = "." * node.level + (node.module or "")
        for alias in node.names:
            if alias.name == "*":
                self.stars.append((node, base))
            else:
                joint = "" if base.endswith(".") or not base else "."
                self._bind(alias.asname or alias.name, Kind.IMPORT, node, frame, f"{base}{joint}{alias.name}")

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef, frame: _Frame) -> _Children:
        self._bind(node.name, Kind.FUNCTION, node, frame)
        inside = _Frame(self._scope(node, node.name, frame))
        self._parameters(node.args, inside)
        outside = [*node.decorator_list, node.args, *([node.returns] if node.returns else [])]
        outside += getattr(node, "type_params", [])
        return [*((n, frame) for n in outside), *((n, inside) for n in node.body)]

    def _parameters(self, args: ast.arguments, frame: _Frame) -> None:
        for arg in (*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg):
            if arg is not None:
                self._bind(arg.arg, Kind.PARAMETER, arg, frame)


_ENTER: dict[type[ast.AST], Callable[[Walk, Any, _Frame], _Children | None]] = {
    **dict.fromkeys((ast.Import, ast.ImportFrom), Walk._import),
    **dict.fromkeys(FUNCTIONS, Walk._function),
    ast.Lambda: Walk._lambda,
    ast.ClassDef: Walk._class,
    **dict.fromkeys(_COMPREHENSIONS, Walk._comprehension),
    ast.comprehension: Walk._generator,
    **dict.fromkeys((ast.Global, ast.Nonlocal), Walk._outer),
    ast.Assign: Walk._assign,
    ast.AnnAssign: Walk._annotated,
    ast.NamedExpr: Walk._walrus,
    **dict.fromkeys((ast.ExceptHandler, ast.MatchAs, ast.MatchStar), Walk._named),
    ast.MatchMapping: Walk._mapping,
    **dict.fromkeys((ast.Try, ast.TryStar), Walk._try),
    ast.If: Walk._if,
    **dict.fromkeys((*LOOPS, ast.Match), Walk._branches),
}
"""What `Walk` does about nodes that bind names or open scopes: it gives the children with their frames, or None for
all of them in the same frame."""
if hasattr(ast, "TypeAlias"):
    _ENTER[ast.TypeAlias] = Walk._type_alias


def _assigned(target: ast.expr, value: ast.expr) -> list[tuple[ast.Name, ast.expr]]:
    """The names that an assignment gives a value of their own: `a = x`, `a, b = x, y`; nothing for other targets."""
    match target, value:
        case ast.Name(), _:
            return [(target, value)]
        case ((ast.Tuple(elts=targets) | ast.List(elts=targets)), (ast.Tuple(elts=values) | ast.List(elts=values))):
            names = [one for one in targets if isinstance(one, ast.Name)]
            whole = len(names) == len(targets) == len(values)
            if whole and not any(isinstance(one, ast.Starred) for one in values):
                return list(zip(names, values, strict=True))
    return []


def _type_checking(test: ast.expr) -> bool:
    name = test.attr if isinstance(test, ast.Attribute) else getattr(test, "id", "")
    return name == "TYPE_CHECKING"
