"""TM701: torch 2.15 needs Python 3.11."""

from __future__ import annotations

import ast
import functools
import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchmigrate.codemod import Anchor, Codemod, Extent, Plan
from torchmigrate.edits import Edit, ReplaceText
from torchmigrate.model import Project, Safety
from torchmigrate.module import Module
from torchmigrate.versions import older, release

if TYPE_CHECKING:
    from torchmigrate.documents import Document
    from torchmigrate.texts.tokens import Entry

FLOOR = "3.11"
_CLASSIFIER = "Programming Language :: Python :: "
_SPECIFIERS = frozenset({"project/requires-python", "tool/poetry/dependencies/python", "options/python_requires"})
_SPECIFIERS |= {"requires/python_version", "requires/python_full_version", "dependencies/python"}
_TARGETS = frozenset(
    {"tool/ruff/target-version", "tool/black/target-version", "target-version", "tool/mypy/python_version"}
    | {"mypy/python_version", "tool/pyright/pythonVersion", "pythonVersion", "tool/pylint/main/py-version"}
    | {"tool/ruff/per-file-target-version", "tool/pyrefly/python-version", "tool/ty/environment/python-version"}
)
_KEYS = frozenset(
    {"python-version", "python_version", "pythonversion", "python-versions", "python_versions", "python", "pyversion"}
    | {"py-version", "py_version", "versionspec"}
)
_CLASSIFIERS = frozenset(
    {"project/classifiers", "tool/poetry/classifiers", "metadata/classifiers", "metadata/classifier"}
)
_ENVIRONMENTS = frozenset({"tox/envlist", "tox/env_list"})
_CLAUSE = r"(?P<operator>===|==|~=|>=|<=|!=|>|<|\^|~|=)?\s*v?(?P<version>\d+(?:\.\d+)*)(?P<rest>(?:\.\*)?)"


@functools.cache
def _clause() -> re.Pattern[str]:
    return re.compile(_CLAUSE)


@functools.cache
def _image() -> re.Pattern[str]:
    return re.compile(r"(?:[\w.:-]+/)*python:(?P<tag>(?:\d+-)?(?P<version>3\.(?:[6-9]|10)(?:\.\d+)*)(?=$|[-@]).*)")


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What becomes of a statement about Python: edits, or the reason why there are none."""

    edits: tuple[Edit, ...] = ()
    reason: str = ""


class Python310(Codemod):
    """Ask for Python 3.11, which torch 2.15 needs.

    torch 2.14 runs on Python 3.10 to 3.14, torch 2.15 on 3.11 to 3.15. On 3.10 pip takes torch 2.14 without a word
    where the requirement allows it, and fails on `torch>=2.15`.

    In a project that moves to torch 2.15 (by its metadata or `--min-torch`) the rule raises `requires-python`,
    `python_requires`, poetry's and conda's `python`, `.python-version`, images (`FROM python:3.10`), CI versions and
    the targets of ruff, black, mypy and pyright to 3.11, and drops 3.10 and older from lists: classifiers, CI matrices,
    tox environments. It is safe where the metadata requires torch, else unsafe. In a project that still supports an
    older torch the lower bounds are reported and nothing is changed: a library may go on with 3.10 there.

    Only the version changes; quotes stay (an unquoted 3.10 in YAML is the number 3.1). A 3.10 that belongs to
    anything but Python is left alone. Bounds that are computed, pins of a patch release, ranges that end below 3.11,
    and entries of a matrix's `include` and `exclude` are reported.
    """

    code, name, area = "TM701", "python-310", "packaging"
    triggers = (b"python_requires", b"Language :: Python :: 3", b"nox.session")
    text_triggers = (
        *(
            b"requires-python",
            b"python_requires",
            b"python_version",
            b"python_full_version",
            b"3.10",
            b"py310",
            b"cp310",
        ),
        *(b"python = ", b"python=3", b"python:3", b"python-version", b"Language :: Python :: 3", b"target-version"),
    )
    formats = frozenset({"python", "toml", "cfg", "yaml", "json", "dockerfile", "shell", "env", "version", "makefile"})
    reference = "https://github.com/pytorch/pytorch/issues/197242"
    example_path = "pyproject.toml"
    example = """
    [project]
    name = "trainer"
    requires-python = ">=3.10"
    dependencies = ["torch>=2.15"]
    """

    # -- Python: setup.py and noxfile.py -----------------------------------------------------------------------

    def check(self, module: Module) -> Iterator[Plan]:
        """`python_requires` and classifiers of setup.py, sessions of noxfile.py."""
        if not _concerned(module.project, module.text):
            return
        for call in (node for node in ast.walk(module.tree) if isinstance(node, ast.Call)):
            for keyword in call.keywords:
                if keyword.arg == "python_requires":
                    yield from self._requires(module, keyword)
                elif keyword.arg == "classifiers" and _moves(module.project):
                    yield from self._classifiers(module, keyword.value)
                elif keyword.arg == "python" and ast.unparse(call.func).endswith("session"):
                    yield from self._session(keyword.value)

    def _requires(self, module: Module, keyword: ast.keyword) -> Iterator[Plan]:
        node = keyword.value
        if isinstance(node, ast.Name):
            values = [
                statement.value
                for statement in module.tree.body
                if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == node.id
            ]
            node = values[0] if len(values) == 1 else node
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
            yield self.report(keyword.value, f"torch 2.15 needs Python {FLOOR}; the bound is computed, look at it")
            return
        start, end = module.extent(node)
        at = module.text.find(node.value, start, end)
        if at >= 0:
            outcome = _raised(node.value, at)
            if outcome is not None:
                yield self._offer(module, node, outcome, f"{node.value} allows older ones")

    def _classifiers(self, module: Module, node: ast.expr) -> Iterator[Plan]:
        if not isinstance(node, (ast.List, ast.Tuple)):
            return
        parts = [(module.extent(one), one.value if isinstance(one, ast.Constant) else None) for one in node.elts]
        items = [_Item(start, end, str(value or "")) for (start, end), value in parts]
        versions = [_classified(item.value) for item in items]
        yield from self._list(module, items, versions)

    def _session(self, node: ast.expr) -> Iterator[Plan]:
        for one in ast.walk(node):
            if isinstance(one, ast.Constant) and isinstance(one.value, str) and _too_old(one.value):
                yield self.report(one, f"torch 2.15 cannot be installed on Python {one.value}: it needs {FLOOR}")

    # -- other formats -----------------------------------------------------------------------------------------

    def check_text(self, document: Document) -> Iterator[Plan]:
        """Everything that says which Python a project, a tool, an image or a job takes."""
        if not _concerned(document.project, document.text):
            return
        lists: dict[tuple[str, int], list[Entry]] = {}
        number = 0
        for entry in document.entries:
            path = "/".join(entry.path)
            number += entry.item == 0
            if path in _ENVIRONMENTS or (entry.item is not None and _is_list(document, path, entry)):
                lists.setdefault((path, 0 if path in _ENVIRONMENTS else number), []).append(entry)
            else:
                yield from self._entry(document, entry, path)
        for (path, _), entries in lists.items():
            yield from self._entries(document, path, entries)
        for one in document.requirements:
            if one.name == "python" and _is_conda(document, one.start):
                at = one.start + document.written[one.start : one.end].find(one.specifier)
                outcome = _raised(one.specifier, at) if one.specifier else None
                if outcome is not None:
                    yield self._offer(
                        document, Extent(one.start, one.end, "python"), outcome, f"{one.specifier} allows older ones"
                    )
        yield from self._commands(document)

    def _entry(self, document: Document, entry: Entry, path: str) -> Iterator[Plan]:
        anchor = Extent(entry.start, entry.end, f"{path}={entry.value}")
        said = f"this is {entry.value}"
        if path in _SPECIFIERS and document.kind in ("toml", "cfg"):
            outcome, said = _raised(entry.value, entry.start), f"{entry.value} allows older ones"
        elif path in _TARGETS and _moves(document.project):
            outcome = _target(entry)
        elif (match := _image().fullmatch(entry.value)) and (
            entry.key in ("FROM", "image", "container") or "image" in path
        ):
            outcome = _replaced(entry.start + match.start("version"), match["version"])
        elif entry.item is None and _names_python(document, entry) and _too_old(entry.value):
            if {"include", "exclude"} & set(entry.path):
                outcome = _Outcome(reason="an entry of a matrix: change it with the versions that the matrix lists")
            else:
                outcome = _replaced(entry.start, entry.value)
        else:
            return
        if outcome is not None:
            yield self._offer(document, anchor, outcome, said)

    def _entries(self, document: Document, path: str, entries: Sequence[Entry]) -> Iterator[Plan]:
        if path in _ENVIRONMENTS:
            parts = [
                _Item(e.start + m.start(), e.start + m.end(), m[0])
                for e in entries
                for m in re.finditer(r"[^\s,]+", document.written[e.start : e.end])
            ]
            yield from self._list(document, parts, [_listed(part.value) for part in parts])
            return
        width = [len(entry.quote) for entry in entries]
        items = [
            _Item(e.start - w, e.end + w, e.value, e.removal if _is_line(document, e) else None)
            for e, w in zip(entries, width, strict=True)
        ]
        if path in _CLASSIFIERS:
            versions = [_classified(item.value) for item in items]
        else:
            versions = [_listed(item.value) for item in items]
        if not _moves(document.project) and (path in _CLASSIFIERS or path in _TARGETS):
            return
        yield from self._list(document, items, versions)

    def _list(self, module: Module, items: Sequence[_Item], versions: Sequence[str | None]) -> Iterator[Plan]:
        """Drop the old versions from a list; put 3.11 where they were the only ones."""
        old = [
            i for i, version in enumerate(versions) if version and older(version, FLOOR) and release(version)[0] == 3
        ]
        old = [i for i in old if len(release(versions[i] or "")) > 1]
        if not old:
            return
        first, last = items[old[0]], items[old[-1]]
        anchor = Extent(first.start, last.end, " ".join(items[i].value for i in old))
        named = ", ".join(dict.fromkeys(versions[i] or "" for i in old))
        keeps = any(version and not older(version, FLOOR) for version in versions)
        drop = old if keeps else old[:-1]
        edits = _without(module, items, drop)
        if not keeps and edits is not None:
            one = items[old[-1]]
            edits += _in_item(module, one, versions[old[-1]] or "")
        outcome = _Outcome(edits or (), "" if edits else "the list cannot be changed here")
        yield self._offer(module, anchor, outcome, f"this list has {named}")

    def _commands(self, document: Document) -> Iterator[Plan]:
        for command in document.commands if re.search(r"python\b|python3\.", document.text) else ():
            words = command.words
            for before, word in itertools.pairwise(words):
                option = before.text in ("--python", "-p") and words[0].text.rpartition("/")[2] in ("uv", "pixi")
                if (option and _too_old(word.text)) or (match := re.fullmatch(r"--python=(3\.[\d.]+)", word.text)):
                    version = word.text if option and _too_old(word.text) else match[1] if match else ""
                    at = document.written.find(version, word.start, word.end)
                    if _too_old(version) and at >= 0:
                        anchor = Extent(word.start, word.end, word.text)
                        yield self._offer(document, anchor, _replaced(at, version), f"this is {version}")
            for word in words:
                if re.fullmatch(r"(?:\S*/)?python3\.(?:[6-9]|10)(?:-(?:dev|venv|distutils))?", word.text):
                    text = f"torch 2.15 needs Python {FLOOR}, and this is {word.text}"
                    yield self.report(Extent(word.start, word.end, word.text), text)

    # -- what is offered ---------------------------------------------------------------------------------------

    def _offer(self, module: Module, anchor: Anchor, outcome: _Outcome, said: str) -> Plan:
        project = module.project
        message = f"torch 2.15 needs Python {FLOOR}, and {said}"
        if not _moves(project):
            return self.report(
                anchor, f"{message}; the project still allows torch {project.torch_min} ({project.torch_min_source})"
            )
        if not outcome.edits:
            return self.report(anchor, f"{message}: {outcome.reason}")
        if project.torch_role == "required":
            return self.change(anchor, *outcome.edits, message=message)
        metadata = "names torch as an extra only" if project.torch_role else "does not name torch"
        return self.change(anchor, *outcome.edits, message=f"{message}; the metadata {metadata}", safety=Safety.UNSAFE)


@dataclass(frozen=True, slots=True)
class _Item:
    """An item of a list with its quotes; `removal` where it has its lines for itself."""

    start: int
    end: int
    value: str
    removal: tuple[Edit, ...] | None = None


def _moves(project: Project) -> bool:
    return not older(project.torch_min, "2.15")


def _concerned(project: Project, text: str) -> bool:
    """Whether a file can be of a project that uses torch."""
    return bool(project.torch_role) or project.torch_min_source == "--min-torch" or "torch" in text


def _too_old(version: str) -> bool:
    return re.fullmatch(r"3\.(?:[6-9]|10)(?:\.(?:\d+|x|\*))?", version) is not None


def _replaced(start: int, version: str) -> _Outcome:
    return _Outcome((ReplaceText(start, start + len(version), FLOOR),))


def _raised(specifier: str, at: int) -> _Outcome | None:
    """What becomes of a specifier that stands at an offset; None where it does not allow a Python before 3.11."""
    from torchmigrate.project import bounds

    found = bounds(specifier)
    if found.low is not None and not older(found.low, FLOOR):
        return None
    if found.low is None and (found.high is None or not _ends_early(found.high)):
        return None
    lows = [m for m in _clause().finditer(specifier) if (m["operator"] or "==") not in ("<", "<=", "!=")]
    if _ends_early(found.high) and not all((m["operator"] or "==") in ("==", "===", "=", "~") for m in lows):
        return _Outcome(reason="the range ends before 3.11")
    if len(lows) != 1 or "|" in specifier:
        return _Outcome(reason="the range has several parts")
    (low,) = lows
    operator, version = low["operator"] or "", low["version"]
    if operator in ("==", "===") and version.count(".") > 1:
        return _Outcome(reason="a patch release is pinned")
    start, end = at + low.start(), at + low.end("version")
    if not older(version, "3"):
        spelt = f"{FLOOR}.0" if version.count(".") > 1 and version.endswith(".0") else FLOOR
        written = specifier[low.start() : low.start("version")].replace(">", ">=") if operator == ">" else None
        start = at + low.start() if written else at + low.start("version")
        return _Outcome((ReplaceText(start, end, (written or "") + spelt),))
    return _Outcome(reason="it allows Python 2")


def _ends_early(high: str | None) -> bool:
    return high is not None and not older(FLOOR, high)


def _target(entry: Entry) -> _Outcome | None:
    match = re.fullmatch(r"py3(?:[6-9]|10)", entry.value)
    if match:
        return _Outcome((ReplaceText(entry.start, entry.end, "py311"),))
    return _replaced(entry.start, entry.value) if _too_old(entry.value) else None


def _classified(value: str) -> str | None:
    """The version that a classifier names."""
    match = re.fullmatch(rf"{_CLASSIFIER}(3\.\d+)", value.strip())
    return match[1] if match else None


def _listed(value: str) -> str | None:
    """The version that an item of a list of Pythons names."""
    match = re.fullmatch(r"(?:py|cp|python-?)?(3)\.?(\d{1,2})(?:\.(?:\d+|x|\*))?", value.strip())
    return f"{match[1]}.{match[2]}" if match else None


def _names_python(document: Document, entry: Entry) -> bool:
    if document.kind in ("dockerfile", "env", "shell"):
        return re.fullmatch(r"(?:\w+_)?PY(?:THON)?(?:_?VERSION)?", entry.key, re.IGNORECASE) is not None
    return entry.key.lower() in _KEYS or entry.key.upper() == "PYTHON_VERSION"


def _is_list(document: Document, path: str, entry: Entry) -> bool:
    if path in _CLASSIFIERS or path == "python-version":
        return True
    return path in _TARGETS or (document.kind in ("yaml", "toml", "json") and entry.key.lower() in _KEYS)


def _is_conda(document: Document, start: int) -> bool:
    """Whether a requirement on Python is one of conda's; poetry's is an entry of its own."""
    return not any(
        e.start == start and "/".join(e.path) in _SPECIFIERS and document.kind != "yaml" for e in document.entries
    )


def _is_line(document: Document, entry: Entry) -> bool:
    """Whether an item has lines for itself, which can go."""
    return entry.removal is not None and all(
        isinstance(edit, ReplaceText) and document.text[edit.start : edit.end].endswith("\n") for edit in entry.removal
    )


def _without(module: Module, items: Sequence[_Item], drop: Sequence[int]) -> tuple[Edit, ...] | None:
    """The edits that take items out of a list; None where something stands between them."""
    edits: list[Edit] = []
    kept_before = [i for i in range(len(items)) if i not in drop]
    tail = [i for i in drop if not any(k > i for k in kept_before)]
    for i in drop:
        if (removal := items[i].removal) is not None:
            edits += removal
        elif i in tail:
            if i == tail[0] and i:
                gap = (items[i - 1].end, items[tail[-1]].end)
                edits.append(ReplaceText(*gap, ""))
        elif module.text[items[i].end : items[i + 1].start].strip(" \t\r\n,"):
            return None
        else:
            edits.append(ReplaceText(items[i].start, items[i + 1].start, ""))
    return tuple(edits)


def _in_item(module: Module, item: _Item, version: str) -> tuple[Edit, ...]:
    """The edit that writes 3.11 into the item that names an older version."""
    for spelt, new in ((version, FLOOR), (version.replace(".", ""), FLOOR.replace(".", ""))):
        if match := re.search(rf"{re.escape(spelt)}(?:\.\d+)?", module.text[item.start : item.end]):
            return (ReplaceText(item.start + match.start(), item.start + match.end(), new),)
    return ()
