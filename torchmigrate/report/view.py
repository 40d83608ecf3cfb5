"""A run as a reader meets it: changes with their hunks, by project, repository or file.

It is made of a run's own results (`of_run`) or of the document of a fleet (`of_fleet`), so that both are shown alike.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from torchmigrate.model import Choice, FileError, FileResult, Finding, Hunk, Outcome, Project
from torchmigrate.report import json, patches
from torchmigrate.report.compare import Progress
from torchmigrate.report.summary import Summary

NOBODY = "unowned"


class Level(enum.StrEnum):
    """What becomes of a place."""

    DONE = "done"
    SAFE = "safe"
    UNSAFE = "unsafe"
    MANUAL = "manual"
    IGNORED = "ignored"

    @property
    def label(self) -> str:
        """The level in a reader's words."""
        return _LABELS[self]


_LABELS = {
    Level.DONE: "rewritten",
    Level.SAFE: "safe",
    Level.UNSAFE: "unsafe",
    Level.MANUAL: "for a person",
    Level.IGNORED: "ignored",
}


@dataclass(frozen=True, slots=True)
class RuleText:
    """What a rule says of itself: the first line of `text` is the title."""

    code: str
    name: str
    area: str = ""
    text: str = ""
    reference: str = ""

    @property
    def title(self) -> str:
        """One line without a full stop."""
        return (self.text.strip().splitlines() or [self.name])[0].rstrip(".")

    @property
    def paragraphs(self) -> list[str]:
        """What follows the title."""
        parts = [" ".join(part.split()) for part in self.text.strip().split("\n\n")]
        return [part for part in parts[1:] if part]

    @property
    def link(self) -> str | None:
        """Where to read more; nothing but https is passed on."""
        return self.reference if self.reference.startswith("https://") else None


@dataclass(frozen=True, slots=True)
class Item:
    """One change, or one place for a person. `findings` are taken together or not at all.

    `hunks` are what the change does to the file as it was read, `others` further answers. `is_whole` says that the
    hunks are a complete change by themselves. `is_new` is None where there is no earlier report.
    """

    findings: tuple[Finding, ...]
    level: Level
    hunks: tuple[Hunk, ...] = ()
    others: tuple[tuple[Choice, tuple[Hunk, ...]], ...] = ()
    owners: tuple[str, ...] = ()
    is_whole: bool = True
    is_new: bool | None = None

    @property
    def first(self) -> Finding:
        """The finding that stands for all."""
        return self.findings[0]


@dataclass(frozen=True, slots=True)
class Unit:
    """A row of the report: a project, a repository or a file. `status` is how a repository ended."""

    name: str
    items: tuple[Item, ...] = ()
    errors: tuple[FileError, ...] = ()
    owners: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    status: str = ""

    def count(self, level: Level) -> int:
        """Places of a level."""
        return sum(len(item.findings) for item in self.items if item.level is level)

    @property
    def places(self) -> int:
        """All places that no comment silences."""
        return sum(len(item.findings) for item in self.items if item.level is not Level.IGNORED)


@dataclass(frozen=True, slots=True)
class View:
    """Everything that a report shows. `kind` is what the units are: "project", "repository" or "file"."""

    kind: str
    units: tuple[Unit, ...]
    rules: Mapping[str, RuleText] = field(default_factory=dict)
    written: bool = False
    complete: bool = True
    failed: bool = False
    progress: Progress | None = None
    seen: int = 0
    looked_at: int = 0

    @property
    def items(self) -> list[Item]:
        """All changes and places, unit by unit."""
        return [item for unit in self.units for item in unit.items]

    @property
    def open(self) -> list[Item]:
        """What is still to be done: neither rewritten nor ignored."""
        return [item for item in self.items if item.level not in (Level.DONE, Level.IGNORED)]

    @property
    def errors(self) -> list[FileError]:
        """All errors, unit by unit."""
        return [error for unit in self.units for error in unit.errors]

    @property
    def levels(self) -> dict[Level, int]:
        """Places by level."""
        return {level: sum(unit.count(level) for unit in self.units) for level in Level}

    @property
    def files(self) -> int:
        """Files with places that no comment silences."""
        return len({(u.name, i.first.path) for u in self.units for i in u.items if i.level is not Level.IGNORED})

    def tally(self, key: Callable[[Item], Iterable[str]]) -> list[tuple[str, dict[Level, int]]]:
        """Places by some key and level, most first; ignored places do not count."""
        found: dict[str, Counter[Level]] = {}
        for item in self.items:
            if item.level is not Level.IGNORED:
                for name in key(item):
                    found.setdefault(name, Counter())[item.level] += len(item.findings)
        return [
            (name, {level: levels[level] for level in Level})
            for name, levels in sorted(found.items(), key=lambda pair: (-pair[1].total(), pair[0]))
        ]

    @property
    def is_owned(self) -> bool:
        """Whether anything has an owner."""
        return any(item.owners for item in self.items)

    @property
    def by_rule(self) -> list[tuple[str, dict[Level, int]]]:
        """Places by code."""
        return self.tally(lambda item: (item.first.code,))

    @property
    def by_owner(self) -> list[tuple[str, dict[Level, int]]]:
        """Places by owner; a place with several owners counts for each."""
        return self.tally(lambda item: item.owners or (NOBODY,))

    def rule(self, finding: Finding) -> RuleText:
        """What is known of a finding's rule."""
        return self.rules.get(finding.code) or RuleText(finding.code, finding.name, text=finding.name)


# -- from a run ------------------------------------------------------------------------------------------------


def of_run(
    summary: Summary,
    rules: Mapping[str, RuleText],
    *,
    root_of: Callable[[str], str],
    owners_of: Callable[[str], tuple[str, ...]],
    progress: Progress | None = None,
) -> View:
    """The view of one run over paths. Findings have hunks where the run was asked for proposals."""
    taken = {(f.path, f.key) for f in summary.taken} if summary.written else set()
    items: dict[str, list[Item]] = {}
    for result in summary.results:
        owners = owners_of(result.path) if result.findings else ()
        for item in _of_result(result, taken):
            fresh = _fresh(progress, "", item)
            items.setdefault(result.path, []).append(replace(item, owners=owners, is_new=fresh))
    errors: dict[str, list[FileError]] = {}
    for error in summary.errors:
        errors.setdefault(error.path, []).append(error)
    roots = {path: root_of(path) for path in [*items, *errors]}
    known = {project.root: project for project in summary.projects}
    several = len(set(roots.values())) > 1
    members: dict[str, list[str]] = {}
    for path, root in roots.items():
        members.setdefault(root if several else path, []).append(path)
    units = [
        _unit(name, members[name], items, errors, known.get(name) if several else None) for name in sorted(members)
    ]
    return View(
        "project" if several else "file",
        tuple(units),
        rules,
        written=summary.written,
        complete=not summary.interrupted,
        failed=bool(summary.unread),
        progress=progress,
        seen=summary.counts.seen,
        looked_at=summary.counts.looked_at,
    )


def _unit(
    name: str,
    paths: Sequence[str],
    items: Mapping[str, Sequence[Item]],
    errors: Mapping[str, Sequence[FileError]],
    project: Project | None,
) -> Unit:
    found = tuple(item for path in sorted(paths) for item in items.get(path, ()))
    notes = (f"torch from {project.torch_min} ({project.torch_min_source})", *project.notes) if project else ()
    return Unit(
        name,
        found,
        tuple(error for path in sorted(paths) for error in errors.get(path, ())),
        _owners(found),
        notes,
    )


def _owners(items: Iterable[Item]) -> tuple[str, ...]:
    """All owners, those of most places first."""
    counted = Counter(owner for item in items for owner in item.owners)
    return tuple(sorted(counted, key=lambda owner: (-counted[owner], owner)))


def _of_result(result: FileResult, taken: set[tuple[str, str]]) -> list[Item]:
    groups: dict[str, list[Finding]] = {}
    for finding in result.findings:
        groups.setdefault(finding.decision_key, []).append(finding)
    offered: dict[str, dict[int, tuple[Hunk, ...]]] = {}
    for proposal in result.proposals:
        if len(proposal.keys) == 1:
            offered.setdefault(proposal.keys[0], {})[proposal.choice] = proposal.hunks
    items = []
    for key, found in groups.items():
        first = found[0]
        level = _level(first, (first.path, first.key) in taken)
        answers = offered.get(key, {})
        main = answers.get(0, ()) if first.outcome is Outcome.REWRITE else ()
        others = tuple(
            (choice, answers[number])
            for number, choice in enumerate(first.choices)
            if number in answers and (number or first.outcome is Outcome.REPORT)
        )
        items.append(Item(tuple(sorted(found, key=_position)), level, main, others))
    return sorted(items, key=lambda item: _position(item.first))


def _fresh(progress: Progress | None, repository: str, item: Item) -> bool | None:
    """Whether an item is new; None without an earlier report, and for ignored ones, which reports do not list."""
    if progress is None or item.level is Level.IGNORED:
        return None
    return any(progress.is_new(repository, finding) for finding in item.findings)


def _level(finding: Finding, is_done: bool) -> Level:
    if finding.suppressed is not None:
        return Level.IGNORED
    if is_done:
        return Level.DONE
    return Level.MANUAL if finding.outcome is Outcome.REPORT else Level(finding.safety.value)


def _position(finding: Finding) -> tuple[int, int, int, str]:
    return finding.cell or 0, finding.span.line, finding.span.column, finding.code


# -- from the document of a fleet ------------------------------------------------------------------------------


def of_fleet(
    document: Mapping[str, Any],
    rules: Mapping[str, RuleText],
    *,
    written: bool = False,
    progress: Progress | None = None,
) -> View:
    """The view of a fleet's result, the document that `torchmigrate bulk --format json` prints.

    With `written` the changes that were taken count as done: they are in commits.
    """
    units = [_repository(one, written, progress) for one in document["repositories"]]
    totals = document.get("totals", {})
    return View(
        "repository",
        tuple(units),
        rules,
        written=written,
        complete=not totals.get("left"),
        failed=any(unit.status == "failed" for unit in units),
        progress=progress,
        seen=totals.get("files_seen", 0),
        looked_at=totals.get("files_looked_at", 0),
    )


def _repository(one: Mapping[str, Any], written: bool, progress: Progress | None) -> Unit:
    owners = {file["path"]: tuple(file.get("owners", ())) for file in one.get("files", ())}
    hunks = {diff["path"]: patches.hunks(diff["diff"]) for diff in one.get("diffs", ())}
    by_path: dict[str, list[Mapping[str, Any]]] = {}
    for finding in one.get("findings", ()):
        by_path.setdefault(finding["path"], []).append(finding)
    items: list[Item] = []
    for path, found in by_path.items():
        for item in _of_file(found, hunks.get(path, []), written):
            fresh = _fresh(progress, one["name"], item)
            items.append(replace(item, owners=owners.get(path, ()), is_new=fresh))
    status = one["status"]
    verification = one.get("verification")
    notes = [f"{one.get('stage') or 'failed'}: {one['reason']}"] if one.get("reason") else []
    if verification:
        code = verification.get("exit_code")
        ended = f" (exit code {code})" if code else ""
        notes.append(f"{verification['command']}: {verification['outcome']}{ended}")
    notes += [f"torch from {p['torch_min']} in {p['root']} ({p['torch_min_source']})" for p in one.get("projects", ())]
    return Unit(
        one["name"],
        tuple(items),
        tuple(json.error_of(error) for error in one.get("errors", ())),
        _owners(items),
        (*notes, *one.get("notes", ())),
        status,
    )


def _of_file(found: Sequence[Mapping[str, Any]], hunks: Sequence[Hunk], written: bool) -> list[Item]:
    """The changes of one file; those that one hunk shows together are one."""
    groups: dict[str, list[Finding]] = {}
    taken: set[str] = set()
    for data in found:
        finding = json.finding_of(data)
        groups.setdefault(finding.decision_key, []).append(finding)
        if data.get("decision") == "accept":
            taken.add(finding.decision_key)
    owned: dict[str, list[int]] = {key: [] for key in taken}
    for number, hunk in enumerate(hunks):
        touching = [
            key
            for key, ones in groups.items()
            if key in taken and any(f.cell is None and hunk.covers(f.span.line, f.span.end_line) for f in ones)
        ]
        for key in touching or list(owned)[:1]:
            owned[key].append(number)
    shown: set[int] = set()
    items = []
    for key, ones in groups.items():
        numbers = [number for number in owned.get(key, ()) if number not in shown]
        shown.update(numbers)
        level = _level(ones[0], written and key in taken)
        items.append(
            Item(
                tuple(sorted(ones, key=_position)),
                level,
                tuple(hunks[number] for number in numbers),
                is_whole=len(taken) == 1,
            )
        )
    return sorted(items, key=lambda item: _position(item.first))
