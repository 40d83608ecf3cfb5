"""What an attribute or an item of an object can be.

Attributes of `self`, of instances and classes of the module, fields of dataclasses, members of enums, properties,
options of argparse, items of dicts.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchmigrate.commandline import (
    PARSERS,
    OptionSpec,
    annotated,
    argparse_option,
    common_kind,
    destinations,
    option_leaves,
)
from torchmigrate.evaluate import items
from torchmigrate.possible import ANYTHING, Known, Unknown
from torchmigrate.reaching import Definition, key_of
from torchmigrate.values import Facts, Leaf

if TYPE_CHECKING:
    from torchmigrate.module import Module
    from torchmigrate.values import Values


class Attributes:
    """The attributes and items of one module's objects, each looked up when it is asked for."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self._declared: dict[str, list[OptionSpec]] | None = None

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
        specs = self._options().get(name, [])
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
            elif isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in PARSERS:
                parsed = True
            else:
                unknown = True
        if specs and (parsed or unknown):
            for spec in specs:
                yield from option_leaves(values, spec, facts)
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
        for statement in values.stores.assignments(cls, name):
            found = True
            value = getattr(statement, "value", None)
            if isinstance(statement, (ast.Assign, ast.AnnAssign)) and isinstance(value, ast.expr):
                target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
                plain = isinstance(target, ast.Attribute) and isinstance(statement, (ast.Assign, ast.AnnAssign))
                if plain:
                    yield from values.leaves(value, facts)
                    continue
            yield Leaf(node, ANYTHING, facts, definition)
        if values.stores.may_set(cls, name):
            yield Leaf(None, ANYTHING, facts, definition)
        method = values.functions.method(cls, name)
        if method is not None and any(_is_property(d) for d in method.decorator_list):
            found = True
            for returned in values.functions.returns(method):
                if returned is not None:
                    yield from values.leaves(returned, facts)
        if not found:
            yield from self._class_attribute(values, cls, name, node, facts)

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

    def _options(self) -> dict[str, list[OptionSpec]]:
        """The options that `add_argument` calls of this module declare, by attribute name."""
        if self._declared is None:
            self._declared = {}
            for call in self.module.names.calls:
                if isinstance(call.func, ast.Attribute) and call.func.attr in ("add_argument", "add_arg"):
                    spec = argparse_option(call)
                    for name in destinations(call):
                        self._declared.setdefault(name, []).append(spec)
        return self._declared


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
