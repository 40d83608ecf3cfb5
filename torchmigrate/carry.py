"""Saying at one place what an expression means at another.

A name that has the same value at both places stays as it is; a name that has not is replaced by what it stands for, as
long as that can be evaluated again without harm.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchmigrate.reaching import Definition, calls_between, key_of, owner_key, settled, touches

if TYPE_CHECKING:
    from torchmigrate.values import Facts, Values

_BUILTINS = frozenset({"int", "str", "len", "min", "max", "abs", "bool", "round", "getattr"})
_PURE = frozenset(
    {
        "os.environ.get",
        "os.getenv",
        "torch.cuda.device_count",
        "torch.cuda.is_available",
        "torch.accelerator.device_count",
        "torch.device",
        "torch.distributed.get_default_backend_for_device",
        "torch.distributed.is_available",
        "torch.distributed.is_nccl_available",
        "torch.distributed.is_gloo_available",
    }
)
_READS = frozenset({"os.environ.get", "os.getenv"})
_PLAIN = (
    ast.Constant,
    ast.BinOp,
    ast.UnaryOp,
    ast.BoolOp,
    ast.Compare,
    ast.IfExp,
    ast.JoinedStr,
    ast.FormattedValue,
    ast.operator,
    ast.unaryop,
    ast.boolop,
    ast.cmpop,
    ast.expr_context,
    ast.Tuple,
    ast.List,
    ast.keyword,
)
_LONG = 120


@dataclass(frozen=True, slots=True)
class Carried:
    """An expression's text for another place.

    `touched` are calls in between that could change a part of it, though nothing says that they do; `inlined` names
    were replaced by what they stand for.
    """

    text: str
    touched: tuple[ast.Call, ...] = ()
    inlined: tuple[str, ...] = ()


class Refused(Exception):
    """Why an expression cannot be said elsewhere."""


def carry(values: Values, node: ast.expr, to: ast.AST, facts: Facts, *, depth: int = 0) -> Carried:
    """The text that means at `to` what `node` means where it stands (in the same function, or at module level).

    Raises Refused with the reason, as half a sentence about the expression.
    """
    if depth > 6:
        raise Refused("is computed in too many steps")
    module = values.module
    edits: list[tuple[int, int, str]] = []
    touched: list[ast.Call] = []
    inlined: list[str] = []
    start, end = module.extent(node)
    for read, variable in _environment(values, node):
        _same_variable(values, read, variable, to)
    for part in _parts(values, node):
        if isinstance(part, ast.Call):
            continue
        in_text = any(isinstance(around, ast.JoinedStr) for around in _between(values, part, node))
        if in_text and ast.unparse(part) != module.source(part):
            raise Refused("is part of a text that cannot be taken apart")
        replacement = _part(values, part, to, facts, depth)
        if in_text and replacement.text != module.source(part) and re.search(r"""['"\\\n]""", replacement.text):
            raise Refused("would need quotes inside an f-string")
        touched += replacement.touched
        inlined += replacement.inlined
        if replacement.text != module.source(part):
            low, high = module.extent(part)
            text = (
                replacement.text
                if part is node or not _needs_parentheses(replacement.text)
                else f"({replacement.text})"
            )
            edits.append((low - start, high - start, text))
    text = module.text[start:end]
    for low, high, new in sorted(edits, reverse=True):
        text = text[:low] + new + text[high:]
    if "\n" in text or "\r" in text:
        text = ast.unparse(ast.parse(f"({text})", mode="eval"))
    if len(text) > _LONG:
        raise Refused("is a long expression")
    return Carried(text, tuple(dict.fromkeys(touched)), tuple(dict.fromkeys(inlined)))


def _between(values: Values, part: ast.expr, node: ast.expr) -> Iterator[ast.AST]:
    """The nodes from one inside an expression up to the expression itself."""
    yield node
    if part is not node:
        for around in values.module.ancestors(part):
            if around is node:
                return
            yield around


def _parts(values: Values, node: ast.expr) -> Iterator[ast.expr]:
    """The names in an expression, each with its attributes and constant items; refuses what must not run twice."""
    module = values.module
    if isinstance(node, ast.Call):
        names = module.resolve(node.func).names
        builtin = isinstance(node.func, ast.Name) and node.func.id in _BUILTINS and _is_builtin(values, node.func)
        text = isinstance(node.func, ast.Attribute) and node.func.attr == "format"
        if text and isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Constant):
            builtin = True
        if (own := _own(values, node)) is not None:
            yield own
        elif not (builtin or (names and names <= _PURE)):
            raise Refused(f"calls {ast.unparse(node.func)}()")
        if names:
            yield from _parts(values, node.func)
        for argument in (*node.args, *(k.value for k in node.keywords)):
            yield from _parts(values, argument)
    elif key_of(node) is not None:
        yield node
    elif isinstance(node, (ast.Attribute, ast.Subscript)):
        yield from _parts(values, node.value)
        if isinstance(node, ast.Subscript):
            yield from _parts(values, node.slice)
    elif isinstance(node, _PLAIN):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                yield from _parts(values, child)
    else:
        raise Refused("cannot be evaluated twice")


def _own(values: Values, call: ast.Call) -> ast.Name | None:
    """The name of a function of this module that does nothing but compute one expression from the outside world."""
    called = values.functions.called(call)
    if called is None or not isinstance(call.func, ast.Name) or values.functions.is_generator(called):
        return None
    body = [one for one in called.body if not (isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant))]
    if called.decorator_list or len(body) != 1 or not isinstance(body[0], ast.Return) or body[0].value is None:
        return None
    inside = {arg.arg for arg in ast.walk(called.args) if isinstance(arg, ast.arg)}
    for part in _parts(values, body[0].value):
        key = key_of(part) or ""
        imported = bool(values.module.resolve(part).names) or key.startswith("os.environ[")
        if not imported and key not in inside:
            return None
    return call.func


def _environment(values: Values, node: ast.expr) -> Iterator[tuple[ast.expr, str]]:
    """Where an expression reads the environment by a call, and which variable ("" when that cannot be seen)."""
    for call in ast.walk(node):
        if not isinstance(call, ast.Call):
            continue
        if (variable := _variable(values, call)) is not None:
            yield call, variable
        elif (called := values.functions.called(call)) is not None:
            for inner in ast.walk(called):
                if (variable := _variable(values, inner)) is not None:
                    yield call, variable


def _variable(values: Values, node: ast.AST) -> str | None:
    """The environment variable that a node reads."""
    match node:
        case ast.Subscript(value=environ, slice=name) if values.module.resolve(environ).names & {"os.environ"}:
            pass
        case ast.Call(func=function, args=[name, *_]) if values.module.resolve(function).names & _READS:
            pass
        case _:
            return None
    return name.value if isinstance(name, ast.Constant) and isinstance(name.value, str) else ""


def _same_variable(values: Values, read: ast.expr, variable: str, to: ast.AST) -> None:
    """Raises Refused where an environment variable may have another value at `to` than where it is read."""
    module = values.module
    changed = Refused(f"reads {variable or 'the environment'}, which this file sets")
    if module.function(read) is not module.function(to):
        if any(isinstance(one, ast.Constant) and one.value == variable for one in values.stores.environment()):
            raise changed
        return
    flow = module.flow(read)
    for root in ("os.environ", "environ"):
        key = f"{root}[{variable!r}]" if variable else root
        one, other = flow.version(key, read), flow.version(key, to)
        if settled(one) is not settled(other):
            raise changed
        if any(module.effects.changes(call, key) for call in calls_between(one, other)):
            raise changed


def _part(values: Values, node: ast.expr, to: ast.AST, facts: Facts, depth: int) -> Carried:
    module = values.module
    source = module.source(node)
    key = key_of(node)
    if key is None:
        raise Refused("cannot be followed")
    root: ast.expr = node
    while isinstance(root, (ast.Attribute, ast.Subscript)):
        root = root.value
    here, there = module.function(node), module.function(to)
    if module.resolve(node).names and isinstance(root, ast.Name):
        return _imported(values, node, root, to)
    scope = module.names.scope_of(node)
    if isinstance(root, ast.Name) and (found := module.names.lookup(root.id, scope)) and found[0].is_comprehension:
        raise Refused(f"uses {root.id} of a comprehension")
    flow = module.flow(node)
    _computed(values, node, root)
    current = flow.version(key, node)
    version = settled(current)
    if isinstance(node, ast.Subscript) and module.resolve(node.value).names == {"os.environ"} and here is not there:
        if values.stores.sets_environment(node):
            raise Refused(f"uses {source}, which this file sets")
        return Carried(f"{_part(values, node.value, to, facts, depth).text}[{module.source(node.slice)}]")
    if here is there:
        target = flow.version(key, to)
        same = settled(target) is version or values.sources(target, facts) == [version]
        if same and (flow.bound(key, to) or _bound_under(values, key, to, facts)):
            between = calls_between(current, target)
            _unchanged(values, key, source, between)
            return Carried(source, _strangers(values, key, between))
    elif _same_outside(values, root, node, to) or _same_attribute(values, root, node, to):
        return Carried(source)
    alive = [version] if isinstance(version, Definition) else values.sources(version, facts)
    if len(alive) == 1 and alive[0].how == "assign" and alive[0].value is not None:
        _unchanged(values, key, source, touches(current))
        inner = carry(values, alive[0].value, to, facts, depth=depth + 1)
        strangers = _strangers(values, key, touches(current))
        return Carried(inner.text, (*inner.touched, *strangers), (*inner.inlined, source))
    if here is there and isinstance(version, Definition):
        line = (
            f" on line {module.line(version.node)}"
            if version.node is not None and hasattr(version.node, "lineno")
            else ""
        )
        later = version.node is not None and _after(version.node, to)
        raise Refused(f"uses {source}, which {'gets its value only' if later else 'changes'}{line}")
    raise Refused(f"uses {source}, which can have another value there")


def _computed(values: Values, node: ast.expr, root: ast.expr) -> None:
    """Raises Refused for a property of `self` that does more than compute an expression that can be carried."""
    cls = values.module.enclosing_class(node)
    if not isinstance(node, ast.Attribute) or node.value is not root or not values.functions.is_self(root):
        return
    prepared = values.functions.method(cls, node.attr) if cls is not None else None
    if prepared is None:
        return
    body = [one for one in prepared.body if not (isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant))]
    if len(body) != 1 or not isinstance(body[0], ast.Return) or body[0].value is None:
        raise Refused(f"uses {values.module.source(node)}, which runs code")
    for part in _parts(values, body[0].value):
        if isinstance(part, ast.Attribute) and part is not node and not values.module.resolve(part).names:
            _computed(values, part, part.value)


def _unchanged(values: Values, key: str, source: str, calls: tuple[ast.Call, ...]) -> None:
    """Raises Refused where a function of this module sets a key in one of the calls."""
    if any(values.stores.assigns(call, key) for call in calls):
        raise Refused(f"uses {source}, which a function of this file sets in between")


def _strangers(values: Values, key: str, calls: tuple[ast.Call, ...]) -> tuple[ast.Call, ...]:
    """The calls that could set a key: none for plain names, else those of functions that nothing is known of."""
    if owner_key(key) is None:
        return ()
    known = ("torch.", "os.", "logging.", "json.", "random.", "numpy.")
    return tuple(
        call
        for call in calls
        if _hands_over(call, key)
        and values.functions.called(call) is None
        and not any(name.startswith(known) for name in values.module.resolve(call.func).names)
    )


def _hands_over(call: ast.Call, key: str) -> bool:
    """Whether a call gets the object that holds a key, so that it could set it."""
    given = [*call.args, *(k.value for k in call.keywords)]
    given += [call.func.value] if isinstance(call.func, ast.Attribute) else []
    owners = (key_of(one.value if isinstance(one, ast.Starred) else one) for one in given)
    return any(key.startswith((f"{owner}.", f"{owner}[")) for owner in owners if owner)


def _bound_under(values: Values, key: str, to: ast.AST, facts: Facts) -> bool:
    """Whether a name surely has a value at a place when the facts hold."""
    version = values.module.flow(to).version(key, to)
    return all(definition.how != "unbound" for definition in values.sources(version, facts))


def _after(node: ast.AST, to: ast.AST) -> bool:
    return getattr(node, "lineno", 0) > getattr(to, "lineno", 0)


def _is_builtin(values: Values, name: ast.Name) -> bool:
    names = values.module.names
    return names.lookup(name.id, names.scope_of(name)) is None


def _imported(values: Values, node: ast.expr, root: ast.Name, to: ast.AST) -> Carried:
    """An imported name: as it is where the same import is in scope, else spelt anew."""
    module = values.module
    names = module.resolve(node).names
    if len(names) != 1:
        raise Refused(f"uses {module.source(node)}, which several imports bind")
    qualified = next(iter(names))
    spelling = module.spell(qualified, to)
    if spelling is None or spelling.imports:
        raise Refused(f"uses {module.source(node)}, which is not imported there")
    here = module.names.lookup(root.id, module.names.scope_of(root))
    there = module.names.lookup(root.id, module.names.scope_of(to))
    if here is not None and there is not None and here[0] is there[0]:
        return Carried(module.source(node))
    return Carried(spelling.text)


def _same_outside(values: Values, root: ast.expr, node: ast.expr, to: ast.AST) -> bool:
    """Whether a module-level name that nothing rebinds means the same in two functions."""
    if not isinstance(root, ast.Name) or root is not node:
        return False
    names = values.module.names
    here = names.lookup(root.id, names.scope_of(root))
    there = names.lookup(root.id, names.scope_of(to))
    if here is None or there is None or here[0] is not there[0] or here[0].parent is not None:
        return False
    return len(here[1]) == 1 and not here[1][0].conditional


def _same_attribute(values: Values, root: ast.expr, node: ast.expr, to: ast.AST) -> bool:
    """Whether an attribute of `self` that only `__init__` assigns (or a property) means the same in two methods."""
    module = values.module
    if not isinstance(node, ast.Attribute) or node.value is not root or not values.functions.is_self(root):
        return False
    cls = module.enclosing_class(node)
    method = module.function(to)
    if cls is None or module.enclosing_class(to) is not cls or not isinstance(method, ast.FunctionDef):
        return False
    if not method.args.args or method.args.args[0].arg != key_of(root):
        return False
    prepared = values.functions.method(cls, node.attr)
    if prepared is not None:
        return any(isinstance(d, ast.Name) and d.id == "property" for d in prepared.decorator_list)
    made = values.stores.assignments(cls, node.attr)
    first = values.functions.method(cls, "__init__")
    if not made or first is None or any(module.function(one) is not first for one in made):
        return False
    if method is first:
        return False
    calls = [site.call for site in values.functions.callers(method).sites if module.function(site.call) is first]
    return all(max(one.lineno for one in made) < call.lineno for call in calls)


def _needs_parentheses(text: str) -> bool:
    node = ast.parse(f"({text})", mode="eval").body
    return not isinstance(node, (ast.Name, ast.Attribute, ast.Subscript, ast.Call, ast.Constant, ast.JoinedStr))
