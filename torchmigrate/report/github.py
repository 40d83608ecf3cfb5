"""Workflow commands that GitHub shows as annotations at the changed lines of a pull request."""

from __future__ import annotations

from collections.abc import Iterator

from torchmigrate.model import Outcome
from torchmigrate.report.summary import Summary

LIMIT = 50
"""Annotations printed; GitHub drops what goes beyond its own limits without a word, so we say what is left."""


def commands(summary: Summary) -> Iterator[str]:
    """One command per error and finding, errors first, and a last one that counts what the limit leaves out."""
    lines = list(_all(summary))
    yield from lines[:LIMIT]
    if len(lines) > LIMIT:
        yield f"::notice title=torchmigrate::and {len(lines) - LIMIT} more; run torchmigrate check to see all"


def _all(summary: Summary) -> Iterator[str]:
    for error in summary.errors:
        yield _command("error", error.path, error.line, error.column, None, error.code, error.message)
    for found in summary.findings:
        level = "warning" if found.outcome is Outcome.REPORT else "notice"
        span = found.span
        line, column, end = (None, None, None) if found.cell is not None else (span.line, span.column, span.end_line)
        yield _command(level, found.path, line, column, end, found.code, found.message)


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
