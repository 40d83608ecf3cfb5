"""The content of one file with what was accepted of its offers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from torchmigrate import compose
from torchmigrate.codemod import Alternative
from torchmigrate.edits import Edit, ReplaceText
from torchmigrate.formats import PYTHON, comments_of, readable
from torchmigrate.imports import Import, insertions
from torchmigrate.model import FileError, FileResult, Policy, Verdict
from torchmigrate.module import Module
from torchmigrate.offers import Offer, extent
from torchmigrate.source import Source, SourceError, Splice
from torchmigrate.suppress import Suppressions


@dataclass(frozen=True, eq=False, slots=True)
class Taken:
    """An accepted offer: its keys, edits and imports."""

    keys: frozenset[str]
    edits: tuple[Edit, ...]
    imports: tuple[Import, ...]
    code: str
    decision_key: str = ""


def take(offer: Offer, chosen: Alternative) -> Taken:
    """An offer with the answer that was chosen for it."""
    edits = tuple(edit for place in chosen.places for edit in place.edits)
    return Taken(offer.keys, edits, chosen.imports, offer.codemod.code, offer.findings[0].decision_key)


def carry_out(
    result: FileResult,
    data: bytes,
    source: Source,
    module: Module,
    offers: Sequence[Offer],
    policy: Policy,
    kind: str,
) -> FileResult:
    """The result with the new content, if the policy accepts anything that changes the file."""
    taken: list[Taken] = []
    for offer in offers:
        decision = policy.decide(offer.findings[0])
        if decision.verdict is Verdict.SUPPRESS:
            comment = _ignore_comment(module, offer, kind)
            if comment is not None:
                taken.append(Taken(offer.keys, (comment,), (), offer.codemod.code))
        elif decision.verdict is Verdict.ACCEPT and decision.choice < len(offer.options):
            taken.append(take(offer, offer.options[decision.choice]))
    if not taken:
        return result
    text, kept, errors = _apply(result.path, module, taken, kind)
    try:
        after = source.encode(text)
    except SourceError as error:
        return replace(result, errors=(*result.errors, error.in_file(result.path)))
    result = replace(result, errors=(*result.errors, *errors))
    if after == data:
        return result
    accepted = frozenset(key for one in kept for key in one.keys)
    return replace(result, before=data, after=after, accepted=accepted)


def _apply(path: str, module: Module, taken: Sequence[Taken], kind: str) -> tuple[str, list[Taken], list[FileError]]:
    """The file's text with as many of the accepted offers as fit together and give a readable file."""
    try:
        text = rewritten(module, taken)
        if readable(module, text, kind):
            return text, list(taken), []
    except (compose.Conflict, compose.NotPossible, SourceError):
        pass
    kept: list[Taken] = []
    errors: list[FileError] = []
    text = module.rebuild([])
    for one in taken:
        try:
            attempt = rewritten(module, [*kept, one])
        except (compose.Conflict, compose.NotPossible):
            continue
        except SourceError as error:
            errors.append(error.in_file(path))
            continue
        if not readable(module, attempt, kind):
            message = f"the change of {one.code} would make the file unreadable; left out, please report it"
            errors.append(FileError(path, 1, 1, "TM012", message))
            continue
        kept.append(one)
        text = attempt
    return text, kept, errors


def rewritten(module: Module, taken: Iterable[Taken]) -> str:
    """The file's text with all of some accepted offers.

    Raises Conflict where two of them do not fit together, NotPossible and SourceError where one cannot be carried out.
    """
    edits = [edit for one in taken for edit in one.edits]
    imports = [one for offer in taken for one in offer.imports]
    found = compose.splices(module, edits)
    if imports:
        found += insertions(module, imports)
    return module.rebuild(found)


def _ignore_comment(module: Module, offer: Offer, kind: str) -> Edit | None:
    """A suppression comment above the line that a finding begins on, or else behind the line that it ends on."""
    start, end = extent(module, offer.anchor)
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
        if kind not in PYTHON and module.text[: edit.start].rstrip("\r\n").endswith("\\"):
            continue
        text = module.rebuild([Splice(edit.start, edit.end, edit.text)])
        first, last = (module.lines.position(offset)[0] + shift for offset in (start, end))
        if kind != "notebook":
            seen = Suppressions.read(text, comments_of(module, kind))
            if seen.reason(offer.codemod.code, first, last) is None:
                continue
        if readable(module, text, kind):
            return edit
    return None
