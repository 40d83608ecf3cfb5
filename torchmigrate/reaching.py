"""What a key may hold at a place: its versions, where paths meet, and the conditions that held on the way.

A key is a name, a dotted name (`args.gpu`, `self.device`) or a constant subscript (`kwargs["device_id"]`). `flow` finds
the versions; two reads of a key have the same value exactly when their versions are the same object (within one run of
the loop around them).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

How = Literal["assign", "augmented", "parameter", "loop", "with", "unpack", "import", "def", "other", "unbound", "free"]


@dataclass(frozen=True, eq=False, slots=True)
class Definition:
    """One assignment of a key.

    `value` is the assigned expression for plain assignments; for "unpack" and "loop" the expression that is unpacked or
    iterated. `index` is the position inside an unpacked target. "free" stands for what the function did not assign: a
    global, a closure variable or an attribute as it was when its owner was made; "unbound" for a local without a value.
    """

    key: str
    how: How
    node: ast.AST | None = None
    value: ast.expr | None = None
    index: int | None = None


@dataclass(eq=False, slots=True, repr=False)
class Phi:
    """Where paths meet: one of several versions.

    `guards` says for each source on which conditions its paths hang: one tuple of conditions a path, of which at least
    one tuple held. A loop's Phi has none. `open` while the loop that it heads is still being walked.
    """

    key: str
    sources: list[Version] = field(default_factory=list)
    guards: list[list[tuple[Condition, ...]]] = field(default_factory=list)
    open: bool = False


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Touched:
    """The same as before unless a call that received the owner object changed it."""

    key: str
    before: Version
    call: ast.Call


Version = Definition | Phi | Touched


@dataclass(frozen=True, slots=True)
class Condition:
    """A test that came out true or false on every path to a point.

    `versions` are those that the keys of the test had when it was made. `fatal` says that the other outcome ends the
    program (an assertion, or a branch that raises).
    """

    test: ast.expr
    truth: bool
    versions: tuple[tuple[str, Version], ...] = ()
    fatal: bool = False


def key_of(node: ast.AST) -> str | None:
    """The key under which an expression is followed: a name, or attributes and constant subscripts of one."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=attr):
            base = key_of(value)
            return f"{base}.{attr}" if base else None
        case ast.Subscript(value=value, slice=ast.Constant(value=str() | int() as key)):
            base = key_of(value)
            return f"{base}[{key!r}]" if base else None
    return None


def owner_key(key: str) -> str | None:
    """The key of the object that holds a key: "args" for "args.gpu"; None for a plain name."""
    cut = max(key.rfind("."), key.rfind("["))
    return key[:cut] if cut > 0 else None


def namespace_of(node: ast.expr) -> ast.expr:
    """The object whose attributes `vars(object)` and `object.__dict__` are; other expressions as they are."""
    match node:
        case (
            ast.Call(func=ast.Name(id="vars"), args=[owner], keywords=[]) | ast.Attribute(value=owner, attr="__dict__")
        ):
            return owner
    return node


def calls_between(one: Version, other: Version) -> tuple[ast.Call, ...]:
    """The calls that may have changed a key between two places where it has these versions, in either order."""
    for first, last in ((one, other), (other, one)):
        calls: list[ast.Call] = []
        while isinstance(last, Touched) and last is not first:
            calls.append(last.call)
            last = last.before
        if last is first:
            return tuple(calls)
    ways = touches(one), touches(other)
    return tuple(call for way in ways for call in way if not all(call in other for other in ways))


def expand(version: Version) -> Iterator[Definition]:
    """The definitions behind a version, each once."""
    return (one for one in _behind(version) if isinstance(one, Definition))


def untouched(version: Version) -> Version:
    """The version behind calls that may, but need not, have changed it."""
    while isinstance(version, Touched):
        version = version.before
    return version


def settled(version: Version) -> Version:
    """The version behind calls that may have changed it, also where paths with and without such calls meet."""
    version = untouched(version)
    if not isinstance(version, Phi) or version.open:
        return version
    ends = [one for one in _behind(version, opened=False) if isinstance(one, Definition) or _is_open(one)]
    return ends[0] if len(ends) == 1 else version


def touches(version: Version) -> tuple[ast.Call, ...]:
    """The calls that received the owner of a key since it got its value."""
    return tuple(dict.fromkeys(one.call for one in _behind(version) if isinstance(one, Touched)))


def _behind(version: Version, *, opened: bool = True) -> Iterator[Version]:
    """A version and those that it may be, each once, in the order of the paths; those of an open Phi if `opened`."""
    seen: set[int] = set()
    stack = [version]
    while stack:
        one = stack.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        if isinstance(one, Touched):
            stack.append(one.before)
        elif isinstance(one, Phi) and (opened or not one.open):
            stack += reversed(one.sources)


def _is_open(version: Version) -> bool:
    return isinstance(version, Phi) and version.open
