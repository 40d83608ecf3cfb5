"""What a run is made of: frozen data that any layer may hold and that crosses process boundaries.

Positions are 1-based lines and 1-based columns counted in characters, end columns exclusive, as compilers and
ruff print them. Nothing in this module reads, writes or parses.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

IN_BASELINE = "in the baseline"
"""The reason for which findings that a baseline holds are silent."""

DEFAULT_TORCH = "2.15"
"""The oldest torch the code must run on when neither a flag nor the project's metadata says otherwise."""


class Safety(enum.StrEnum):
    """How much a person has to look at a finding before the change may be written."""

    SAFE = "safe"
    UNSAFE = "unsafe"
    MANUAL = "manual"


class Outcome(enum.StrEnum):
    """What the tool offers at a place: a rewrite, or only a report."""

    REWRITE = "rewrite"
    REPORT = "report"


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """Where a node lies in a file."""

    line: int
    column: int
    end_line: int
    end_column: int


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several right answers for a change; `label` is the new code in short, `evidence` why it may be right."""

    label: str
    evidence: str


@dataclass(frozen=True, slots=True)
class Finding:
    """One place in one file that a codemod would rewrite or that a person must look at.

    `before` and `after` are the source of the smallest node that changes; `after` is None for a report. `key`
    identifies the finding across edits elsewhere in the file. Findings that must be taken together share `group`.
    `suppressed` is the reason text (possibly empty) of the comment that silences the finding, else None.
    """

    path: str
    span: Span
    code: str
    name: str
    outcome: Outcome
    safety: Safety
    message: str
    before: str
    after: str | None
    key: str
    group: str | None = None
    cell: int | None = None
    choices: tuple[Choice, ...] = ()
    suppressed: str | None = None

    @property
    def decision_key(self) -> str:
        """The key under which a decision about this finding is kept."""
        return self.group or self.key


@dataclass(frozen=True, slots=True)
class FileError:
    """A file that could not be processed, or one part of it; `code` is an engine code (TM001 ...)."""

    path: str
    line: int | None
    column: int | None
    code: str
    message: str


class Verdict(enum.StrEnum):
    """An answer to one offered change."""

    ACCEPT = "accept"
    DECLINE = "decline"
    SUPPRESS = "suppress"


@dataclass(frozen=True, slots=True)
class Decision:
    """An answer to one offered change; `choice` is an index into the finding's choices (0 is the proposed one)."""

    verdict: Verdict
    choice: int = 0


@dataclass(frozen=True, slots=True)
class Policy:
    """Which offered changes a run applies: explicit decisions by decision key, then the safety levels in `default`.

    With `propose` the result also tells what each answer would change by itself, for a person to look at.
    """

    default: frozenset[Safety] = frozenset()
    decisions: Mapping[str, Decision] = field(default_factory=dict)
    propose: bool = False

    def decide(self, finding: Finding) -> Decision:
        """The decision for a finding; suppressed findings are left, reports too unless a choice of theirs is taken."""
        explicit = self.decisions.get(finding.decision_key)
        if finding.suppressed is not None:
            return Decision(Verdict.DECLINE)
        if finding.outcome is Outcome.REPORT:
            taken = explicit is not None and (explicit.verdict is Verdict.SUPPRESS or bool(finding.choices))
            return explicit if explicit is not None and taken else Decision(Verdict.DECLINE)
        if explicit is not None:
            return explicit
        return Decision(Verdict.ACCEPT if finding.safety in self.default else Verdict.DECLINE)


LOOK = Policy()
"""Apply nothing: findings only."""
SAFE_ONLY = Policy(frozenset({Safety.SAFE}))
EVERYTHING = Policy(frozenset({Safety.SAFE, Safety.UNSAFE}))


@dataclass(frozen=True, slots=True)
class Project:
    """What is true of the project that a file belongs to.

    `torch_min` and `python_min` are version texts ("2.15", "3.11"), the sources say where they were read
    ("--min-torch", "pyproject.toml:12", "default"). `torch_max` is the first release that the metadata excludes ("2.15"
    for `torch<2.15`), or None. `torch_role` says how the metadata names torch: "required", "optional", or "" for not at
    all. `facts` are plain data gathered from the project's candidate files by codemods, by fact
    name. `notes` say which metadata could not be read.
    """

    root: str = "."
    torch_min: str = DEFAULT_TORCH
    torch_min_source: str = "default"
    torch_max: str | None = None
    torch_role: str = ""
    python_min: str | None = None
    python_min_source: str | None = None
    facts: Mapping[str, object] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Hunk:
    """A stretch of changed lines with its context.

    `old_start` and `new_start` are 0-based indices of the first line shown. Each line begins with a blank, `-` or `+`
    and keeps its own end of line; the last line of a file may have none.
    """

    old_start: int
    old_count: int
    new_start: int
    new_count: int
    lines: tuple[bytes, ...]

    def covers(self, first: int, last: int) -> bool:
        """Whether this hunk shows a line between the 1-based lines `first` and `last` of the old file."""
        return first <= self.old_start + max(self.old_count, 1) and self.old_start + 1 <= last

    def header(self, label: str = "") -> bytes:
        """The `@@` line; `label` stands where diff tools show the enclosing function, which patch tools skip."""
        old, new = _range(self.old_start, self.old_count), _range(self.new_start, self.new_count)
        text = f"@@ -{old} +{new} @@ {label}".rstrip()
        return text.encode("utf-8", "replace").replace(b"\n", b" ") + b"\n"


def _range(start: int, count: int) -> str:
    if count == 1:
        return str(start + 1)
    return f"{start + 1 if count else start},{count}"


@dataclass(frozen=True, slots=True)
class Proposal:
    """What one answer would change in a file by itself: the hunks against the file as it was read.

    `keys` are decision keys; more than one where changes touch the same lines and are shown together. `choice` is an
    index into the finding's choices.
    """

    keys: tuple[str, ...]
    choice: int
    hunks: tuple[Hunk, ...]


@dataclass(frozen=True, slots=True)
class FileResult:
    """What processing one file gave.

    `after` is None when the policy changes nothing; else it is the complete new content, which parses and compiles.
    `before` is the content that was read (kept only when `after` is set). `digest` is the blake2b hex digest (16 bytes)
    of the content that was read. `accepted` holds the keys of the findings whose change is in `after`. `proposals` are
    there when the policy asks for them.
    """

    path: str
    findings: tuple[Finding, ...] = ()
    errors: tuple[FileError, ...] = ()
    before: bytes | None = None
    after: bytes | None = None
    digest: str = ""
    accepted: frozenset[str] = frozenset()
    proposals: tuple[Proposal, ...] = ()

    @property
    def pending(self) -> tuple[Finding, ...]:
        """Findings that remain for a person or a later run: not accepted and not suppressed."""
        return tuple(f for f in self.findings if f.key not in self.accepted and f.suppressed is None)


@dataclass(frozen=True, slots=True)
class Selection:
    """Which codemods run and with which options: the part of the settings that a worker needs.

    `options` maps a code to that codemod's options, all as text or plain TOML values.
    """

    codes: tuple[str, ...]
    options: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    load: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Override:
    """Rules that differ for some files: `paths` are glob patterns relative to `folder`, where the configuration lies.

    `select` and `ignore` narrow what the run selected; `options` win over the run's own.
    """

    folder: str
    paths: tuple[str, ...]
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    options: Mapping[str, Mapping[str, object]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Settings:
    """The effective settings of a run, from configuration files and flags.

    `select_from` and `ignore_from` are the configuration files that the words come from, None for the command line.
    `include_from` and `exclude_from` are the folders of the configuration files that the patterns come from and are
    relative to; None for patterns of the command line, which hold for a path as it is printed or seen from its root.
    `projects` are globs of folders, relative to `projects_from`, that are projects whatever lies in them.
    `only_projects` and `only_owners` narrow the run. `config_file` is the configuration file that counts for the whole
    run; `given` is what the command line sets, which wins over those of folders below, and None where none of these
    counts. `baseline` is the file with the findings that checks do not tell again.
    """

    paths: tuple[str, ...] = (".",)
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    options: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    load: tuple[str, ...] = ()
    min_torch: str | None = None
    jobs: int = 0
    timeout: float = 120.0
    max_size: int = 4 * 1024 * 1024
    gitignore: bool = True
    git: bool = True
    cache: bool = True
    include_stubs: bool = False
    include_generated: bool = False
    files_from: str | None = None
    changed_since: str | None = None
    max_changes: int | None = None
    overrides: tuple[Override, ...] = ()
    select_from: str | None = None
    ignore_from: str | None = None
    include_from: str | None = None
    exclude_from: str | None = None
    projects: tuple[str, ...] = ()
    projects_from: str | None = None
    only_projects: tuple[str, ...] = ()
    only_owners: tuple[str, ...] = ()
    config_file: str | None = None
    given: Mapping[str, object] | None = None
    baseline: str | None = None


@dataclass(frozen=True, slots=True)
class ScanCounts:
    """How many files a run saw: `seen` were offered by discovery, `looked_at` held a trigger and were parsed, `unread`
    could not be searched."""

    seen: int = 0
    looked_at: int = 0
    seconds: float = 0.0
    notes: tuple[str, ...] = ()
    unread: int = 0


class UsageError(Exception):
    """What was asked for cannot be done; the text says what and how to go on. Commands end with exit code 2."""
