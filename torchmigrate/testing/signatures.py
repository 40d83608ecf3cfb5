"""The torch names and keywords that rules write, against those on record for each release."""

from __future__ import annotations

import ast
import functools
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from torchmigrate.codemod import Codemod
from torchmigrate.engine import process
from torchmigrate.model import SAFE_ONLY
from torchmigrate.module import Module
from torchmigrate.parse import parse_python
from torchmigrate.source import read_python
from torchmigrate.testing.examples import Example
from torchmigrate.versions import older


def _major(version: str) -> str:
    return ".".join(version.split(".")[:2])


def recorded(rule: type[Codemod]) -> Mapping[str, Mapping[str, Sequence[str] | None]]:
    """Parameters by torch name and version, from `signatures.json` beside the rule; None where torch shows none."""
    return _read_record(Path(sys.modules[rule.__module__].__file__ or "").with_name("signatures.json"))


@functools.cache
def _read_record(file: Path) -> Mapping[str, Mapping[str, Sequence[str] | None]]:
    if not file.is_file():
        return {}
    names: Mapping[str, Mapping[str, Sequence[str] | None]] = json.loads(file.read_text("utf-8"))
    return names


def written(before: bytes, after: bytes) -> set[tuple[str, str | None]]:
    """The torch names, and the keywords given to them, that `after` has and `before` has not."""
    return used(after) - used(before)


def used(data: bytes) -> set[tuple[str, str | None]]:
    text = read_python(data).text
    module = Module("", text, parse_python(text))
    found: set[tuple[str, str | None]] = set()
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level and _is_torch(node.module):
            found |= {(f"{node.module}.{alias.name}", None) for alias in node.names if alias.name != "*"}
        elif isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Load):
            parent = module.parents.get(node)
            if isinstance(parent, ast.Attribute):
                continue
            names = {name for name in module.resolve(node).names if _is_torch(name)}
            keywords = parent.keywords if isinstance(parent, ast.Call) and parent.func is node else []
            found |= {(name, None) for name in names}
            found |= {(name, one.arg) for name in names for one in keywords if one.arg}
    return found


def _tried(data: bytes) -> set[str]:
    """The torch names that are imported in a `try` which catches an ImportError."""
    return {
        f"{node.module}.{alias.name}"
        for attempt in ast.walk(parse_python(read_python(data).text))
        if isinstance(attempt, ast.Try)
        and any("ImportError" in ast.unparse(h.type) for h in attempt.handlers if h.type)
        for node in attempt.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def _is_torch(name: str) -> bool:
    return name == "torch" or name.startswith("torch.")


def promised(one: Example, version: str) -> set[tuple[str, str | None]]:
    """What the rule writes for the release, or what it calls safe for a project that still allows an older one."""
    if not older(version, one.rule.release):
        return written(one.before, one.after or b"")
    project = replace(one.project, torch_min=version)
    rule = one.rule(one.options)
    result = process(one.path, one.before, [rule], project, SAFE_ONLY, one.format)
    if result.after is None:
        return set()
    tried = _tried(result.after)  # where such a name is missing, the code takes its other way
    return {(name, keyword) for name, keyword in written(one.before, result.after) if name not in tried}


def names_written(one: Example, versions: Iterable[str]) -> set[tuple[str, str | None]]:
    """Every torch name and keyword that a fixture's rule writes for projects that allow one of the releases."""
    if one.after is None or one.format != "python":
        return set()
    return set().union(*(promised(one, version) for version in (one.rule.release, *versions)))
