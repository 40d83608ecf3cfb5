"""What a name refers to: its bindings and qualified names, on the stdlib syntax tree.

A qualified name counts only when it comes from an import statement (or from a plain alias of something imported, such
as `dist = torch.distributed`): a local function, a parameter or another library's function of the same name never
resolves to torch's.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from torchmigrate.scopes import FUNCTIONS, LOOPS, Binding, Kind, Scope, Walk

_DEPTH = 8


@dataclass(frozen=True, slots=True)
class Reference:
    """What an expression may refer to: qualified names, and whether something else is possible as well."""

    names: frozenset[str] = frozenset()
    certain: bool = True

    def surely(self, targets: frozenset[str]) -> bool:
        """True when the expression refers to one of the targets and to nothing else."""
        return bool(self.names) and self.certain and self.names <= targets

    def perhaps(self, targets: frozenset[str]) -> bool:
        """True when one of the targets is among the possibilities."""
        return bool(self.names & targets)


_NOTHING = Reference()


class Names:
    """Scopes and name resolution of one module."""

    def __init__(self, tree: ast.Module) -> None:
        found = Walk(tree)
        self.parents = found.parents
        self.calls = found.calls
        self.attributes = found.attributes
        self.loads = found.loads
        self.texts = found.texts
        self.imports = found.imports
        self.stars = found.stars
        self.module = found.module
        self._scope_at = found.scope_at
        self._scope_of_load = found.scope_of_load
        self._cache: dict[tuple[Scope, str, tuple[int, int]], Reference] = {}
        self._imported: dict[tuple[Scope, str], Reference | None] = {}

    def forget(self) -> None:
        """Let go of what scopes and bindings know of each other."""
        for scope in self._scope_at.values():
            scope.bindings.clear()
        self.__dict__.clear()

    def scope_of(self, node: ast.AST) -> Scope:
        """The scope in which the names of `node` are looked up."""
        known = self._scope_of_load.get(node)
        if known is not None:
            return known
        child: ast.AST = node
        at = self.parents.get(node)
        outside = False
        while at is not None:
            if isinstance(at, ast.comprehension):
                owner = self.parents[at]
                outside = child is at.iter and owner.generators[0] is at  # type: ignore[attr-defined]
            elif at in self._scope_at:
                if not outside and self._inside(at, child):
                    return self._scope_at[at]
                outside = False
            child, at = at, self.parents.get(at)
        return self.module

    def _inside(self, owner: ast.AST, child: ast.AST) -> bool:
        if isinstance(owner, FUNCTIONS):
            return isinstance(child, (ast.stmt, ast.excepthandler))
        if isinstance(owner, ast.ClassDef):
            return isinstance(child, ast.stmt)
        if isinstance(owner, ast.Lambda):
            return child is owner.body
        return True

    def lookup(self, name: str, scope: Scope) -> tuple[Scope, list[Binding]] | None:
        """The scope that binds `name` as seen from `scope`, by Python's own rules, with its bindings there."""
        at: Scope | None = scope
        first = True
        while at is not None:
            if name in at.outer:
                if at.outer[name]:
                    found = self.module.bindings.get(name)
                    return (self.module, found) if found else None
            elif name in at.bindings and (first or not at.is_class):
                return at, at.bindings[name]
            first = first and at.is_comprehension
            at = at.parent
        return None

    def reaching(self, node: ast.Name) -> list[Binding] | None:
        """The bindings of a name that can hold where it is read; None when the file does not bind it."""
        scope = self.scope_of(node)
        found = self.lookup(node.id, scope)
        if found is None:
            return None
        owner, bindings = found
        return self._alive(
            bindings, (node.lineno, node.col_offset), self._function(owner) is self._function(scope), node
        )

    def _function(self, scope: Scope) -> Scope:
        while scope.parent is not None and (scope.is_comprehension or isinstance(scope.node, ast.Lambda)):
            scope = scope.parent
        return scope

    def _alive(self, bindings: list[Binding], at: tuple[int, int], same: bool, node: ast.AST) -> list[Binding]:
        if len(bindings) == 1:
            return bindings
        ordered = sorted(bindings, key=lambda b: b.position)
        around: set[ast.AST] = {node, *self._around(node)} if same else set()
        if same and not self._in_loop(node):
            before = [b for b in ordered if b.position < at and not (b.kind is Kind.ASSIGN and b.node in around)]
            ordered = before or ordered
        settled = (i for i, b in enumerate(ordered) if not b.conditional or self._precedes(b, at, around))
        return ordered[max(settled, default=0) :]

    def _around(self, node: ast.AST) -> Iterator[ast.AST]:
        outer = self.parents.get(node)
        while outer is not None:
            yield outer
            outer = self.parents.get(outer)

    def _precedes(self, binding: Binding, at: tuple[int, int], around: set[ast.AST]) -> bool:
        """Whether a binding below a condition has happened for sure where a name is read: same branch, further up."""
        if not around or binding.position >= at:
            return False
        chain = [binding.node, *self._around(binding.node)]
        holder = next((one for one in chain if isinstance(one, (ast.stmt, ast.match_case, ast.excepthandler))), None)
        if holder is None:
            return False
        parent = self.parents.get(holder)
        blocks = [holder.body] if holder in around and hasattr(holder, "body") else []
        if not blocks and parent in around:
            lists = [getattr(parent, name, None) for name in ("body", "orelse", "finalbody")]
            blocks = [block for block in lists if isinstance(block, list) and holder in block]
        return any(statement in around for block in blocks for statement in block)

    def _in_loop(self, node: ast.AST) -> bool:
        at = self.parents.get(node)
        while at is not None and not isinstance(at, (*FUNCTIONS, ast.ClassDef)):
            if isinstance(at, LOOPS):
                return True
            at = self.parents.get(at)
        return False

    def resolve(self, node: ast.expr, depth: int = 0) -> Reference:
        """The qualified names that a dotted expression may refer to; empty for anything that is not imported."""
        suffix: list[str] = []
        while isinstance(node, ast.Attribute):
            suffix.append(node.attr)
            node = node.value
        if depth > _DEPTH:
            return _NOTHING
        if isinstance(node, ast.Name):
            root = self._resolve_name(node, depth)
        elif (asked := self._asked(node)) is not None:
            owner, attribute = asked
            suffix.append(attribute)
            root = self.resolve(owner, depth + 1)
        else:
            return _NOTHING
        if not suffix or not root.names:
            return root
        tail = "." + ".".join(reversed(suffix))
        return Reference(frozenset(name + tail for name in root.names), root.certain)

    def _asked(self, node: ast.expr) -> tuple[ast.expr, str] | None:
        """The object and the attribute of `getattr(object, "attribute")`, where that is the builtin."""
        match node:
            case ast.Call(
                func=ast.Name(id="getattr") as name, args=[owner, ast.Constant(value=str() as attribute)], keywords=[]
            ) if self.lookup("getattr", self.scope_of(name)) is None and attribute.isidentifier():
                return owner, attribute
        return None

    def _resolve_name(self, node: ast.Name, depth: int) -> Reference:
        place = (self.scope_of(node), node.id)
        try:
            everywhere = self._imported[place]
        except KeyError:
            everywhere = self._imported[place] = self._only_imported(*place)
        if everywhere is not None:
            return everywhere
        key = (self.scope_of(node), node.id, (node.lineno, node.col_offset))
        if key not in self._cache:
            self._cache[key] = _NOTHING
            self._cache[key] = self._name_reference(node, depth)
        return self._cache[key]

    def _only_imported(self, scope: Scope, name: str) -> Reference | None:
        """What a name with one binding, an import, stands for, wherever it is read."""
        found = self.lookup(name, scope)
        if found is None or len(found[1]) != 1 or found[1][0].kind is not Kind.IMPORT:
            return None
        qualified = found[1][0].qualified
        return Reference(frozenset({qualified})) if qualified else None

    def _name_reference(self, node: ast.Name, depth: int) -> Reference:
        bindings = self.reaching(node)
        if bindings is None:
            return self._from_stars(node.id)
        names: set[str] = set()
        certain = True
        for binding in bindings:
            if binding.kind is Kind.IMPORT and binding.qualified:
                names.add(binding.qualified)
            elif binding.value is not None and _may_be_imported(binding):
                through = self.resolve(binding.value, depth + 1)
                names |= through.names
                certain = certain and through.certain and bool(through.names)
            elif not _is_none(binding.value):
                certain = False
        return Reference(frozenset(names), certain)

    def _from_stars(self, name: str) -> Reference:
        if not self.stars:
            return _NOTHING
        if name == "torch":
            return Reference(frozenset({"torch"}))
        torch_stars = {module for _, module in self.stars if module == "torch" or module.startswith("torch.")}
        return Reference(frozenset(f"{module}.{name}" for module in torch_stars), len(self.stars) == 1)

    def references(self, targets: Iterable[str]) -> Iterator[tuple[ast.Name | ast.Attribute | ast.Call, bool]]:
        """Every read of one of the qualified names, in source order, with whether it surely is one of them.

        A call is one of `getattr(object, "attribute")`.
        """
        wanted = frozenset(targets)
        tails = {name.rpartition(".")[2] for name in wanted}
        found: list[tuple[ast.Name | ast.Attribute | ast.Call, bool]] = []
        for tail in tails:
            for call in self._calls_of_getattr.get(tail, ()):
                reference = self.resolve(call)
                if reference.perhaps(wanted):
                    found.append((call, reference.surely(wanted)))
            for attribute in self._attributes_by_name.get(tail, ()):
                reference = self.resolve(attribute)
                if reference.perhaps(wanted):
                    found.append((attribute, reference.surely(wanted)))
            for name in self._reads[1].get(tail, ()) if self.stars else ():
                reference = self._resolve_name(name, 0)
                if reference.perhaps(wanted):
                    found.append((name, reference.surely(wanted)))
        aliases = {name: reference for one in wanted for name, reference in self._aliases.get(one, ())}
        found += ((name, reference.surely(wanted)) for name, reference in aliases.items())
        found.sort(key=lambda pair: (pair[0].lineno, pair[0].col_offset))
        yield from found

    @functools.cached_property
    def _attributes_by_name(self) -> dict[str, list[ast.Attribute]]:
        found: dict[str, list[ast.Attribute]] = {}
        for attribute in self.attributes:
            if isinstance(attribute.ctx, ast.Load):
                found.setdefault(attribute.attr, []).append(attribute)
        return found

    @functools.cached_property
    def _calls_of_getattr(self) -> dict[str, list[ast.Call]]:
        """The calls of `getattr` that spell an attribute out, by its name."""
        found: dict[str, list[ast.Call]] = {}
        for name in self._reads[1].get("getattr", ()):
            call = self.parents[name]
            if isinstance(call, ast.Call) and call.func is name and (asked := self._asked(call)) is not None:
                found.setdefault(asked[1], []).append(call)
        return found

    @functools.cached_property
    def _aliases(self) -> dict[str, list[tuple[ast.Name, Reference]]]:
        """The reads of names that stand for something imported, by what that may be."""
        found: dict[str, list[tuple[ast.Name, Reference]]] = {}
        for name in self._reads[0]:
            reference = self._resolve_name(name, 0)
            for qualified in reference.names:
                found.setdefault(qualified, []).append((name, reference))
        return found

    @functools.cached_property
    def _reads(self) -> tuple[list[ast.Name], dict[str, list[ast.Name]]]:
        """The reads of names that may stand for something imported, and the others by name."""
        known: dict[tuple[Scope, str], list[ast.Name]] = {}
        aliases: list[ast.Name] = []
        others: dict[str, list[ast.Name]] = {}
        scope_of = self._scope_of_load
        for name in self.loads:
            key = (scope_of[name], name.id)
            group = known.get(key)
            if group is None:
                found = self.lookup(name.id, key[0])
                is_alias = found is not None and any(map(_may_be_imported, found[1]))
                group = known[key] = aliases if is_alias else others.setdefault(name.id, [])
            group.append(name)
        return aliases, others


def _may_be_imported(binding: Binding) -> bool:
    if binding.kind is not Kind.ASSIGN:
        return binding.kind is Kind.IMPORT
    value = binding.value
    if isinstance(value, ast.Call):
        return isinstance(value.func, ast.Name) and value.func.id == "getattr" and len(value.args) == 2
    return isinstance(value, (ast.Name, ast.Attribute))


def _is_none(value: ast.expr | None) -> bool:
    return isinstance(value, ast.Constant) and value.value in (None, False)
