"""Workflow commands that GitHub shows as annotations at the changed lines of a pull request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from torchmigrate.model import FileError, Finding, Outcome
from torchmigrate.report.summary import Summary
from torchmigrate.report.view import Level, View

LIMIT = 50
"""Annotations printed; GitHub drops what goes beyond its own limits without a word, so we say what is left."""


def commands(summary: Summary) -> Iterator[str]:
    """One command an error or a finding that is not done, errors first; the last one counts what is left out."""
    done = {(f.path, f.key) for f in summary.taken} if summary.written else set()
    found = [finding for finding in summary.findings if (finding.path, finding.key) not in done]
    return _capped([*map(_error, summary.errors), *map(_finding, found)], "torchmigrate check")


def commands_of(view: View) -> Iterator[str]:
    """The same for a fleet; what is done or ignored is left out, and paths begin with the repository."""
    lines: list[str] = []
    for unit in view.units:
        if unit.status == "failed":
            lines.append(_command("error", unit.name, None, None, None, "torchmigrate", "; ".join(unit.notes[:1])))
        lines += (_error(replace(error, path=f"{unit.name}/{error.path}")) for error in unit.errors)
    for unit in view.units:
        for item in unit.items:
            if item.level not in (Level.DONE, Level.IGNORED):
                lines += (_finding(replace(found, path=f"{unit.name}/{found.path}")) for found in item.findings)
    return _capped(lines, "torchmigrate bulk --format json")


def _capped(lines: Sequence[str], command: str) -> Iterator[str]:
    yield from lines[:LIMIT]
    if len(lines) > LIMIT:
        yield f"::notice title=torchmigrate::and {len(lines) - LIMIT} more; run {command} to see all"


def _error(error: FileError) -> str:
    return _command("error", error.path, error.line, error.column, None, error.code, error.message)


def _finding(found: Finding) -> str:
    level = "warning" if found.outcome is Outcome.REPORT else "notice"
    span = found.span
    return _command(level, found.path, span.line, span.column, span.end_line, found.code, found.message)


def _command(
    level: str, path: str, line: int | None, column: int | None, end_line: int | None, title: str, message: str
) -> str:
    properties = {"file": path, "line": line, "col": column, "endLine": end_line, "title": title}
    listed = ",".join(f"{name}={_property(str(value))}" for name, value in properties.items() if value is not None)
    return f"::{level} {listed}::{_text(message)}"


def _text(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _text(text).replace(":", "%3A").replace(",", "%2C")
