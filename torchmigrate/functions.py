"""The functions of one module: which one a call runs, who calls it, through what, and what it returns."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchmigrate.calls import Binding, Signature, bind
from torchmigrate.scopes import Kind

if TYPE_CHECKING:
    from torchmigrate.module import Module

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_SPAWN = frozenset(
    {
        "torch.multiprocessing.spawn",
        "torch.multiprocessing.start_processes",
        "torch.multiprocessing.spawn.spawn",
    }
)
_PROCESS = frozenset({"torch.multiprocessing.Process", "multiprocessing.Process", "threading.Thread"})


@dataclass(frozen=True, eq=False, slots=True)
class Caller:
    """One place that runs a function: the call, and its arguments by parameter.

    `how` is "call", "spawn" (`mp.spawn`, which gives the process index first) or "process" (`Process(target=...)`).
    """

    call: ast.Call
    binding: Binding
    how: str


@dataclass(frozen=True, eq=False, slots=True)
class Callers:
    """The places of this module that run a function; `complete` when no other place can."""

    sites: tuple[Caller, ...]
    complete: bool


class Functions:
    """Calls between the functions of one module."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self._callers: dict[ast.AST, Callers] = {}
        self._generators: dict[FunctionNode, bool] = {}
        self._methods: dict[ast.ClassDef, dict[str, list[FunctionNode]]] = {}
        self._inside: dict[ast.AST, list[ast.Call]] | None = None
        self._reads: dict[str, list[ast.Name | ast.Attribute]] | None = None

    def called(self, call: ast.Call) -> FunctionNode | None:
        """The function of this module that a call surely runs: a plain function, or a method of the class around."""
        function = call.func
        names = self.module.names
        if isinstance(function, ast.Name):
            bindings = names.reaching(function) or []
            if len(bindings) == 1 and bindings[0].kind is Kind.FUNCTION:
                node = bindings[0].node
                return node if isinstance(node, _DEFINITIONS) else None
            return None
        if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
            cls = self.module.enclosing_class(call)
            if cls is not None and (self.is_self(function.value) or function.value.id in ("cls", cls.name)):
                return self.method(cls, function.attr)
        return None

    def reached(self, function: FunctionNode) -> tuple[FunctionNode, ...]:
        """A function and the functions of this module that it calls, directly or not."""
        found: dict[FunctionNode, None] = {function: None}
        stack = [function]
        while stack:
            for call in self._calls_in(stack.pop()):
                called = self.called(call)
                if called is not None and called not in found:
                    found[called] = None
                    stack.append(called)
        return tuple(found)

    def _calls_in(self, function: FunctionNode) -> list[ast.Call]:
        if self._inside is None:
            self._inside = {}
            for call in self.module.names.calls:
                owner = self.module.function(call)
                if owner is not None:
                    self._inside.setdefault(owner, []).append(call)
        return self._inside.get(function, [])

    def is_self(self, node: ast.expr) -> bool:
        """Whether a name is the first parameter of the method around it."""
        if not isinstance(node, ast.Name):
            return False
        at: ast.AST | None = self.module.function(node)
        while isinstance(at, (*_DEFINITIONS, ast.Lambda)):
            owner = self.module.parents.get(at)
            if isinstance(at, _DEFINITIONS) and isinstance(owner, ast.ClassDef):
                positional = [*at.args.posonlyargs, *at.args.args]
                static = any(isinstance(d, ast.Name) and d.id == "staticmethod" for d in at.decorator_list)
                return bool(positional) and not static and positional[0].arg == node.id
            at = self.module.function(at)
        return False

    def method(self, cls: ast.ClassDef, name: str) -> FunctionNode | None:
        """The method of a class, if its body defines it once."""
        if cls not in self._methods:
            found: dict[str, list[FunctionNode]] = {}
            for node in _walk(cls):
                if isinstance(node, _DEFINITIONS):
                    found.setdefault(node.name, []).append(node)
            self._methods[cls] = found
        named = self._methods[cls].get(name, [])
        return named[0] if len(named) == 1 else None

    def signature(self, function: FunctionNode) -> Signature:
        """The signature that a call of the function is bound to (without `self`)."""
        method = isinstance(self.module.parents.get(function), ast.ClassDef) and not any(
            isinstance(d, ast.Name) and d.id == "staticmethod" for d in function.decorator_list
        )
        return Signature.of(function, method=method)

    def bind(self, call: ast.Call, function: FunctionNode) -> Binding:
        """The arguments of a direct call by parameter."""
        return bind(call, self.signature(function))

    def callers(self, function: FunctionNode) -> Callers:
        """Who runs a function, in source order."""
        if function not in self._callers:
            self._callers[function] = Callers((), False)
            self._callers[function] = self._find_callers(function)
        return self._callers[function]

    def _find_callers(self, function: FunctionNode) -> Callers:
        sites: list[Caller] = []
        private = function.name.startswith("_") and not function.name.startswith("__")
        complete = private or self.module.function(function) is not None
        signature = self.signature(function)
        for read in self._reads_of(function.name):
            if not self._reads_function(read, function):
                continue
            parent = self.module.parents.get(read)
            if isinstance(parent, ast.Call) and parent.func is read:
                sites.append(Caller(parent, bind(parent, signature), "call"))
            elif (site := self._handed_over(read, parent, signature)) is not None:
                sites.append(site)
            else:
                complete = False
        sites.sort(key=lambda s: (s.call.lineno, s.call.col_offset))
        return Callers(tuple(sites), complete and bool(sites) and not function.decorator_list)

    def _reads_of(self, name: str) -> list[ast.Name | ast.Attribute]:
        if self._reads is None:
            self._reads = {}
            for load in self.module.names.loads:
                self._reads.setdefault(load.id, []).append(load)
            for attribute in self.module.names.attributes:
                self._reads.setdefault(attribute.attr, []).append(attribute)
        return self._reads.get(name, [])

    def _reads_function(self, read: ast.Name | ast.Attribute, function: FunctionNode) -> bool:
        if isinstance(read, ast.Name):
            bindings = self.module.names.reaching(read) or []
            return any(b.node is function for b in bindings)
        owner = self.module.parents.get(function)
        if not isinstance(owner, ast.ClassDef) or not isinstance(read.value, ast.Name):
            return False
        if read.value.id == owner.name:
            return True
        return self.module.enclosing_class(read) is owner and (self.is_self(read.value) or read.value.id == "cls")

    def _handed_over(self, read: ast.expr, parent: ast.AST | None, signature: Signature) -> Caller | None:
        """`mp.spawn(function, args=(...))` and `Process(target=function, args=(...))`."""
        call = parent
        keyword = None
        if isinstance(parent, ast.keyword):
            keyword, call = parent.arg, self.module.parents.get(parent)
        if not isinstance(call, ast.Call):
            return None
        names = self.module.resolve(call.func).names
        tail = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        given = {k.arg: k.value for k in call.keywords if k.arg}
        if names & _SPAWN or (not names and tail == "spawn"):
            if keyword not in (None, "fn") or (keyword is None and (not call.args or call.args[0] is not read)):
                return None
            args = given.get("args", call.args[1] if len(call.args) > 1 else None)
            return self._with_arguments(call, args, None, signature, "spawn")
        if (names & _PROCESS or tail in ("Process", "Thread")) and keyword == "target":
            return self._with_arguments(call, given.get("args"), given.get("kwargs"), signature, "process")
        return None

    def _with_arguments(
        self, call: ast.Call, args: ast.expr | None, kwargs: ast.expr | None, signature: Signature, how: str
    ) -> Caller | None:
        skip = signature.skip + (how == "spawn")
        signature = Signature(
            signature.positional, signature.keyword_only, skip, signature.variadic, signature.open_keywords
        )
        if args is not None and not isinstance(args, (ast.Tuple, ast.List)):
            args = ast.Tuple([ast.Starred(args, ast.Load())], ast.Load())
        keywords: list[ast.keyword] = []
        if isinstance(kwargs, ast.Dict):
            for key, value in zip(kwargs.keys, kwargs.values, strict=True):
                name = key.value if isinstance(key, ast.Constant) and isinstance(key.value, str) else None
                keywords.append(ast.keyword(name, value))
        elif kwargs is not None:
            keywords.append(ast.keyword(None, kwargs))
        handed = ast.Call(call.func, list(args.elts) if args is not None else [], keywords)
        return Caller(call, bind(handed, signature), how)

    def spawned_index(self, function: FunctionNode) -> str | None:
        """The parameter that gets the process index, when `mp.spawn` of this module starts the function."""
        if not any(site.how == "spawn" for site in self.callers(function).sites):
            return None
        signature = self.signature(function)
        names = signature.positional[signature.skip :]
        return names[0] if names else None

    def returns(self, function: FunctionNode) -> list[ast.expr | None]:
        """The expressions that a function returns; None among them where it returns nothing at the end."""
        flow = self.module.flow(function.body[0])
        found = [node.value for node in _walk(function) if isinstance(node, ast.Return) and flow.reachable(node)]
        if flow.falls_through:
            found.append(None)
        return found

    def is_generator(self, function: FunctionNode) -> bool:
        """Whether calling the function gives a generator or a coroutine instead of what it returns."""
        if function not in self._generators:
            yields = any(isinstance(n, (ast.Yield, ast.YieldFrom)) for n in _walk(function))
            self._generators[function] = yields or isinstance(function, ast.AsyncFunctionDef)
        return self._generators[function]


def _walk(owner: FunctionNode | ast.ClassDef) -> Iterator[ast.AST]:
    """The nodes of a body, without those of functions and classes inside."""
    stack: list[ast.AST] = list(reversed(owner.body))
    while stack:
        at = stack.pop()
        yield at
        if not isinstance(at, (*_DEFINITIONS, ast.ClassDef, ast.Lambda)):
            stack.extend(ast.iter_child_nodes(at))
