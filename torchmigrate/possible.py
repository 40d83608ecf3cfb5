"""Possibilities: constants and unknowns that an expression can be, how they compare, and what a test leaves of them."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, replace

from torchmigrate.reaching import key_of

Constant = str | int | float | bool | bytes | None


@dataclass(frozen=True, slots=True)
class Known:
    """One constant."""

    value: Constant
    kind: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", type(self.value).__name__)


@dataclass(frozen=True, slots=True)
class Unknown:
    """Something that the file does not show.

    `kind` is the name of its type, "" when unknown; `contains` is text that it surely holds; `least` what a number is
    at least; `origin` says where it comes from, for people.
    """

    kind: str = ""
    contains: str = ""
    least: int | None = None
    origin: str = ""


Option = Known | Unknown
Options = frozenset[Option]
ANYTHING: Options = frozenset({Unknown()})


@dataclass(frozen=True, slots=True)
class Value:
    """All that an expression can be. No option at all means that the code cannot be reached under the facts given."""

    options: Options

    @property
    def certain(self) -> bool:
        """True when every possibility is a known constant."""
        return bool(self.options) and all(isinstance(o, Known) for o in self.options)

    @property
    def constants(self) -> tuple[Constant, ...]:
        """The known constants, in a stable order."""
        return tuple(sorted((o.value for o in self.options if isinstance(o, Known)), key=repr))

    @property
    def unknown(self) -> tuple[Unknown, ...]:
        """What else it can be."""
        return tuple(sorted((o for o in self.options if isinstance(o, Unknown)), key=repr))


Evaluate = Callable[[ast.expr], Value]


def narrow(options: Options, key: str, test: ast.expr, truth: bool, evaluate: Evaluate) -> Options:
    """The options for a key that remain when a test comes out as `truth`; `evaluate` says what operands can be."""
    if isinstance(test, ast.BoolOp):
        if isinstance(test.op, ast.Or) is truth:
            parts = [narrow(options, key, part, truth, evaluate) for part in test.values]
            return frozenset().union(*parts)
        for part in test.values:
            options = narrow(options, key, part, truth, evaluate)
        return options
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return narrow(options, key, test.operand, not truth, evaluate)
    if key_of(test) == key:
        return frozenset(o for o in options if truthy(o) is not (not truth))
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        return _by_comparison(options, key, test, truth, evaluate)
    if isinstance(test, ast.Call) and isinstance(test.func, ast.Attribute) and test.func.attr == "startswith":
        prefix = test.args[0] if test.args else None
        if key_of(test.func.value) == key and isinstance(prefix, ast.Constant) and isinstance(prefix.value, str):
            start = prefix.value
            return _containing(options, start, truth, lambda text: text.startswith(start))
    return options


def _by_comparison(options: Options, key: str, test: ast.Compare, truth: bool, evaluate: Evaluate) -> Options:
    left, op, right = test.left, test.ops[0], test.comparators[0]
    if isinstance(op, (ast.NotEq, ast.IsNot, ast.NotIn)):
        op, truth = {ast.NotEq: ast.Eq(), ast.IsNot: ast.Is(), ast.NotIn: ast.In()}[type(op)], not truth
    if isinstance(op, (ast.Eq, ast.Is)) and key_of(right) == key:
        left, right = right, left
    if isinstance(op, ast.In) and key_of(right) == key:
        if isinstance(left, ast.Constant) and isinstance(left.value, str):
            part = left.value
            return _containing(options, part, truth, lambda text: part in text)
        return options
    lower = (
        isinstance(left, ast.Call)
        and isinstance(left.func, ast.Attribute)
        and left.func.attr in ("lower", "casefold")
        and key_of(left.func.value) == key
    )
    if key_of(left) != key and not lower:
        return options
    if isinstance(op, ast.In):
        if not isinstance(right, (ast.Tuple, ast.List, ast.Set)):
            return options
        wanted = [evaluate(element) for element in right.elts]
    else:
        wanted = [evaluate(right)]
    if not all(value.certain and len(value.options) == 1 for value in wanted):
        return options
    constants = [value.constants[0] for value in wanted]
    if isinstance(op, (ast.Eq, ast.Is, ast.In)):
        return _equal(options, constants, truth, lower)
    kept = frozenset(o for o in options if compare(o, op, Known(constants[0])) is not (not truth))
    low = _low(op, constants[0], truth)
    return kept if low is None else frozenset(_raised(option, low) for option in kept)


def _low(op: ast.cmpop, limit: Constant, truth: bool) -> int | None:
    """The lower bound that a comparison with a number gives an integer."""
    if not isinstance(limit, int):
        return None
    if isinstance(op, ast.Gt if truth else ast.LtE):
        return limit + 1
    return limit if isinstance(op, ast.GtE if truth else ast.Lt) else None


def _raised(option: Option, low: int) -> Option:
    if isinstance(option, Known) or option.kind not in ("", "int"):
        return option
    return replace(option, least=max(low, option.least if option.least is not None else low))


def truthy(option: Option) -> bool | None:
    """Whether a value counts as true; None where that is not known."""
    if isinstance(option, Known):
        return bool(option.value)
    if option.kind in ("device", "object") or option.contains or (option.least or 0) > 0:
        return True
    return None


def compare(one: Option, op: ast.cmpop, other: Option) -> bool | None:
    """The outcome of a comparison of two possibilities; None where that is not known."""
    if isinstance(one, Known) and isinstance(other, Known):
        a, b = one.value, other.value
        try:
            match op:
                case ast.Eq():
                    return a == b
                case ast.NotEq():
                    return a != b
                case ast.Is():
                    return a is b or (a == b and type(a) is type(b))
                case ast.IsNot():
                    return not (a is b or (a == b and type(a) is type(b)))
                case ast.In():
                    return a in b  # type: ignore[operator]
                case ast.NotIn():
                    return a not in b  # type: ignore[operator]
                case ast.Lt():
                    return bool(a < b)  # type: ignore[operator]
                case ast.LtE():
                    return bool(a <= b)  # type: ignore[operator]
                case ast.Gt():
                    return bool(a > b)  # type: ignore[operator]
                case ast.GtE():
                    return bool(a >= b)  # type: ignore[operator]
        except TypeError:
            return None
        return None
    if isinstance(one, Unknown) and isinstance(other, Known) and one.least is not None:
        return _at_least(one.least, op, other.value)
    if isinstance(op, (ast.Eq, ast.NotEq, ast.Is, ast.IsNot)):
        apart = one.kind != other.kind and "NoneType" in (one.kind, other.kind) and "" not in (one.kind, other.kind)
        return isinstance(op, (ast.NotEq, ast.IsNot)) if apart else None
    if isinstance(op, (ast.In, ast.NotIn)) and isinstance(one, Known) and isinstance(other, Unknown):
        held = isinstance(one.value, str) and one.value in other.contains
        return isinstance(op, ast.In) if held and one.value else None
    return None


def _at_least(least: int, op: ast.cmpop, other: Constant) -> bool | None:
    """The outcome of a comparison for a number of which only a lower bound is known."""
    if not isinstance(other, int):
        return {ast.Is: False, ast.IsNot: True, ast.Eq: False, ast.NotEq: True}.get(type(op))
    match op:
        case ast.Gt() if other < least:
            return True
        case ast.GtE() if other <= least:
            return True
        case ast.Lt() if other <= least:
            return False
        case ast.LtE() if other < least:
            return False
        case ast.Eq() if other < least:
            return False
        case ast.NotEq() if other < least:
            return True
    return None


def all_known(options: Options) -> bool:
    return all(isinstance(o, Known) for o in options)


def constant(node: ast.expr) -> Value:
    """What a literal is; anything for other expressions."""
    value = node.value if isinstance(node, ast.Constant) else ...
    if value is None or isinstance(value, (str, int, float, bool, bytes)):
        return Value(frozenset({Known(value)}))
    return Value(ANYTHING)


def _equal(options: Options, constants: list[Constant], truth: bool, lower: bool) -> Options:
    def matches(option: Known) -> bool:
        value = option.value.lower() if lower and isinstance(option.value, str) else option.value
        return any(value == c and (value is None) == (c is None) for c in constants)

    known = frozenset(o for o in options if isinstance(o, Known) and matches(o) is truth)
    unknown = frozenset(o for o in options if isinstance(o, Unknown))
    if not truth:
        return known | unknown
    fitting = {Known(c) for c in constants for o in unknown if o.kind in ("", Known(c).kind) and not lower}
    if lower and unknown:
        fitting = {Known(c) for c in constants}
    return known | fitting


def _containing(options: Options, part: str, truth: bool, test: Callable[[str], bool]) -> Options:
    kept: set[Option] = set()
    for option in options:
        if isinstance(option, Known):
            if isinstance(option.value, str) and test(option.value) is truth:
                kept.add(option)
        elif truth and option.kind in ("", "str"):
            kept.add(replace(option, kind="str", contains=part))
        elif not truth:
            kept.add(option)
    return frozenset(kept)
