"""Fixtures for rules: files before and after, and the checks that follow from each.

    fixtures/torch_2_15/init_device_id/
      rewrite/spawn_worker.in.py  spawn_worker.out.py  [spawn_worker.toml]
      noop/gloo_only.py           zero findings
      manual/from_env.py          from_env.toml (the expected findings)

The folder is a rule's name with underscores. In a test module:

    @pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in cases(Path("fixtures"), CODEMODS)])
    def test_fixture(case):
        case.run()

The optional TOML file beside a fixture (`NAME.toml`; `NAME.sh.toml` where inputs of several formats are called NAME)
may say: `options` (a table), `min_torch`, `max_torch`, `torch_role` (else "required"), `min_python`, `facts` (a table
of project facts), `path` (the name under which the engine sees the file), `accept` ("all" or "safe"), `others` (codes
of rules that find something here as well), `errors` (engine codes expected), and `[[findings]]`: `line`, and any of
`code`, `message` (a part of it), `safety`, `outcome`, `after` (a part of it) and `choice` (which answer is taken).
`since` is the oldest torch on which the input itself can run. What `defaults.toml` in the rule's folder says holds for
all of its fixtures.
An input that is TOML itself is called `NAME.in.toml`.
"""

from __future__ import annotations

import ast
import difflib
import functools
import json
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from torchmigrate.codemod import Codemod
from torchmigrate.discover import kind_of
from torchmigrate.engine import process
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
)
from torchmigrate.model import Verdict as _Verdict
from torchmigrate.module import Module
from torchmigrate.parse import compiles, parse_python
from torchmigrate.source import read_python
from torchmigrate.versions import older, release
from torchmigrate.work import PYTHON_KINDS

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
            finding.decision_key: Decision(_Verdict.ACCEPT, expected.choice)
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


@dataclass(frozen=True, eq=False, slots=True)
class Case:
    """One check of one fixture; `id` reads `TM101/spawn_worker/idempotent`.

    `run` raises AssertionError with what was expected and what came.
    """

    id: str
    run: Callable[[], None]


def format_of(path: str) -> str:
    """The engine's format name for a file name. Raises ValueError for a name that no rule is ever asked about."""
    kind = "python" if path.endswith(".pyi") else kind_of(path)
    if kind is None:
        raise ValueError(f"{path} is no name of a file that rules look at; say `path` in the TOML file beside it")
    return kind


# -- finding fixtures ------------------------------------------------------------------------------------------


def cases(root: Path, codemods: Sequence[type[Codemod]]) -> list[Case]:
    """Every check of every fixture below `root` (a folder of release folders, or of rule folders).

    A fixture that is not complete, or that no rule answers to, is a case that fails, so that it hides no other.
    """
    found: list[Case] = []
    names: set[str] = set()
    for one in examples(root, codemods):
        if isinstance(one, Incomplete):
            found.append(Case(f"{one.path.relative_to(root)}/complete", functools.partial(_fail, str(one))))
            continue
        name = f"{one.rule.code}/{one.name}"
        if name in names:
            said = f"two fixtures of {one.rule.code} are called {one.name}"
            found.append(Case(f"{one.source.relative_to(root)}/complete", functools.partial(_fail, said)))
            continue
        names.add(name)
        found += (
            Case(f"{name}/{check.__name__.strip('_')}", functools.partial(check, one))
            for check in _CHECKS[one.kind]
            if one.format == "python" or check not in _PYTHON_ONLY
        )
    return found


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


def _fail(message: str) -> None:
    raise AssertionError(message)


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


# -- the checks ------------------------------------------------------------------------------------------------


def _exact(one: Example) -> None:
    """The rewrite gives the fixture's output, byte for byte."""
    assert one.after is not None
    _same(one.after, one.taken.after if one.taken.after is not None else one.before, one.source)
    _errors(one, one.taken)


def _findings(one: Example) -> None:
    """The findings are the expected ones, no more and no fewer (when the fixture names them)."""
    _errors(one, one.seen)
    if one.findings is None:
        assert one.seen.findings, f"{one.source}: nothing found"
        return
    left = list(one.seen.findings)
    for expected in one.findings:
        found = next((f for f in left if expected.fits(f)), None)
        assert found is not None, f"{one.source}: no finding {expected} among\n{_listed(one.seen.findings)}"
        left.remove(found)
    assert not left, f"{one.source}: findings that the fixture does not expect\n{_listed(left)}"
    if one.kind == "manual":
        rewrites = [f for f in one.seen.findings if f.outcome is Outcome.REWRITE]
        assert not rewrites, f"{one.source}: rewrites offered\n{_listed(rewrites)}"


def _silent(one: Example) -> None:
    """A no-op has no finding at all and stays as it is."""
    assert not one.seen.findings, f"{one.source}: found\n{_listed(one.seen.findings)}"
    _errors(one, one.seen)
    assert one.taken.after is None


def _parses(one: Example) -> None:
    """The output can be read, and Python compiles it."""
    assert one.after is not None
    _errors(one, one.process(one.after, LOOK))
    if one.format == "python":
        text = read_python(one.after).text
        parse_python(text)
        assert compiles(text) or not compiles(read_python(one.before).text), f"{one.source}: output does not compile"


def _idempotent(one: Example) -> None:
    """A second run offers no rewrite."""
    assert one.after is not None
    declined = {f.decision_key for f in one.seen.findings} - {f.decision_key for f in _taken(one)}
    again = [f for f in one.process(one.after, LOOK).findings if f.outcome is Outcome.REWRITE]
    if not declined:
        assert not again, f"{one.source}: a second run offers\n{_listed(again)}"
    assert one.process(one.after, one.policy).after is None, f"{one.source}: a second run changes the file"


def _declined(one: Example) -> None:
    """Without a decision nothing changes."""
    assert one.seen.after is None
    assert not one.seen.accepted


def _subsets(one: Example) -> None:
    """Each change alone and all but each one give code that parses, with the decisions in effect."""
    offered = one.offered
    for key in offered:
        for subset in ({key}, set(offered) - {key}):
            result = _with(one, one.before, {name: Decision(_Verdict.ACCEPT) for name in subset})
            keys = {f.decision_key for f in result.findings if f.key in result.accepted}
            assert keys == subset, f"{one.source}: decided {sorted(subset)}, done {sorted(keys)}"
            if result.after is not None and one.format == "python":
                parse_python(read_python(result.after).text)
            _errors(one, result)


def _crlf(one: Example) -> None:
    """The twin with Windows line ends gives the twin of the result."""
    if b"\r" in one.before or b"\0" in one.before:
        return
    result = one.process(_windows(one.before), LOOK)
    same = [(f.span.line, f.code, f.outcome, f.safety) for f in result.findings]
    assert same == [(f.span.line, f.code, f.outcome, f.safety) for f in one.seen.findings]
    if one.after is not None:
        policy = one.policy if not one.policy.decisions else None
        if policy is not None:
            _same(_windows(one.after), one.process(_windows(one.before), policy).after or b"", one.source)


def _suppressed(one: Example) -> None:
    """A comment in front of a finding, or one for the file, silences it."""
    for finding in one.seen.findings:
        key = finding.decision_key
        result = _with(one, one.before, {key: Decision(_Verdict.SUPPRESS)})
        if result.after is None and one.format not in PYTHON_KINDS:
            continue  # formats without comments, and lines that cannot take one
        assert result.after is not None, f"{one.source}:{finding.span.line}: no comment can be written"
        again = one.process(result.after, EVERYTHING)
        silenced = [f for f in again.findings if f.suppressed is not None]
        assert silenced, f"{one.source}:{finding.span.line}: the comment does not silence the finding"
        assert not {f.key for f in silenced} & again.accepted
    if one.format == "python":
        text = read_python(one.before)
        newline = "\r\n" if "\r\n" in text.text else "\n"
        marked = text.encode(f"{text.text}{newline}# torchmigrate: ignore-file[{one.rule.code}] not now{newline}")
        result = one.process(marked, EVERYTHING)
        assert result.after is None
        assert {f.suppressed for f in result.findings} == {"not now"}


def _others(one: Example) -> None:
    """Every other codemod leaves input and output alone, or is listed in the fixture."""
    format_ = "python" if one.format in PYTHON_KINDS else one.format
    rules = [codemod() for codemod in one.codemods if codemod is not one.rule and format_ in codemod.formats]
    for data in (one.before, one.after):
        if data is None:
            continue
        result = process(one.path, data, rules, one.project, LOOK, one.format)
        strangers = [f for f in result.findings if f.code not in one.others]
        assert not strangers, f"{one.source}: other rules find something here\n{_listed(strangers)}"


def _signatures(one: Example) -> None:
    """Every torch name and keyword that is written is on record, for the release and for each that is promised."""
    assert one.after is not None
    record = recorded(one.rule)
    versions = sorted({version for known in record.values() for version in known}, key=release) or [one.rule.release]
    present = _used(one.before)
    for version in versions:
        if one.since and older(version, one.since):
            continue
        for name, keyword in sorted(_promised(one, version), key=str):
            known = record.get(name, {})
            if version not in known and (name, None) in present:
                continue  # code that cannot run on this release does not get worse
            assert version in known, (
                f"{one.source}: {name} is not on record for {version}; see tests/torch/signatures.py"
            )
            parameters = known[version]
            if keyword and parameters is not None:
                assert keyword in parameters, f"{one.source}: {name} of torch {version} takes no {keyword}"


def _promised(one: Example, version: str) -> set[tuple[str, str | None]]:
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
    return set().union(*(_promised(one, version) for version in (one.rule.release, *versions)))


def _trigger(one: Example) -> None:
    """The scan for triggers would have found the file."""
    wanted = (*one.rule.triggers, *(() if one.format in ("python", "notebook") else one.rule.text_triggers))
    assert any(trigger in one.before for trigger in wanted), f"{one.source}: no trigger in it"


_CHECKS: Mapping[str, tuple[Callable[[Example], None], ...]] = {
    "rewrite": (
        _exact,
        _findings,
        _parses,
        _idempotent,
        _declined,
        _subsets,
        _crlf,
        _suppressed,
        _others,
        _signatures,
        _trigger,
    ),
    "noop": (_silent, _crlf, _others),
    "manual": (_findings, _declined, _crlf, _suppressed, _others, _trigger),
}
_PYTHON_ONLY = frozenset({_signatures})


def _with(one: Example, data: bytes, decisions: Mapping[str, Decision]) -> FileResult:
    return one.process(data, Policy(decisions=decisions))


def _taken(one: Example) -> list[Finding]:
    return [f for f in one.taken.findings if f.key in one.taken.accepted]


def _errors(one: Example, result: FileResult) -> None:
    found = tuple(error.code for error in result.errors)
    assert found == one.errors, f"{one.source}: errors {[f'{e.code} {e.message}' for e in result.errors]}"


def _windows(data: bytes) -> bytes:
    return data.replace(b"\n", b"\r\n")


def _listed(findings: Iterable[Finding]) -> str:
    return "\n".join(f"  {f.span.line}: {f.code} {f.outcome} {f.safety}: {f.message}" for f in findings)


def _same(expected: bytes, found: bytes, source: Path) -> None:
    if expected == found:
        return
    a, b = (data.decode("utf-8", "replace").splitlines(keepends=True) for data in (expected, found))
    raise AssertionError(
        f"{source}: not the expected output\n" + "".join(difflib.unified_diff(a, b, "expected", "found"))
    )


# -- names on record -------------------------------------------------------------------------------------------


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
    return _used(after) - _used(before)


def _used(data: bytes) -> set[tuple[str, str | None]]:
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
