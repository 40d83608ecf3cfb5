"""The checks that follow from a fixture; each raises AssertionError with what was expected and what came."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from torchmigrate.engine import process
from torchmigrate.model import EVERYTHING, LOOK, Decision, FileResult, Finding, Outcome, Policy, Verdict
from torchmigrate.parse import compiles, parse_python
from torchmigrate.sieve import Sieve
from torchmigrate.source import read_python
from torchmigrate.testing.examples import Example
from torchmigrate.testing.signatures import promised, recorded, used
from torchmigrate.versions import older, release
from torchmigrate.work import PYTHON_KINDS, wanted


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
            result = _with(one, one.before, {name: Decision(Verdict.ACCEPT) for name in subset})
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
        result = _with(one, one.before, {key: Decision(Verdict.SUPPRESS)})
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
    others = [codemod for codemod in one.codemods if codemod is not one.rule and format_ in codemod.formats]
    for data in (one.before, one.after):
        if data is None:
            continue
        codes = Sieve(wanted(others).get(one.format, ()), one.format).codes(data)
        rules = [codemod() for codemod in others if codemod.code in codes]
        result = process(one.path, data, rules, one.project, LOOK, one.format)
        strangers = [f for f in result.findings if f.code not in one.others]
        assert not strangers, f"{one.source}: other rules find something here\n{_listed(strangers)}"


def _signatures(one: Example) -> None:
    """Every torch name and keyword that is written is on record, for the release and for each that is promised."""
    assert one.after is not None
    record = recorded(one.rule)
    versions = sorted({version for known in record.values() for version in known}, key=release) or [one.rule.release]
    present = used(one.before)
    for version in versions:
        if one.since and older(version, one.since):
            continue
        for name, keyword in sorted(promised(one, version), key=str):
            known = record.get(name, {})
            if version not in known and (name, None) in present:
                continue  # code that cannot run on this release does not get worse
            assert version in known, (
                f"{one.source}: {name} is not on record for {version}; see tests/torch/signatures.py"
            )
            parameters = known[version]
            if keyword and parameters is not None:
                assert keyword in parameters, f"{one.source}: {name} of torch {version} takes no {keyword}"


def _trigger(one: Example) -> None:
    """The scan for triggers would have found the file."""
    concerned = Sieve(wanted([one.rule]).get(one.format, ()), one.format).codes(one.before)
    assert one.rule.code in concerned, f"{one.source}: no trigger in it, or not what it requires"


CHECKS: Mapping[str, tuple[Callable[[Example], None], ...]] = {
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
PYTHON_ONLY = frozenset({_signatures})


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
