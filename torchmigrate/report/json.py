"""The JSON contract: names, order and meaning of every key are fixed by `SCHEMA`; no times, no absolute paths."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from torchmigrate import __version__
from torchmigrate.model import FileError, Finding, Outcome, Safety, Span
from torchmigrate.report.summary import Summary, totals

SCHEMA = 1


def document(summary: Summary, diffs: Mapping[str, bytes] | None = None) -> dict[str, Any]:
    """The object that `check --format json` prints.

    With `diffs` (of `apply`), each finding also says whether it was taken, and each changed file carries its diff.
    """
    taken = {(f.path, f.key) for f in summary.taken}
    findings = []
    for found in summary.findings:
        decision = {} if diffs is None else {"decision": "accept" if (found.path, found.key) in taken else "decline"}
        findings.append(_finding(found) | decision)
    result: dict[str, Any] = {
        "schema": SCHEMA,
        "tool": {"name": "torchmigrate", "version": __version__},
        "findings": findings,
        "errors": [_error(error) for error in summary.errors],
        "totals": dict(totals(summary)),
    }
    if diffs is not None:
        result["diffs"] = [{"path": path, "diff": text.decode("utf-8", "replace")} for path, text in diffs.items()]
    return result


def dump(summary: Summary, diffs: Mapping[str, bytes] | None = None) -> str:
    """The document as text, with a final newline."""
    return json.dumps(document(summary, diffs), indent=2, ensure_ascii=True) + "\n"


def lines(summary: Summary, diffs: Mapping[str, bytes] | None = None) -> Iterator[str]:
    """The document as JSON lines: each finding, error and diff on its own line with a `type`, the totals at the end."""
    whole = document(summary, diffs)
    yield _line({"type": "run", "schema": whole["schema"], "tool": whole["tool"]})
    for kind in ("finding", "error", "diff"):
        yield from (_line({"type": kind} | one) for one in whole.get(f"{kind}s", ()))
    yield _line({"type": "totals"} | whole["totals"])


def _line(data: Mapping[str, Any]) -> str:
    return json.dumps(data, ensure_ascii=True, separators=(", ", ": ")) + "\n"


def finding_of(data: Mapping[str, Any]) -> Finding:
    """The finding that a document describes."""
    return Finding(
        path=data["path"],
        span=Span(data["line"], data["column"], data["end_line"], data["end_column"]),
        code=data["code"],
        name=data["name"],
        outcome=Outcome(data["outcome"]),
        safety=Safety(data["safety"]),
        message=data["message"],
        before=data["before"],
        after=data["after"],
        key=data["key"],
        group=data["group"],
        cell=data["cell"],
    )


def error_of(data: Mapping[str, Any]) -> FileError:
    """The error that a document describes."""
    return FileError(data["path"], data["line"], data["column"], data["code"], data["message"])


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "path": finding.path,
        "line": finding.span.line,
        "column": finding.span.column,
        "end_line": finding.span.end_line,
        "end_column": finding.span.end_column,
        "cell": finding.cell,
        "code": finding.code,
        "name": finding.name,
        "outcome": finding.outcome.value,
        "safety": finding.safety.value,
        "message": finding.message,
        "before": finding.before,
        "after": finding.after,
        "key": finding.key,
        "group": finding.group,
    }


def _error(error: FileError) -> dict[str, Any]:
    return {
        "path": error.path,
        "line": error.line,
        "column": error.column,
        "code": error.code,
        "message": error.message,
    }
