"""The files of fixtures: which there are, and what they say."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from torchmigrate.codemod import Codemod
from torchmigrate.engine import process
from torchmigrate.kinds import kind_of
from torchmigrate.model import (
    EVERYTHING,
    LOOK,
    SAFE_ONLY,
    Decision,
    FileResult,
    Finding,
    Outcome,
    Policy,
    Project,
    Verdict,
)

KINDS = ("rewrite", "noop", "manual")
_KEYS = frozenset(
    "options min_torch max_torch torch_role min_python facts path accept others errors since findings".split()  # noqa: SIM905
)


@dataclass(frozen=True, slots=True)
class Expected:
    """One finding that a fixture expects; what is None is not looked at."""

    line: int
    code: str
    message: str | None = None
    safety: str | None = None
    outcome: str | None = None
    after: str | None = None
    choice: int | None = None

    def fits(self, finding: Finding) -> bool:
        """Whether a finding is the expected one."""
        return (
            finding.span.line == self.line
            and finding.code == self.code
            and (self.message is None or self.message in finding.message)
            and self.safety in (None, finding.safety.value)
            and self.outcome in (None, finding.outcome.value)
            and (self.after is None or self.after in (finding.after or ""))
        )


@dataclass(frozen=True, eq=False)
class Example:
    """One fixture of one rule, with every other codemod beside it."""

    kind: str
    name: str
    source: Path
    rule: type[Codemod]
    codemods: tuple[type[Codemod], ...]
    before: bytes
    after: bytes | None = None
    path: str = ""
    options: Mapping[str, object] = field(default_factory=dict)
    project: Project = field(default_factory=Project)
    accept: str = "all"
    others: frozenset[str] = frozenset()
    errors: tuple[str, ...] = ()
    since: str | None = None
    findings: tuple[Expected, ...] | None = None

    @property
    def format(self) -> str:
        """The engine's name for the file's format."""
        return format_of(self.path)

    def process(self, data: bytes, policy: Policy) -> FileResult:
        """What the rule alone makes of some content."""
        return process(self.path, data, [self.rule(self.options)], self.project, policy, self.format)

    @functools.cached_property
    def seen(self) -> FileResult:
        """The rule's findings, nothing taken."""
        return self.process(self.before, LOOK)

    @functools.cached_property
    def policy(self) -> Policy:
        """What the fixture accepts: everything (or the safe changes), and the choices that it names."""
        chosen = {
            finding.decision_key: Decision(Verdict.ACCEPT, expected.choice)
            for expected in self.findings or ()
            if expected.choice is not None
            for finding in self.seen.findings
            if expected.fits(finding)
        }
        base = {"all": EVERYTHING, "safe": SAFE_ONLY}[self.accept]
        return replace(base, decisions=chosen)

    @functools.cached_property
    def taken(self) -> FileResult:
        """The rule's result with the fixture's policy."""
        return self.process(self.before, self.policy)

    @property
    def offered(self) -> list[str]:
        """The decision keys of the rewrites on offer, each once, in order."""
        return list(dict.fromkeys(f.decision_key for f in self.seen.findings if f.outcome is Outcome.REWRITE))


def format_of(path: str) -> str:
    """The engine's format name for a file name. Raises ValueError for a name that no rule is ever asked about."""
    kind = "python" if path.endswith(".pyi") else kind_of(path)
    if kind is None:
        raise ValueError(f"{path} is no name of a file that rules look at; say `path` in the TOML file beside it")
    return kind


class Incomplete(Exception):
    """A fixture that cannot be used; the text says why."""

    def __init__(self, path: Path, message: str) -> None:
        super().__init__(f"{path}: {message}")
        self.path = path


def examples(root: Path, codemods: Sequence[type[Codemod]]) -> Iterator[Example | Incomplete]:
    """Every fixture below `root`, by rule, kind and name."""
    for folder in sorted(p for p in root.glob("**/") if any((p / kind).is_dir() for kind in KINDS)):
        try:
            rule = _rule_of(folder, codemods)
        except Incomplete as problem:
            yield problem
            continue
        for kind in KINDS:
            for source in sorted(p for p in (folder / kind).glob("*") if p.is_file()):
                try:
                    one = _example(source, kind, rule, tuple(codemods))
                except Incomplete as problem:
                    yield problem
                else:
                    yield from [one] if one else ()


def _rule_of(folder: Path, codemods: Sequence[type[Codemod]]) -> type[Codemod]:
    for codemod in codemods:
        if codemod.name.replace("-", "_") == folder.name:
            return codemod
    raise Incomplete(folder, f"no codemod is called {folder.name.replace('_', '-')}")


def _belongs(source: Path, kind: str) -> None:
    """Raises Incomplete for a file that belongs to no fixture, so that a misspelt name is not passed over."""
    stem, _, ending = source.name.partition(".")
    if ending.startswith("out."):
        wanted = source.with_name(f"{stem}.in.{ending.removeprefix('out.')}").exists()
    elif ending.endswith("toml"):
        described = source.name.removesuffix(".toml")
        others = (p.name for p in source.parent.iterdir() if p != source)
        wanted = any(
            name in (described, described.replace(".", ".in.", 1)) or name.partition(".")[0] == described
            for name in others
        )
    else:
        wanted = False
    if not wanted:
        raise Incomplete(source, f"belongs to no fixture of kind {kind}")


def _example(source: Path, kind: str, rule: type[Codemod], codemods: tuple[type[Codemod], ...]) -> Example | None:
    """The fixture of an input file; None for the other files of a fixture. Raises Incomplete."""
    stem, marked, ending = source.name.partition(".in.")
    if not marked:
        stem, _, ending = source.name.partition(".")
        if kind == "rewrite" or ending.endswith("toml") or ".out." in source.name:
            _belongs(source, kind)
            return None
    target = source.with_name(f"{stem}.out.{ending}") if kind == "rewrite" else None
    if target and not target.is_file():
        raise Incomplete(source, f"has no {target.name} beside it")
    settings = source.with_name(f"{stem}.{ending}.toml")
    settings = settings if settings.is_file() else source.with_name(f"{stem}.toml")
    try:
        given: Mapping[str, Any] = tomllib.loads(settings.read_text("utf-8")) if settings.is_file() else {}
    except tomllib.TOMLDecodeError as error:
        raise Incomplete(settings, str(error)) from None
    defaults = source.parent.with_name("defaults.toml")
    given = {**(tomllib.loads(defaults.read_text("utf-8")) if defaults.is_file() else {}), **given}
    if unknown := set(given) - _KEYS:
        raise Incomplete(settings, f"unknown {', '.join(sorted(unknown))}")
    path = given.get("path", f"{stem}.{ending}")
    try:
        format_of(path)
    except ValueError as error:
        raise Incomplete(source, str(error)) from None
    findings = given.get("findings")
    if kind == "manual" and not findings:
        raise Incomplete(source, f"says no expected findings in {settings.name}")
    project = Project(
        torch_min=given.get("min_torch", Project().torch_min),
        torch_min_source="pyproject.toml" if "min_torch" in given else "default",
        torch_max=given.get("max_torch"),
        torch_role=given.get("torch_role", "required"),
        python_min=given.get("min_python"),
        facts={name: _frozen(value) for name, value in given.get("facts", {}).items()},
    )
    return Example(
        kind=kind,
        name=stem if ending == "py" else f"{stem}.{ending}",
        source=source,
        rule=rule,
        codemods=codemods,
        before=source.read_bytes(),
        after=target.read_bytes() if target else None,
        path=path,
        options=given.get("options", {}),
        project=project,
        accept=given.get("accept", "all"),
        others=frozenset(given.get("others", ())),
        errors=tuple(given.get("errors", ())),
        since=given.get("since"),
        findings=None if findings is None else tuple(Expected(**{"code": rule.code, **one}) for one in findings),
    )


def _frozen(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_frozen(one) for one in value)
    return value
