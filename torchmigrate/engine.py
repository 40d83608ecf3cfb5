"""One file: bytes, codemods, project and policy in; findings and new bytes out. Pure: no file is read or written here.

Codemods plan on one shared view of the file. Each plan becomes one finding a place. The policy decides, the accepted
plans are carried out together, and the result is parsed and compiled before anybody sees it.
"""

from __future__ import annotations

import ast
import codecs
import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

from torchmigrate import compose
from torchmigrate.codemod import Alternative, Change, Codemod, Extent, Place, Plan, Report
from torchmigrate.diff import hunks
from torchmigrate.digest import digest as digest
from torchmigrate.edits import Edit, ReplaceText
from torchmigrate.facts import Gathered, OwnFacts
from torchmigrate.imports import Import, insertions
from torchmigrate.model import (
    Choice,
    FileError,
    FileResult,
    Finding,
    Outcome,
    Policy,
    Project,
    Proposal,
    Safety,
    Verdict,
)
from torchmigrate.module import Module
from torchmigrate.parse import compiles, parse_python
from torchmigrate.source import Source, SourceError, Splice, read_python, splice
from torchmigrate.suppress import Suppressions, python_comments
from torchmigrate.versions import older

if TYPE_CHECKING:
    from torchmigrate.documents import Document
    from torchmigrate.notebook import NotebookModule

_PYTHON = ("python", "notebook")
First = tuple[FileResult, Gathered, frozenset[str]]
"""What the first look at a file gives."""


@dataclass(frozen=True, eq=False, slots=True)
class _Offer:
    codemod: Codemod
    plan: Plan
    findings: tuple[Finding, ...]

    @property
    def options(self) -> tuple[Alternative, ...]:
        """The answers to this offer, in the order of the findings' choices."""
        if isinstance(self.plan, Report):
            return self.plan.choices
        proposed = Alternative(self.plan.label, self.plan.evidence, self.plan.places, self.plan.imports)
        return (proposed, *self.plan.alternatives)


def process(
    path: str,
    data: bytes,
    codemods: Sequence[Codemod],
    project: Project,
    policy: Policy,
    kind: str = "python",
) -> FileResult:
    """Look at one file and carry out what the policy accepts.

    `kind` is the file's format: "python", "notebook", or a format of `texts`. Never raises for bad input: what cannot
    be read is an error in the result.
    """
    return _look(path, data, codemods, project, policy, kind, None)[0]


def process_first(
    path: str,
    data: bytes,
    codemods: Sequence[Codemod],
    project: Project,
    policy: Policy,
    kind: str = "python",
) -> First:
    """`process` for a file that has not given its facts yet: the result with no facts but its own, those facts as
    (name, value) pairs, and the names of the facts that the result hangs on.

    Where those facts turn out to be different in all of the project the file has to be looked at again.
    """
    known = OwnFacts(project.facts)
    return _look(path, data, codemods, replace(project, facts=known), policy, kind, known)


def _look(
    path: str,
    data: bytes,
    codemods: Sequence[Codemod],
    project: Project,
    policy: Policy,
    kind: str,
    known: OwnFacts | None,
) -> First:
    """The result, the file's own facts if it has to give them to `known`, and what it read there."""
    gathered: Gathered = ()
    module: Module | None = None
    try:
        source, module = _open(path, data, project, kind)
        if known is not None:
            gathered = tuple(fact for codemod in codemods if codemod.gathers for fact in codemod.facts(module))
            known.begin(gathered)
        suppressions = Suppressions.read(module.text, _comments_of(module, kind))
        offers, errors = _plan(path, module, codemods, kind, suppressions)
        findings = tuple(f for offer in offers for f in offer.findings)
        result = FileResult(path, findings, tuple(errors), digest=digest(data))
        if policy.propose:
            result = replace(result, proposals=_proposals(data, source, module, offers))
        result = _carry_out(result, data, source, module, offers, policy, kind)
    except SourceError as error:
        return FileResult(path, errors=(_error(path, error),), digest=digest(data)), (), frozenset()
    finally:
        if module is not None:
            module.forget()
    return result, gathered, frozenset(known.read if known is not None else ())


def unreadable(path: str, before: bytes, after: bytes, project: Project, kind: str = "python") -> str | None:
    """Why a file's new content, written by a person, cannot be taken; None when it can."""
    try:
        source, module = _open(path, before, project, kind)
        text = after[len(codecs.BOM_UTF8) :] if source.bom else after
        decoded = text.decode(source.encoding)
        if kind == "python":
            parse_python(decoded)
    except SourceError as error:
        return f"line {error.line}: {error.message}" if error.line else error.message
    except UnicodeDecodeError as error:
        return str(error)
    return None if _readable(module, decoded, kind) else "the file would no longer be readable"


def _open(path: str, data: bytes, project: Project, kind: str) -> tuple[Source, Module]:
    if kind == "python":
        source = read_python(data)
        return source, Module(path, source.text, None, project)
    from torchmigrate import documents

    return documents.open_document(path, data, project, kind)


def _error(path: str, error: SourceError) -> FileError:
    return FileError(path, error.line, error.column, error.code, error.message)


# -- planning --------------------------------------------------------------------------------------------------


def _plan(
    path: str, module: Module, codemods: Sequence[Codemod], kind: str, suppressions: Suppressions
) -> tuple[list[_Offer], list[FileError]]:
    offers: list[_Offer] = []
    errors: list[FileError] = []
    keys: dict[str, int] = {}
    errors += (_error(path, problem) for problem in module.problems)
    for codemod in codemods:
        try:
            plans = _plans(module, codemod, kind)
        except RecursionError:
            errors.append(FileError(path, 1, 1, "TM005", f"{codemod.code}: nested too deeply; not looked at"))
            continue
        except SourceError as problem:
            if module.unreadable is not None:
                raise
            errors.append(_error(path, problem))
            continue
        except Exception as error:
            message = f"{codemod.code} {codemod.name} failed here ({type(error).__name__}: {error}); please report it"
            errors.append(FileError(path, 1, 1, "TM011", message))
            continue
        for plan in plans:
            offer = _offer(path, module, codemod, plan, keys, suppressions)
            if isinstance(offer, FileError):
                errors.append(offer)
            else:
                offers.append(offer)
    codes = {codemod.code for codemod in codemods}
    told = [(comment, f"unused suppression of {code}") for comment, code in suppressions.unused(codes)]
    told += [(comment, _silences_nothing(word)) for comment, word in suppressions.without_codes()]
    for comment, message in told:
        at = module.lines.starts[comment.line - 1] + comment.column - 1
        place = module.span(at, at)[0]
        errors.append(FileError(path, place.line, place.column, "TM002", message))
    return offers, errors


def _silences_nothing(word: str) -> str:
    why = f"{word} is no code of a rule" if word else "no code of a rule is named"
    return f"this comment silences nothing: {why}; write ignore[CODE], with the code of the finding"


def _plans(module: Module, codemod: Codemod, kind: str) -> list[Plan]:
    if kind not in _PYTHON:
        return list(codemod.check_text(cast("Document", module)))
    plans = list(codemod.check(module))
    for document in module.documents:
        if document.kind in codemod.formats:
            plans += codemod.check_text(document)
    for file in module.files:
        plans += (_by_hand(plan) for plan in codemod.check(file))
    return plans


def _by_hand(plan: Plan) -> Plan:
    """What is planned for a file that a notebook cell writes, as a report."""
    anchor = plan.places[0].anchor if isinstance(plan, Change) else plan.anchor
    return Report(anchor, f"{plan.message} (in a file that this cell writes: change it by hand)")


def _offer(
    path: str, module: Module, codemod: Codemod, plan: Plan, keys: dict[str, int], suppressions: Suppressions
) -> _Offer | FileError:
    places = plan.places if isinstance(plan, Change) else (Place(plan.anchor, ()),)
    try:
        afters = [_after(module, place) for place in places]
    except (SourceError, compose.Conflict, compose.NotPossible) as error:
        message = f"{plan.message} (not rewritten: {error})"
        return _offer(path, module, codemod, Report(places[0].anchor, message), keys, suppressions)
    safety, message = _safety(plan, module.project)
    outcome = Outcome.REWRITE if isinstance(plan, Change) else Outcome.REPORT
    findings: list[Finding] = []
    reason: str | None = None
    for place, (before, after) in zip(places, afters, strict=True):
        start, end = _extent(module, place.anchor)
        span, cell = module.span(start, end)
        line, end_line = (module.lines.position(offset)[0] for offset in (start, end))
        silenced = suppressions.reason(codemod.code, line, end_line)
        reason = silenced if reason is None else reason
        key = _key(codemod.code, module, place.anchor, keys)
        findings.append(
            Finding(
                path=path,
                span=span,
                cell=cell,
                code=codemod.code,
                name=codemod.name,
                outcome=outcome,
                safety=safety,
                message=place.message or message,
                before=before,
                after=after if outcome is Outcome.REWRITE else None,
                key=key,
                group=None if len(places) == 1 else findings[0].group if findings else f"{key}+{len(places)}",
                choices=_choices(plan),
            )
        )
    if reason is not None:
        findings = [replace(f, suppressed=reason) for f in findings]
    return _Offer(codemod, plan, tuple(findings))


def _choices(plan: Plan) -> tuple[Choice, ...]:
    if isinstance(plan, Report):
        return tuple(Choice(a.label, a.evidence) for a in plan.choices)
    if not plan.alternatives:
        return ()
    return (Choice(plan.label, plan.evidence), *(Choice(a.label, a.evidence) for a in plan.alternatives))


def _safety(plan: Plan, project: Project) -> tuple[Safety, str]:
    if isinstance(plan, Report):
        return Safety.MANUAL, plan.message
    if plan.needs_torch and older(project.torch_min, plan.needs_torch):
        note = f"needs torch {plan.needs_torch}, but the project still allows {project.torch_min}"
        return Safety.UNSAFE, f"{plan.message} ({note}: {project.torch_min_source})"
    return plan.safety, plan.message


def _extent(module: Module, anchor: ast.AST | Extent) -> tuple[int, int]:
    return (anchor.start, anchor.end) if isinstance(anchor, Extent) else module.extent(anchor)


def _after(module: Module, place: Place) -> tuple[str, str]:
    """The source before and after of the smallest stretch that holds a place's anchor and its edits."""
    extents = [_extent(module, place.anchor), *compose.regions(module, place.edits)]
    low, high = min(start for start, _ in extents), max(end for _, end in extents)
    before = module.text[low:high]
    found = compose.splices(module, place.edits)
    return before, splice(before, [Splice(s.start - low, s.end - low, s.text) for s in found])


def _key(code: str, module: Module, anchor: ast.AST | Extent, seen: dict[str, int]) -> str:
    if isinstance(anchor, Extent):
        normal, scope = anchor.normal, anchor.scope
    else:
        scope = module.scope_name(anchor)
        try:
            normal = module.normal(anchor)
        except RecursionError:
            normal = " ".join(module.source(anchor).split())
    short = hashlib.blake2b(normal.encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()
    stem = f"{code}:{scope}:{short}"
    seen[stem] = seen.get(stem, 0) + 1
    return f"{stem}:{seen[stem]}"


# -- proposing -------------------------------------------------------------------------------------------------


def _proposals(data: bytes, source: Source, module: Module, offers: Sequence[_Offer]) -> tuple[Proposal, ...]:
    """What each answer to each open offer would change by itself, then together what touches the same lines."""
    found: list[Proposal] = []
    clusters: list[tuple[list[_Taken], set[int]]] = []
    for offer in offers:
        if offer.findings[0].suppressed is not None:
            continue
        for choice, option in enumerate(offer.options):
            taken = _taken(offer, option)
            proposal = _proposal(data, source, module, [taken], choice)
            if proposal is None:
                continue
            found.append(proposal)
            if choice == 0 and isinstance(offer.plan, Change):
                lines = _lines_touched(module, taken)
                joined = [cluster for cluster in clusters if cluster[1] & lines]
                members = [one for cluster, _ in joined for one in cluster]
                lines.update(*(touched for _, touched in joined))
                clusters = [cluster for cluster in clusters if cluster not in joined] + [([*members, taken], lines)]
    together = (_proposal(data, source, module, cluster, 0) for cluster, _ in clusters if len(cluster) > 1)
    return (*found, *(proposal for proposal in together if proposal is not None))


def _lines_touched(module: Module, taken: _Taken) -> set[int]:
    lines: set[int] = set()
    for start, end in compose.regions(module, taken.edits):
        lines.update(range(module.lines.position(start)[0], module.lines.position(end)[0] + 1))
    return lines


def _proposal(data: bytes, source: Source, module: Module, cluster: Sequence[_Taken], choice: int) -> Proposal | None:
    try:
        after = source.encode(_text(module, cluster))
    except (compose.Conflict, compose.NotPossible, SourceError):
        return None
    return Proposal(tuple(one.decision_key for one in cluster), choice, tuple(hunks(data, after)))


# -- carrying out ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, slots=True)
class _Taken:
    """An accepted offer: its keys, edits and imports."""

    keys: frozenset[str]
    edits: tuple[Edit, ...]
    imports: tuple[Import, ...]
    code: str
    decision_key: str = ""


def _taken(offer: _Offer, chosen: Alternative) -> _Taken:
    edits = tuple(edit for place in chosen.places for edit in place.edits)
    keys = frozenset(f.key for f in offer.findings)
    return _Taken(keys, edits, chosen.imports, offer.codemod.code, offer.findings[0].decision_key)


def _carry_out(
    result: FileResult,
    data: bytes,
    source: Source,
    module: Module,
    offers: Sequence[_Offer],
    policy: Policy,
    kind: str,
) -> FileResult:
    taken: list[_Taken] = []
    for offer in offers:
        decision = policy.decide(offer.findings[0])
        keys = frozenset(f.key for f in offer.findings)
        if decision.verdict is Verdict.SUPPRESS:
            comment = _ignore_comment(module, offer, kind)
            if comment is not None:
                taken.append(_Taken(keys, (comment,), (), offer.codemod.code))
        elif decision.verdict is Verdict.ACCEPT and decision.choice < len(offer.options):
            taken.append(_taken(offer, offer.options[decision.choice]))
    if not taken:
        return result
    text, kept, errors = _apply(result.path, module, taken, kind)
    try:
        after = source.encode(text)
    except SourceError as error:
        return replace(result, errors=(*result.errors, _error(result.path, error)))
    result = replace(result, errors=(*result.errors, *errors))
    if after == data:
        return result
    accepted = frozenset(key for one in kept for key in one.keys)
    return replace(result, before=data, after=after, accepted=accepted)


def _apply(path: str, module: Module, taken: Sequence[_Taken], kind: str) -> tuple[str, list[_Taken], list[FileError]]:
    """The file's text with as many of the accepted offers as fit together and give a readable file."""
    try:
        text = _text(module, taken)
        if _readable(module, text, kind):
            return text, list(taken), []
    except (compose.Conflict, compose.NotPossible, SourceError):
        pass
    kept: list[_Taken] = []
    errors: list[FileError] = []
    text = module.rebuild([])
    for one in taken:
        try:
            attempt = _text(module, [*kept, one])
        except (compose.Conflict, compose.NotPossible):
            continue
        except SourceError as error:
            errors.append(_error(path, error))
            continue
        if not _readable(module, attempt, kind):
            message = f"the change of {one.code} would make the file unreadable; left out, please report it"
            errors.append(FileError(path, 1, 1, "TM012", message))
            continue
        kept.append(one)
        text = attempt
    return text, kept, errors


def _text(module: Module, taken: Iterable[_Taken]) -> str:
    edits = [edit for one in taken for edit in one.edits]
    imports = [one for offer in taken for one in offer.imports]
    found = compose.splices(module, edits)
    if imports:
        found += insertions(module, imports)
    return module.rebuild(found)


def _readable(module: Module, text: str, kind: str) -> bool:
    if kind != "python":
        from torchmigrate import documents

        return documents.readable(module, text, kind)
    try:
        parse_python(text)
    except SourceError:
        return False
    return compiles(text) or not compiles(module.text)


def _ignore_comment(module: Module, offer: _Offer, kind: str) -> Edit | None:
    """A suppression comment above the line that a finding begins on, or else behind the line that it ends on."""
    anchor = offer.plan.places[0].anchor if isinstance(offer.plan, Change) else offer.plan.anchor
    start, end = _extent(module, anchor)
    at, after = module.lines.line_start(start), module.lines.line_end(end)
    line = module.text[at:start]
    indent = line[: len(line) - len(line.lstrip())]
    if module.comment is None:
        return None
    mark = f"{module.comment} torchmigrate: ignore[{offer.codemod.code}]"
    newline = module.lines.newline_near(start)
    tail = after - len(module.text[end:after]) + len(module.text[end:after].rstrip("\r\n"))
    above = ReplaceText(at, at, f"{indent}{mark}{newline}")
    behind = ReplaceText(tail, tail, f"  {mark}")
    for edit, shift in ((above, 1), (behind, 0)):
        if kind not in _PYTHON and module.text[: edit.start].rstrip("\r\n").endswith("\\"):
            continue
        text = module.rebuild([Splice(edit.start, edit.end, edit.text)])
        first, last = (module.lines.position(offset)[0] + shift for offset in (start, end))
        if kind != "notebook":
            seen = Suppressions.read(text, _comments_of(module, kind))
            if seen.reason(offer.codemod.code, first, last) is None:
                continue
        if _readable(module, text, kind):
            return edit
    return None


def _comments_of(module: Module, kind: str) -> Callable[[str], Iterable[tuple[int, int]]]:
    """What finds the real comments of a text of a kind: that of the module, or what becomes of it."""
    if kind == "python":
        return python_comments
    if kind == "notebook":
        return lambda text: cast("NotebookModule", module).comments()
    from torchmigrate.texts import comments

    return lambda text: comments.extents(text, kind)
