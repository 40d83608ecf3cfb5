"""What a wheel of torch offers of some names, read from its sources without running them."""

from __future__ import annotations

import ast
import functools
import zipfile
from collections.abc import Iterable
from pathlib import Path

COMPILED = ("torch/_C/__init__.pyi", "torch/_C/_VariableFunctions.pyi", "torch/_C/_distributed_c10d.pyi")
_DEPTH = 6


class Wheel:
    """The sources of one wheel. `version` is the release without its build tag."""

    def __init__(self, path: Path) -> None:
        self.version = path.name.split("-")[1].partition("+")[0]
        self._archive = zipfile.ZipFile(path)
        self._files = frozenset(self._archive.namelist())

    def parameters(self, names: Iterable[str]) -> dict[str, list[str] | None]:
        """The parameters of each name that is there; None where the sources show none (compiled code, `**kwargs`)."""
        found = {name: self._find(*self._home(name)) for name in names}
        return {name: one[0] for name, one in found.items() if one is not None}

    def _home(self, name: str) -> tuple[str, list[str]]:
        """The module of a dotted name and the attributes after it."""
        parts = name.split(".")
        for cut in range(len(parts), 0, -1):
            if self._file(".".join(parts[:cut])):
                return ".".join(parts[:cut]), parts[cut:]
        return "torch", parts[1:]

    def _file(self, module: str) -> str | None:
        stem = module.replace(".", "/")
        return next((path for path in (f"{stem}/__init__.py", f"{stem}.py") if path in self._files), None)

    @functools.cache  # noqa: B019 (a wheel lives as long as the script)
    def _tree(self, file: str) -> list[ast.stmt]:
        """All statements of a module, those under if and try as well."""
        statements: list[ast.stmt] = []
        waiting: list[ast.stmt] = list(ast.parse(self._archive.read(file)).body)
        while waiting:
            node = waiting.pop(0)
            statements.append(node)
            if isinstance(node, (ast.If, ast.Try, ast.With)):
                handlers = [s for h in getattr(node, "handlers", []) for s in h.body]
                waiting = [*node.body, *handlers, *getattr(node, "orelse", []), *waiting]
        return statements

    def _find(self, module: str, attributes: list[str], depth: int = 0) -> tuple[list[str] | None] | None:
        """A one-tuple with the parameters, or None for a name that is not there."""
        file = self._file(module)
        if file is None or depth > _DEPTH:
            return None
        if not attributes:
            return (None,)
        name, *rest = attributes
        for node in reversed(self._tree(file)):
            found = self._bound(node, module, file, name, rest, depth)
            if found is not None:
                return found
        if module == "torch" and self._compiled(name):
            return (None,)
        return None

    def _bound(
        self, node: ast.stmt, module: str, file: str, name: str, rest: list[str], depth: int
    ) -> tuple[list[str] | None] | None:
        match node:
            case ast.FunctionDef(name=bound) | ast.AsyncFunctionDef(name=bound) if bound == name and not rest:
                return (_parameters(node.args, 0),)
            case ast.ClassDef(name=bound) if bound == name:
                return _of_class(node, rest)
            case ast.Assign(targets=targets) if any(isinstance(t, ast.Name) and t.id == name for t in targets):
                return (None,)
            case ast.AnnAssign(target=ast.Name(id=bound)) if bound == name:
                return (None,)
            case ast.Import() as imported:
                for alias in imported.names:
                    if (alias.asname or alias.name.partition(".")[0]) == name:
                        return self._find(alias.name if alias.asname else name, rest, depth + 1)
            case ast.ImportFrom() as imported:
                origin = _absolute(module, file, imported)
                for alias in imported.names:
                    if alias.name == "*":
                        found = self._find(origin, [name, *rest], depth + 1)
                        if found is not None:
                            return found
                    elif (alias.asname or alias.name) == name:
                        if self._file(f"{origin}.{alias.name}"):
                            return self._find(f"{origin}.{alias.name}", rest, depth + 1)
                        return self._find(origin, [alias.name, *rest], depth + 1) or (None,)
        return None

    def _compiled(self, name: str) -> bool:
        for file in COMPILED:
            if file in self._files:
                for node in self._tree(file):
                    target = getattr(node, "target", None)
                    if getattr(node, "name", None) == name or getattr(target, "id", None) == name:
                        return True
        return False


def _absolute(module: str, file: str, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    parts = module.split(".")
    if not file.endswith("__init__.py"):
        parts = parts[:-1]
    parts = parts[: len(parts) - node.level + 1]
    return ".".join([*parts, *([node.module] if node.module else [])])


def _parameters(args: ast.arguments, skip: int) -> list[str] | None:
    if args.kwarg:
        return None
    return [a.arg for a in (*args.posonlyargs, *args.args, *args.kwonlyargs)][skip:]


def _of_class(node: ast.ClassDef, rest: list[str]) -> tuple[list[str] | None] | None:
    """What calling a class takes, or what one of its members does."""
    members = {m.name: m for m in node.body if isinstance(m, (ast.FunctionDef, ast.AsyncFunctionDef))}
    fields = [m.target.id for m in node.body if isinstance(m, ast.AnnAssign) and isinstance(m.target, ast.Name)]
    if rest:
        plain = {t.id for m in node.body if isinstance(m, ast.Assign) for t in m.targets if isinstance(t, ast.Name)}
        if rest[0] in members:
            return (_parameters(members[rest[0]].args, 1),)
        return (None,) if rest[0] in plain | set(fields) else None
    if "__init__" in members:
        return (_parameters(members["__init__"].args, 1),)
    return (fields or None,)
