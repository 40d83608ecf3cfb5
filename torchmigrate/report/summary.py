"""The outcome of a run as data: what was offered, taken and left, and the exit code that follows from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from torchmigrate.model import FileError, FileResult, Finding, Outcome, Project, Safety, ScanCounts, Span

DONE = 0
PENDING = 1
REFUSED = 2
FAILED = 3
INTERRUPTED = 130

_NOTES = frozenset({"TM002", "TM007"})
"""Engine codes that tell something about a file that was processed all the same, or that only has to be run again."""


_PLUGIN = "TM003"
"""The code of rules that failed to load: an error, but of no file."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One line of the table of changes."""

    code: str
    name: str
    changes: int
    files: int
    safety: str


@dataclass(frozen=True, slots=True)
class Summary:
    """All that reports need. `results` are in order of path; `written` says that the accepted changes are on disk.

    `failures` are errors that came up while writing, `unsafe` says whether unsafe changes were asked for. `roots` are
    the projects of the results, by path.
    """

    results: Sequence[FileResult]
    counts: ScanCounts = field(default_factory=ScanCounts)
    projects: Sequence[Project] = ()
    written: bool = False
    unsafe: bool = False
    failures: Sequence[FileError] = ()
    interrupted: bool = False
    roots: Mapping[str, str] = field(default_factory=dict)

    @property
    def findings(self) -> list[Finding]:
        """Every finding that no comment silences, in order of path and position."""
        return sorted((f for r in self.results for f in r.findings if f.suppressed is None), key=_position)

    @property
    def suppressed(self) -> list[Finding]:
        """Every finding that a comment silences."""
        return sorted((f for r in self.results for f in r.findings if f.suppressed is not None), key=_position)

    @property
    def changed(self) -> list[FileResult]:
        """The files that were or would be written; one that could not be written is not among them."""
        failed = {error.path for error in self.failures}
        return [r for r in self.results if r.after is not None and r.path not in failed]

    @property
    def taken(self) -> list[Finding]:
        """The findings whose change was or would be written."""
        return [f for result in self.changed for f in result.findings if f.key in result.accepted]

    @property
    def _taken_keys(self) -> set[tuple[str, str]]:
        return {(result.path, key) for result in self.changed for key in result.accepted}

    @property
    def left(self) -> list[Finding]:
        """Rewrites that were not taken."""
        taken = self._taken_keys
        return [f for f in self.findings if f.outcome is Outcome.REWRITE and (f.path, f.key) not in taken]

    @property
    def hidden(self) -> list[Finding]:
        """Unsafe rewrites that the flags leave out."""
        return [] if self.unsafe else [f for f in self.left if f.safety is Safety.UNSAFE]

    @property
    def manual(self) -> list[Finding]:
        """Places that a person has to look at."""
        taken = self._taken_keys
        return [f for f in self.findings if f.outcome is Outcome.REPORT and (f.path, f.key) not in taken]

    @property
    def errors(self) -> list[FileError]:
        """All errors and notes about files, those of writing last."""
        return [*(e for result in self.results for e in result.errors), *self.failures]

    @property
    def unread(self) -> list[str]:
        """Files that could not be processed."""
        return list(dict.fromkeys(e.path for e in self.errors if e.code not in _NOTES and e.code != _PLUGIN))

    @property
    def rules(self) -> list[Rule]:
        """The table of what was taken, by code."""
        by_code: dict[str, list[Finding]] = {}
        for finding in self.taken:
            by_code.setdefault(finding.code, []).append(finding)
        rows = []
        for code, found in sorted(by_code.items()):
            levels = sorted({f.safety.value for f in found})
            rows.append(Rule(code, found[0].name, count(found), len({f.path for f in found}), " and ".join(levels)))
        return rows

    def exit_code(self, *, exit_zero: bool = False) -> int:
        """0 nothing pending, 1 something is, 3 files failed, 130 interrupted; `exit_zero` turns only 1 into 0."""
        if self.interrupted:
            return INTERRUPTED
        if self.unread or any(error.code == _PLUGIN for error in self.errors):
            return FAILED
        conflicts = any(error.code == "TM007" for error in self.errors)
        pending = self.manual or self.left or conflicts or (self.changed and not self.written)
        return PENDING if pending and not exit_zero else DONE


def _position(finding: Finding) -> tuple[str, int, Span, str]:
    return finding.path, finding.cell or 0, finding.span, finding.code


def count(findings: Sequence[Finding]) -> int:
    """How many changes findings are: those that are taken together count once."""
    return len({(f.path, f.decision_key) for f in findings})


def totals(summary: Summary) -> Mapping[str, int]:
    """The counts that machine formats carry, in fixed order."""
    rewrites = [f for f in summary.findings if f.outcome is Outcome.REWRITE]
    return {
        "files_seen": summary.counts.seen,
        "files_looked_at": summary.counts.looked_at,
        "files_with_findings": len({f.path for f in summary.findings}),
        "files_with_errors": len(summary.unread),
        "findings": len(summary.findings),
        "safe": sum(f.safety is Safety.SAFE for f in rewrites),
        "unsafe": sum(f.safety is Safety.UNSAFE for f in rewrites),
        "manual": len(summary.manual),
        "suppressed": len(summary.suppressed),
    }
