"""What an expression can be at a point of the code: constants, "one of these", "something else", under what conditions.

    values = Values(module)
    values.of(call.args[0]).constants        # {"nccl", "gloo"}
    values.truth(test, facts)                # True, False or None
    values.leaves(name, facts)               # the expressions that a name stands for

Names are followed through assignments, branches, loops, parameters and their defaults, attributes of `self`, closures,
module constants, dicts, argparse and click options, dataclass fields and functions of the same module. Conditions that
hold on the way narrow what is left.

Why not a library: astroid 4.3 gives the same constants on plain code and narrows on `==` and `is None`, but it cannot
say whether a name is surely bound or still has the value that it had elsewhere, does not know argparse, `.get`, or
which branch follows from which value, and needs its own tree (0.36 s to import and parse a module of 25 lines). jedi
names types, not values (0.6 to 1.5 s for a first answer). beniget gives definitions of plain names only and ignores
conditions. So this stands on `flow`, which had to know all of that anyway, and looks only at what is asked.
"""

from __future__ import annotations

import ast
import contextlib
import itertools
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from torchmigrate.facts import CONSTANT
from torchmigrate.functions import Functions
from torchmigrate.possible import (
    ANYTHING,
    Known,
    Option,
    Options,
    Unknown,
    Value,
    compare,
    constant,
    narrow,
    truthy,
)
from torchmigrate.reaching import Condition, Definition, Phi, Touched, Version, key_of, settled, touches, untouched

if TYPE_CHECKING:
    from torchmigrate.module import Module

_DEPTH = 24
_MANY = 24
_CASES = 6
_BUDGET = 2000
"""Steps that one question may take; beyond them the answer is "anything"."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What is taken to be true: conditions, and whether the machine has a CUDA device."""

    conditions: tuple[Condition, ...] = ()
    cuda: bool = False

    def plus(self, conditions: Iterable[Condition]) -> Facts:
        """These facts and more."""
        return replace(self, conditions=(*self.conditions, *conditions))


NOTHING = Facts()


@dataclass(frozen=True, eq=False, slots=True)
class Leaf:
    """One thing that an expression stands for: what it can be, and the expression that gives it (None: from outside).

    `definition` is the assignment or parameter that it came through, if any; `facts` hold where it applies.
    """

    node: ast.expr | None
    options: Options
    facts: Facts
    definition: Definition | None = None


class Values:
    """Answers about one module. Facts are per question; nothing is evaluated before it is asked for."""

    def __init__(self, module: Module) -> None:
        from torchmigrate.attributes import Attributes
        from torchmigrate.declared import Declared
        from torchmigrate.stores import Stores

        self.module = module
        self.functions = Functions(module)
        self.stores = Stores(module, self.functions)
        self.attributes = Attributes(module)
        self.declared = Declared(module)
        self._depth = self._steps = self._cut = 0
        self._known: dict[tuple[int, ...], tuple[list[Leaf], Facts, ast.expr]] = {}
        self._asked: dict[tuple[int, ...], tuple[list[Leaf], Facts, ast.expr]] = {}
        """Answers that were cut short by a cycle, kept for one question only."""
        self._active: set[int] = set()
        self._derived: dict[Condition, tuple[Condition, ...]] = {}

    # -- questions ---------------------------------------------------------------------------------------------

    def facts(self, at: ast.AST) -> Facts:
        """The conditions that hold at a node."""
        return Facts(self.expanded(self.module.flow(at).conditions(at)))

    def expanded(self, conditions: Iterable[Condition]) -> tuple[Condition, ...]:
        """Conditions, each with what follows from it through variables (`distributed = local_rank != -1`)."""
        found: list[Condition] = []
        for condition in conditions:
            if condition not in self._derived:
                self._derived[condition] = ()
                self._derived[condition] = tuple(self._follow(condition))
            found += (condition, *self._derived[condition])
        return tuple(found)

    def _follow(self, condition: Condition) -> Iterator[Condition]:
        """What must have held for a variable to be true or false."""
        key = key_of(condition.test)
        version = next((v for k, v in condition.versions if k == key), None)
        if key is None or version is None or condition.test not in self.module.parents:
            return
        alive: list[tuple[Version, list[tuple[Condition, ...]]]] = []
        base = settled(version)
        if isinstance(base, Definition) and base.how == "free" and isinstance(condition.test, ast.Name):
            base = settled(self.declared.outer_version(condition.test) or base)
        if isinstance(base, Phi):
            if not base.guards:
                return
            sources = list(zip(base.sources, base.guards, strict=True))
        else:
            sources = [(base, [()])]
        for source, paths in sources:
            options = {o for leaf in self.version_leaves(source, condition.test, NOTHING) for o in leaf.options}
            if any(truthy(option) is not (not condition.truth) for option in options):
                alive.append((settled(source), paths))
        if len(alive) != 1:
            return
        source, paths = alive[0]
        if len(paths) == 1:
            yield from self.expanded(paths[0])
        value = source.value if isinstance(source, Definition) and source.how == "assign" else None
        if isinstance(value, (ast.Compare, ast.BoolOp, ast.UnaryOp, ast.Name, ast.Attribute, ast.Call)):
            yield from self._conditions(value, condition.truth, value)

    def of(self, node: ast.expr, facts: Facts = NOTHING) -> Value:
        """Everything that an expression can be where it stands."""
        return Value(frozenset(option for leaf in self.leaves(node, facts) for option in leaf.options))

    def leaves(self, node: ast.expr, facts: Facts = NOTHING) -> list[Leaf]:
        """What an expression stands for, through names, branches and conditional expressions."""
        key = (id(node), facts.cuda, *map(id, facts.conditions))
        if self._depth == 0:
            self._asked.clear()
        if (known := self._known.get(key) or self._asked.get(key)) is not None:
            return known[0]
        if self._exhausted():
            return [Leaf(node, ANYTHING, facts)]
        cut = self._cut
        with self._deeper():
            found = list(self._leaves(node, facts))
        (self._known if cut == self._cut else self._asked)[key] = (found, facts, node)
        return found

    def _exhausted(self) -> bool:
        """Whether a question has gone on for too long."""
        self._steps = self._steps + 1 if self._depth else 0
        if self._depth <= _DEPTH and self._steps <= _BUDGET:
            return False
        self._cut += 1
        return True

    @contextlib.contextmanager
    def _deeper(self) -> Iterator[None]:
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1

    def truth(self, test: ast.expr, facts: Facts = NOTHING) -> bool | None:
        """How a test comes out under the facts, None when both ways are possible."""
        if self._exhausted():
            return None
        with self._deeper():
            return self._truth(test, facts)

    def cases(self, node: ast.expr, accept: Callable[[Option], bool], facts: Facts = NOTHING) -> list[Facts]:
        """What must hold when an expression's value is one that is accepted: the facts of each way to get there.

        No case at all means that it never is.
        """
        match node:
            case ast.IfExp():
                found: list[Facts] = []
                for branch, truth in ((node.body, True), (node.orelse, False)):
                    if self.truth(node.test, facts) is not (not truth):
                        found += self.cases(branch, accept, facts.plus(self._conditions(node.test, truth, node)))
                return found
            case ast.Name() | ast.Attribute() | ast.Subscript() if (key := key_of(node)) and self._followed(node):
                return self._cases_of_key(node, key, accept, facts)
        return [facts] if any(accept(option) for option in self.of(node, facts).options) else []

    def _cases_of_key(self, node: ast.expr, key: str, accept: Callable[[Option], bool], facts: Facts) -> list[Facts]:
        options = self.of(node, facts).options
        accepted = [option for option in options if accept(option)]
        if not accepted:
            return []
        start = self.module.flow(node).version(key, node)
        constants: list[ast.expr] = [ast.Constant(option.value) for option in accepted if isinstance(option, Known)]
        if len(constants) == len(accepted) < len(options):
            test = ast.Compare(node, [ast.In()], [ast.Tuple(constants, ast.Load())])
            facts = facts.plus([Condition(test, True, ((key, start),))])
        found: list[Facts] = []
        ways: list[tuple[Version, Facts]] = [(settled(start), facts)]
        while ways:
            version, inside = ways.pop(0)
            if isinstance(version, Phi) and version.guards:
                for source, guards in zip(version.sources, version.guards, strict=True):
                    if any(accept(o) for leaf in self.version_leaves(source, node, inside) for o in leaf.options):
                        paths = [path for path in guards if self._possible(path, inside)]
                        ways += [(settled(source), inside.plus(self.expanded(path))) for path in paths]
            elif isinstance(version, Definition) and version.how == "assign" and version.value is not None:
                found += self.cases(version.value, accept, inside)
            else:
                found.append(inside)
            if len(ways) + len(found) > _CASES:
                return [facts]
        return found or [facts]

    # -- what an expression stands for -------------------------------------------------------------------------

    def _leaves(self, node: ast.expr, facts: Facts) -> Iterator[Leaf]:
        match node:
            case ast.IfExp():
                truth = self.truth(node.test, facts)
                if truth is not False:
                    yield from self.leaves(node.body, facts.plus(self._conditions(node.test, True, node)))
                if truth is not True:
                    yield from self.leaves(node.orelse, facts.plus(self._conditions(node.test, False, node)))
            case ast.BoolOp():
                yield from self._either(node, facts)
            case ast.NamedExpr():
                yield from self.leaves(node.value, facts)
            case ast.Name() | ast.Attribute() | ast.Subscript() if (key := key_of(node)) and self._followed(node):
                version = self.module.flow(node).version(key, node)
                for leaf in self._version(version, node, facts):
                    narrowed = self._narrowed(leaf.options, key, version, node, facts)
                    if narrowed:
                        yield replace(leaf, options=narrowed)
            case _:
                from torchmigrate.evaluate import evaluate

                yield from evaluate(self, node, facts)

    def _either(self, node: ast.BoolOp, facts: Facts) -> Iterator[Leaf]:
        """`a or b` is a where a is true; `a and b` is a where a is false."""
        wanted = isinstance(node.op, ast.Or)
        for value in node.values[:-1]:
            passing = False
            for leaf in self.leaves(value, facts):
                kept = frozenset(o for o in leaf.options if (t := truthy(o)) is None or t is wanted)
                passing = passing or any(truthy(o) is not wanted for o in leaf.options)
                if kept:
                    yield replace(leaf, options=kept)
            if not passing:
                return
        yield from self.leaves(node.values[-1], facts)

    def _followed(self, node: ast.expr) -> bool:
        """Whether the flow of the function around a name knows it: not what is imported or bound by a comprehension."""
        root: ast.expr = node
        while isinstance(root, (ast.Attribute, ast.Subscript)):
            root = root.value
        if not isinstance(root, ast.Name):
            return False
        names = self.module.names
        if isinstance(node, ast.Attribute) and names.resolve(node).names:
            return False
        found = names.lookup(root.id, names.scope_of(root))
        return found is None or not found[0].is_comprehension

    def sources(self, version: Version, facts: Facts) -> list[Definition]:
        """The definitions that can be behind a version when the facts hold."""
        return [definition for definition, _, _ in self._sources(version, facts)]

    def clear(self, version: Version, since: Version) -> bool:
        """Whether no function of this module that got the key's owner assigns the key on the way from `since`."""
        keys = {d.key for d in self.sources(since, NOTHING)}
        return not any(self.stores.assigns(call, key) for call in touches(version) for key in keys)

    def version_leaves(self, version: Version, node: ast.expr, facts: Facts) -> list[Leaf]:
        """What a version of a key stands for, read at a node."""
        return list(self._version(version, node, facts))

    def _version(self, version: Version, node: ast.expr, facts: Facts) -> Iterator[Leaf]:
        for definition, inside, calls in self._sources(version, facts):
            if id(definition) in self._active:
                self._cut += 1
                yield Leaf(None, ANYTHING, facts, definition)
                continue
            self._active.add(id(definition))
            try:
                for leaf in self._definition(definition, node, inside):
                    options = self._by_facts(leaf.options, definition.key, definition, inside.conditions)
                    if options:
                        yield replace(leaf, options=options)
            finally:
                self._active.discard(id(definition))
            for call in calls:
                if self.stores.assigns(call, definition.key):
                    origin = f"{ast.unparse(call.func)}()"
                    yield Leaf(None, frozenset({Unknown(origin=origin)}), inside, definition)

    def _sources(self, version: Version, facts: Facts) -> list[tuple[Definition, Facts, tuple[ast.Call, ...]]]:
        """The definitions behind a version on the paths that the facts allow, each once.

        The conditions of a path hold for what only that path leads to.
        """
        arrivals = _arrivals(version)
        found: list[tuple[Definition, Facts, tuple[ast.Call, ...]]] = []
        seen: set[int] = set()
        stack: list[tuple[Version, Facts, tuple[ast.Call, ...]]] = [(version, facts, ())]
        while stack:
            one, inside, calls = stack.pop()
            while isinstance(one, Touched):
                calls, one = (*calls, one.call), one.before
            if id(one) in seen:
                continue
            seen.add(id(one))
            inside = inside if arrivals[id(one)] == 1 else facts
            if isinstance(one, Definition):
                found.append((one, inside, calls))
                continue
            guards = one.guards or [[()]] * len(one.sources)
            for source, paths in reversed(list(zip(one.sources, guards, strict=True))):
                possible = [path for path in paths if self._possible(path, inside)]
                if possible:
                    stack.append((source, inside.plus(possible[0]) if len(possible) == 1 else inside, calls))
        return found

    def _possible(self, guard: Iterable[Condition], facts: Facts) -> bool:
        return all(self.truth_of(condition, facts) is not (not condition.truth) for condition in guard)

    def _definition(self, definition: Definition, node: ast.expr, facts: Facts) -> Iterator[Leaf]:
        value = definition.value
        match definition.how:
            case "assign" if value is not None:
                for leaf in self.leaves(value, facts):
                    yield replace(leaf, definition=leaf.definition or definition)
            case "unbound":
                yield Leaf(None, frozenset({Unknown(origin="no value")}), facts, definition)
            case "parameter":
                yield from self.declared.parameter(self, definition, facts)
            case "free":
                yield from self.declared.outside(self, definition, node, facts)
            case "unpack" if value is not None and definition.index is not None:
                yield from self.declared.item(self, definition, value, definition.index, facts)
            case "loop" if value is not None:
                yield from self._looped(definition, value, facts)
            case "augmented":
                kinds = {o.kind for o in self.of(value, facts).options} if value is not None else set()
                kind = kinds.pop() if len(kinds) == 1 else ""
                yield Leaf(None, frozenset({Unknown(kind)}), facts, definition)
            case "import":
                name = _imported_name(definition)
                yield Leaf(None, self.elsewhere(name) if name else ANYTHING, facts, definition)
            case _:
                yield Leaf(None, ANYTHING, facts, definition)

    def elsewhere(self, name: str) -> Options:
        """What a constant of another module of the project can be.

        `name` is "module:NAME" for what a from-import binds, "module.NAME" for an attribute. Only names in upper case
        count: others are settings, which programs change.
        """
        parts = re.split("[:.]", name)
        last = parts[-1]
        if not last.isupper() or parts[0] == "torch" or parts[0] in sys.stdlib_module_names:
            return ANYTHING
        known = self.module.project.facts.get(CONSTANT + name)
        if not isinstance(known, tuple):
            return ANYTHING
        if any(one.attr == last and not isinstance(one.ctx, ast.Load) for one in self.module.names.attributes):
            return ANYTHING
        return frozenset(Known(value) for value in known)

    def exported(self, name: str, most: int) -> tuple[str | int, ...] | None:
        """The text or numbers, up to `most`, that a name surely is one of once the module has run; None if unsure."""
        scope = self.module.names.module
        bindings = scope.bindings.get(name, ())
        flow = self.module.flow(self.module.tree)
        if not bindings or not flow.falls_through:
            return None
        if any(self.module.names.scope_of(one.node) is not scope for one in bindings):
            return None
        read = ast.Name(name, ast.Load(), lineno=1, col_offset=0)
        found: list[str | int] = []
        for leaf in self.version_leaves(flow.final(name), read, NOTHING):
            for option in leaf.options:
                if not isinstance(option, Known) or not isinstance(option.value, (str, int)):
                    return None
                found.append(option.value)
        known = tuple(sorted(dict.fromkeys(found), key=repr))
        return known if 0 < len(known) <= most else None

    def _looped(self, definition: Definition, value: ast.expr, facts: Facts) -> Iterator[Leaf]:
        if isinstance(value, (ast.Tuple, ast.List, ast.Set)) and len(value.elts) <= _MANY:
            for element in value.elts:
                yield from self.leaves(element, facts)
        elif isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "range":
            yield Leaf(None, frozenset({Unknown("int")}), facts, definition)
        else:
            yield Leaf(None, ANYTHING, facts, definition)

    # -- conditions --------------------------------------------------------------------------------------------

    def _conditions(self, test: ast.expr, truth: bool, at: ast.expr) -> tuple[Condition, ...]:
        return self.expanded(self.module.flow(at).conditions_of(test, truth, at))

    def truth_of(self, condition: Condition, facts: Facts) -> bool | None:
        """How the test of a condition comes out under facts that may speak of the same versions."""
        for fact in facts.conditions:
            if fact.test is condition.test and _same_versions(fact, condition):
                return fact.truth
        return self.truth(condition.test, facts)

    def _truth(self, test: ast.expr, facts: Facts) -> bool | None:
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            inner = self.truth(test.operand, facts)
            return None if inner is None else not inner
        if isinstance(test, ast.BoolOp):
            wanted = isinstance(test.op, ast.Or)
            parts = [self.truth(part, facts) for part in test.values]
            if wanted in parts:
                return wanted
            return None if None in parts else not wanted
        if (known := self._fact(test, facts)) is not None:
            return known
        if isinstance(test, ast.Compare):
            return self._comparison(test, facts)
        outcomes = {truthy(option) for option in self.of(test, facts).options}
        return outcomes.pop() if len(outcomes) == 1 else None

    def _fact(self, test: ast.expr, facts: Facts) -> bool | None:
        """The outcome of a test that is one of the facts, about the same values."""
        if not facts.conditions:
            return None
        shape, sign = _normal(test)
        versions: tuple[tuple[str, Version], ...] | None = None
        for fact in reversed(facts.conditions):
            known, known_sign = _normal(fact.test)
            if known != shape:
                continue
            if versions is None:
                versions = self._versions(test)
            if versions is not None and _agree(dict(versions), dict(fact.versions)):
                return fact.truth if sign == known_sign else not fact.truth
        return None

    def _versions(self, test: ast.expr) -> tuple[tuple[str, Version], ...] | None:
        found: dict[str, Version] = {}
        for node in ast.walk(test):
            if (key := key_of(node)) is not None:
                if node not in self.module.parents:
                    return None
                found[key] = self.module.flow(node).version(key, node)
        return tuple(found.items())

    def _comparison(self, test: ast.Compare, facts: Facts) -> bool | None:
        if len(test.ops) != 1:
            return None
        left, op, right = test.left, test.ops[0], test.comparators[0]
        mine = self.of(left, facts).options
        if isinstance(op, (ast.In, ast.NotIn)) and isinstance(right, (ast.Tuple, ast.List, ast.Set)):
            theirs = [self.of(element, facts) for element in right.elts]
            if not all(value.certain and len(value.options) == 1 for value in theirs):
                return None
            listed = {value.constants[0] for value in theirs}
            outcomes = {o.value in listed if isinstance(o, Known) else None for o in mine}
            result = outcomes.pop() if len(outcomes) == 1 else None
            return None if result is None else result is isinstance(op, ast.In)
        pairs = itertools.product(mine, self.of(right, facts).options)
        outcomes = {compare(one, op, other) for one, other in itertools.islice(pairs, 200)}
        return outcomes.pop() if len(outcomes) == 1 else None

    def _narrowed(self, options: Options, key: str, version: Version, node: ast.expr, facts: Facts) -> Options:
        """The options that remain for a key after what the facts, and the conditions at its place, say of it."""
        conditions = (*self.expanded(self.module.flow(node).conditions(node)), *facts.conditions)
        return self._by_facts(options, key, version, conditions)

    def _operand(self, node: ast.expr) -> Value:
        """What a test compares with; the tests of `match` patterns are no part of the tree."""
        return self.of(node) if node in self.module.parents else constant(node)

    def _by_facts(self, options: Options, key: str, version: Version, conditions: Iterable[Condition]) -> Options:
        base = settled(version)
        for condition in conditions:
            if any(name == key and settled(v) is base for name, v in condition.versions):
                options = narrow(options, key, condition.test, condition.truth, self._operand)
        return options


def _imported_name(definition: Definition) -> str | None:
    """What a from-import bound, as "module:NAME"; None for other imports."""
    node = definition.node
    if not isinstance(node, ast.ImportFrom):
        return None
    for alias in node.names:
        if (alias.asname or alias.name) == definition.key:
            return f"{'.' * node.level}{node.module or ''}:{alias.name}"
    return None


def _arrivals(version: Version) -> dict[int, int]:
    """In how many ways each version behind a version is reached."""
    counts: dict[int, int] = {}
    stack: list[Version] = [version]
    while stack:
        one = untouched(stack.pop())
        counts[id(one)] = counts.get(id(one), 0) + 1
        if isinstance(one, Phi) and counts[id(one)] == 1:
            stack.extend(one.sources)
    return counts


def _normal(test: ast.expr) -> tuple[str, bool]:
    """A test's shape without negation, and whether it was there."""
    sign = True
    while isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        test, sign = test.operand, not sign
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        positive = {ast.NotEq: ast.Eq, ast.IsNot: ast.Is, ast.NotIn: ast.In, ast.Lt: ast.GtE, ast.LtE: ast.Gt}
        op = positive.get(type(test.ops[0]))
        if op is not None:
            return ast.unparse(ast.Compare(test.left, [op()], test.comparators)), not sign
    return ast.unparse(test), sign


def _same_versions(one: Condition, other: Condition) -> bool:
    return _agree(dict(one.versions), dict(other.versions))


def _agree(one: dict[str, Version], other: dict[str, Version]) -> bool:
    return all(key not in other or settled(version) is settled(other[key]) for key, version in one.items())
