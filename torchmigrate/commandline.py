"""Options of command lines and parameters of tests, as their declarations say: argparse, click, pytest.parametrize."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchmigrate.possible import Known, Options, Unknown
from torchmigrate.reaching import key_of
from torchmigrate.values import Facts, Leaf

if TYPE_CHECKING:
    from torchmigrate.values import Values

KINDS = frozenset({"int", "str", "bool", "float", "dict", "list", "tuple"})
"""The types that a declaration can name, as kinds of values."""
PARSERS = frozenset({"parse_args", "parse_known_args", "parse_intermixed_args"})
"""The methods of argparse that give the parsed arguments."""


@dataclass(frozen=True, eq=False, slots=True)
class OptionSpec:
    """One command line option: its default (None: none is given), its choices, and the kind of its values."""

    call: ast.Call
    default: ast.expr | None
    choices: tuple[ast.expr, ...]
    kind: str
    flag: str
    required: bool = False


def common_kind(specs: list[OptionSpec]) -> str:
    kinds = {spec.kind for spec in specs}
    return kinds.pop() if len(kinds) == 1 else ""


def destinations(call: ast.Call) -> list[str]:
    dest = next((k.value for k in call.keywords if k.arg == "dest"), None)
    if isinstance(dest, ast.Constant) and isinstance(dest.value, str):
        return [dest.value]
    flags = [a.value for a in call.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
    plain = [flag for flag in flags if not flag.startswith("-")]
    long = [flag for flag in flags if flag.startswith("--")]
    chosen = (plain or long or flags)[:1]
    return [flag.lstrip("-").replace("-", "_").partition("/")[0] for flag in chosen]


def argparse_option(call: ast.Call) -> OptionSpec:
    given = {k.arg: k.value for k in call.keywords if k.arg}
    action = given.get("action")
    switch = isinstance(action, ast.Constant) and action.value in ("store_true", "store_false")
    kind = "bool" if switch else "str"
    if not switch and (wanted := given.get("type")) is not None:
        named = key_of(wanted) or ""
        kind = named if named in KINDS else ""
    if action is not None and not switch:
        kind = "bool" if (key_of(action) or "").endswith("BooleanOptionalAction") else ""
    listed = given.get("choices")
    choices = tuple(listed.elts) if isinstance(listed, (ast.List, ast.Tuple, ast.Set)) else ()
    required = given.get("required")
    needed = isinstance(required, ast.Constant) and bool(required.value)
    return OptionSpec(call, given.get("default"), choices, kind, _flag(call), needed)


def click_option(call: ast.Call) -> OptionSpec | None:
    given = {k.arg: k.value for k in call.keywords if k.arg}
    wanted = given.get("type")
    choices: tuple[ast.expr, ...] = ()
    kind = "str"
    if isinstance(wanted, ast.Call) and (key_of(wanted.func) or "").endswith("Choice") and wanted.args:
        listed = wanted.args[0]
        choices = tuple(listed.elts) if isinstance(listed, (ast.List, ast.Tuple)) else ()
        kind = "str" if choices else ""
    elif wanted is not None:
        named = (key_of(wanted) or "").rpartition(".")[2].lower()
        kind = named if named in KINDS else ""
    if "is_flag" in given:
        kind = "bool"
    default = given.get("default")
    if isinstance(default, ast.Constant) and wanted is None and not isinstance(default.value, str):
        kind = type(default.value).__name__ if type(default.value).__name__ in KINDS else ""
    required = given.get("required")
    needed = isinstance(required, ast.Constant) and bool(required.value)
    return OptionSpec(call, default, choices, kind, _flag(call), needed)


def _flag(call: ast.Call) -> str:
    flags = [a.value for a in call.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
    return max(flags, key=len, default="an option")


def parametrized(decorator: ast.Call, name: str) -> list[ast.expr] | None:
    """The values that a parametrize decorator gives to one parameter; None when it does not name it."""
    names, listed = decorator.args[0], decorator.args[1]
    if isinstance(names, ast.Constant) and isinstance(names.value, str):
        parameters = [part.strip() for part in names.value.split(",")]
    elif isinstance(names, (ast.Tuple, ast.List)):
        parameters = [str(e.value) if isinstance(e, ast.Constant) else "" for e in names.elts]
    else:
        return None
    if name not in parameters or not isinstance(listed, (ast.Tuple, ast.List)):
        return None
    index = parameters.index(name)
    found: list[ast.expr] = []
    for row in listed.elts:
        if isinstance(row, ast.Call) and (key_of(row.func) or "").endswith("param"):
            cells: list[ast.expr] = row.args
        elif len(parameters) > 1 and isinstance(row, (ast.Tuple, ast.List)):
            cells = row.elts
        else:
            cells = [row]
        if index >= len(cells):
            return None
        found.append(cells[index])
    return found


def typed(options: Options, kind: str) -> Options:
    """A default as argparse hands it out: text goes through the option's type."""
    found: set[Known | Unknown] = set()
    for option in options:
        if kind == "int" and isinstance(option, Known) and isinstance(option.value, str):
            try:
                found.add(Known(int(option.value)))
            except ValueError:
                found.add(Unknown("int"))
        elif kind == "int" and isinstance(option, Unknown):
            found.add(Unknown("int", least=option.least, origin=option.origin))
        else:
            found.add(option)
    return frozenset(found)


def annotated(annotation: ast.expr | None) -> tuple[str, bool]:
    """The kind that an annotation names, "" for others, and whether it says that None is possible."""
    match annotation:
        case ast.Constant(value=str() as text):
            try:
                return annotated(ast.parse(text, mode="eval").body)
            except SyntaxError:
                return "", False
        case ast.Name(id=name) if name in KINDS:
            return name, False
        case ast.Attribute(attr="device") | ast.Name(id="device"):
            return "device", False
        case ast.BinOp(left=left, op=ast.BitOr(), right=ast.Constant(value=None)):
            return annotated(left)[0], True
        case ast.Subscript(value=value, slice=inner) if (key_of(value) or "").rpartition(".")[2] == "Optional":
            return annotated(inner)[0], True
        case ast.Subscript(value=ast.Name(id=name)) if name.lower() in ("list", "dict", "tuple"):
            return name.lower(), False
    return "", False


def option_leaves(values: Values, spec: OptionSpec, facts: Facts) -> Iterator[Leaf]:
    """The values that an option can have once the arguments are parsed."""
    if spec.kind == "bool":
        yield Leaf(spec.call, frozenset({Known(True), Known(False)}), facts)
        return
    if spec.default is not None:
        for leaf in values.leaves(spec.default, facts):
            yield Leaf(spec.default, typed(leaf.options, spec.kind), facts)
    elif not spec.required:
        yield Leaf(spec.call, frozenset({Known(None)}), facts)
    if spec.choices:
        for choice in spec.choices:
            yield from values.leaves(choice, facts)
    else:
        yield Leaf(spec.call, frozenset({Unknown(spec.kind, origin=spec.flag)}), facts)
