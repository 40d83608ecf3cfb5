"""Writing a qualified name at a place: reuse what is in scope, else add an import where it belongs."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from torchmigrate.scopes import Binding, Kind, Scope
from torchmigrate.source import Splice

if TYPE_CHECKING:
    from torchmigrate.module import Module


@dataclass(frozen=True, slots=True)
class Import:
    """`import module`, `import module as alias`, `from module import name` or `from module import name as alias`.

    `beside` is the import statement that the new one goes next to; without one it goes where the module's imports are.
    """

    module: str
    name: str | None = None
    alias: str | None = None
    beside: ast.Import | ast.ImportFrom | None = None

    @property
    def order(self) -> tuple[str, str, str, int]:
        """Where the import sorts among others."""
        return self.module, self.name or "", self.alias or "", self.beside.lineno if self.beside else sys.maxsize

    @property
    def bound(self) -> str:
        """The name that the import binds."""
        return self.alias or self.name or self.module.partition(".")[0]

    @property
    def qualified(self) -> str:
        """What the bound name refers to."""
        if self.name:
            return f"{self.module}.{self.name}"
        return self.module if self.alias else self.module.partition(".")[0]

    @property
    def code(self) -> str:
        """The statement."""
        alias = f" as {self.alias}" if self.alias else ""
        return f"from {self.module} import {self.name}{alias}" if self.name else f"import {self.module}{alias}"


@dataclass(frozen=True, slots=True)
class Spelling:
    """The text of an expression and the imports that it needs."""

    text: str
    imports: tuple[Import, ...] = ()


def spell(module: Module, qualified: str, at: ast.AST, prefer: Import | None = None) -> Spelling | None:
    """How to write `qualified` at a node; None when no spelling is safe there."""
    names = module.names
    here = names.scope_of(at)
    candidates: list[tuple[int, int, str]] = []
    scope: Scope | None = here
    distance = 0
    while scope is not None:
        for name, bindings in scope.bindings.items():
            if any(b.kind is not Kind.IMPORT for b in bindings) and not _import_with_fallback(bindings):
                continue
            sources = {b.qualified for b in bindings if b.kind is Kind.IMPORT}
            if len(sources) != 1:
                continue
            (source,) = sources
            if source is None or not (qualified == source or qualified.startswith(source + ".")):
                continue
            found = names.lookup(name, here)
            if found is None or found[0] is not scope or not _bound_before(module, scope, bindings, at):
                continue
            text = name + qualified[len(source) :]
            candidates.append((text.count("."), distance, text))
        scope, distance = scope.parent, distance + 1
    if candidates:
        return Spelling(min(candidates)[2])
    top = qualified.partition(".")[0]
    if names.stars and names.lookup(top, here) is None and top == "torch":
        return Spelling(qualified)
    wanted = prefer or Import(top)
    taken = names.lookup(wanted.bound, here)
    if taken is not None and not all(b.typing_only and b.qualified == wanted.qualified for b in taken[1]):
        return None
    place = _place(module, wanted, at)
    if place is False:
        return None
    wanted = replace(wanted, beside=place)
    if not (qualified == wanted.qualified or qualified.startswith(wanted.qualified + ".")):
        raise ValueError(f"{wanted.code!r} does not lead to {qualified}")
    return Spelling(wanted.bound + qualified[len(wanted.qualified) :], (wanted,))


def _import_with_fallback(bindings: list[Binding]) -> bool:
    imports = [b for b in bindings if b.kind is Kind.IMPORT]
    return bool(imports) and all(
        b.kind is Kind.IMPORT or (b.fallback and isinstance(b.value, ast.Constant) and b.value.value in (None, False))
        for b in bindings
    )


def _bound_before(module: Module, scope: Scope, bindings: list[Binding], at: ast.AST) -> bool:
    """Whether an import has run for sure when `at` runs."""
    usable = [b for b in bindings if b.kind is Kind.IMPORT and not b.typing_only]
    if not usable:
        return False
    later = scope is not module.names.scope_of(at) and module.function(at) is not _owner(module, scope)
    if scope.parent is None and later:
        return True
    position = (getattr(at, "lineno", 0), getattr(at, "col_offset", 0))
    ancestors = set(module.ancestors(at))
    for binding in usable:
        if binding.position >= position and not later:
            continue
        if not binding.conditional:
            return True
        parent = module.parents.get(binding.node)
        if parent in ancestors and _same_branch(parent, binding.node, ancestors):
            return True
        if scope.parent is None and isinstance(parent, ast.Try) and not isinstance(at, ast.stmt):
            return True
    return False


def _place(module: Module, wanted: Import, at: ast.AST) -> ast.Import | ast.ImportFrom | Literal[False] | None:
    """The import that a new one must go next to, None for the module's imports, False where neither comes before `at`.

    Code that the import runs with must not run earlier than it did: a function that imports the package itself, in a
    module that does not, gets the new import too.
    """
    top = wanted.module.partition(".")[0]
    own = [n for n in module.tree.body if isinstance(n, (ast.Import, ast.ImportFrom)) and _package(n) == top]
    if module.function(at) is None:
        line = getattr(at, "lineno", 0)
        leading = _leading_imports(module.tree)
        before = next((n for n in own if n.lineno < line and _stands_alone(module, n)), None)
        return False if before is None and leading and leading[-1].lineno >= line else before
    if own or any(name.partition(".")[0] == top for _, name in module.names.stars):
        return None
    scope: Scope | None = module.names.scope_of(at)
    while scope is not None and scope.parent is not None:
        for binding in () if scope.is_class else (b for bindings in scope.bindings.values() for b in bindings):
            node = binding.node
            if not isinstance(node, (ast.Import, ast.ImportFrom)) or _package(node) != top:
                continue
            if _bound_before(module, scope, [binding], at) and _stands_alone(module, node):
                return node
        scope = scope.parent
    return None


def _package(node: ast.stmt) -> str | None:
    """The top package that an import statement imports from; None for other statements and relative imports."""
    if isinstance(node, ast.Import):
        return node.names[0].name.partition(".")[0]
    if isinstance(node, ast.ImportFrom) and not node.level and node.module:
        return node.module.partition(".")[0]
    return None


def _stands_alone(module: Module, node: ast.stmt) -> bool:
    """Whether a statement has its lines for itself, but for a comment."""
    start, end = module.extent(node)
    before = module.text[module.lines.line_start(start) : start]
    behind = module.text[end : module.lines.line_end(end)].strip()
    return not before.strip() and (not behind or behind.startswith("#"))


def _owner(module: Module, scope: Scope) -> ast.AST | None:
    return scope.node if scope.parent is not None else None


def _same_branch(parent: ast.AST | None, statement: ast.AST, ancestors: set[ast.AST]) -> bool:
    for name in ("body", "orelse", "finalbody"):
        block = getattr(parent, name, None)
        if isinstance(block, list) and statement in block:
            return any(other in ancestors for other in block)
    return False


def insertions(module: Module, imports: Iterable[Import]) -> list[Splice]:
    """The splices that add imports, each once, in a stable order.

    A new import goes next to the module's imports of its package; else to the end of the first run of imports.
    """
    present = _present(module)
    wanted: dict[tuple[str, ast.AST | None], Import] = {}
    for one in sorted(imports, key=lambda one: one.order):
        local = one.beside is not None and one.beside not in module.tree.body
        if local or replace(one, beside=None) not in present:
            wanted.setdefault((one.code, one.beside if local else None), one)
    splices: list[Splice] = []
    leading = _leading_imports(module.tree)
    for one in wanted.values():
        top = one.module.partition(".")[0]
        block = leading
        if one.beside is not None:
            block = [one.beside]
        elif not any(_package(node) == top for node in leading):
            beside = [n for n in module.tree.body if _package(n) == top and _stands_alone(module, n)]
            block = [n for n in beside if isinstance(n, (ast.Import, ast.ImportFrom))] or leading
        neighbour = next((s for s in block if _sorts_before(one, s)), None)
        if neighbour is not None:
            splices.append(_line_before(module, neighbour, one.code))
        elif block:
            splices.append(_line_after(module, block[-1], one.code))
        else:
            splices.append(_line_first(module, one.code))
    return splices


def _present(module: Module) -> set[Import]:
    found: set[Import] = set()
    for node in module.tree.body:
        if isinstance(node, ast.Import):
            found |= {Import(a.name, None, a.asname) for a in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            found |= {Import(node.module, a.name, a.asname) for a in node.names}
    return found


def _leading_imports(tree: ast.Module) -> list[ast.Import | ast.ImportFrom]:
    """The imports of a module's first run of imports, without `__future__`, that start their own line."""
    found: list[ast.Import | ast.ImportFrom] = []
    previous_line = 0
    for position, node in enumerate(tree.body):
        own_line = node.lineno > previous_line
        previous_line = node.end_lineno or node.lineno
        if isinstance(node, ast.ImportFrom) and node.module == "__future__":
            continue
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            following = tree.body[position + 1] if position + 1 < len(tree.body) else None
            if own_line and (following is None or following.lineno > previous_line):
                found.append(node)
        elif position == 0 and _is_docstring(node):
            continue
        elif found or not isinstance(node, (ast.Try, ast.If, ast.Assign, ast.Expr)):
            break
    return found


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _sorts_before(one: Import, node: ast.Import | ast.ImportFrom) -> bool:
    """Whether the import belongs just before a statement: the same package, and plain imports before `from`."""
    first = node.names[0].name if isinstance(node, ast.Import) else "." * node.level + (node.module or "")
    if first.partition(".")[0] != one.module.partition(".")[0]:
        return False
    key = (one.name is not None, one.module, one.alias or "")
    return key < (isinstance(node, ast.ImportFrom), first, "")


def _line_before(module: Module, node: ast.stmt, code: str) -> Splice:
    start, _ = module.extent(node)
    at = module.lines.line_start(start)
    return Splice(at, at, _indent(module, at) + code + module.lines.newline_near(start))


def _line_after(module: Module, node: ast.stmt, code: str) -> Splice:
    start, end = module.extent(node)
    at = module.lines.line_end(end)
    code = _indent(module, module.lines.line_start(start)) + code
    newline = module.lines.newline_near(end)
    if at == len(module.text) and not module.text.endswith(("\n", "\r")):
        return Splice(at, at, newline + code)
    return Splice(at, at, code + newline)


def _indent(module: Module, line_start: int) -> str:
    line = module.text[line_start : module.lines.line_end(line_start)]
    return line[: len(line) - len(line.lstrip())]


def _line_first(module: Module, code: str) -> Splice:
    """A new first import: after the docstring and `__future__`, before everything else."""
    last, following = None, None
    for position, node in enumerate(module.tree.body):
        future = isinstance(node, ast.ImportFrom) and node.module == "__future__"
        if not future and not (position == 0 and _is_docstring(node)):
            following = node
            break
        last = node
    if last is None:
        start = module.lines.line_start(module.extent(module.tree.body[0])[0]) if module.tree.body else 0
        return Splice(start, start, code + module.lines.newline_near(start))
    if following is not None and following.lineno == last.end_lineno:
        _, end = module.extent(last)
        return Splice(end, end, f"; {code}")
    after = _line_after(module, last, code)
    blank = module.lines.newline_near(after.start) if _is_docstring(last) else ""
    return Splice(after.start, after.end, blank + after.text)
