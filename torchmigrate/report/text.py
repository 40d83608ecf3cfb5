"""What people read: one line per finding, and the summary of a run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from torchmigrate.model import IN_BASELINE, FileError, Finding, Project, Safety
from torchmigrate.report.summary import Summary, count

_NAMED_PROJECTS = 5


def plural(number: int, noun: str, plural_noun: str | None = None) -> str:
    """`1 file`, `2 files`, `1,234 files`."""
    return f"{number:,} {noun if number == 1 else plural_noun or noun + 's'}"


def place(finding: Finding) -> str:
    """`path:line:col`, with the cell for a notebook, as compilers print it."""
    cell = f":cell {finding.cell}" if finding.cell is not None else ""
    return f"{finding.path}{cell}:{finding.span.line}:{finding.span.column}"


def finding_line(finding: Finding) -> str:
    """One finding on one line."""
    return one_line(f"{place(finding)}: {finding.code} {finding.safety.value}: {finding.message}")


def error_line(error: FileError) -> str:
    """One error on one line."""
    at = "".join(f":{number}" for number in (error.line, error.column) if number is not None)
    return one_line(f"{error.path}{at}: {error.code} {error.message}")


def one_line(text: str) -> str:
    """The text without characters that would break the line or reach for the terminal."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def findings(summary: Summary) -> Iterator[str]:
    """All findings and errors, one per line, in order of path and position."""
    rows: list[tuple[str, int, int, int, str]] = [
        (f.path, f.cell or 0, f.span.line, f.span.column, finding_line(f)) for f in summary.findings
    ]
    rows += [(e.path, 0, e.line or 0, e.column or 0, error_line(e)) for e in summary.errors]
    return (row[-1] for row in sorted(rows))


def attention(summary: Summary) -> Iterator[str]:
    """What a person has to look at: reports and errors."""
    yield from (finding_line(f) for f in summary.manual)
    yield from (error_line(e) for e in summary.errors)


def outcome(summary: Summary, *, verbose: bool = False) -> Iterator[str]:
    """The summary of a dry run or of a run that wrote."""
    if not summary.written:
        lines = list(attention(summary))
        yield from lines
        if lines:
            yield ""
    taken, files = summary.taken, len(summary.changed)
    if summary.written:
        head = f"Wrote {plural(files, 'file')}, {plural(count(taken), 'change')}" if files else "Wrote nothing"
    elif files:
        head = f"Would change {plural(files, 'file')}: {_by_safety(taken)}"
    else:
        head = "Would change nothing"
    yield head + _hidden(summary)
    yield from table(summary)
    yield from _left(summary)
    if summary.written and summary.manual:
        yield f"{_people(summary)}:"
        yield from (f"  {finding_line(f)}" for f in summary.manual)
    if summary.written:
        yield from (error_line(e) for e in summary.errors)
    remaining = [] if summary.written or not summary.manual else [_people(summary) + "."]
    remaining += [f"{plural(len(summary.unread), 'file')} could not be processed."] if summary.unread else []
    if remaining:
        yield " ".join(remaining)
    yield from closing(summary, verbose=verbose)


def checked(summary: Summary, *, verbose: bool = False) -> Iterator[str]:
    """The summary of a check, whose findings were printed before."""
    found = summary.findings
    if found:
        files = len({f.path for f in found})
        yield f"Found {plural(len(found), 'place')} in {plural(files, 'file')}: {_levels(found)}"
    else:
        yield "Found nothing to migrate"
    if summary.unread:
        yield f"{plural(len(summary.unread), 'file')} could not be processed."
    yield from closing(summary, verbose=verbose)


def table(summary: Summary) -> Iterator[str]:
    """One line per rule whose changes were taken."""
    rows = [
        (f"{r.code} {r.name}", plural(r.changes, "change"), plural(r.files, "file"), r.safety) for r in summary.rules
    ]
    widths = [max(len(row[i]) for row in rows) for i in range(3)] if rows else []
    for row in rows:
        yield "  " + "   ".join([*(cell.ljust(width) for cell, width in zip(row[:3], widths, strict=True)), row[3]])


def closing(summary: Summary, *, verbose: bool = False) -> Iterator[str]:
    """How much was looked at, and which torch the code must keep running on."""
    if verbose:
        yield from (f"{finding_line(f)} (ignored: {f.suppressed or 'no reason given'})" for f in summary.suppressed)
    elif summary.suppressed:
        known = sum(f.suppressed == IN_BASELINE for f in summary.suppressed)
        by_comments = len(summary.suppressed) - known
        parts = [f"{plural(by_comments, 'place')} ignored by comments"] if by_comments else []
        parts += [f"{plural(known, 'place')} in the baseline"] if known else []
        yield f"{', '.join(parts)} (-v shows them)."
    yield from (one_line(note) for note in summary.counts.notes)
    yield from _bounds(summary.projects)
    counts = summary.counts
    skipped = counts.seen - counts.looked_at - counts.unread
    why = f" ({skipped:,} {'mentions' if skipped == 1 else 'mention'} none of the APIs)" if skipped > 0 else ""
    yield f"Looked at {counts.looked_at:,} of {plural(counts.seen, 'file')}{why}, {counts.seconds:.1f} s."


def _people(summary: Summary) -> str:
    number = len(summary.manual)
    return f"{plural(number, 'place')} {'needs' if number == 1 else 'need'} a person"


def _by_safety(taken: Sequence[Finding]) -> str:
    parts = [(level, [f for f in taken if f.safety is level]) for level in (Safety.SAFE, Safety.UNSAFE, Safety.MANUAL)]
    return " and ".join(plural(count(found), f"{level.value} change") for level, found in parts if found)


def _levels(found: Sequence[Finding]) -> str:
    numbers = {level: sum(f.safety is level for f in found) for level in Safety}
    return ", ".join(f"{number:,} {level.value}" for level, number in numbers.items() if number)


def _hidden(summary: Summary) -> str:
    hidden = summary.hidden
    if not hidden:
        return ""
    where = sorted({f.path for f in hidden})
    named = f"in {one_line(where[0])}" if len(where) == 1 else f"in {plural(len(where), 'file')}"
    verb = "left" if summary.written else "not shown"
    return f" ({plural(count(hidden), 'unsafe change')} {verb}, {named}: add --unsafe)"


def _left(summary: Summary) -> Iterator[str]:
    hidden = {(f.path, f.key) for f in summary.hidden}
    left = [f for f in summary.left if (f.path, f.key) not in hidden]
    if left:
        yield f"{plural(count(left), 'change')} left in {plural(len({f.path for f in left}), 'file')}."


def _bounds(projects: Iterable[Project]) -> Iterator[str]:
    """The oldest torch of each project, with where it was read; once when all agree."""
    ordered = sorted(projects, key=lambda project: project.root)
    kinds = {(p.torch_min, _source(p)) for p in ordered}
    if len(kinds) == 1:
        ((version, source),) = kinds
        yield f"The code must run on torch {version} and later ({source})."
    elif kinds:
        yield "The code must run on these versions of torch and later:"
        yield from (f"  {p.torch_min} in {p.root} ({_source(p)})" for p in ordered[:_NAMED_PROJECTS])
        if len(ordered) > _NAMED_PROJECTS:
            yield f"  and {plural(len(ordered) - _NAMED_PROJECTS, 'more project')}"


def _source(project: Project) -> str:
    """Where the bound was read, as seen from the current folder."""
    source = project.torch_min_source
    if source == "default":
        return "no project metadata says otherwise; --min-torch does"
    inside = project.root not in ("", ".") and not source.startswith("-")
    return f"{project.root}/{source}" if inside else source


def label(accepted: Sequence[Finding]) -> str:
    """The changes of one hunk, for its header: each code and name once, in order, with unsafe ones marked."""
    seen: dict[str, bool] = {}
    for finding in accepted:
        name = f"{finding.code} {finding.name}"
        seen[name] = seen.get(name, False) or finding.safety is Safety.UNSAFE
    return ", ".join(f"{name} (unsafe)" if unsafe else name for name, unsafe in seen.items())
