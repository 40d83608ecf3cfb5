"""What is true of a project: which torch and which Python it must run on, and where its files say so.

Package metadata (pyproject.toml, setup.cfg, setup.py) counts before optional groups, those before requirements files
and conda environments: the first kind that bounds torch decides. Nothing of the project is executed.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from torchmigrate import plain
from torchmigrate.model import DEFAULT_TORCH, Project
from torchmigrate.versions import release

METADATA = ("pyproject.toml", "setup.cfg", "setup.py")
"""The files that make a folder a project of its own; requirements files do so too."""

_TORCH = re.compile(r"\s*(?:py)?torch(?![\w.-])\s*(?:\[[^\]]*\])?", re.IGNORECASE)
_CONDA_LINE = re.compile(
    r"""\s*-\s*["']?(?:[\w.-]+::)?(?P<name>python|pytorch|torch)(?P<spec>[^\w"'#-][^"'#]*)?["']?\s*(?:#|$)"""
)
_WHEEL = re.compile(r"/torch-(\d+(?:\.\d+)+)")
_CLAUSE = re.compile(
    r"\s*(?P<operator>===|==|~=|!=|>=|<=|>|<|\^|~|=)?\s*v?(?P<version>\d+(?:\.\d+)*)(?P<rest>[^\s,|]*)\s*"
)


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a version text allows: `low` the oldest release named, `high` the first release that is excluded."""

    low: str | None = None
    high: str | None = None


@dataclass(frozen=True, slots=True)
class _Found:
    """One statement about torch or Python; a lower `rank` decides before a higher one."""

    name: str
    bounds: Bounds
    source: str
    rank: int


def bounds(specifier: str) -> Bounds:
    """The bounds of a version specifier in the spelling of pip, poetry or conda; exclusions (`!=`) bound nothing.

    `<2.15` has the high bound 2.15, `==2.14.1` has 2.14.2, `~=2.13.0` has 2.14 and `^2.1` has 3. Of alternatives
    (`||`) the widest bounds hold. Text that is no specifier bounds nothing.
    """
    either = [_conjunction(part) for part in re.split(r"\s*\|\|?\s*", specifier)]
    lows, highs = [one.low for one in either], [one.high for one in either]
    low = None if None in lows else min((v for v in lows if v), key=release)
    high = None if None in highs else max((v for v in highs if v), key=release)
    return Bounds(low, high)


def _conjunction(specifier: str) -> Bounds:
    lows: list[str] = []
    highs: list[str] = []
    at = 0
    while at < len(specifier) and (match := _CLAUSE.match(specifier, at)):
        operator, version, rest = match["operator"] or "==", match["version"], match["rest"]
        if operator in (">=", ">", "==", "===", "=", "~=", "^", "~"):
            lows.append(version)
        if operator in ("==", "===", "=") and not rest.startswith((".*", "*")):
            wide = operator == "=" and version.count(".") < 2  # conda's `=3.10` takes every 3.10.x
            highs.append(_next(version, version.count(".") if wide or version.count(".") < 2 else 2))
        elif operator in ("==", "===", "="):
            highs.append(_next(version, version.count(".")))
        elif operator == "~=":
            highs.append(_next(version, max(version.count(".") - 1, 0)))
        elif operator == "~":
            highs.append(_next(version, min(version.count("."), 1)))
        elif operator == "^":
            first = next((i for i, part in enumerate(version.split(".")) if int(part)), 0)
            highs.append(_next(version, first))
        elif operator == "<":
            highs.append(version)
        elif operator == "<=":
            highs.append(_next(version, version.count(".")) if version.count(".") >= 2 else f"{version}.1")
        at = match.end()
        if at < len(specifier) and specifier[at] in ", ":
            at += 1
    return Bounds(max(lows, key=release, default=None), min(highs, key=release, default=None))


def _next(version: str, place: int) -> str:
    """The release after all those that share `version` up to the part at `place`."""
    parts = [int(part) for part in version.split(".")]
    return ".".join(str(part) for part in (*parts[:place], parts[place] + 1))


def _before(version: str) -> str:
    """The minor release before a version: what a project with only an upper bound surely runs on."""
    major, minor = ([*release(version), 0, 0])[:2]
    return f"{major}.{minor - 1}" if minor else f"{major}.{minor}"


def read(root: str, min_torch: str | None) -> Project:
    """The project that lies at `root`.

    `min_torch`, the value of --min-torch, wins over all metadata. A file that cannot be read or parsed is left out; the
    project's notes say so.
    """
    found: list[_Found] = []
    notes: list[str] = []
    for name, reader in _files(root):
        try:
            text = plain.text(os.path.join(root, name))
            found += reader(name, text)
        except FileNotFoundError:
            continue
        except Exception as error:  # whatever a broken file makes a parser raise
            reason = " ".join(str(error).split()) or type(error).__name__
            notes.append(f"{name} was not used for the project's versions: {reason}")
    torch, python = _decide(found, "torch"), _decide(found, "python")
    if min_torch is not None:
        low, source = min_torch, "--min-torch"
    elif torch is not None and torch.bounds.low:
        low, source = torch.bounds.low, torch.source
    elif torch is not None and torch.bounds.high and release(torch.bounds.high) <= release(DEFAULT_TORCH):
        low, source = _before(torch.bounds.high), torch.source
    else:
        low, source = DEFAULT_TORCH, "default"
    return Project(
        root=root,
        torch_min=low,
        torch_min_source=source,
        torch_max=torch.bounds.high if torch else None,
        torch_role=_role(found),
        python_min=python.bounds.low if python else None,
        python_min_source=python.source if python and python.bounds.low else None,
        notes=tuple(notes),
    )


def _decide(found: Iterable[_Found], name: str) -> _Found | None:
    """The widest bounds among the statements of the first rank that bounds anything."""
    mine = [one for one in found if one.name == name and (one.bounds.low or one.bounds.high)]
    if not mine:
        return None
    rank = min(one.rank for one in mine)
    mine = [one for one in mine if one.rank == rank]
    lows = [one for one in mine if one.bounds.low]
    highs = [one.bounds.high for one in mine]
    first = min(lows, key=lambda one: release(one.bounds.low or "")) if lows else mine[0]
    high = None if None in highs else max((v for v in highs if v), key=release)
    return _Found(name, Bounds(first.bounds.low, high), first.source, rank)


def _role(found: Iterable[_Found]) -> str:
    ranks = {one.rank for one in found if one.name == "torch"}
    return "" if not ranks else "optional" if ranks == {1} else "required"


# -- the files -------------------------------------------------------------------------------------------------

_Reader = Callable[[str, str], Iterable[_Found]]


def _files(root: str) -> Iterator[tuple[str, _Reader]]:
    try:
        names = sorted(os.listdir(root or "."))
    except OSError:
        return
    readers: dict[str, _Reader] = {"pyproject.toml": _pyproject, "setup.cfg": _setup_cfg, "setup.py": _setup_py}
    readers |= {"environment.yml": _conda, "environment.yaml": _conda}
    for name in names:
        if name in readers:
            yield name, readers[name]
        elif re.fullmatch(r"requirements.*\.txt", name):
            yield name, _requirements
    if "requirements" in names:
        folder = os.path.join(root, "requirements")
        if os.path.isdir(folder):
            for name in sorted(os.listdir(folder)):
                if name.endswith(".txt"):
                    yield f"requirements/{name}", _requirements


def _requirement(text: str, source: str, rank: int) -> Iterator[_Found]:
    """What one requirement line says about torch."""
    match = _TORCH.match(text)
    if match is None:
        return
    rest = text[match.end() :].partition(";")[0].strip()
    if rest.startswith("@"):
        wheel = _WHEEL.search(rest)
        rest = f"=={wheel[1]}" if wheel else ""
    yield _Found("torch", bounds(rest.strip("()")), source, rank)


def _line(name: str, text: str, wanted: str, after: str = "") -> str:
    """`name:line` of the first line that holds `wanted` (from the first mention of `after` on)."""
    start = text.find(after) if after else 0
    at = text.find(wanted, max(start, 0))
    return f"{name}:{text.count(chr(10), 0, at) + 1}" if at >= 0 else name


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from _strings(one)
    elif isinstance(value, list):
        for one in value:
            yield from _strings(one)


def _pyproject(name: str, text: str) -> Iterator[_Found]:
    import tomllib

    data = tomllib.loads(text)
    project = _table(data, "project")
    for requirement in _strings(project.get("dependencies")):
        yield from _requirement(requirement, _line(name, text, requirement), 0)
    for group in (project.get("optional-dependencies"), data.get("dependency-groups")):
        for requirement in _strings(group):
            yield from _requirement(requirement, _line(name, text, requirement), 1)
    if isinstance(wanted := project.get("requires-python"), str):
        yield _Found("python", bounds(wanted), _line(name, text, wanted, "requires-python"), 0)
    poetry = _table(_table(data, "tool"), "poetry")
    yield from _poetry(name, text, poetry.get("dependencies"), 0)
    yield from _poetry(name, text, poetry.get("dev-dependencies"), 1)
    for group in _table(poetry, "group").values():
        yield from _poetry(name, text, group.get("dependencies") if isinstance(group, dict) else None, 1)


def _table(data: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = data.get(key)
    return value if isinstance(value, dict) else {}


def _poetry(name: str, text: str, table: object, rank: int) -> Iterator[_Found]:
    for key, value in table.items() if isinstance(table, dict) else ():
        package = key.lower()
        if package not in ("torch", "python"):
            continue
        for one in value if isinstance(value, list) else [value]:
            version = one.get("version") if isinstance(one, dict) else one
            if isinstance(version, str):
                yield _Found(package, bounds(version), _line(name, text, version, f"{key} "), rank)


def _setup_cfg(name: str, text: str) -> Iterator[_Found]:
    import configparser

    config = configparser.RawConfigParser(strict=False)
    config.read_string(text)
    python = config.get("options", "python_requires", fallback="")
    yield _Found("python", bounds(python), _line(name, text, "python_requires"), 0)
    for line in config.get("options", "install_requires", fallback="").splitlines():
        yield from _requirement(line, _line(name, text, line.strip()), 0)
    extras = config["options.extras_require"].values() if config.has_section("options.extras_require") else ()
    for extra in extras:
        for line in extra.splitlines():
            yield from _requirement(line, _line(name, text, line.strip()), 1)


def _setup_py(name: str, text: str) -> Iterator[_Found]:
    tree = ast.parse(text)
    constants = {
        target.id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    installed = {id(node) for node in _installed(tree, constants)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) < 200:
            yield from _requirement(node.value, f"{name}:{node.lineno}", 0 if id(node) in installed else 1)
        elif isinstance(node, ast.keyword) and node.arg == "python_requires":
            value: ast.expr | None = node.value
            if isinstance(value, ast.Name):
                value = constants.get(value.id)
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield _Found("python", bounds(value.value), f"{name}:{value.lineno}", 0)


def _installed(tree: ast.Module, constants: Mapping[str, ast.expr]) -> Iterator[ast.AST]:
    """The nodes of what `install_requires` is given, through module constants."""
    wanted = [node.value for node in ast.walk(tree) if isinstance(node, ast.keyword) and node.arg == "install_requires"]
    followed: set[str] = set()
    while wanted:
        for node in ast.walk(wanted.pop()):
            yield node
            if isinstance(node, ast.Name) and node.id in constants and node.id not in followed:
                followed.add(node.id)
                wanted.append(constants[node.id])


def _requirements(name: str, text: str) -> Iterator[_Found]:
    for number, line in enumerate(text.splitlines(), 1):
        yield from _requirement(re.sub(r"(^|\s)#.*", "", line), f"{name}:{number}", 2)


def _conda(name: str, text: str) -> Iterator[_Found]:
    for number, line in enumerate(text.splitlines(), 1):
        if match := _CONDA_LINE.match(line):
            package = "python" if match["name"] == "python" else "torch"
            yield _Found(package, bounds((match["spec"] or "").strip()), f"{name}:{number}", 2)
