"""Which assignment a name holds where: reaching definitions and conditions inside one function, in one pass.

The keys of `reaching` are followed through branches, loops, `try`, `with` and `match`. Every point has one *version* of
each key; where paths with different versions meet there is a `Phi`. Conditions that must have held on the way to a
statement are kept as long as nothing that they mention is assigned.

astroid follows values too, but not whether a name is bound or has changed between two places; jedi infers types;
beniget gives def-use chains for plain names, none for attributes and no conditions (`values` has figures). So this is
our own, and small because Python is structured.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from torchmigrate.effects import EVERYTHING
from torchmigrate.reaching import (
    Condition,
    Definition,
    How,
    Phi,
    Touched,
    Version,
    expand,
    key_of,
    namespace_of,
    owner_key,
    settled,
    untouched,
)

if TYPE_CHECKING:
    from torchmigrate.module import Module
    from torchmigrate.scopes import Scope

Owner = ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_EXITS = frozenset({"exit", "quit", "sys.exit", "os._exit", "os.abort", "pytest.skip", "self.skipTest", "pytest.fail"})
_HARMLESS = frozenset(
    {"print", "repr", "str", "len", "isinstance", "hasattr", "getattr", "id", "type", "vars", "dir", "sorted", "list"}
    | {"tuple", "dict", "set", "int", "float", "bool"}
    | {"info", "debug", "warning", "warn", "error", "exception", "log", "critical"}
)


@dataclass(slots=True)
class _State:
    """Versions and conditions at one point. Copies share their versions until one of them changes."""

    versions: dict[str, Version]
    conditions: tuple[Condition, ...] = ()
    shared: bool = False

    def copy(self) -> _State:
        self.shared = True
        return _State(self.versions, self.conditions, True)

    def put(self, key: str, version: Version) -> None:
        self._own()
        self.versions[key] = version

    def drop(self, key: str) -> None:
        self._own()
        del self.versions[key]

    def _own(self) -> None:
        if self.shared:
            self.versions, self.shared = dict(self.versions), False


@dataclass(slots=True)
class _Loop:
    breaks: list[_State] = field(default_factory=list)
    continues: list[_State] = field(default_factory=list)


class Flow:
    """Versions and conditions at each statement of one function, or of a module's top level."""

    def __init__(self, module: Module, owner: Owner) -> None:
        self.module = module
        self.owner = owner
        self._before: dict[ast.stmt, _State] = {}
        self._entries: dict[tuple[str, int], Definition] = {}
        self._roots: dict[int, Version] = {}
        self._below: dict[str, dict[str, None]] = {}
        self._meets: dict[tuple[str, int], Version] = {}
        self._touches: dict[tuple[str, int, int], Touched] = {}
        self._loops: list[_Loop] = []
        self._survivors: set[ast.ExceptHandler] = set()
        self._aliases: dict[str, set[str]] = {}
        self._locals = self._assigned_names(owner)
        state = _State({})
        if not isinstance(owner, ast.Module):
            for arg in _parameters(owner.args):
                state.put(arg.arg, Definition(arg.arg, "parameter", arg))
        self._start = state.copy()
        end = None if isinstance(owner, ast.Lambda) else self._block(owner.body, state)
        self.falls_through = end is not None
        """Whether control can reach the end of the body."""
        self._end = end or _State({})

    # -- questions ---------------------------------------------------------------------------------------------

    def reachable(self, at: ast.AST) -> bool:
        """Whether control can reach the statement of a node."""
        return isinstance(self.owner, ast.Lambda) or self._statement(at) in self._before

    def version(self, key: str, at: ast.AST) -> Version:
        """The version of a key just before the statement of `at` runs."""
        return self._lookup(self._state(at), key)

    def final(self, key: str) -> Version:
        """The version of a key at the end of the body."""
        return self._lookup(self._end, key)

    def definitions(self, key: str, at: ast.AST) -> tuple[Definition, ...]:
        """Every definition of a key that can reach the statement of `at`, in source order where known."""
        found = dict.fromkeys(expand(self.version(key, at)))
        return tuple(sorted(found, key=lambda d: (getattr(d.node, "lineno", 0), getattr(d.node, "col_offset", 0))))

    def same(self, key: str, first: ast.AST, second: ast.AST, *, strict: bool = False) -> bool:
        """Whether a key surely has the same value at two places of one run of the function.

        A call that received the owner of a dotted key counts as a change only when `strict`.
        """
        one, other = self.version(key, first), self.version(key, second)
        return one is other or (not strict and settled(one) is settled(other))

    def bound(self, name: str, at: ast.AST) -> bool:
        """Whether a local name surely has a value at `at` (names from outside the function count as bound)."""
        return all(d.how != "unbound" for d in self.definitions(name, at))

    def conditions(self, at: ast.AST) -> tuple[Condition, ...]:
        """The tests that came out a known way whenever `at` runs, outermost first, also inside one expression.

        A condition speaks of the versions that it names; what they say of a key's value later is for the asker.
        """
        inside: list[Condition] = []
        for test, truth in self._inside_expression(at):
            inside += self.conditions_of(test, truth, at)
        return (*self._state(at).conditions, *inside)

    def conditions_of(self, test: ast.expr, truth: bool, at: ast.AST) -> tuple[Condition, ...]:
        """What is known when a test made at `at` comes out as `truth`, in its smallest parts."""
        state = _State(self._state(at).versions)
        self._learn(state, test, truth)
        return state.conditions

    def _inside_expression(self, at: ast.AST) -> list[tuple[ast.expr, bool]]:
        found: list[tuple[ast.expr, bool]] = []
        child = at
        for parent in self.module.ancestors(at):
            if isinstance(parent, ast.stmt):
                break
            if isinstance(parent, ast.IfExp) and child is not parent.test:
                found.append((parent.test, child is parent.body))
            elif isinstance(parent, ast.BoolOp):
                for earlier in parent.values:
                    if earlier is child:
                        break
                    found.append((earlier, isinstance(parent.op, ast.And)))
            child = parent
        return found[::-1]

    def _statement(self, at: ast.AST) -> ast.stmt:
        statement = self.module.statement(at)
        while statement not in self._before:
            around = next((p for p in self.module.ancestors(statement) if isinstance(p, ast.stmt)), None)
            if around is None or around is self.owner:
                break
            statement = around
        return statement

    def _state(self, at: ast.AST) -> _State:
        if isinstance(self.owner, ast.Lambda):
            return self._start
        return self._before.get(self._statement(at)) or _State({})

    # -- one pass ----------------------------------------------------------------------------------------------

    def _assigned_names(self, owner: Owner) -> frozenset[str]:
        if isinstance(owner, (ast.Module, ast.Lambda)):
            return frozenset()
        scope = self.module.names._scope_at.get(owner)
        return frozenset(scope.bindings) - frozenset(scope.outer) if scope else frozenset()

    def _lookup(self, state: _State, key: str) -> Version:
        found = state.versions.get(key)
        if found is not None:
            return found
        holder = owner_key(key)
        if holder is None:
            return self._entry(key, "unbound" if key in self._locals else "free", 0)
        return self._at_root(key, self._lookup(state, holder))

    def _at_root(self, key: str, root: Version) -> Version:
        """The version of a key that nothing assigned since its owner came to be `root`."""
        if isinstance(root, Touched):
            return self._touched(key, self._at_root(key, root.before), root.call)
        self._roots[id(root)] = root
        if isinstance(root, Definition) or root.open:
            return self._entry(key, "free", id(root))
        if (key, id(root)) not in self._meets:
            self._meets[key, id(root)] = self._entry(key, "free", id(root))
            sources = list(dict.fromkeys(self._at_root(key, one) for one in root.sources))
            if len({id(settled(one)) for one in sources}) == 1:
                self._meets[key, id(root)] = sources[-1]
            elif len(sources) == len(root.sources):
                self._meets[key, id(root)] = Phi(key, sources, root.guards)
        return self._meets[key, id(root)]

    def _entry(self, key: str, how: How, root: int) -> Definition:
        return self._entries.setdefault((key, root), Definition(key, how))

    def _touched(self, key: str, before: Version, call: ast.Call) -> Version:
        return self._touches.setdefault((key, id(before), id(call)), Touched(key, before, call))

    def _block(self, body: list[ast.stmt], state: _State | None) -> _State | None:
        for statement in body:
            if state is None:
                return None
            self._before[statement] = state.copy()
            state = self._run(statement, state)
        return state

    def _run(self, node: ast.stmt, state: _State) -> _State | None:
        self._calls(node, state)
        match node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    self._assign(state, target, node, value)
                self._same_object(*targets, value)
            case ast.AnnAssign(target=target, value=value):
                if value is not None:
                    self._assign(state, target, node, value)
                    self._same_object(target, value)
            case ast.AugAssign(target=target):
                if key := key_of(target):
                    self._set(state, key, Definition(key, "augmented", node, node.value))
            case ast.If():
                return self._if(node, state)
            case ast.For() | ast.AsyncFor() | ast.While():
                return self._loop(node, state)
            case ast.Try():
                return self._try(node, state)
            case ast.With() | ast.AsyncWith():
                return self._with(node, state)
            case ast.Match():
                return self._match(node, state)
            case ast.Return() | ast.Raise():
                return None
            case ast.Break() | ast.Continue():
                if self._loops:
                    (self._loops[-1].breaks if isinstance(node, ast.Break) else self._loops[-1].continues).append(state)
                return None
            case ast.Assert(test=test):
                self._learn(state, test, True, fatal=True)
            case ast.Delete(targets=targets):
                for target in targets:
                    if key := key_of(target):
                        self._set(state, key, Definition(key, "unbound", node))
            case ast.ImportFrom(module=source, names=[ast.alias(name="*")]):
                for key in () if (source or "").startswith("torch") else list(state.versions):
                    state.put(key, Phi(key, [state.versions[key], Definition(key, "import", node)]))
            case ast.Import() | ast.ImportFrom():
                for alias in node.names:
                    name = alias.asname or alias.name.partition(".")[0]
                    self._set(state, name, Definition(name, "import", node))
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                self._set(state, node.name, Definition(node.name, "def", node))
            case ast.Expr(value=ast.Call(func=function)) if key_of(function) in _EXITS:
                return None
            case _ if isinstance(node, getattr(ast, "TryStar", ())):
                return self._try(node, state)  # type: ignore[arg-type]
        return state

    def _calls(self, node: ast.stmt, state: _State) -> None:
        """Walrus targets of a statement's own expressions, and objects handed to calls."""
        for part in _own_expressions(node):
            for inner in ast.walk(part):
                if isinstance(inner, ast.NamedExpr):
                    self._assign(state, inner.target, inner, inner.value)
                elif isinstance(inner, ast.Call):
                    self._touch(inner, state)

    def _touch(self, call: ast.Call, state: _State) -> None:
        for changed, scope in self.module.effects.of(call):
            self._change(changed, scope, call, state)
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        if name in _HARMLESS:
            return
        handed = [*call.args, *(k.value for k in call.keywords)]
        if isinstance(call.func, ast.Attribute):
            handed.append(namespace_of(call.func.value))
        for value in handed:
            key = key_of(value.value if isinstance(value, ast.Starred) else value)
            if key is not None and not self.module.names.resolve(value).names:
                self._hand(key, call, state)

    def _hand(self, key: str, call: ast.Call, state: _State) -> None:
        """An object, and what is known of its attributes and items, may be changed by a call."""
        for known in self._below.get(key, ()):
            if known in state.versions:
                state.put(known, self._touched(known, state.versions[known], call))
        self._put(state, key, self._touched(key, self._lookup(state, key), call))

    def _change(self, name: str, scope: Scope | None, call: ast.Call, state: _State) -> None:
        """What a call changes without being handed it: a name of an outer scope, the environment, or any global."""
        if scope is not None:
            found = self.module.names.lookup(name, self.module.names.scope_of(call))
            if found is not None and found[0] is scope:
                self._hand(name, call, state)
        elif name != EVERYTHING:
            self._hand(f"os.{name}", call, state)
            self._hand(name, call, state)
        elif isinstance(self.owner, ast.Module):
            for known in list(state.versions):
                state.put(known, self._touched(known, state.versions[known], call))

    def _set(self, state: _State, key: str, version: Version) -> None:
        """A new version of a key; what was known of its attributes and items is no longer."""
        for inner in self._below.get(key, ()):
            if inner in state.versions:
                state.drop(inner)
        self._put(state, key, version)
        if (holder := owner_key(key)) is not None:
            for other in self._aliases.get(holder, ()):
                known = f"{other}{key[len(holder) :]}"
                self._put(state, known, Phi(known, [self._lookup(state, known), version]))

    def _same_object(self, *nodes: ast.expr) -> None:
        """Variables that an assignment lets name one object: what is set through one is seen through the others."""
        keys = [key for node in nodes if (key := key_of(node)) is not None]
        for key in keys if len(keys) > 1 else ():
            self._aliases.setdefault(key, set()).update(other for other in keys if other != key)

    def _put(self, state: _State, key: str, version: Version) -> None:
        holder = owner_key(key)
        while holder is not None and key not in (known := self._below.setdefault(holder, {})):
            known[key] = None
            holder = owner_key(holder)
        state.put(key, version)

    def _assign(self, state: _State, target: ast.expr, node: ast.AST, value: ast.expr, how: How = "assign") -> None:
        if isinstance(target, (ast.Tuple, ast.List)):
            pairs = isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(target.elts) and how == "assign"
            starred = any(isinstance(e, ast.Starred) for e in target.elts)
            for index, element in enumerate(target.elts):
                inner = element.value if isinstance(element, ast.Starred) else element
                if pairs and not starred and isinstance(value, (ast.Tuple, ast.List)):
                    self._assign(state, inner, node, value.elts[index])
                elif key := key_of(inner):
                    self._set(state, key, Definition(key, "unpack", node, value, None if starred else index))
                else:
                    self._assign(state, inner, node, value, "other")
        elif key := key_of(target):
            self._set(state, key, Definition(key, how, node, value))
        elif isinstance(target, ast.Subscript) and (key := key_of(namespace_of(target.value))):
            self._set(state, key, Definition(key, "other", node))

    def _learn(self, state: _State, test: ast.expr, truth: bool, *, fatal: bool = False) -> None:
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            return self._learn(state, test.operand, not truth, fatal=fatal)
        if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) is truth:
            for part in test.values:
                self._learn(state, part, truth, fatal=fatal)
            return None
        keys = {key for n in ast.walk(test) if (key := key_of(n))}
        versions = tuple((key, self._lookup(state, key)) for key in sorted(keys))
        state.conditions = (*state.conditions, Condition(test, truth, versions, fatal))
        return None

    def _if(self, node: ast.If, state: _State) -> _State | None:
        yes, no = state.copy(), state
        self._learn(yes, node.test, True, fatal=self._dies(node.orelse))
        self._learn(no, node.test, False, fatal=self._dies(node.body))
        then = self._block(node.body, yes) if not _false(node.test) else None
        other = self._block(node.orelse, no) if not _true(node.test) else None
        return self._join(then, other)

    def _dies(self, body: list[ast.stmt]) -> bool:
        """Whether a block always ends in an error or the end of the program."""
        last = body[-1] if body else None
        if isinstance(last, ast.If):
            return self._dies(last.body) and self._dies(last.orelse)
        ends = isinstance(last, ast.Expr) and isinstance(last.value, ast.Call) and key_of(last.value.func) in _EXITS
        return isinstance(last, ast.Raise) or ends

    def _join(self, *states: _State | None) -> _State | None:
        alive = [s for s in states if s is not None]
        if len(alive) < 2:
            return alive[0] if alive else None
        shared = tuple(c for c in alive[0].conditions if all(any(c is o for o in s.conditions) for s in alive[1:]))
        common = {id(c) for c in shared}
        own = [tuple(c for c in s.conditions if id(c) not in common) for s in alive]
        versions: dict[str, Version] = {}
        for key in {key for s in alive for key in s.versions}:
            paths: dict[Version, list[tuple[Condition, ...]]] = {}
            for s, guard in zip(alive, own, strict=True):
                paths.setdefault(self._lookup(s, key), []).append(guard)
            versions[key] = next(iter(paths)) if len(paths) == 1 else Phi(key, list(paths), list(paths.values()))
        return _State(versions, shared)

    def _loop(self, node: ast.For | ast.AsyncFor | ast.While, state: _State) -> _State | None:
        head = state.copy()
        phis: list[Phi] = []
        for key in sorted(self._assigned_in(node)):
            phi = Phi(key, [self._lookup(state, key)], open=True)
            self._set(head, key, phi)
            phis.append(phi)
        self._before[node] = head.copy()
        self._loops.append(_Loop())
        body = head.copy()
        if isinstance(node, ast.While):
            self._learn(body, node.test, True)
        else:
            self._assign(body, node.target, node, node.iter, "loop")
        end = self._block(node.body, body)
        loop = self._loops.pop()
        again = self._join(end, *loop.continues)
        for phi in phis:
            if again is not None:
                phi.sources.append(self._lookup(again, phi.key))
            phi.open = False
        after: _State | None = head.copy()
        if again is not None and after is not None:
            for key, version in again.versions.items():
                if isinstance(version, Touched) and untouched(version) is untouched(self._lookup(head, key)):
                    after.put(key, version)
        if isinstance(node, ast.While):
            if _true(node.test):
                after = None
            elif after is not None:
                self._learn(after, node.test, False)
        if node.orelse:
            after = self._block(node.orelse, after)
        return self._join(after, *loop.breaks)

    def _assigned_in(self, loop: ast.stmt) -> set[str]:
        found: set[str] = set()
        for inner in _walk_function(loop):
            if isinstance(inner, (ast.Name, ast.Attribute, ast.Subscript)) and not isinstance(inner.ctx, ast.Load):
                key = key_of(inner) or (key_of(inner.value) if isinstance(inner, ast.Subscript) else None)
                if key:
                    found.add(key)
            elif isinstance(inner, (ast.Import, ast.ImportFrom)):
                found |= {a.asname or a.name.partition(".")[0] for a in inner.names}
            elif isinstance(inner, (*_FUNCTIONS, ast.ClassDef)):
                found.add(inner.name)
        return found

    def goes_on(self, handler: ast.ExceptHandler) -> bool:
        """Whether the code behind a `try` statement can run after one of its except clauses."""
        return handler in self._survivors

    def _try(self, node: ast.Try, state: _State) -> _State | None:
        entry = state.copy()
        body = self._block(node.body, state)
        inside = [self._before[s] for s in _walk_statements(node.body) if s in self._before]
        raised = self._join(entry, *inside, *([body] if body else []))
        if raised is not None:
            raised = _State(raised.versions, entry.conditions)
        ends: list[_State | None] = []
        for handler in node.handlers:
            start = raised.copy() if raised else None
            if start is not None and handler.name:
                self._set(start, handler.name, Definition(handler.name, "other", handler))
            ends.append(self._block(handler.body, start))
            if ends[-1] is not None:
                self._survivors.add(handler)
        if node.orelse:
            body = self._block(node.orelse, body)
        after = self._join(body, *ends)
        if node.finalbody:
            final = self._block(node.finalbody, after if after is not None else raised)
            return final if after is not None else None
        return after

    def _with(self, node: ast.With | ast.AsyncWith, state: _State) -> _State | None:
        entry = state.copy()
        for item in node.items:
            if item.optional_vars is not None:
                self._assign(state, item.optional_vars, node, item.context_expr, "with")
        body = self._block(node.body, state)
        swallows = any(
            isinstance(i.context_expr, ast.Call)
            and (key_of(i.context_expr.func) or "").endswith(("suppress", "raises"))
            for i in node.items
        )
        if not swallows:
            return body
        inside = [self._before[s] for s in _walk_statements(node.body) if s in self._before]
        return self._join(entry, *inside, *([body] if body else []))

    def _match(self, node: ast.Match, state: _State) -> _State | None:
        ends: list[_State | None] = []
        rest: _State | None = state
        for case in node.cases:
            if rest is None:
                break
            start = rest.copy()
            for test in _pattern_tests(node.subject, case.pattern):
                self._learn(start, test, True)
            for inner in ast.walk(case.pattern):
                name = getattr(inner, "name", None) or getattr(inner, "rest", None)
                if isinstance(name, str):
                    self._set(start, name, Definition(name, "other", case.pattern))
            if case.guard is not None:
                self._learn(start, case.guard, True)
            ends.append(self._block(case.body, start))
            tests = _pattern_tests(node.subject, case.pattern)
            if case.guard is None and tests:
                self._learn(rest, tests[0], False)
            if case.guard is None and isinstance(case.pattern, ast.MatchAs) and case.pattern.pattern is None:
                rest = None
        return self._join(*ends, rest)


def _parameters(args: ast.arguments) -> list[ast.arg]:
    every = (*args.posonlyargs, *args.args, args.vararg, *args.kwonlyargs, args.kwarg)
    return [arg for arg in every if arg is not None]


def _true(test: ast.expr) -> bool:
    return isinstance(test, ast.Constant) and bool(test.value)


def _false(test: ast.expr) -> bool:
    return isinstance(test, ast.Constant) and not test.value


def _pattern_tests(subject: ast.expr, pattern: ast.pattern) -> list[ast.expr]:
    """What a matched pattern says about its subject, as one comparison, or nothing."""
    values: list[ast.expr] = []
    options = pattern.patterns if isinstance(pattern, ast.MatchOr) else [pattern]
    for option in options:
        if isinstance(option, ast.MatchValue):
            values.append(option.value)
        elif isinstance(option, ast.MatchSingleton):
            values.append(ast.Constant(option.value))
        else:
            return []
    if len(values) == 1:
        return [ast.copy_location(ast.Compare(subject, [ast.Eq()], values), subject)]
    listed = ast.copy_location(ast.Tuple(values, ast.Load()), subject)
    return [ast.copy_location(ast.Compare(subject, [ast.In()], [listed]), subject)]


def _own_expressions(node: ast.stmt) -> list[ast.expr]:
    """The expressions that a statement itself evaluates, without the bodies of compound statements."""
    if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
        return list(node.decorator_list)
    if isinstance(node, (ast.With, ast.AsyncWith)):
        return [item.context_expr for item in node.items]
    if isinstance(node, ast.Match):
        return [node.subject]
    return [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]


def _walk_statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a block and of the blocks inside it."""
    for statement in body:
        yield statement
        yield from (n for n in _walk_function(statement) if isinstance(n, ast.stmt))


def _walk_function(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes below one, without the bodies of functions and classes inside."""
    stack = list(ast.iter_child_nodes(node))
    while stack:
        at = stack.pop()
        yield at
        if not isinstance(at, (*_FUNCTIONS, ast.ClassDef, ast.Lambda)):
            stack.extend(ast.iter_child_nodes(at))
