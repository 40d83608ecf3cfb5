"""What a name refers to: scopes, bindings and qualified names, on the stdlib syntax tree.

A qualified name counts only when it comes from an import statement (or from a plain alias of something imported, such
as `dist = torch.distributed`): a local function, a parameter or another library's function of the same name never
resolves to torch's.
"""

from __future__ import annotations

import ast
import enum
import functools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_DEPTH = 8


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


@dataclass(frozen=True, slots=True)
class Reference:
    """What an expression may refer to: qualified names, and whether something else is possible as well."""

    names: frozenset[str] = frozenset()
    certain: bool = True

    def surely(self, targets: frozenset[str]) -> bool:
        """True when the expression refers to one of the targets and to nothing else."""
        return bool(self.names) and self.certain and self.names <= targets

    def perhaps(self, targets: frozenset[str]) -> bool:
        """True when one of the targets is among the possibilities."""
        return bool(self.names & targets)


_NOTHING = Reference()


class Names:
    """Scopes and name resolution of one module."""

    def __init__(self, tree: ast.Module) -> None:
        self.parents: dict[ast.AST, ast.AST] = {}
        self.calls: list[ast.Call] = []
        self.attributes: list[ast.Attribute] = []
        self.loads: list[ast.Name] = []
        self.texts: list[ast.Constant] = []
        self.imports: list[ast.Import | ast.ImportFrom] = []
        self._scope_of_load: dict[ast.AST, Scope] = {}
        self.stars: list[tuple[ast.ImportFrom, str]] = []
        self.module = Scope(tree, None, "")
        self._scope_at: dict[ast.AST, Scope] = {tree: self.module}
        self._cache: dict[tuple[Scope, str, tuple[int, int]], Reference] = {}
        self._imported: dict[tuple[Scope, str], Reference | None] = {}
        _Builder(self).build(tree)

    def forget(self) -> None:
        """Let go of what scopes and bindings know of each other."""
        for scope in self._scope_at.values():
            scope.bindings.clear()
        self.__dict__.clear()

    def scope_of(self, node: ast.AST) -> Scope:
        """The scope in which the names of `node` are looked up."""
        known = self._scope_of_load.get(node)
        if known is not None:
            return known
        child: ast.AST = node
        at = self.parents.get(node)
        outside = False
        while at is not None:
            if isinstance(at, ast.comprehension):
                owner = self.parents[at]
                outside = child is at.iter and owner.generators[0] is at  # type: ignore[attr-defined]
            elif at in self._scope_at:
                if not outside and self._inside(at, child):
                    return self._scope_at[at]
                outside = False
            child, at = at, self.parents.get(at)
        return self.module

    def _inside(self, owner: ast.AST, child: ast.AST) -> bool:
        if isinstance(owner, _FUNCTIONS):
            return isinstance(child, (ast.stmt, ast.excepthandler))
        if isinstance(owner, ast.ClassDef):
            return isinstance(child, ast.stmt)
        if isinstance(owner, ast.Lambda):
            return child is owner.body
        return True

    def lookup(self, name: str, scope: Scope) -> tuple[Scope, list[Binding]] | None:
        """The scope that binds `name` as seen from `scope`, by Python's own rules, with its bindings there."""
        at: Scope | None = scope
        first = True
        while at is not None:
            if name in at.outer:
                if at.outer[name]:
                    found = self.module.bindings.get(name)
                    return (self.module, found) if found else None
            elif name in at.bindings and (first or not at.is_class):
                return at, at.bindings[name]
            first = first and at.is_comprehension
            at = at.parent
        return None

    def reaching(self, node: ast.Name) -> list[Binding] | None:
        """The bindings of a name that can hold where it is read; None when the file does not bind it."""
        scope = self.scope_of(node)
        found = self.lookup(node.id, scope)
        if found is None:
            return None
        owner, bindings = found
        return self._alive(
            bindings, (node.lineno, node.col_offset), self._function(owner) is self._function(scope), node
        )

    def _function(self, scope: Scope) -> Scope:
        while scope.parent is not None and (scope.is_comprehension or isinstance(scope.node, ast.Lambda)):
            scope = scope.parent
        return scope

    def _alive(self, bindings: list[Binding], at: tuple[int, int], same: bool, node: ast.AST) -> list[Binding]:
        if len(bindings) == 1:
            return bindings
        ordered = sorted(bindings, key=lambda b: b.position)
        around: set[ast.AST] = {node, *self._around(node)} if same else set()
        if same and not self._in_loop(node):
            before = [b for b in ordered if b.position < at and not (b.kind is Kind.ASSIGN and b.node in around)]
            ordered = before or ordered
        settled = (i for i, b in enumerate(ordered) if not b.conditional or self._precedes(b, at, around))
        return ordered[max(settled, default=0) :]

    def _around(self, node: ast.AST) -> Iterator[ast.AST]:
        outer = self.parents.get(node)
        while outer is not None:
            yield outer
            outer = self.parents.get(outer)

    def _precedes(self, binding: Binding, at: tuple[int, int], around: set[ast.AST]) -> bool:
        """Whether a binding below a condition has happened for sure where a name is read: same branch, further up."""
        if not around or binding.position >= at:
            return False
        chain = [binding.node, *self._around(binding.node)]
        holder = next((one for one in chain if isinstance(one, (ast.stmt, ast.match_case, ast.excepthandler))), None)
        if holder is None:
            return False
        parent = self.parents.get(holder)
        blocks = [holder.body] if holder in around and hasattr(holder, "body") else []
        if not blocks and parent in around:
            lists = [getattr(parent, name, None) for name in ("body", "orelse", "finalbody")]
            blocks = [block for block in lists if isinstance(block, list) and holder in block]
        return any(statement in around for block in blocks for statement in block)

    def _in_loop(self, node: ast.AST) -> bool:
        at = self.parents.get(node)
        while at is not None and not isinstance(at, (*_FUNCTIONS, ast.ClassDef)):
            if isinstance(at, _LOOPS):
                return True
            at = self.parents.get(at)
        return False

    def resolve(self, node: ast.expr, depth: int = 0) -> Reference:
        """The qualified names that a dotted expression may refer to; empty for anything that is not imported."""
        suffix: list[str] = []
        while isinstance(node, ast.Attribute):
            suffix.append(node.attr)
            node = node.value
        if depth > _DEPTH:
            return _NOTHING
        if isinstance(node, ast.Name):
            root = self._resolve_name(node, depth)
        elif (asked := self._asked(node)) is not None:
            owner, attribute = asked
            suffix.append(attribute)
            root = self.resolve(owner, depth + 1)
        else:
            return _NOTHING
        if not suffix or not root.names:
            return root
        tail = "." + ".".join(reversed(suffix))
        return Reference(frozenset(name + tail for name in root.names), root.certain)

    def _asked(self, node: ast.expr) -> tuple[ast.expr, str] | None:
        """The object and the attribute of `getattr(object, "attribute")`, where that is the builtin."""
        match node:
            case ast.Call(
                func=ast.Name(id="getattr") as name, args=[owner, ast.Constant(value=str() as attribute)], keywords=[]
            ) if self.lookup("getattr", self.scope_of(name)) is None and attribute.isidentifier():
                return owner, attribute
        return None

    def _resolve_name(self, node: ast.Name, depth: int) -> Reference:
        place = (self.scope_of(node), node.id)
        try:
            everywhere = self._imported[place]
        except KeyError:
            everywhere = self._imported[place] = self._only_imported(*place)
        if everywhere is not None:
            return everywhere
        key = (self.scope_of(node), node.id, (node.lineno, node.col_offset))
        if key not in self._cache:
            self._cache[key] = _NOTHING
            self._cache[key] = self._name_reference(node, depth)
        return self._cache[key]

    def _only_imported(self, scope: Scope, name: str) -> Reference | None:
        """What a name with one binding, an import, stands for, wherever it is read."""
        found = self.lookup(name, scope)
        if found is None or len(found[1]) != 1 or found[1][0].kind is not Kind.IMPORT:
            return None
        qualified = found[1][0].qualified
        return Reference(frozenset({qualified})) if qualified else None

    def _name_reference(self, node: ast.Name, depth: int) -> Reference:
        bindings = self.reaching(node)
        if bindings is None:
            return self._from_stars(node.id)
        names: set[str] = set()
        certain = True
        for binding in bindings:
            if binding.kind is Kind.IMPORT and binding.qualified:
                names.add(binding.qualified)
            elif binding.value is not None and _may_be_imported(binding):
                through = self.resolve(binding.value, depth + 1)
                names |= through.names
                certain = certain and through.certain and bool(through.names)
            elif not _is_none(binding.value):
                certain = False
        return Reference(frozenset(names), certain)

    def _from_stars(self, name: str) -> Reference:
        if not self.stars:
            return _NOTHING
        if name == "torch":
            return Reference(frozenset({"torch"}))
        torch_stars = {module for _, module in self.stars if module == "torch" or module.startswith("torch.")}
        return Reference(frozenset(f"{module}.{name}" for module in torch_stars), len(self.stars) == 1)

    def references(self, targets: Iterable[str]) -> Iterator[tuple[ast.Name | ast.Attribute | ast.Call, bool]]:
        """Every read of one of the qualified names, in source order, with whether it surely is one of them.

        A call is one of `getattr(object, "attribute")`.
        """
        wanted = frozenset(targets)
        tails = {name.rpartition(".")[2] for name in wanted}
        found: list[tuple[ast.Name | ast.Attribute | ast.Call, bool]] = []
        for tail in tails:
            for call in self._calls_of_getattr.get(tail, ()):
                reference = self.resolve(call)
                if reference.perhaps(wanted):
                    found.append((call, reference.surely(wanted)))
            for attribute in self._attributes_by_name.get(tail, ()):
                reference = self.resolve(attribute)
                if reference.perhaps(wanted):
                    found.append((attribute, reference.surely(wanted)))
            for name in self._reads[1].get(tail, ()) if self.stars else ():
                reference = self._resolve_name(name, 0)
                if reference.perhaps(wanted):
                    found.append((name, reference.surely(wanted)))
        aliases = {name: reference for one in wanted for name, reference in self._aliases.get(one, ())}
        found += ((name, reference.surely(wanted)) for name, reference in aliases.items())
        found.sort(key=lambda pair: (pair[0].lineno, pair[0].col_offset))
        yield from found

    @functools.cached_property
    def _attributes_by_name(self) -> dict[str, list[ast.Attribute]]:
        found: dict[str, list[ast.Attribute]] = {}
        for attribute in self.attributes:
            if isinstance(attribute.ctx, ast.Load):
                found.setdefault(attribute.attr, []).append(attribute)
        return found

    @functools.cached_property
    def _calls_of_getattr(self) -> dict[str, list[ast.Call]]:
        """The calls of `getattr` that spell an attribute out, by its name."""
        found: dict[str, list[ast.Call]] = {}
        for name in self._reads[1].get("getattr", ()):
            call = self.parents[name]
            if isinstance(call, ast.Call) and call.func is name and (asked := self._asked(call)) is not None:
                found.setdefault(asked[1], []).append(call)
        return found

    @functools.cached_property
    def _aliases(self) -> dict[str, list[tuple[ast.Name, Reference]]]:
        """The reads of names that stand for something imported, by what that may be."""
        found: dict[str, list[tuple[ast.Name, Reference]]] = {}
        for name in self._reads[0]:
            reference = self._resolve_name(name, 0)
            for qualified in reference.names:
                found.setdefault(qualified, []).append((name, reference))
        return found

    @functools.cached_property
    def _reads(self) -> tuple[list[ast.Name], dict[str, list[ast.Name]]]:
        """The reads of names that may stand for something imported, and the others by name."""
        known: dict[tuple[Scope, str], list[ast.Name]] = {}
        aliases: list[ast.Name] = []
        others: dict[str, list[ast.Name]] = {}
        scope_of = self._scope_of_load
        for name in self.loads:
            key = (scope_of[name], name.id)
            group = known.get(key)
            if group is None:
                found = self.lookup(name.id, key[0])
                is_alias = found is not None and any(map(_may_be_imported, found[1]))
                group = known[key] = aliases if is_alias else others.setdefault(name.id, [])
            group.append(name)
        return aliases, others


def _may_be_imported(binding: Binding) -> bool:
    if binding.kind is not Kind.ASSIGN:
        return binding.kind is Kind.IMPORT
    value = binding.value
    if isinstance(value, ast.Call):
        return isinstance(value.func, ast.Name) and value.func.id == "getattr" and len(value.args) == 2
    return isinstance(value, (ast.Name, ast.Attribute))


def _is_none(value: ast.expr | None) -> bool:
    return isinstance(value, ast.Constant) and value.value in (None, False)


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


class _Builder:
    """One walk over the tree that records parents, scopes and bindings."""

    def __init__(self, names: Names) -> None:
        self.names = names

    def build(self, tree: ast.Module) -> None:
        names = self.names
        parents, calls, attributes, loads = names.parents, names.calls, names.attributes, names.loads
        texts = names.texts
        scope_of_load = names._scope_of_load
        stack: list[tuple[Any, Any, _Frame]] = [
            (child, tree, _Frame(names.module)) for child in reversed(list(ast.iter_child_nodes(tree)))
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
        parents = self.names.parents
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
        self.names.parents[node.target] = node
        return [(node.annotation, frame), *([(node.value, frame)] if node.value else [])]

    def _walrus(self, node: ast.NamedExpr, frame: _Frame) -> _Children:
        scope = frame.scope
        while scope.is_comprehension and scope.parent is not None:
            scope = scope.parent
        self._bind(node.target.id, Kind.ASSIGN, node, _Frame(scope, True), value=node.value)
        self.names.parents[node.target] = node
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
            scope, conditional = self.names.module, True
        binding = Binding(
            kind, node, scope, qualified, value, conditional, frame.typing_only, frame.fallback or conditional
        )
        scope.bindings.setdefault(name, []).append(binding)

    def _scope(self, node: ast.AST, name: str, frame: _Frame) -> Scope:
        scope = Scope(node, frame.scope, name)
        self.names._scope_at[node] = scope
        return scope

    def _import(self, node: ast.Import | ast.ImportFrom, frame: _Frame) -> None:
        self.names.imports.append(node)
        if isinstance(node, ast.Import):
            for alias in node.names:
                bound = alias.asname or alias.name.partition(".")[0]
                self._bind(bound, Kind.IMPORT, node, frame, alias.name if alias.asname else bound)
            return
        base = "." * node.level + (node.module or "")
        for alias in node.names:
            if alias.name == "*":
                self.names.stars.append((node, base))
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


_ENTER: dict[type[ast.AST], Callable[[_Builder, Any, _Frame], _Children | None]] = {
    **dict.fromkeys((ast.Import, ast.ImportFrom), _Builder._import),
    **dict.fromkeys(_FUNCTIONS, _Builder._function),
    ast.Lambda: _Builder._lambda,
    ast.ClassDef: _Builder._class,
    **dict.fromkeys(_COMPREHENSIONS, _Builder._comprehension),
    ast.comprehension: _Builder._generator,
    **dict.fromkeys((ast.Global, ast.Nonlocal), _Builder._outer),
    ast.Assign: _Builder._assign,
    ast.AnnAssign: _Builder._annotated,
    ast.NamedExpr: _Builder._walrus,
    **dict.fromkeys((ast.ExceptHandler, ast.MatchAs, ast.MatchStar), _Builder._named),
    ast.MatchMapping: _Builder._mapping,
    **dict.fromkeys((ast.Try, ast.TryStar), _Builder._try),
    ast.If: _Builder._if,
    **dict.fromkeys((*_LOOPS, ast.Match), _Builder._branches),
}
"""What `_Builder` does about nodes that bind names or open scopes: it gives the children with their frames, or None for
all of them in the same frame."""
if hasattr(ast, "TypeAlias"):
    _ENTER[ast.TypeAlias] = _Builder._type_alias


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
