"""Readiness, project by project: what a team has to know before it upgrades, counted from the findings of a run.

Which rules answer which question, and what to advise, is up to the rules: the package of each may have a module
`readiness` with `QUESTIONS` and `ADVICE`.
"""

from __future__ import annotations

import importlib
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from torchmigrate import inventory, plain
from torchmigrate.codemod import Codemod
from torchmigrate.model import FileResult, Finding, Project
from torchmigrate.questions import INIT_WITH, INIT_WITHOUT, Advice, Question

GROUPS = "groups"
LABELS = {
    INIT_WITH: "init_process_group with device_id",
    INIT_WITHOUT: "init_process_group without device_id",
    GROUPS: "further groups and meshes made",
}


@dataclass(frozen=True, slots=True)
class Readiness:
    """What is known of one project. `frameworks` maps a package to the version that the project's files ask for ("" for
    any); `places` are the findings behind each count, as `path:line`; `owners` says how many of them are whose."""

    root: str
    project: Project
    counts: Mapping[str, int]
    places: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    frameworks: Mapping[str, str] = field(default_factory=dict)
    kind: str = ""
    advice: str = ""
    owners: Mapping[str, int] = field(default_factory=dict)


def questions(codemods: Iterable[type[Codemod]]) -> tuple[tuple[Question, ...], tuple[Advice, ...]]:
    """The questions and the advice of all packages that the rules come from."""
    asked: list[Question] = []
    advice: list[Advice] = []
    for package in dict.fromkeys(codemod.__module__.rpartition(".")[0] for codemod in codemods):
        try:
            module = importlib.import_module(f"{package}.readiness") if package else None
        except ModuleNotFoundError:
            continue
        asked += getattr(module, "QUESTIONS", ())
        advice += getattr(module, "ADVICE", ())
    return tuple(asked), tuple(advice)


def readiness(
    results: Iterable[FileResult],
    projects: Iterable[Project],
    root_of: Callable[[str], str],
    asked: Sequence[Question],
    advice: Sequence[Advice],
    owners_of: Callable[[str], tuple[str, ...]] = lambda path: (),
) -> list[Readiness]:
    """One entry a project that something was found in, in order of root."""
    known = {project.root: project for project in projects}
    by_root: dict[str, list[Finding]] = {}
    for result in results:
        for finding in result.findings:
            if finding.suppressed is None:
                by_root.setdefault(root_of(result.path), []).append(finding)
    return [
        replace(
            _one(root, by_root[root], known.get(root, Project(root)), asked, advice),
            owners=_by_owner(by_root[root], owners_of),
        )
        for root in sorted(by_root)
    ]


def _by_owner(findings: Iterable[Finding], owners_of: Callable[[str], tuple[str, ...]]) -> dict[str, int]:
    counted = Counter(owner for finding in findings for owner in owners_of(finding.path)[:1])
    return {owner: counted[owner] for owner in sorted(counted)}


def _one(
    root: str, findings: Sequence[Finding], project: Project, asked: Sequence[Question], advice: Sequence[Advice]
) -> Readiness:
    places: dict[str, list[str]] = {key: [] for key in (*LABELS, *(question.key for question in asked))}
    frameworks = dict.fromkeys(sorted(f.message for f in findings if f.name == inventory.Frameworks.name), "")
    for finding in findings:
        for key in _keys(finding, asked):
            places[key].append(f"{finding.path}:{finding.span.line}")
    if frameworks:
        frameworks |= {name: pin for name, pin in requirements(root).items() if name in frameworks}
    counts = {key: len(found) for key, found in places.items()}
    chosen = next((one for one in advice if one.holds(counts, frameworks)), None)
    return Readiness(
        root,
        project,
        counts,
        {key: tuple(found) for key, found in places.items() if found},
        frameworks,
        chosen.kind if chosen else "",
        chosen.text if chosen else "",
    )


def _keys(finding: Finding, asked: Sequence[Question]) -> Iterable[str]:
    if finding.name == inventory.InitCalls.name:
        yield INIT_WITH if finding.message == inventory.WITH_DEVICE else INIT_WITHOUT
    elif finding.name == inventory.Groups.name:
        yield GROUPS
    yield from (question.key for question in asked if finding.name in question.rules)


def requirements(root: str) -> dict[str, str]:
    """What a project's own metadata files ask of each package; files that cannot be read are left out."""
    from torchmigrate.documents import Document, open_document
    from torchmigrate.kinds import kind_of
    from torchmigrate.source import SourceError

    found: dict[str, str] = {}
    try:
        names = sorted(os.listdir(root or os.curdir))
    except OSError:
        return found
    if "setup.py" in names:
        found |= _of_setup(os.path.join(root, "setup.py"))
    for name in names:
        kind = kind_of(name)
        if kind not in ("toml", "cfg", "requirements") and name not in ("environment.yml", "environment.yaml"):
            continue
        try:
            data = plain.read(os.path.join(root, name))
            _, document = open_document(name, data, Project(root), kind or "yaml")
            assert isinstance(document, Document)
            for one in document.requirements:
                found[one.name] = found.get(one.name) or one.specifier
        except (OSError, SourceError):
            continue
    return found


def _of_setup(path: str) -> dict[str, str]:
    """The requirements that strings in a setup.py state."""
    import ast

    from torchmigrate.texts.requirements import parse

    try:
        tree = ast.parse(plain.text(path))
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):
        return {}
    texts = (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str))
    stated = (parse(text, 0, 0) for text in texts if len(text) < 200)
    return {one.name: one.specifier for one in stated if one is not None and one.specifier[:1] in "<>=~"}


# -- as text and as data ---------------------------------------------------------------------------------------


def lines(found: Sequence[Readiness], asked: Sequence[Question]) -> list[str]:
    """The report for people."""
    labels = LABELS | {question.key: question.label for question in asked}
    width = max(len(label) for label in labels.values())
    shown: list[str] = []
    for one in found:
        if shown:
            shown.append("")
        shown.append(f"{one.root}  ({_bounds(one.project)})")
        shown += [
            f"  {labels[key]:{width}}  {count:4}  {_some(one.places[key])}"
            for key, count in one.counts.items()
            if count
        ]
        if one.frameworks:
            named = ", ".join(f"{name}{pin and ' ' + pin}" for name, pin in one.frameworks.items())
            shown.append(f"  {'frameworks that make groups themselves':{width}}  {len(one.frameworks):4}  {named}")
        if one.owners:
            named = ", ".join(f"{owner} ({number})" for owner, number in one.owners.items())
            shown.append(f"  owners: {named}")
        if one.advice:
            shown.append(f"  {one.kind}: {one.advice}")
    return shown or ["Nothing found that the upgrade touches."]


def _bounds(project: Project) -> str:
    high = f", below {project.torch_max}" if project.torch_max else ""
    python = f"; Python from {project.python_min}, {project.python_min_source}" if project.python_min else ""
    return f"torch from {project.torch_min}{high}, {project.torch_min_source}{python}"


def _some(places: Sequence[str]) -> str:
    return ", ".join(places[:3]) + (", ..." if len(places) > 3 else "")


def document(found: Sequence[Readiness]) -> list[dict[str, Any]]:
    """The report as plain data, one object a project."""
    return [
        {
            "root": one.root,
            "torch": {
                "min": one.project.torch_min,
                "source": one.project.torch_min_source,
                "below": one.project.torch_max,
                "role": one.project.torch_role,
            },
            "python": {"min": one.project.python_min, "source": one.project.python_min_source},
            "counts": dict(one.counts),
            "places": {key: list(places) for key, places in one.places.items()},
            "frameworks": dict(one.frameworks),
            "kind": one.kind,
            "advice": one.advice,
            "owners": dict(one.owners),
        }
        for one in found
    ]


def totals(found: Sequence[Readiness]) -> dict[str, int]:
    """The counts of all projects together."""
    together: Counter[str] = Counter()
    for one in found:
        together.update(one.counts)
    return dict(together)
