"""What the codemods plan for one file, as offers: a plan with its findings, one a place.

A finding gets its key, its safety for the project at hand and the comment that silences it here; what cannot be
carried out becomes a report that says why. Nothing is decided and nothing is changed yet.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

from torchmigrate import compose
from torchmigrate.codemod import Alternative, Change, Codemod, Extent, Place, Plan, Report
from torchmigrate.formats import PYTHON
from torchmigrate.model import Choice, FileError, Finding, Outcome, Project, Safety
from torchmigrate.module import Module
from torchmigrate.source import SourceError, Splice, splice
from torchmigrate.suppress import Suppressions
from torchmigrate.versions import older

if TYPE_CHECKING:
    from torchmigrate.documents import Document


@dataclass(frozen=True, eq=False, slots=True)
class Offer:
    """What one plan comes to in a file, for the policy to decide."""

    codemod: Codemod
    plan: Plan
    findings: tuple[Finding, ...]

    @property
    def keys(self) -> frozenset[str]:
        """The keys of the findings."""
        return frozenset(f.key for f in self.findings)

    @property
    def anchor(self) -> ast.AST | Extent:
        """What the plan is about; with several places, the first one."""
        return self.plan.places[0].anchor if isinstance(self.plan, Change) else self.plan.anchor

    @property
    def options(self) -> tuple[Alternative, ...]:
        """The answers to this offer, in the order of the findings' choices."""
        if isinstance(self.plan, Report):
            return self.plan.choices
        proposed = Alternative(self.plan.label, self.plan.evidence, self.plan.places, self.plan.imports)
        return (proposed, *self.plan.alternatives)


def plan_file(
    path: str, module: Module, codemods: Sequence[Codemod], kind: str, suppressions: Suppressions
) -> tuple[list[Offer], list[FileError]]:
    """The offers of the codemods in their order, and what has to be said beside them.

    A codemod that fails here costs its own offers only. Raises SourceError where the file itself cannot be parsed.
    """
    offers: list[Offer] = []
    errors = [problem.in_file(path) for problem in module.problems]
    keys: dict[str, int] = {}
    for codemod in codemods:
        try:
            plans = _plans(module, codemod, kind)
        except RecursionError:
            errors.append(FileError(path, 1, 1, "TM005", f"{codemod.code}: nested too deeply; not looked at"))
            continue
        except SourceError as problem:
            if module.unreadable is not None:
                raise
            errors.append(problem.in_file(path))
            continue
        except Exception as error:
            message = f"{codemod.code} {codemod.name} failed here ({type(error).__name__}: {error}); please report it"
            errors.append(FileError(path, 1, 1, "TM011", message))
            continue
        offers += (_offer(path, module, codemod, plan, keys, suppressions) for plan in plans)
    codes = {codemod.code for codemod in codemods}
    told = [(comment, f"unused suppression of {code}") for comment, code in suppressions.unused(codes)]
    told += [(comment, _silences_nothing(word)) for comment, word in suppressions.without_codes()]
    for comment, message in told:
        at = module.lines.starts[comment.line - 1] + comment.column - 1
        place = module.span(at, at)[0]
        errors.append(FileError(path, place.line, place.column, "TM002", message))
    return offers, errors


def _plans(module: Module, codemod: Codemod, kind: str) -> list[Plan]:
    if kind not in PYTHON:
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
) -> Offer:
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
        start, end = extent(module, place.anchor)
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
    return Offer(codemod, plan, tuple(findings))


def _after(module: Module, place: Place) -> tuple[str, str]:
    """The source before and after of the smallest stretch that holds a place's anchor and its edits."""
    extents = [extent(module, place.anchor), *compose.regions(module, place.edits)]
    low, high = min(start for start, _ in extents), max(end for _, end in extents)
    before = module.text[low:high]
    found = compose.splices(module, place.edits)
    return before, splice(before, [Splice(s.start - low, s.end - low, s.text) for s in found])


def extent(module: Module, anchor: ast.AST | Extent) -> tuple[int, int]:
    """The offsets in the text between which an anchor stands."""
    return (anchor.start, anchor.end) if isinstance(anchor, Extent) else module.extent(anchor)


def _safety(plan: Plan, project: Project) -> tuple[Safety, str]:
    if isinstance(plan, Report):
        return Safety.MANUAL, plan.message
    if plan.needs_torch and older(project.torch_min, plan.needs_torch):
        note = f"needs torch {plan.needs_torch}, but the project still allows {project.torch_min}"
        return Safety.UNSAFE, f"{plan.message} ({note}: {project.torch_min_source})"
    return plan.safety, plan.message


def _choices(plan: Plan) -> tuple[Choice, ...]:
    if isinstance(plan, Report):
        return tuple(Choice(a.label, a.evidence) for a in plan.choices)
    if not plan.alternatives:
        return ()
    return (Choice(plan.label, plan.evidence), *(Choice(a.label, a.evidence) for a in plan.alternatives))


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


def _silences_nothing(word: str) -> str:
    why = f"{word} is no code of a rule" if word else "no code of a rule is named"
    return f"this comment silences nothing: {why}; write ignore[CODE], with the code of the finding"
