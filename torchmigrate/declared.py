"""What values a module declares elsewhere than in the function at hand.

Parameters with their defaults and callers, attributes of a class, module constants and closures, options of argparse
and click, fields of dataclasses, results of the module's own functions.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from torchmigrate.calls import default_of
from torchmigrate.commandline import (
    OptionSpec,
    annotated,
    argparse_option,
    click_option,
    common_kind,
    destinations,
    parametrized,
    typed,
)
from torchmigrate.evaluate import items
from torchmigrate.functions import FunctionNode
from torchmigrate.possible import ANYTHING, Known, Unknown
from torchmigrate.reaching import Definition, Version, key_of, namespace_of, owner_key
from torchmigrate.scopes import Binding, Kind, Scope
from torchmigrate.values import Facts, Leaf

if TYPE_CHECKING:
    from torchmigrate.module import Module
    from torchmigrate.values import Values

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_PARSERS = frozenset({"parse_args", "parse_known_args", "parse_intermixed_args"})
_CALLERS = 8


class Declared:
    """The declarations of one module, each looked up when it is asked for."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self._options: dict[str, list[OptionSpec]] | None = None
        self._environment: list[ast.expr] | None = None
        self._assigned: dict[tuple[ast.ClassDef, str], dict[ast.stmt, None]] | None = None
        self._stored: dict[ast.AST, frozenset[str]] = {}
        self._set_by_name: dict[ast.ClassDef, list[tuple[str, ast.Call]]] = {}

    # -- parameters --------------------------------------------------------------------------------------------

    def parameter(self, values: Values, definition: Definition, facts: Facts) -> Iterator[Leaf]:
        """A parameter: its default, what callers in sight give, and anything else unless all callers are in sight."""
        arg = definition.node
        function = self.module.parents.get(self.module.parents.get(arg)) if arg is not None else None  # type: ignore[arg-type]
        if not isinstance(arg, ast.arg) or not isinstance(function, (*_DEFINITIONS, ast.Lambda)):
            yield Leaf(None, ANYTHING, facts, definition)
            return
        origin = f"the parameter {arg.arg}"
        kind, optional = annotated(arg.annotation)
        if arg is function.args.vararg or arg is function.args.kwarg:
            kind = "tuple" if arg is function.args.vararg else "dict"
            yield Leaf(None, frozenset({Unknown(kind, origin=origin)}), facts, definition)
            return
        if isinstance(function, _DEFINITIONS):
            listed = self._decorated(values, function, arg.arg, facts)
            if listed is not None:
                yield from (replace(leaf, definition=definition) for leaf in listed)
                return
        default = default_of(function, arg.arg)
        complete = False
        least: int | None = None
        if isinstance(function, _DEFINITIONS):
            callers = values.functions.callers(function)
            complete = callers.complete and len(callers.sites) <= _CALLERS
            if values.functions.spawned_index(function) == arg.arg:
                kind, least, origin = "int", 0, "the process index of mp.spawn"
                complete = False
            for site in callers.sites[:_CALLERS]:
                given = site.binding.get(arg.arg)
                if given is not None:
                    known = [leaf for leaf in values.leaves(given) if complete or _all_known(leaf)]
                    yield from (replace(leaf, definition=definition, facts=facts) for leaf in known)
                elif site.binding.stars or site.binding.doubles:
                    complete = False
        if default is not None:
            yield from (replace(leaf, definition=definition) for leaf in values.leaves(default, facts))
        if not complete:
            yield Leaf(None, frozenset({Unknown(kind, least=least, origin=origin)}), facts, definition)
            if optional:
                yield Leaf(None, frozenset({Known(None)}), facts, definition)

    def _decorated(self, values: Values, function: FunctionNode, name: str, facts: Facts) -> list[Leaf] | None:
        """What `@pytest.mark.parametrize` or `@click.option` gives to a parameter."""
        for decorator in function.decorator_list:
            if not isinstance(decorator, ast.Call):
                continue
            names = self.module.resolve(decorator.func).names
            if "pytest.mark.parametrize" in names and len(decorator.args) >= 2:
                found = parametrized(decorator, name)
                if found is not None:
                    return [leaf for one in found for leaf in values.leaves(one, facts)]
            elif names & {"click.option", "click.argument"}:
                spec = click_option(decorator)
                if spec is not None and name in destinations(decorator):
                    return list(self._option(values, spec, facts))
        return None

    # -- names from outside the function -----------------------------------------------------------------------

    def outside(self, values: Values, definition: Definition, node: ast.expr, facts: Facts) -> Iterator[Leaf]:
        """What a key is that the function itself did not assign."""
        if isinstance(node, ast.Name):
            yield from self._global(values, node, facts, definition)
        elif isinstance(node, ast.Attribute):
            yield from self.field(values, node.value, node.attr, node, facts, definition)
        elif isinstance(node, ast.Subscript):
            if self.module.resolve(node.value).names & {"os.environ"}:
                key = ast.unparse(node.slice).strip("'\"")
                unknown = Unknown("str", origin=f"the environment variable {key}")
                yield Leaf(node, frozenset({unknown}), facts, definition)
            else:
                yield from self.got(values, node.value, node.slice, None, node, facts, get=False)
        else:
            yield Leaf(None, ANYTHING, facts, definition)

    def _global(self, values: Values, node: ast.Name, facts: Facts, definition: Definition) -> Iterator[Leaf]:
        names = self.module.names
        found = names.lookup(node.id, names.scope_of(node))
        if found is None:
            yield Leaf(node, ANYTHING, facts, definition)
            return
        _, bindings = found
        if (version := self.outer_version(node)) is not None:
            yield from values.version_leaves(version, node, facts)
            return
        for binding in bindings:
            if binding.kind is Kind.ASSIGN and binding.value is not None:
                yield from values.leaves(binding.value, facts)
            elif binding.kind is Kind.PARAMETER:
                yield from self.parameter(values, Definition(node.id, "parameter", binding.node), facts)
            else:
                yield Leaf(None, ANYTHING, facts, definition)

    def outer_version(self, node: ast.Name) -> Version | None:
        """The version that a module-level name has in the end; None where functions set it, or it is no such name."""
        names = self.module.names
        found = names.lookup(node.id, names.scope_of(node))
        if found is None or not isinstance(found[0].node, ast.Module):
            return None
        if not all(self._executed_by(binding, found[0]) for binding in found[1]):
            return None
        return self.module.flow(self.module.tree).final(node.id)

    def _executed_by(self, binding: Binding, scope: Scope) -> bool:
        """Whether a binding is made by the scope's own code, not through `global` in a function."""
        return self.module.names.scope_of(binding.node) is scope or binding.node is scope.node

    # -- attributes and items ----------------------------------------------------------------------------------

    def field(
        self,
        values: Values,
        owner: ast.expr,
        name: str,
        node: ast.expr,
        facts: Facts,
        definition: Definition | None = None,
    ) -> Iterator[Leaf]:
        """An attribute of an object: of `self`, of parsed arguments, of an instance or a class of this module."""
        if values.functions.is_self(owner):
            cls = self.module.enclosing_class(owner)
            if cls is not None:
                yield from self._own_attribute(values, cls, name, node, facts, definition)
                return
        if name == "value" and isinstance(owner, ast.Attribute) and _is_enum(self._class(owner.value)):
            yield from values.leaves(owner, facts)
            return
        if isinstance(owner, ast.Name) and (cls := self._class(owner)) is not None:
            yield from self._class_attribute(values, cls, name, node, facts)
            return
        specs = self.options().get(name, [])
        parsed = unknown = False
        for leaf in values.leaves(owner, facts):
            call = leaf.node
            if (
                name == "type"
                and isinstance(call, ast.Call)
                and self.module.resolve(call.func).names == {"torch.device"}
            ):
                yield Leaf(node, _device_type(values, call, leaf.facts), facts, definition)
                continue
            cls = self._class(call.func) if isinstance(call, ast.Call) else None
            annotation = leaf.definition.node if leaf.definition and leaf.definition.how == "parameter" else None
            if cls is None and isinstance(annotation, ast.arg) and annotation.annotation is not None:
                cls = self._class(annotation.annotation)
            if cls is not None:
                given = (
                    next((k.value for k in call.keywords if k.arg == name), None)
                    if isinstance(call, ast.Call)
                    else None
                )
                if given is not None:
                    yield from values.leaves(given, facts)
                else:
                    yield from self._class_attribute(values, cls, name, node, facts)
            elif isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in _PARSERS:
                parsed = True
            else:
                unknown = True
        if specs and (parsed or unknown):
            for spec in specs:
                yield from self._option(values, spec, facts)
            if not parsed:
                yield Leaf(node, frozenset({Unknown(common_kind(specs), origin=_shown(node))}), facts, definition)
        elif parsed or unknown:
            yield Leaf(node, frozenset({Unknown(origin=_shown(node))}), facts, definition)

    def _class(self, node: ast.expr) -> ast.ClassDef | None:
        """The class of this module that an expression surely names."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier():
            bindings = self.module.names.module.bindings.get(node.value, [])
        elif isinstance(node, ast.Name):
            bindings = self.module.names.reaching(node) or []
        else:
            return None
        if len(bindings) == 1 and isinstance(bindings[0].node, ast.ClassDef):
            return bindings[0].node
        return None

    def _own_attribute(
        self,
        values: Values,
        cls: ast.ClassDef,
        name: str,
        node: ast.expr,
        facts: Facts,
        definition: Definition | None,
    ) -> Iterator[Leaf]:
        found = False
        for statement in self.assignments(cls, name):
            found = True
            value = getattr(statement, "value", None)
            if isinstance(statement, (ast.Assign, ast.AnnAssign)) and isinstance(value, ast.expr):
                target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
                plain = isinstance(target, ast.Attribute) and isinstance(statement, (ast.Assign, ast.AnnAssign))
                if plain:
                    yield from values.leaves(value, facts)
                    continue
            yield Leaf(node, ANYTHING, facts, definition)
        if any(sets_attribute(call, f"{own}.{name}") for own, call in self._setters(values, cls)):
            yield Leaf(None, ANYTHING, facts, definition)
        method = values.functions.method(cls, name)
        if method is not None and any(_is_property(d) for d in method.decorator_list):
            found = True
            for returned in values.functions.returns(method):
                if returned is not None:
                    yield from values.leaves(returned, facts)
        if not found:
            yield from self._class_attribute(values, cls, name, node, facts)

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

    def _setters(self, values: Values, cls: ast.ClassDef) -> list[tuple[str, ast.Call]]:
        """The calls in a class's methods that may set attributes by name, each with the name of `self` there."""
        if cls not in self._set_by_name:
            self._set_by_name[cls] = []
            for call in ast.walk(cls):
                if not isinstance(call, ast.Call):
                    continue
                owner = namespace_of(call.func.value) if isinstance(call.func, ast.Attribute) else None
                if isinstance(call.func, ast.Name) and call.func.id == "setattr" and call.args:
                    owner = call.args[0]
                if isinstance(owner, ast.Name) and values.functions.is_self(owner):
                    self._set_by_name[cls].append((owner.id, call))
        return self._set_by_name[cls]

    def _class_attribute(
        self, values: Values, cls: ast.ClassDef, name: str, node: ast.expr, facts: Facts
    ) -> Iterator[Leaf]:
        """A class-level value: a field's default (or anything else), an enum's member, else unknown."""
        kind = ""
        for statement in cls.body:
            if isinstance(statement, ast.AnnAssign) and key_of(statement.target) == name:
                kind, optional = annotated(statement.annotation)
                if optional:
                    yield Leaf(node, frozenset({Known(None)}), facts)
                value = statement.value
            elif isinstance(statement, ast.Assign) and any(key_of(t) == name for t in statement.targets):
                value = statement.value
            else:
                continue
            default = _field_default(value) if value is not None else None
            if default is not None:
                yield from values.leaves(default, facts)
        if not _is_enum(cls):
            yield Leaf(node, frozenset({Unknown(kind, origin=_shown(node))}), facts)

    def got(
        self,
        values: Values,
        owner: ast.expr,
        key: ast.expr,
        default: ast.expr | None,
        node: ast.expr,
        facts: Facts,
        *,
        get: bool = True,
    ) -> Iterator[Leaf]:
        """`owner[key]` or `owner.get(key, default)` on a dict."""
        for leaf in values.leaves(owner, facts):
            source = leaf.node
            if isinstance(source, ast.Dict):
                yield from items(values, source, key, default, facts, get=get)
            elif isinstance(source, ast.Call) and key_of(source.func) == "dict" and not source.args:
                names: list[ast.expr | None] = [ast.Constant(k.arg) if k.arg else None for k in source.keywords]
                literal = ast.Dict(names, [k.value for k in source.keywords])
                yield from items(values, literal, key, default, facts, get=get)
            else:
                yield Leaf(node, frozenset({Unknown(origin=_shown(node))}), facts)
                if get:
                    if default is None:
                        yield Leaf(node, frozenset({Known(None)}), facts)
                    else:
                        yield from values.leaves(default, facts)

    # -- results of functions ----------------------------------------------------------------------------------

    def result(self, values: Values, function: FunctionNode, node: ast.Call, facts: Facts) -> Iterator[Leaf]:
        """What calling a function of this module gives."""
        if values.functions.is_generator(function):
            yield Leaf(node, ANYTHING, facts)
            return
        for returned in values.functions.returns(function):
            if returned is None:
                yield Leaf(node, frozenset({Known(None)}), facts)
            else:
                for leaf in values.leaves(returned, replace(facts, conditions=())):
                    yield replace(leaf, node=node if leaf.node is None else leaf.node, facts=facts)

    def item(self, values: Values, definition: Definition, value: ast.expr, index: int, facts: Facts) -> Iterator[Leaf]:
        """One element of what is unpacked: of a function's tuples, or of a literal."""
        unknown = Leaf(None, ANYTHING, facts, definition)
        if isinstance(definition.node, (ast.For, ast.AsyncFor)):
            yield unknown
            return
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in _PARSERS:
            yield Leaf(value, ANYTHING, facts, definition) if index == 0 else unknown
            return
        sources: list[ast.expr | None] = [value]
        if isinstance(value, ast.Call):
            called = values.functions.called(value)
            if called is None or values.functions.is_generator(called):
                yield unknown
                return
            sources = values.functions.returns(called)
        for source in sources:
            if isinstance(source, (ast.Tuple, ast.List)) and index < len(source.elts):
                element = source.elts[index]
                if not any(isinstance(e, ast.Starred) for e in source.elts):
                    for leaf in values.leaves(element, replace(facts, conditions=())):
                        yield replace(leaf, definition=definition)
                    continue
            if source is not None:
                yield unknown

    def assigns(self, values: Values, call: ast.Call, key: str) -> bool:
        """Whether the function of this module that a call runs assigns an attribute or item of that name."""
        if self.module.effects.changes(call, key) or sets_attribute(call, key):
            return True
        called = values.functions.called(call)
        return called is not None and _last(key) in self._stores(values, called)

    def _stores(self, values: Values, function: FunctionNode) -> frozenset[str]:
        """The attributes and items that a function assigns, or a function of this module that it calls."""
        if function not in self._stored:
            keys = (
                key_of(node)
                for each in values.functions.reached(function)
                for node in ast.walk(each)
                if isinstance(node, (ast.Attribute, ast.Subscript)) and not isinstance(node.ctx, ast.Load)
            )
            self._stored[function] = frozenset(_last(stored) for stored in keys if stored is not None)
        return self._stored[function]

    def sets_environment(self, read: ast.Subscript) -> bool:
        """Whether this module assigns the environment variable that is read."""
        wanted = ast.unparse(read.slice)
        return any(ast.unparse(name) == wanted for name in self.environment())

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

    # -- options -----------------------------------------------------------------------------------------------

    def options(self) -> dict[str, list[OptionSpec]]:
        """The options that `add_argument` calls of this module declare, by attribute name."""
        if self._options is None:
            self._options = {}
            for call in self.module.names.calls:
                if isinstance(call.func, ast.Attribute) and call.func.attr in ("add_argument", "add_arg"):
                    spec = argparse_option(call)
                    for name in destinations(call):
                        self._options.setdefault(name, []).append(spec)
        return self._options

    def _option(self, values: Values, spec: OptionSpec, facts: Facts) -> Iterator[Leaf]:
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


def sets_attribute(call: ast.Call, key: str) -> bool:
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


def _device_type(values: Values, call: ast.Call, facts: Facts) -> frozenset[Known | Unknown]:
    """The `.type` of a device that is made in sight."""
    given = call.args[0] if call.args else next((k.value for k in call.keywords if k.arg in ("type", "device")), None)
    found: set[Known | Unknown] = set()
    for option in values.of(given, facts).options if given is not None else ():
        text = option.value if isinstance(option, Known) else option.contains
        if isinstance(text, str) and (isinstance(option, Known) or ":" in text):
            found.add(Known(text.partition(":")[0]))
        else:
            found.add(Unknown("str"))
    return frozenset(found)


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


def _all_known(leaf: Leaf) -> bool:
    return all(isinstance(option, Known) for option in leaf.options)


def _field_default(value: ast.expr) -> ast.expr | None:
    """The default that a dataclass, attrs or pydantic field has, behind `field(default=...)` and the like."""
    if not isinstance(value, ast.Call):
        return value
    given = {k.arg: k.value for k in value.keywords}
    if "default" in given:
        return given["default"]
    if "default_factory" in given:
        factory = given["default_factory"]
        return factory.body if isinstance(factory, ast.Lambda) else None
    name = (key_of(value.func) or "").rpartition(".")[2]
    return value.args[0] if name == "Field" and value.args else None


def _is_enum(cls: ast.ClassDef | None) -> bool:
    bases = cls.bases if cls is not None else []
    return any((key_of(base) or "").rpartition(".")[2] in ("Enum", "StrEnum", "IntEnum") for base in bases)


def _is_property(decorator: ast.expr) -> bool:
    return (key_of(decorator) or "").rpartition(".")[2] in ("property", "cached_property")


def _shown(node: ast.expr) -> str:
    return ast.unparse(node)
