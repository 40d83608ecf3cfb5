"""Which expression holds the work, the future or the value of which collective.

Values are followed through names, closures, attributes, `.then` callbacks, lists and local functions. What is followed
exactly can be rewritten; where a value went through something else on the way, `far` says through what.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

from torchmigrate.module import Module
from torchmigrate.reaching import Definition, Phi, key_of, untouched
from torchmigrate.scopes import Binding, Kind
from torchmigrate_codemods.torch_2_15.gathering.callbacks import Callbacks, Function

_DEFS = (ast.FunctionDef, ast.AsyncFunctionDef)
_DEPTH = 80
_STEPS = 600

_MODULES = ("torch.distributed", "torch.distributed.distributed_c10d")
_COLLECTIVES = frozenset(
    (
        *("all_gather", "all_gather_into_tensor", "all_gather_single", "_all_gather_base", "all_reduce", "broadcast"),
        *("reduce", "gather", "scatter", "reduce_scatter", "reduce_scatter_tensor", "reduce_scatter_single"),
        *("_reduce_scatter_base", "all_to_all", "all_to_all_single", "barrier", "isend", "irecv"),
    )
)
_WORLD = frozenset(f"{module}.group.WORLD" for module in _MODULES)
_METHODS = {
    "allgather": "all_gather",
    "allreduce": "all_reduce",
    "_end_coalescing": "coalesced",
    **{name: name for name in ("broadcast", "reduce", "gather", "scatter", "reduce_scatter", "alltoall", "barrier")},
    **dict.fromkeys(("_allgather_base", "allgather_into_tensor_coalesced"), "all_gather_into_tensor"),
    **dict.fromkeys(("_reduce_scatter_base", "reduce_scatter_tensor_coalesced"), "reduce_scatter"),
}
_THEN = ("then", "add_done_callback")


@dataclass(frozen=True, eq=False, slots=True)
class Hop:
    """A variable on the way: where it is read and what it was assigned; `merged` where several assignments meet."""

    definition: Definition
    use: ast.expr
    merged: bool


@dataclass(frozen=True, eq=False, slots=True)
class Origin:
    """What an expression may hold: the work, future, value or list of values of one call of a collective.

    `sure` is false where the name of the collective may be something else; `far` says what hides the way of the value;
    `handed` is the expression, in a callback, that hands the value on as the result of the callback's future.
    """

    kind: Literal["work", "future", "value"]
    op: str
    call: ast.Call
    sure: bool = True
    hops: tuple[Hop, ...] = ()
    far: str | None = None
    handed: ast.expr | None = None


@dataclass(frozen=True, slots=True)
class Held:
    """Everything that an expression may hold; `other` when that may be something unknown as well."""

    origins: tuple[Origin, ...] = ()
    other: bool = False

    def of(self, *kinds: str) -> tuple[Origin, ...]:
        """The origins of some kinds."""
        return tuple(o for o in self.origins if o.kind in kinds)

    def through(self, hop: Hop) -> Held:
        """The same after one more variable."""
        return Held(tuple(replace(o, hops=(*o.hops, hop)) for o in self.origins), self.other)

    def hidden(self, far: str) -> Held:
        """The same behind something that is not followed exactly."""
        return Held(tuple(replace(o, far=o.far or far) for o in self.origins), self.other)


NOTHING = Held()
UNKNOWN = Held((), True)


def _join(parts: Iterable[Held]) -> Held:
    found = list(parts)
    return Held(tuple(o for part in found for o in part.origins), any(part.other for part in found))


class Futures:
    """Answers for one module."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.callbacks = Callbacks(module)
        self._known: dict[ast.expr, Held] = {}
        self._active: set[ast.AST] = set()
        self._steps = 0
        self._cut = False
        """Whether something was left out since a cycle or the depth was met: then nothing is kept."""
        self._collectives = self._find_collectives()

    # -- questions ---------------------------------------------------------------------------------------------

    def held(self, node: ast.expr) -> Held:
        """What an expression may hold."""
        if node in self._known:
            return self._known[node]
        self._steps = self._steps + 1 if self._active else 0
        if node in self._active or len(self._active) > _DEPTH or self._steps > _STEPS:
            self._cut = True
            return NOTHING
        before, self._cut = self._cut, False
        self._active.add(node)
        try:
            found = self._evaluate(node)
        finally:
            self._active.discard(node)
        if not self._cut:
            self._known[node] = found
        self._cut = self._cut or before
        return found

    def calls(self, op: str) -> list[ast.Call]:
        """The calls of a collective, in source order."""
        return [call for call, (name, _) in self._collectives.items() if name == op]

    # -- sources -----------------------------------------------------------------------------------------------

    def _find_collectives(self) -> dict[ast.Call, tuple[str, bool]]:
        targets = [f"{module}.{name}" for module in _MODULES for name in _COLLECTIVES]
        found = {
            site.node: (self._last(site.node.func), site.certain)
            for site in self.module.calls(*targets)
            if self._last(site.node.func) is not None
        }
        for call in self.module.names.calls:
            if call in found or not isinstance(call.func, ast.Attribute):
                continue
            op = _METHODS.get(call.func.attr) or (call.func.attr if call.func.attr in _COLLECTIVES else None)
            if op is not None and not self.module.resolve(call.func).names & set(targets):
                found[call] = (op, op == "coalesced" or self._on_group(call))
        order = sorted(found, key=lambda c: (c.lineno, c.col_offset))
        return {call: (str(found[call][0]), found[call][1]) for call in order}

    def _on_group(self, call: ast.Call) -> bool:
        """`group.allgather([outputs], [inputs])`, the method that the function calls."""
        assert isinstance(call.func, ast.Attribute)
        lists = len(call.args) >= 2 and all(isinstance(a, ast.List) and len(a.elts) == 1 for a in call.args[:2])
        receiver = self.module.resolve(call.func.value).names
        return call.func.attr == "allgather" and lists and all(name in _WORLD for name in receiver)

    def _last(self, function: ast.expr) -> str | None:
        names = {name.rpartition(".")[2] for name in self.module.resolve(function).names}
        return names.pop() if len(names) == 1 else None

    # -- expressions -------------------------------------------------------------------------------------------

    def _evaluate(self, node: ast.expr) -> Held:
        match node:
            case ast.Call():
                return self._call(node)
            case ast.NamedExpr(value=value) | ast.Await(value=value):
                return self.held(value)
            case ast.IfExp(body=body, orelse=orelse):
                return _join((self.held(body), self.held(orelse)))
            case ast.BoolOp(values=values):
                return _join(self.held(value) for value in values)
            case ast.Constant(value=None):
                return NOTHING
            case ast.Name() | ast.Attribute():
                return self._variable(node)
            case ast.Subscript(value=value, slice=index):
                listed = self._listed(value)
                if listed is not None and isinstance(index, ast.Constant) and isinstance(index.value, int):
                    if -len(listed) <= index.value < len(listed):
                        return listed[index.value]
                    return UNKNOWN
                if self.held(value).of("value"):
                    return UNKNOWN
                return self.elements(value)
        return UNKNOWN

    def _call(self, node: ast.Call) -> Held:
        if node in self._collectives:
            op, sure = self._collectives[node]
            return Held((Origin("work", op, node, sure),))
        function = node.func
        if self.module.refers_to(function, "typing.cast") and len(node.args) == 2:
            return self.held(node.args[1])
        if isinstance(function, ast.Attribute):
            if function.attr == "get_future":
                return self._as(self.held(function.value), "work", "future")
            if function.attr in ("wait", "value"):
                return self._as(self.held(function.value), "future", "value")
            if function.attr == "result":
                works = self.held(function.value)
                return self._as(Held(tuple(o for o in works.origins if o.sure), works.other), "work", "value")
            if function.attr == "then" and node.args:
                return self._chained(node)
            if function.attr == "pop":
                return self.elements(function.value)
        results = [
            r for f, _ in self.callbacks.functions(function) if isinstance(f, _DEFS) for r in self.callbacks.results(f)
        ]
        if results:
            return _join(self.held(r) for r in results).hidden("it is returned by a function")
        return UNKNOWN

    def _as(self, held: Held, before: str, after: Literal["work", "future", "value"]) -> Held:
        return Held(tuple(replace(o, kind=after) for o in held.origins if o.kind == before), held.other)

    def _chained(self, node: ast.Call) -> Held:
        """The future that `.then` makes: it holds what the callback returns."""
        parts: list[Held] = []
        for function, _ in self.callbacks.functions(node.args[0]):
            for result in self.callbacks.results(function):
                held = self.held(result)
                values = tuple(
                    replace(o, kind="future", hops=(), handed=result) if o.handed is None
                    else replace(o, kind="future", far=o.far or "it goes through several callbacks")
                    for o in held.of("value")
                )  # fmt: skip
                parts.append(Held(values, held.other or (not values and bool(held.origins))))
        return _join(parts) if parts else UNKNOWN

    def _listed(self, node: ast.expr) -> list[Held] | None:
        """The values of `wait_all([...])` or the futures of `collect_all([...]).wait()`, element by element."""
        match node:
            case ast.Call(func=function, args=[futures, *_]):
                if self.module.refers_to(function, "torch.futures.wait_all"):
                    elements = self._literal(futures)
                    return None if elements is None else [self._as(self.held(e), "future", "value") for e in elements]
            case ast.Call(func=ast.Attribute(value=ast.Call(func=function, args=[futures, *_]), attr="wait" | "value")):
                if self.module.refers_to(function, "torch.futures.collect_all"):
                    elements = self._literal(futures)
                    return None if elements is None else [self.held(e) for e in elements]
            case ast.List() | ast.Tuple():
                elements = self._literal(node)
                return None if elements is None else [self.held(e) for e in elements]
            case ast.Name():
                definition = self._single(node)
                if definition is not None and definition.value is not None and definition.how == "assign":
                    if isinstance(definition.value, (ast.List, ast.Tuple)) and self._grows(node):
                        return None
                    inner = self._listed(definition.value)
                    return inner and [held.through(Hop(definition, node, False)) for held in inner]
        return None

    def _literal(self, node: ast.expr) -> list[ast.expr] | None:
        if isinstance(node, ast.Name):
            definition = self._single(node)
            if definition is None or definition.value is None or definition.how != "assign" or self._grows(node):
                return None
            node = definition.value
        if isinstance(node, (ast.List, ast.Tuple)) and not any(isinstance(e, ast.Starred) for e in node.elts):
            return node.elts
        return None

    def _single(self, node: ast.Name) -> Definition | None:
        if self._local(node):
            version = untouched(self.module.flow(node).version(node.id, node))
            return version if isinstance(version, Definition) else None
        found = self.module.names.lookup(node.id, self.module.names.scope_of(node))
        if found is not None and len(found[1]) == 1 and found[1][0].kind is Kind.ASSIGN:
            return Definition(node.id, "assign", found[1][0].node, found[1][0].value)
        return None

    def _grows(self, node: ast.Name) -> bool:
        return any(True for _ in self._appended(node))

    # -- variables ---------------------------------------------------------------------------------------------

    def _local(self, node: ast.expr) -> bool:
        """Whether the function that runs a node binds the name itself (not a comprehension inside, not a closure)."""
        root = node
        while isinstance(root, ast.Attribute):
            root = root.value
        if not isinstance(root, ast.Name):
            return False
        found = self.module.names.lookup(root.id, self.module.names.scope_of(node))
        owner = self.module.function(node)
        return found is not None and (found[0].node is owner or (owner is None and found[0].parent is None))

    def _variable(self, node: ast.Name | ast.Attribute) -> Held:
        key = key_of(node)
        if key is None:
            return UNKNOWN
        if isinstance(node, ast.Attribute):
            held = self._flowing(node, key) if self._local(node) else NOTHING
            if held is not None and (held.origins or not held.other):
                stored = self._attribute(node) if not held.origins else NOTHING
                return _join((held, stored)) if held.origins or stored.origins else UNKNOWN
            return self._attribute(node)
        if self._local(node):
            return self._flowing(node, key) or UNKNOWN
        found = self.module.names.lookup(node.id, self.module.names.scope_of(node))
        if found is None:
            return UNKNOWN
        scope, bindings = found
        if scope.is_comprehension:
            return self._comprehension(node, scope.node)
        return _join(self._bound(node, binding, len(bindings) > 1) for binding in bindings)

    def _flowing(self, node: ast.Name | ast.Attribute, key: str) -> Held | None:
        flow = self.module.flow(node)
        merged = isinstance(untouched(flow.version(key, node)), Phi)
        parts: list[Held] = []
        for definition in flow.definitions(key, node):
            if definition.how == "free":
                return None
            if definition.how == "assign" and definition.value is not None:
                parts.append(self.held(definition.value).through(Hop(definition, node, merged)))
            elif definition.how == "parameter" and isinstance(definition.node, ast.arg):
                parts.append(self._parameter(definition.node))
            elif definition.how == "loop" and definition.value is not None:
                parts.append(self.elements(definition.value))
            elif definition.how == "unpack" and definition.value is not None and definition.index is not None:
                parts.append(self._unpacked(definition.value, definition.index))
            elif definition.how == "with" and isinstance(definition.value, ast.Call):
                parts.append(self._manager(definition.value))
            elif definition.how != "unbound":
                parts.append(UNKNOWN)
        return _join(parts)

    def _unpacked(self, value: ast.expr, index: int) -> Held:
        listed = self._listed(value)
        if listed is not None:
            return listed[index] if index < len(listed) else UNKNOWN
        if isinstance(value, ast.Call):
            results = [r for f, _ in self.callbacks.functions(value.func) for r in self.callbacks.results(f)]
            parts = [r.elts[index] for r in results if isinstance(r, ast.Tuple) and index < len(r.elts)]
            if parts:
                return _join(self.held(p) for p in parts).hidden("it is returned by a function")
        return self.elements(value)

    def _bound(self, node: ast.Name, binding: Binding, merged: bool) -> Held:
        """A closure or module variable, as bound in the scope around."""
        if binding.kind is Kind.ASSIGN and binding.value is not None:
            definition = Definition(node.id, "assign", binding.node, binding.value)
            return self.held(binding.value).through(Hop(definition, node, merged))
        if binding.kind is Kind.PARAMETER and isinstance(binding.node, ast.arg):
            return self._parameter(binding.node)
        return UNKNOWN

    def _attribute(self, node: ast.Attribute) -> Held:
        """`self.future`: whatever the methods of the class store there."""
        inside = self.module.enclosing_class(node)
        if inside is None or not isinstance(node.value, ast.Name) or node.value.id not in ("self", "cls"):
            return UNKNOWN
        values = [
            statement.value
            for statement in ast.walk(inside)
            if isinstance(statement, ast.Assign)
            and any(isinstance(t, ast.Attribute) and key_of(t) == key_of(node) for t in statement.targets)
        ]
        if not values:
            return UNKNOWN
        return _join(self.held(value) for value in values).hidden("it is kept in an attribute")

    def _comprehension(self, node: ast.Name, comprehension: ast.AST) -> Held:
        for generator in getattr(comprehension, "generators", []):
            if any(isinstance(n, ast.Name) and n.id == node.id for n in ast.walk(generator.target)):
                return self.elements(generator.iter)
        return UNKNOWN

    def _manager(self, call: ast.Call) -> Held:
        if isinstance(call.func, (ast.Name, ast.Attribute)) and (key_of(call.func) or "").endswith(
            "_coalescing_manager"
        ):
            return Held((Origin("work", "coalesced", call, far="it is the work of several collectives"),))
        return UNKNOWN

    # -- lists -------------------------------------------------------------------------------------------------

    def elements(self, node: ast.expr) -> Held:
        """What the elements of a list may hold."""
        far = "it is kept in a list"
        match node:
            case ast.List(elts=elements) | ast.Tuple(elts=elements) | ast.Set(elts=elements):
                return _join(self.held(e) for e in elements if not isinstance(e, ast.Starred)).hidden(far)
            case ast.ListComp(elt=element) | ast.GeneratorExp(elt=element) | ast.SetComp(elt=element):
                return self.held(element).hidden(far)
            case ast.DictComp(value=value):
                return self.held(value).hidden(far)
            case ast.Call(func=ast.Name(id="enumerate" | "zip" | "reversed" | "list" | "tuple" | "iter"), args=args):
                return _join(self.elements(a) for a in args).hidden(far)
            case ast.Call(func=ast.Attribute(value=value, attr="values" | "items" | "copy")):
                return self.elements(value)
            case ast.Attribute(value=value, attr="works"):
                coalesced = [o for o in self.held(value).origins if o.op == "coalesced"]
                if coalesced:
                    return Held(tuple(coalesced))
                return self._kept(node, far)
            case ast.Name() | ast.Attribute():
                return self._kept(node, far)
            case ast.Call():
                listed = self._listed(node)
                if listed is not None:
                    return _join(listed).hidden(far)
                if self.module.refers_to(node.func, "torch.futures.wait_all") and node.args:
                    return self._as(self.elements(node.args[0]), "future", "value")
                return self._collected(node)
        return UNKNOWN

    def _collected(self, node: ast.Call) -> Held:
        inner = (
            node.func.value if isinstance(node.func, ast.Attribute) and node.func.attr in ("wait", "value") else None
        )
        if (
            isinstance(inner, ast.Call)
            and inner.args
            and self.module.refers_to(inner.func, "torch.futures.collect_all")
        ):
            return self.elements(inner.args[0])
        return UNKNOWN

    def _kept(self, node: ast.Name | ast.Attribute, far: str) -> Held:
        parts = [self.held(value) for value in self._appended(node)]
        parts += [
            self.elements(value) for value in self._assigned(node) if value is not node and value not in self._active
        ]
        return _join(parts).hidden(far) if any(part.origins for part in parts) else UNKNOWN

    def _assigned(self, node: ast.Name | ast.Attribute) -> Iterator[ast.expr]:
        if isinstance(node, ast.Name):
            found = self.module.names.lookup(node.id, self.module.names.scope_of(node))
            for binding in found[1] if found else ():
                if binding.kind is Kind.ASSIGN and binding.value is not None:
                    yield binding.value
        else:
            for at in ast.walk(self._region(node)):
                if isinstance(at, ast.Assign) and any(key_of(t) == key_of(node) for t in at.targets):
                    yield at.value

    def _appended(self, node: ast.Name | ast.Attribute) -> Iterator[ast.expr]:
        """What is put into a list: by append, insert, += or by index."""
        key = key_of(node)
        for at in ast.walk(self._region(node)):
            match at:
                case ast.Call(
                    func=ast.Attribute(value=owner, attr="append" | "insert" | "appendleft"), args=[*_, last]
                ):
                    if key_of(owner) == key:
                        yield last
                case ast.AugAssign(target=target, value=ast.List(elts=elements)) if key_of(target) == key:
                    yield from elements
                case ast.Assign(targets=[ast.Subscript(value=owner)], value=value) if key_of(owner) == key:
                    yield value

    def _region(self, node: ast.expr) -> ast.AST:
        """Where the uses of a variable can be: its scope, or the class for an attribute of self."""
        if isinstance(node, ast.Attribute):
            return self.module.enclosing_class(node) or self.module.tree
        if isinstance(node, ast.Name):
            found = self.module.names.lookup(node.id, self.module.names.scope_of(node))
            return found[0].node if found else self.module.tree
        return self.module.tree

    # -- parameters -------------------------------------------------------------------------------------------

    def _parameter(self, arg: ast.arg) -> Held:
        """What a parameter may hold: the future that a callback gets, or what the callers in this file pass."""
        arguments = self.module.parents.get(arg)
        function = self.module.parents.get(arguments) if arguments is not None else None
        if not isinstance(arguments, ast.arguments) or not isinstance(function, (*_DEFS, ast.Lambda)):
            return UNKNOWN
        positions = [*arguments.posonlyargs, *arguments.args]
        index = positions.index(arg) if arg in positions else None
        parts: list[Held] = []
        for reference in self.callbacks.references(function):
            parent = self.module.parents.get(reference)
            if isinstance(parent, ast.Call) and parent.func is reference:
                parts.append(self._argument(parent, reference, function, arg, index))
            else:
                parts.append(self._callback(reference, function, index))
        return _join(parts) if parts else UNKNOWN

    def _callback(self, reference: ast.expr, function: Function, index: int | None) -> Held:
        """The future that a function gets where it is handed to `.then`."""
        node: ast.expr = reference
        parent = self.module.parents.get(node)
        if isinstance(parent, ast.Call) and self.module.refers_to(parent.func, "functools.partial"):
            node, parent = parent, self.module.parents.get(parent)
        first = next((n for f, n in self.callbacks.functions(node) if f is function), None)
        if (
            isinstance(parent, ast.Call)
            and isinstance(parent.func, ast.Attribute)
            and parent.func.attr in _THEN
            and parent.args[:1] == [node]
        ):
            return self.held(parent.func.value) if first == index else NOTHING
        return UNKNOWN

    def _argument(
        self, call: ast.Call, reference: ast.expr, function: Function, arg: ast.arg, index: int | None
    ) -> Held:
        first = next((n for f, n in self.callbacks.functions(reference) if f is function), 0)
        by_name = next((k.value for k in call.keywords if k.arg == arg.arg), None)
        place = None if index is None else index - first
        given = by_name
        if given is None and place is not None and 0 <= place < len(call.args):
            given = call.args[place]
        if given is None or isinstance(given, ast.Starred):
            return UNKNOWN
        held = self.held(given)
        nested = isinstance(function, ast.Lambda) or self.module.function(function) is not None
        return held if nested else held.hidden("it is passed to a function")
