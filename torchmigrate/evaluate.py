"""What one expression evaluates to, once names are out of the way: literals, text, calls, arithmetic."""

from __future__ import annotations

import ast
import itertools
import operator
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from torchmigrate.possible import ANYTHING, Known, Option, Options, Unknown
from torchmigrate.values import Facts, Leaf

if TYPE_CHECKING:
    from torchmigrate.values import Values

_MANY = 32
_LENGTH = 4096
_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_TEXT: dict[str, Callable[[str], str]] = {
    "lower": str.lower,
    "casefold": str.casefold,
    "upper": str.upper,
    "strip": str.strip,
}
_ENVIRONMENT = frozenset({"os.environ.get", "os.getenv"})
_CUDA = frozenset({"torch.cuda.is_available", "torch.accelerator.is_available", "torch.distributed.is_nccl_available"})
_DEFAULT_BACKEND = frozenset(
    {
        "torch.distributed.get_default_backend_for_device",
        "torch.distributed.distributed_c10d.get_default_backend_for_device",
    }
)
_COUNT = frozenset({"torch.cuda.device_count", "torch.accelerator.device_count"})
_BACKEND = frozenset({"torch.distributed.Backend", "torch.distributed.distributed_c10d.Backend"})


def evaluate(values: Values, node: ast.expr, facts: Facts) -> Iterator[Leaf]:
    """The leaves of an expression that is no name and no choice between others."""
    match node:
        case ast.Constant(value=value):
            known = value is None or isinstance(value, (str, int, float, bool, bytes))
            yield Leaf(node, frozenset({Known(value)}) if known else ANYTHING, facts)  # type: ignore[arg-type]
        case ast.Attribute():
            yield from _attribute(values, node, facts)
        case ast.Subscript():
            yield from subscript(values, node, facts)
        case ast.Call():
            yield from _call(values, node, facts)
        case ast.Compare() | ast.UnaryOp(op=ast.Not()):
            truth = values.truth(node, facts)
            yield Leaf(node, frozenset({Unknown("bool") if truth is None else Known(truth)}), facts)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            options = {
                Known(-o.value) if isinstance(o, Known) and isinstance(o.value, (int, float)) else Unknown(o.kind)
                for o in values.of(operand, facts).options
            }
            yield Leaf(node, frozenset(options), facts)
        case ast.BinOp():
            yield Leaf(node, _arithmetic(values, node, facts), facts)
        case ast.JoinedStr():
            yield Leaf(node, _joined(values, node, facts), facts)
        case ast.Dict() | ast.DictComp():
            yield Leaf(node, frozenset({Unknown("dict")}), facts)
        case ast.List() | ast.ListComp():
            yield Leaf(node, frozenset({Unknown("list")}), facts)
        case ast.Tuple():
            yield Leaf(node, frozenset({Unknown("tuple")}), facts)
        case _:
            yield Leaf(node, ANYTHING, facts)


def _attribute(values: Values, node: ast.Attribute, facts: Facts) -> Iterator[Leaf]:
    reference = values.module.resolve(node)
    names = reference.names
    for name in names:
        owner, _, member = name.rpartition(".")
        if owner in _BACKEND and member.isupper():
            yield Leaf(node, frozenset({Known(member.lower())}), facts)
            return
    if node.attr in ("value", "name") and isinstance(node.value, ast.Attribute):
        yield from values.leaves(node.value, facts)
        return
    elsewhere = values.elsewhere(next(iter(names))) if len(names) == 1 and reference.certain else ANYTHING
    yield Leaf(node, elsewhere, facts)


def subscript(values: Values, node: ast.Subscript, facts: Facts) -> Iterator[Leaf]:
    """An item of a dict that is in sight; all of its items where the key is not known."""
    for leaf in values.leaves(node.value, facts):
        if isinstance(leaf.node, ast.Dict):
            yield from items(values, leaf.node, node.slice, None, leaf.facts)
        elif isinstance(leaf.node, (ast.Tuple, ast.List)):
            chosen = values.of(node.slice, facts)
            for index, element in enumerate(leaf.node.elts):
                if not chosen.certain or index in chosen.constants or index - len(leaf.node.elts) in chosen.constants:
                    yield from values.leaves(element, leaf.facts)
        else:
            yield Leaf(node, ANYTHING, facts)


def items(
    values: Values, node: ast.Dict, key: ast.expr, default: ast.expr | None, facts: Facts, *, get: bool = False
) -> Iterator[Leaf]:
    """What looking a key up in a dict literal gives; `get` for the method, which has a default."""
    asked = values.of(key, facts)
    wanted = set(asked.constants) if asked.certain else None
    sure = False
    for name, value in zip(node.keys, node.values, strict=True):
        if name is None:
            yield Leaf(None, ANYTHING, facts)
            continue
        found = values.of(name, facts)
        if wanted is None or not found.certain or set(found.constants) & wanted:
            sure = sure or (wanted is not None and found.certain and wanted == set(found.constants))
            yield from values.leaves(value, facts)
    if get and not sure:
        if default is None:
            yield Leaf(None, frozenset({Known(None)}), facts)
        else:
            yield from values.leaves(default, facts)


def _call(values: Values, node: ast.Call, facts: Facts) -> Iterator[Leaf]:
    function = node.func
    names = values.module.resolve(function).names
    if names:
        yield from _imported(values, node, names, facts)
        return
    if isinstance(function, ast.Attribute):
        if (called := values.functions.called(node)) is not None:
            yield from values.declared.result(values, called, node, facts)
        else:
            yield from _method(values, node, function, facts)
    elif isinstance(function, ast.Name):
        if values.module.names.lookup(function.id, values.module.names.scope_of(function)) is None:
            yield from _builtin(values, node, function.id, facts)
        elif (called := values.functions.called(node)) is not None:
            yield from values.declared.result(values, called, node, facts)
        else:
            yield Leaf(node, ANYTHING, facts)
    else:
        yield Leaf(node, ANYTHING, facts)


def _imported(values: Values, node: ast.Call, names: frozenset[str], facts: Facts) -> Iterator[Leaf]:
    if names & _ENVIRONMENT:
        yield from environment(values, node, facts)
    elif names <= _CUDA:
        yield Leaf(node, frozenset({Known(True) if facts.cuda else Unknown("bool")}), facts)
    elif names <= _DEFAULT_BACKEND:
        yield Leaf(node, frozenset(Known(name) for name in ("nccl", "gloo", "xccl", "hccl", "mpi")), facts)
    elif names <= _COUNT:
        least = 1 if facts.cuda else 0
        yield Leaf(node, frozenset({Unknown("int", least=least, origin="the number of GPUs")}), facts)
    elif names <= {"torch.device"}:
        yield Leaf(node, frozenset({Unknown("device")}), facts)
    elif names <= _BACKEND and len(node.args) == 1:
        options = {
            Known(o.value.lower()) if isinstance(o, Known) and isinstance(o.value, str) else o
            for o in values.of(node.args[0], facts).options
        }
        yield Leaf(node, frozenset(options), facts)
    elif names <= {"torch.cuda.current_device", "torch.accelerator.current_device_index"}:
        yield Leaf(node, frozenset({Unknown("int", least=0, origin="the current GPU")}), facts)
    elif names & {"torch.distributed.get_rank", "torch.distributed.get_world_size"}:
        yield Leaf(node, frozenset({Unknown("int", origin="the group")}), facts)
    else:
        yield Leaf(node, ANYTHING, facts)


def environment(values: Values, node: ast.Call, facts: Facts) -> Iterator[Leaf]:
    """`os.environ.get(name, default)`: some text, or the default."""
    name = values.of(node.args[0], facts) if node.args else None
    shown = name.constants[0] if name is not None and len(name.constants) == 1 else None
    origin = f"the environment variable {shown}" if isinstance(shown, str) else "an environment variable"
    yield Leaf(node, frozenset({Unknown("str", origin=origin)}), facts)
    default = node.args[1] if len(node.args) > 1 else next((k.value for k in node.keywords if k.arg == "default"), None)
    if default is None:
        yield Leaf(node, frozenset({Known(None)}), facts)
    else:
        for leaf in values.leaves(default, facts):
            yield Leaf(node, leaf.options, leaf.facts)


def _method(values: Values, node: ast.Call, function: ast.Attribute, facts: Facts) -> Iterator[Leaf]:
    if function.attr in _TEXT and not node.args:
        change = _TEXT[function.attr]
        options: set[Option] = set()
        for option in values.of(function.value, facts).options:
            if isinstance(option, Known):
                options.add(Known(change(option.value)) if isinstance(option.value, str) else Unknown())
            else:
                options.add(Unknown("str", change(option.contains), origin=option.origin))
        yield Leaf(node, frozenset(options), facts)
    elif function.attr == "get" and node.args:
        default = node.args[1] if len(node.args) > 1 else None
        yield from values.attributes.got(values, function.value, node.args[0], default, node, facts)
    elif function.attr == "format" and isinstance(function.value, ast.Constant):
        text = function.value.value if isinstance(function.value.value, str) else ""
        yield Leaf(node, frozenset({Unknown("str", text.partition("{")[0])}), facts)
    elif function.attr in ("format", "join", "replace", "removeprefix", "removesuffix"):
        yield Leaf(node, frozenset({Unknown("str")}), facts)
    else:
        yield Leaf(node, ANYTHING, facts)


def _builtin(values: Values, node: ast.Call, name: str, facts: Facts) -> Iterator[Leaf]:
    argument = node.args[0] if node.args else None
    if name in ("int", "str", "bool", "float") and argument is not None and len(node.args) == 1:
        yield Leaf(node, _converted(values.of(argument, facts).options, name), facts)
    elif name == "len":
        yield Leaf(node, frozenset({Unknown("int", least=0)}), facts)
    elif name == "getattr" and len(node.args) >= 2:
        yield from _getattr(values, node, facts)
    elif name in ("min", "max", "abs", "round", "ord", "hash", "sum"):
        yield Leaf(node, frozenset({Unknown("int", least=0) if name == "abs" else Unknown("int")}), facts)
    elif name in ("isinstance", "hasattr", "any", "all", "callable", "issubclass"):
        yield Leaf(node, frozenset({Unknown("bool")}), facts)
    elif name == "dict":
        yield Leaf(node, frozenset({Unknown("dict")}), facts)
    else:
        yield Leaf(node, ANYTHING, facts)


def _getattr(values: Values, node: ast.Call, facts: Facts) -> Iterator[Leaf]:
    attribute = values.of(node.args[1], facts)
    if len(attribute.constants) == 1 and isinstance(attribute.constants[0], str) and attribute.certain:
        yield from values.attributes.field(values, node.args[0], attribute.constants[0], node, facts)
    else:
        yield Leaf(node, ANYTHING, facts)
    if len(node.args) > 2:
        yield from values.leaves(node.args[2], facts)


def _converted(options: Options, name: str) -> Options:
    convert: Callable[[Any], Any] = {"int": int, "str": str, "bool": bool, "float": float}[name]
    found: set[Option] = set()
    for option in options:
        if not isinstance(option, Known):
            least = option.least if name == "int" else None
            contains = option.contains if name == "str" else ""
            found.add(Unknown(name, contains, least, option.origin))
            continue
        if option.value is None and name in ("int", "float"):
            continue
        try:
            found.add(Known(convert(option.value)))
        except (TypeError, ValueError):
            continue
    return frozenset(found) or frozenset({Unknown(name)})


def _arithmetic(values: Values, node: ast.BinOp, facts: Facts) -> Options:
    left, right = values.of(node.left, facts).options, values.of(node.right, facts).options
    found: set[Option] = set()
    for one, other in itertools.islice(itertools.product(left, right), _MANY):
        found.add(_operate(node.op, one, other))
    return frozenset(found)


def _operate(op: ast.operator, one: Option, other: Option) -> Option:
    function = _ARITHMETIC.get(type(op))
    if isinstance(one, Known) and isinstance(other, Known) and function is not None:
        try:
            result = function(one.value, other.value)
        except (TypeError, ValueError, ZeroDivisionError, OverflowError, KeyError):
            return Unknown()
        small = not isinstance(result, (str, bytes)) or len(result) < _LENGTH
        return Known(result) if small and isinstance(result, (str, int, float, bool, bytes)) else Unknown(one.kind)
    if one.kind == "str" and isinstance(op, (ast.Add, ast.Mod)):
        text = str(one.value) if isinstance(one, Known) else ""
        return Unknown("str", text if isinstance(op, ast.Add) else text.partition("%")[0])
    if one.kind in ("int", "bool") and other.kind in ("int", "bool", ""):
        if isinstance(op, (ast.Mod, ast.FloorDiv, ast.Add, ast.Sub, ast.Mult)):
            return Unknown("int", least=0 if isinstance(op, ast.Mod) else _least(op, one, other))
        return Unknown("float" if isinstance(op, ast.Div) else "")
    if isinstance(op, ast.Mod) and other.kind == "int":
        return Unknown("int", least=0)
    return Unknown("int") if isinstance(op, ast.FloorDiv) else Unknown()


def _least(op: ast.operator, one: Option, other: Option) -> int | None:
    low, high = _bound(one), _bound(other)
    if low is None or high is None:
        return None
    if isinstance(op, ast.Add):
        return low + high
    return 0 if isinstance(op, (ast.Mult, ast.FloorDiv)) and low >= 0 and high >= 0 else None


def _bound(option: Option) -> int | None:
    if isinstance(option, Known):
        return option.value if isinstance(option.value, int) else None
    return option.least


def _joined(values: Values, node: ast.JoinedStr, facts: Facts) -> Options:
    parts: list[list[str | None]] = []
    for part in node.values:
        if isinstance(part, ast.Constant):
            parts.append([str(part.value)])
            continue
        if not isinstance(part, ast.FormattedValue) or part.format_spec is not None:
            parts.append([None])
            continue
        options = values.of(part.value, facts).options
        plain = part.conversion in (-1, 115)
        parts.append([str(o.value) if isinstance(o, Known) and plain else None for o in options] or [None])
    found: set[Option] = set()
    for chosen in itertools.islice(itertools.product(*parts), _MANY):
        texts = [text for text in chosen if text is not None]
        if len(texts) == len(chosen):
            found.add(Known("".join(texts)))
        else:
            found.add(Unknown("str", max(texts, key=len, default="")))
    return frozenset(found)
