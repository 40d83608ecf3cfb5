"""What becomes of a device that is built: whether the process works on it, or something else takes its place."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from torchmigrate.flow import Flow
from torchmigrate.module import Module
from torchmigrate.possible import Known
from torchmigrate.reaching import Definition, Version, expand, key_of, owner_key, touches
from torchmigrate.values import Facts, Values
from torchmigrate_codemods.torch_2_15.init_device.evidence import Evidence, index_of, walk

_LOOKS = frozenset(
    {"print", "isinstance", "hasattr", "type", "id", "hash", "log", "debug", "info", "warning", "warn", "error"}
)
"""Functions, by the last part of their names, that only look at what they are given."""
_TEXTS = frozenset({"str", "repr", "int", "format", "startswith", "endswith", "lower", "split", "replace", "join"})
"""Functions whose result is as good as what they are given."""
_ASKS = ("get_", "memory_", "max_memory_", "mem_get_info", "reset_", "can_device_access_peer", "utilization")
_LOADS = frozenset({"torch.load", "torch.jit.load"})
_WHOLES = (
    *(ast.JoinedStr, ast.FormattedValue, ast.BinOp, ast.BoolOp, ast.IfExp),
    *(ast.Dict, ast.List, ast.Tuple, ast.Set, ast.Starred),
)
"""Expressions that hand on what is in them."""


@dataclass(frozen=True, slots=True)
class Life:
    """What becomes of a device, as halves of sentences: why it is no evidence, and why it is weak evidence."""

    over: str = ""
    doubt: str = ""


class Lives:
    """What becomes of the devices that the functions of one module build."""

    def __init__(self, values: Values) -> None:
        self.values = values
        self.module: Module = values.module
        self._known: dict[Evidence, Life] = {}

    def of(self, one: Evidence) -> Life:
        """What becomes of the device of some evidence; nothing is said of devices that go into no variable."""
        if one not in self._known:
            self._known[one] = self._of(one) if one.kind == "built" else Life()
        return self._known[one]

    def rival(self, one: Evidence, facts: Facts) -> str:
        """Half a sentence where another device that is no evidence may take the place of one in use, else ""."""
        statement, keys = self._variables(one)
        for key in keys:
            for read in self._reads(one, key):
                version = self.module.flow(one.node).version(key, read)
                if not _holds(version, statement) or not self._works(read):
                    continue
                for source in self.values.sources(version, facts):
                    if source.node is not statement and self._may_be_gpu(source, facts):
                        at = source.node
                        line = f" on line {self.module.line(at)}" if at is not None and hasattr(at, "lineno") else ""
                        return f"may be replaced{line}"
        return ""

    def _of(self, one: Evidence) -> Life:
        statement, keys = self._variables(one)
        if not keys:
            return Life()
        flow = self.module.flow(one.node)
        line: int | None = None
        for key in keys:
            ends = list(self._ends(one, flow, key))
            lasts = any(_holds(version, statement) for version in ends)
            if lasts and self._is_read_elsewhere(one, key):
                return Life()
            reads = [read for read in self._reads(one, key) if _holds(flow.version(key, read), statement)]
            if any(self._works(read) for read in reads) or self._is_handed_over(one, flow, key, statement):
                return Life()
            if not lasts:
                line = line or self._replacement(one, flow, key)
        if line is not None:
            return Life(over=f"is replaced on line {line} before anything works on it")
        return Life(doubt="nothing here works on that GPU")

    def _variables(self, one: Evidence) -> tuple[ast.AST | None, list[str]]:
        """The assignment that a device goes straight into, and the variables that it sets."""
        value: ast.AST = one.node
        parents = self.module.parents
        statement = parents.get(value)
        if isinstance(statement, ast.IfExp) and value is not statement.test:
            value, statement = statement, parents.get(statement)
        if isinstance(statement, ast.NamedExpr):
            return statement, [statement.target.id]
        place: int | None = None
        if isinstance(statement, (ast.Tuple, ast.List)) and isinstance(value, ast.expr):
            place = statement.elts.index(value)
            value, statement = statement, parents.get(statement)
        if not isinstance(statement, (ast.Assign, ast.AnnAssign)) or statement.value is not value:
            return None, []
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        if place is not None:
            inside = [one.elts for one in targets if isinstance(one, (ast.Tuple, ast.List)) and len(one.elts) > place]
            targets = [elements[place] for elements in inside] if len(inside) == len(targets) else []
        keys = [key_of(target) for target in targets]
        return statement, [key for key in keys if key is not None] if all(keys) else []

    def _reads(self, one: Evidence, key: str) -> Iterator[ast.expr]:
        """The places of the same function that read a variable."""
        for node in walk(self._owner(one)):
            if isinstance(node, ast.expr) and isinstance(getattr(node, "ctx", None), ast.Load) and key_of(node) == key:
                yield node

    def _owner(self, one: Evidence) -> ast.AST:
        return self.module.function(one.node) or self.module.tree

    def _ends(self, one: Evidence, flow: Flow, key: str) -> Iterator[Version]:
        """What a variable is wherever the function ends without an error."""
        if flow.falls_through:
            yield flow.final(key)
        for node in walk(self._owner(one)):
            if isinstance(node, ast.Return) and flow.reachable(node):
                yield flow.version(key, node)

    def _is_read_elsewhere(self, one: Evidence, key: str) -> bool:
        """Whether other functions can read a variable of this one."""
        names = self.module.names
        here = names.scope_of(one.node)
        owner = self._owner(one)
        if owner is self.module.tree or owner_key(key) is not None or key in here.outer:
            return True
        return any(
            load.id == key
            and self.module.function(load) is not owner
            and (found := names.lookup(key, names.scope_of(load))) is not None
            and found[0] is here
            for load in names.loads
        )

    def _is_handed_over(self, one: Evidence, flow: Flow, key: str, statement: ast.AST | None) -> bool:
        """Whether a function that gets the owner of an attribute can read it there."""
        if owner_key(key) is None:
            return False
        versions = (flow.version(key, node) for node in walk(self._owner(one)) if isinstance(node, ast.stmt))
        return any(touches(version) and _holds(version, statement) for version in versions)

    def _replacement(self, one: Evidence, flow: Flow, key: str) -> int | None:
        """The line that gives a variable another value."""
        ends = self._ends(one, flow, key)
        nodes = (definition.node for version in ends for definition in expand(version) if definition.how != "unbound")
        lines = [self.module.line(node) for node in nodes if node is not None and hasattr(node, "lineno")]
        return min((line for line in lines if line > one.node.lineno), default=None)

    def _works(self, read: ast.expr) -> bool:
        """Whether a read of a device may put something there, and does not only ask, compare or print."""
        parents = self.module.parents
        node: ast.AST = read
        while True:
            parent = parents.get(node)
            match parent:
                case ast.Attribute(attr=attr, value=value):
                    if value is read and attr not in ("type", "index"):
                        return True
                case ast.Compare() | ast.Expr() | ast.If() | ast.While() | ast.Assert() | ast.UnaryOp():
                    return False
                case ast.IfExp(test=test) if test is node:
                    return False
                case ast.keyword(arg=name):
                    if name == "map_location" or not isinstance(call := parents.get(parent), ast.Call):
                        return False
                    if (outcome := self._given_to(call, node)) is not None:
                        return outcome
                    parent = call
                case ast.Call(func=function):
                    if function is not node and (outcome := self._given_to(parent, node)) is not None:
                        return outcome
                case _ if not isinstance(parent, _WHOLES):
                    return True
            node = parent

    def _given_to(self, call: ast.Call, node: ast.AST) -> bool | None:
        """Whether a function works on a device that it gets; None where its result matters instead."""
        function = call.func
        tail = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        if tail in _TEXTS:
            return None
        names = self.module.resolve(function).names
        asks = any(name.startswith("torch.cuda.") and tail.startswith(_ASKS) for name in names)
        loads = bool(names & _LOADS) and node in call.args[1:2]
        return not (asks or loads or tail in _LOOKS)

    def _may_be_gpu(self, source: Definition, facts: Facts) -> bool:
        """Whether a value can be a GPU that is no evidence itself."""
        if source.how == "unbound":
            return False
        if source.how != "assign" or source.value is None:
            return True
        for leaf in self.values.leaves(source.value, facts):
            options = leaf.options
            if isinstance(leaf.node, ast.Call) and self.module.resolve(leaf.node.func).names == {"torch.device"}:
                given = {k.arg: k.value for k in leaf.node.keywords}
                kind = leaf.node.args[0] if leaf.node.args else given.get("type", given.get("device"))
                options = self.values.of(kind, leaf.facts).options if kind is not None else options
                if index_of(self.module, leaf.node) is not None and _all_texts(options, cuda=True):
                    continue
            if not _all_texts(options, cuda=False):
                return True
        return False


def _holds(version: Version, statement: ast.AST | None) -> bool:
    """Whether a version can come from an assignment."""
    return any(definition.node is statement for definition in expand(version))


def _all_texts(options: frozenset[object], *, cuda: bool) -> bool:
    """Whether all that something can be are names of GPUs, or names of other devices and None."""
    for option in options:
        if not isinstance(option, Known):
            if not (cuda and "cuda:" in getattr(option, "contains", "")):
                return False
        elif option.value is None:
            if cuda:
                return False
        elif not isinstance(option.value, str) or option.value.startswith("cuda") is not cuda:
            return False
    return True
