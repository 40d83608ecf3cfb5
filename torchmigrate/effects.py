"""What a call changes behind the back of the code around it: names of outer scopes and the environment.

`global` and `nonlocal`, `exec`, `globals()[...] = ...` and `os.environ.update(...)` set what other code reads without
an assignment in sight. Functions of the module are followed into the functions that they call.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchmigrate.scopes import Scope

if TYPE_CHECKING:
    from torchmigrate.functions import FunctionNode, Functions
    from torchmigrate.module import Module

Effect = tuple[str, Scope | None]
"""A name with the scope that holds it, or without one ENVIRONMENT, `environ['NAME']` or EVERYTHING."""

ENVIRONMENT = "environ"
EVERYTHING = "*"
_NONE: frozenset[Effect] = frozenset()
_MUTATORS = frozenset({"update", "setdefault", "pop", "popitem", "clear", "__setitem__", "__delitem__"})


class Effects:
    """The hidden effects of the calls of one module."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.functions: Functions = module.values.functions
        self._calls: dict[ast.Call, set[Effect]] = {}
        self._functions: dict[ast.AST, set[Effect]] = {}
        self._known: dict[ast.AST, frozenset[Effect]] = {}
        for scope in module.names._scope_at.values():
            for shared in scope.outer:
                found = module.names.lookup(shared, scope)
                if found is not None:
                    self._functions.setdefault(scope.node, set()).add((shared, found[0]))
        for call in module.names.calls:
            if isinstance(call.func, ast.Name) and call.func.id in ("exec", "globals"):
                self._dynamic(call, call.func.id)
        for attribute in module.names.attributes:
            if attribute.attr == "environ":
                self._environment(attribute)
        for name in module.names.loads:
            if name.id == "environ":
                self._environment(name)

    def of(self, call: ast.Call) -> frozenset[Effect]:
        """What a call changes, as far as this module shows."""
        if not self._calls and not self._functions:
            return _NONE
        called = self.functions.called(call)
        return frozenset(self._calls.get(call, ())) | (self._within(called) if called is not None else _NONE)

    def changes(self, call: ast.Call, key: str) -> bool:
        """Whether a call may change what a key stands for."""
        inner = key.removeprefix("os.")
        for name, _ in self.of(call):
            if name in (EVERYTHING, key, inner) or (name == ENVIRONMENT and inner.startswith(f"{ENVIRONMENT}[")):
                return True
        return False

    def _within(self, function: FunctionNode) -> frozenset[Effect]:
        if function not in self._known:
            reached = self.functions.reached(function)
            self._known[function] = frozenset(one for each in reached for one in self._functions.get(each, ()))
        return self._known[function]

    def _add(self, call: ast.Call, effect: Effect) -> None:
        self._calls.setdefault(call, set()).add(effect)
        owner = self.module.function(call)
        if owner is not None:
            self._functions.setdefault(owner, set()).add(effect)

    def _dynamic(self, call: ast.Call, name: str) -> None:
        parent = self.module.parents.get(call)
        if name == "exec":
            shared = any(isinstance(one, ast.Call) and ast.unparse(one) == "globals()" for one in call.args[1:])
            if shared or (len(call.args) == 1 and self.module.function(call) is None):
                self._add(call, (EVERYTHING, None))
        elif isinstance(parent, ast.Subscript) and not isinstance(parent.ctx, ast.Load):
            constant = parent.slice.value if isinstance(parent.slice, ast.Constant) else None
            whole: Effect = (EVERYTHING, None)
            self._add(call, (constant, self.module.names.module) if isinstance(constant, str) else whole)
        elif isinstance(parent, ast.Attribute) and parent.attr in _MUTATORS:
            self._add(call, (EVERYTHING, None))

    def _environment(self, node: ast.Attribute | ast.Name) -> None:
        if "os.environ" not in self.module.resolve(node).names:
            return
        parent = self.module.parents.get(node)
        owner = self.module.function(node)
        if isinstance(parent, ast.Subscript) and not isinstance(parent.ctx, ast.Load):
            if owner is not None:
                self._functions.setdefault(owner, set()).add((_variable(parent.slice), None))
        elif isinstance(parent, ast.Attribute) and parent.attr in _MUTATORS:
            call = self.module.parents.get(parent)
            if isinstance(call, ast.Call):
                for name in _set_by(call, parent.attr):
                    self._add(call, (name, None))


def _variable(name: ast.expr) -> str:
    known = isinstance(name, ast.Constant) and isinstance(name.value, str)
    return f"{ENVIRONMENT}[{ast.literal_eval(name)!r}]" if known else ENVIRONMENT


def _set_by(call: ast.Call, method: str) -> list[str]:
    """The variables that a method of `os.environ` changes."""
    if method != "update":
        return [_variable(call.args[0])] if call.args else [ENVIRONMENT]
    named = [ENVIRONMENT if k.arg is None else f"{ENVIRONMENT}[{k.arg!r}]" for k in call.keywords]
    for given in call.args:
        keys = given.keys if isinstance(given, ast.Dict) else [None]
        named += [ENVIRONMENT if key is None else _variable(key) for key in keys]
    return named
