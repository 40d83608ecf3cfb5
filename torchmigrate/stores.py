"""What a module stores elsewhere than in plain names: attributes, items and environment variables.

By assignments, and by calls that set by name: `setattr`, `vars(...).update`, `os.environ.setdefault`. Functions of the
module are followed into the functions that they call.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchmigrate.reaching import key_of, namespace_of, owner_key

if TYPE_CHECKING:
    from torchmigrate.functions import FunctionNode, Functions
    from torchmigrate.module import Module


class Stores:
    """The stores of one module, each kind looked up when it is asked for."""

    def __init__(self, module: Module, functions: Functions) -> None:
        self.module = module
        self.functions = functions
        self._environment: list[ast.expr] | None = None
        self._assigned: dict[tuple[ast.ClassDef, str], dict[ast.stmt, None]] | None = None
        self._stored: dict[ast.AST, frozenset[str]] = {}
        self._set_by_name: dict[ast.ClassDef, list[tuple[str, ast.Call]]] = {}

    def assigns(self, call: ast.Call, key: str) -> bool:
        """Whether the function of this module that a call runs assigns an attribute or item of that name."""
        if self.module.effects.changes(call, key) or _sets_attribute(call, key):
            return True
        called = self.functions.called(call)
        return called is not None and _last(key) in self._within(called)

    def _within(self, function: FunctionNode) -> frozenset[str]:
        """The attributes and items that a function assigns, or a function of this module that it calls."""
        if function not in self._stored:
            keys = (
                key_of(node)
                for each in self.functions.reached(function)
                for node in ast.walk(each)
                if isinstance(node, (ast.Attribute, ast.Subscript)) and not isinstance(node.ctx, ast.Load)
            )
            self._stored[function] = frozenset(_last(stored) for stored in keys if stored is not None)
        return self._stored[function]

    def assignments(self, cls: ast.ClassDef, name: str) -> list[ast.stmt]:
        """The statements in a class's methods that assign an attribute of `self`."""
        if self._assigned is None:
            self._assigned = {}
            for attribute in self.module.names.attributes:
                if isinstance(attribute.ctx, ast.Load) or not isinstance(attribute.value, ast.Name):
                    continue
                owner = self.module.enclosing_class(attribute)
                if owner is not None:
                    listed = self._assigned.setdefault((owner, attribute.attr), {})
                    listed[self.module.statement(attribute)] = None
        return list(self._assigned.get((cls, name), ()))

    def _setters(self, cls: ast.ClassDef) -> list[tuple[str, ast.Call]]:
        """The calls in a class's methods that may set attributes by name, each with the name of `self` there."""
        if cls not in self._set_by_name:
            self._set_by_name[cls] = []
            for call in ast.walk(cls):
                if not isinstance(call, ast.Call):
                    continue
                owner = namespace_of(call.func.value) if isinstance(call.func, ast.Attribute) else None
                if isinstance(call.func, ast.Name) and call.func.id == "setattr" and call.args:
                    owner = call.args[0]
                if isinstance(owner, ast.Name) and self.functions.is_self(owner):
                    self._set_by_name[cls].append((owner.id, call))
        return self._set_by_name[cls]

    def may_set(self, cls: ast.ClassDef, name: str) -> bool:
        """Whether a call in a class's methods may set an attribute of `self` by name."""
        return any(_sets_attribute(call, f"{own}.{name}") for own, call in self._setters(cls))

    def environment(self) -> list[ast.expr]:
        """The names of the environment variables that this module sets."""
        if self._environment is None:
            self._environment = []
            for attribute in self.module.names.attributes:
                parent = self.module.parents.get(attribute)
                if not self.module.resolve(attribute).names & {"os.environ"}:
                    continue
                if isinstance(parent, ast.Subscript) and not isinstance(parent.ctx, ast.Load):
                    self._environment.append(parent.slice)
                elif isinstance(parent, ast.Attribute) and parent.attr in ("setdefault", "update"):
                    call = self.module.parents.get(parent)
                    if isinstance(call, ast.Call):
                        self._environment += _named_variables(call, parent.attr)
        return self._environment

    def sets_environment(self, read: ast.Subscript) -> bool:
        """Whether this module assigns the environment variable that is read."""
        wanted = ast.unparse(read.slice)
        return any(ast.unparse(name) == wanted for name in self.environment())


def _sets_attribute(call: ast.Call, key: str) -> bool:
    """Whether `setattr(owner, name, value)`, `vars(owner).update(...)`, `owner.merge_from_file(...)` may set a key."""
    name = _last(key).strip("'\"")
    owner = owner_key(key)
    if isinstance(call.func, ast.Name) and call.func.id in ("setattr", "delattr") and len(call.args) > 1:
        chosen = call.args[1]
        return key_of(call.args[0]) == owner and (not isinstance(chosen, ast.Constant) or chosen.value == name)
    if not isinstance(call.func, ast.Attribute) or not call.func.attr.startswith(("update", "merge", "__setitem__")):
        return False
    if key_of(namespace_of(call.func.value)) != owner:
        return False
    literal = [one for one in call.args if isinstance(one, ast.Dict) and None not in one.keys]
    names = [k.value if isinstance(k, ast.Constant) else None for one in literal for k in one.keys]
    return len(literal) < len(call.args) or bool({None, name} & {*names, *(k.arg for k in call.keywords)})


def _named_variables(call: ast.Call, method: str) -> list[ast.expr]:
    """The variables that `os.environ.setdefault(...)` or `.update(...)` sets."""
    if method == "setdefault":
        return call.args[:1]
    found: list[ast.expr] = [ast.Constant(k.arg) for k in call.keywords if k.arg]
    for argument in call.args:
        if isinstance(argument, ast.Dict):
            found += [key for key in argument.keys if key is not None]
    return found


def _last(key: str) -> str:
    """The attribute or item at the end of a key."""
    return key[max(key.rfind("."), key.rfind("[")) + 1 :].rstrip("]")
