"""What values a module declares elsewhere than in the function at hand.

Parameters with their defaults and callers, or with what click and pytest give them; module constants and closures;
results of the module's own functions.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from torchmigrate.calls import default_of
from torchmigrate.commandline import PARSERS, annotated, click_option, destinations, option_leaves, parametrized
from torchmigrate.functions import FunctionNode
from torchmigrate.possible import ANYTHING, Known, Unknown
from torchmigrate.reaching import Definition, Version
from torchmigrate.scopes import Binding, Kind, Scope
from torchmigrate.values import Facts, Leaf

if TYPE_CHECKING:
    from torchmigrate.module import Module
    from torchmigrate.values import Values

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_CALLERS = 8


class Declared:
    """The declarations of one module, each looked up when it is asked for."""

    def __init__(self, module: Module) -> None:
        self.module = module

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
                    return list(option_leaves(values, spec, facts))
        return None

    # -- names from outside the function -----------------------------------------------------------------------

    def outside(self, values: Values, definition: Definition, node: ast.expr, facts: Facts) -> Iterator[Leaf]:
        """What a key is that the function itself did not assign."""
        if isinstance(node, ast.Name):
            yield from self._global(values, node, facts, definition)
        elif isinstance(node, ast.Attribute):
            yield from values.attributes.field(values, node.value, node.attr, node, facts, definition)
        elif isinstance(node, ast.Subscript):
            if self.module.resolve(node.value).names & {"os.environ"}:
                key = ast.unparse(node.slice).strip("'\"")
                unknown = Unknown("str", origin=f"the environment variable {key}")
                yield Leaf(node, frozenset({unknown}), facts, definition)
            else:
                yield from values.attributes.got(values, node.value, node.slice, None, node, facts, get=False)
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
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in PARSERS:
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


def _all_known(leaf: Leaf) -> bool:
    return all(isinstance(option, Known) for option in leaf.options)
