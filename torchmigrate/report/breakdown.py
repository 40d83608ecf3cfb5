"""A run by project and by owner, for people who hand the work out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from torchmigrate.report.summary import Summary, count
from torchmigrate.report.text import one_line

NOBODY = "unowned"
MOST = 20
"""Lines of one table; the rest is one line more."""


@dataclass(frozen=True, slots=True)
class Row:
    """What one project or owner has: changes that were or would be written, places that are left, files with errors."""

    name: str
    changes: int = 0
    left: int = 0
    errors: int = 0


def lines(
    summary: Summary, root_of: Callable[[str], str], owners_of: Callable[[str], tuple[str, ...]]
) -> Iterator[str]:
    """The tables, each only where it has more than one line. A file of several owners counts for the first."""
    by_project = rows(summary, lambda path: root_of(path) or ".")
    by_owner = rows(summary, lambda path: next(iter(owners_of(path)), NOBODY))
    for title, table in (("project", by_project), ("owner", by_owner)):
        if len(table) > 1:
            yield from _table(title, table)


def rows(summary: Summary, group_of: Callable[[str], str]) -> list[Row]:
    """One row a group, those with the most to do first."""
    taken = {(f.path, f.key) for f in summary.taken}
    unread = frozenset(summary.unread)
    changes: dict[str, list[int]] = {}
    for result in summary.results:
        findings = [f for f in result.findings if f.suppressed is None]
        mine = [f for f in findings if (f.path, f.key) in taken]
        has_errors = result.path in unread
        if findings or has_errors:
            numbers = changes.setdefault(group_of(result.path), [0, 0, 0])
            numbers[0] += count(mine)
            numbers[1] += len(findings) - len(mine)
            numbers[2] += has_errors
    found = [Row(name, *numbers) for name, numbers in changes.items()]
    return sorted(found, key=lambda row: (-row.changes - row.left, -row.errors, row.name))


def _table(title: str, table: list[Row]) -> Iterator[str]:
    shown = table[:MOST]
    width = max(len(title), *(len(one_line(row.name)) for row in shown))
    yield f"{title:{width}}  {'changes':>7}  {'left':>6}  {'errors':>6}"
    for row in shown:
        yield f"{one_line(row.name):{width}}  {row.changes:7,}  {row.left:6,}  {row.errors:6,}"
    if len(table) > MOST:
        rest = table[MOST:]
        names = f"and {len(rest):,} more"
        sums = (sum(r.changes for r in rest), sum(r.left for r in rest), sum(r.errors for r in rest))
        yield f"{names:{width}}  {sums[0]:7,}  {sums[1]:6,}  {sums[2]:6,}"
