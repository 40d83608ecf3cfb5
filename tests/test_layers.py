"""Who may import whom: the direction of the house, held by looking at every module."""

from __future__ import annotations

import ast
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
CORE = ROOT / "torchmigrate"
RULES = ROOT / "codemods" / "torchmigrate_codemods"

LAYERS = (
    {"__init__", "model", "versions"},
    {"source", "suppress", "diff", "git", "write", "journal", "runs", "cache", "config", "owners", "newer", "parse"}
    | {"highlight", "commits", "plain", "facts", "baseline", "digest"},
    {
        "names",
        "scopes",
        "values",
        "possible",
        "evaluate",
        "declared",
        "attributes",
        "stores",
        "commandline",
        "functions",
        "carry",
        "calls",
        "arguments",
        "imports",
        "edits",
        "codemod",
        "project",
        "module",
        "flow",
        "reaching",
        "compose",
    }
    | {"transform", "carry", "declared", "effects", "evaluate", "functions", "possible", "questions"},
    {
        "notebook",
        "texts",
        "documents",
        "formats",
        "offers",
        "rewrite",
        "proposals",
        "engine",
        "entries",
        "registry",
        "discover",
        "kinds",
        "ignored",
        "roots",
        "scan",
        "sieve",
        "literals",
        "homes",
        "siblings",
        "narrow",
    }
    | {"audit", "inventory"},
    {
        "pool",
        "review",
        "drafts",
        "recall",
        "split",
        "from_patch",
        "prompt",
        "work",
        "memory",
        "migration",
        "testing",
        "bowler",
        "libcst_runner",
        "cluster",
    },
)
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names} | {
    "report": 5,
    "cli": 6,
    "fleet": 6,
    "__main__": 6,
}
REPORT_SEES = 1
"""Reports import data only: layers 0 and 1, and each other."""

CST = {"newer", "compose", "transform", "arguments", "edits", "names", "imports", "libcst_runner", "testing"}
PRINTS = {"cli", "report", "prompt", "__main__"}
WRITES = {"write", "journal", "cache", "fleet"}
STARTS = {"git", "pool", "bowler", "prompt", "fleet"}
AUTHOR_API = LAYERS[0] | LAYERS[2] | {"source", "suppress", "texts", "notebook", "documents"}


def modules(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*.py"))


def unit(path: Path) -> str:
    """The module or package of the core that a file belongs to."""
    return path.relative_to(CORE).parts[0].removesuffix(".py")


def imports(path: Path) -> Iterator[str]:
    """The full names of the modules that a file imports; what only type checkers see is left out."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    hidden = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in hidden:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            if node.module == "torchmigrate":
                yield from (f"torchmigrate.{alias.name}" for alias in node.names)
            else:
                yield node.module or ""


def calls(path: Path) -> Iterator[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    yield from (ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call))


@pytest.mark.parametrize("path", modules(CORE), ids=lambda path: str(path.relative_to(CORE)))
def test_the_core_imports_downwards(path: Path) -> None:
    here = unit(path)
    assert here in LEVEL, f"{path.name} is in no layer: add it to the table"
    for name in imports(path):
        package, _, rest = name.partition(".")
        assert package != "torchmigrate_codemods", f"{path.name} knows the rules of a release"
        if package != "torchmigrate" or not rest or rest == "__version__":
            continue
        there = rest.partition(".")[0]
        highest = REPORT_SEES if here == "report" else LEVEL[here]
        assert there == here or LEVEL[there] <= highest, f"{path.name} may not import {name}"


@pytest.mark.parametrize("path", modules(CORE), ids=lambda path: str(path.relative_to(CORE)))
def test_libraries_stay_where_they_belong(path: Path) -> None:
    found = {name.partition(".")[0] for name in imports(path)}
    here = unit(path)
    if here != "cli":
        assert "click" not in found
    if here not in STARTS:
        assert not found & {"subprocess", "multiprocessing"}
    if here not in CST:
        assert "libcst" not in found
    full = set(imports(path))
    assert (
        not {name for name in full if name.startswith(("libcst.codemod", "libcst.matchers"))} or here == "libcst_runner"
    )


@pytest.mark.parametrize("path", modules(CORE), ids=lambda path: str(path.relative_to(CORE)))
def test_only_some_modules_print_or_write(path: Path) -> None:
    here = unit(path)
    made = set(calls(path))
    if here not in PRINTS:
        assert not made & {"print", "sys.stdout.write", "sys.stderr.write"}
    if here not in WRITES:
        assert not made & {"os.replace", "os.rename", "os.unlink", "os.remove", "os.truncate", "shutil.rmtree"}
        assert not {call for call in made if call.endswith((".write_text", ".write_bytes", ".unlink"))}


@pytest.mark.parametrize("path", modules(RULES), ids=lambda path: str(path.relative_to(RULES)))
def test_rules_use_the_author_api_alone(path: Path) -> None:
    for name in imports(path):
        package, _, rest = name.partition(".")
        if package == "torchmigrate":
            assert rest.partition(".")[0] in AUTHOR_API, f"{path.name} may not import {name}"
        assert package not in {"click", "torch"}
        assert not name.startswith(("libcst.codemod", "libcst.matchers"))


def test_every_library_is_declared() -> None:
    """What is imported is the standard library, our own, or a dependency in pyproject.toml (bowler: an extra)."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    optional = project["optional-dependencies"]
    declared = [
        *project["dependencies"],
        *(line for extra, lines in optional.items() if extra != "test" for line in lines),
    ]
    names = {line.split(">")[0].split("=")[0].split("[")[0].strip().replace("-", "_") for line in declared}
    names |= {"fissix"} if "bowler" in names else set()
    used = {name.partition(".")[0] for path in [*modules(CORE), *modules(RULES)] for name in imports(path)}
    used = {"pyyaml" if name == "yaml" else name for name in used}
    used -= set(sys.stdlib_module_names) | {"torchmigrate", "torchmigrate_codemods"}
    assert used <= names
    assert {"click", "libcst"} <= used


@pytest.mark.parametrize("path", [*modules(CORE), *modules(RULES)], ids=lambda path: str(path.relative_to(ROOT)))
def test_modules_stay_small_and_say_what_they_are(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert ast.get_docstring(ast.parse(text)), f"{path} has no docstring"
    assert path.stem not in {"utils", "helpers", "base", "common", "misc"}
    assert len(text.splitlines()) <= 800, f"{path} is too long to read: split it"
