"""Which parameter each argument of a call goes to, as far as the call's text says.

    binding = bind(call, Signature(("backend", "init_method", "timeout")))
    binding.get("backend")      # the expression, or None
    binding.surely_absent("timeout")

A `*args` may fill every later positional parameter, a `**kwargs` every parameter that is not given otherwise; neither
is guessed at here.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Signature:
    """Parameter names: those that may be given by position, in order, and those that only go by keyword.

    `skip` positional parameters are filled by the call itself (1 for a method called on its object). `variadic` says
    that the function takes `*args`, `open_keywords` that it takes `**kwargs`.
    """

    positional: tuple[str, ...]
    keyword_only: tuple[str, ...] = ()
    skip: int = 0
    variadic: bool = False
    open_keywords: bool = False

    @classmethod
    def of(cls, function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, *, method: bool = False) -> Signature:
        """The signature of a function definition; `method` when its first parameter is the object."""
        args = function.args
        return cls(
            tuple(a.arg for a in (*args.posonlyargs, *args.args)),
            tuple(a.arg for a in args.kwonlyargs),
            skip=1 if method else 0,
            variadic=args.vararg is not None,
            open_keywords=args.kwarg is not None,
        )

    def position(self, name: str) -> int | None:
        """The index at which a call may pass a parameter by position."""
        try:
            index = self.positional.index(name) - self.skip
        except ValueError:
            return None
        return index if index >= 0 else None


@dataclass(frozen=True, slots=True)
class Binding:
    """A call's arguments by parameter name.

    `stars` are the expressions behind `*`, `doubles` those behind `**`; `first_star` is the positional index of the
    first `*`. `surplus` are positional arguments beyond the signature, `unknown` keywords that it does not name.
    """

    signature: Signature
    given: Mapping[str, ast.expr] = field(default_factory=dict)
    stars: tuple[ast.expr, ...] = ()
    doubles: tuple[ast.expr, ...] = ()
    first_star: int | None = None
    surplus: tuple[ast.expr, ...] = ()
    unknown: Mapping[str, ast.expr] = field(default_factory=dict)

    def get(self, name: str) -> ast.expr | None:
        """The expression that the call surely gives to a parameter."""
        return self.given.get(name)

    def surely_absent(self, name: str) -> bool:
        """True when the call cannot give the parameter a value."""
        return name not in self.given and not self.doubles and not self._starred(name)

    def _starred(self, name: str) -> bool:
        if self.first_star is None:
            return False
        position = self.signature.position(name)
        return position is not None and position >= self.first_star


def bind(call: ast.Call, signature: Signature) -> Binding:
    """The arguments of a call by parameter. Wrong calls (a parameter given twice) keep the first value."""
    names = signature.positional[signature.skip :]
    given: dict[str, ast.expr] = {}
    unknown: dict[str, ast.expr] = {}
    stars: list[ast.expr] = []
    surplus: list[ast.expr] = []
    first_star: int | None = None
    for index, argument in enumerate(call.args):
        if isinstance(argument, ast.Starred):
            stars.append(argument.value)
            first_star = index if first_star is None else first_star
        elif first_star is None:
            if index < len(names):
                given[names[index]] = argument
            else:
                surplus.append(argument)
    known = {*names, *signature.keyword_only}
    doubles: list[ast.expr] = []
    for keyword in call.keywords:
        if keyword.arg is None:
            doubles.append(keyword.value)
        elif keyword.arg in known:
            given.setdefault(keyword.arg, keyword.value)
        else:
            unknown[keyword.arg] = keyword.value
    return Binding(signature, given, tuple(stars), tuple(doubles), first_star, tuple(surplus), unknown)


def default_of(function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, name: str) -> ast.expr | None:
    """The default value of a parameter, or None when it has none."""
    args = function.args
    positional = [*args.posonlyargs, *args.args]
    for arg, default in zip(reversed(positional), reversed(args.defaults), strict=False):
        if arg.arg == name:
            return default
    for arg, given in zip(args.kwonlyargs, args.kw_defaults, strict=True):
        if arg.arg == name:
            return given
    return None
