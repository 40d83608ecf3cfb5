"""SARIF 2.1.0 for code scanning: rules with help, results with fixes and fingerprints that outlive edits elsewhere.

Results describe the code as it is after the run: what was rewritten is left out, what a comment or a baseline silences
is kept and marked, so that code scanning does not open it again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from torchmigrate import __version__
from torchmigrate.model import IN_BASELINE, FileError, Finding, Hunk, Outcome
from torchmigrate.report.view import Item, Level, RuleText, Unit, View

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
FINGERPRINT = "torchmigrate/v1"
_LEVELS = {Outcome.REPORT: "warning", Outcome.REWRITE: "note"}


def dump(view: View) -> str:
    """The log as text, with a final newline."""
    return json.dumps(log(view), indent=2, ensure_ascii=True) + "\n"


def log(view: View) -> dict[str, Any]:
    """One run; for a fleet one run a repository, so that each can be uploaded by itself."""
    if view.kind == "repository":
        runs = [_run(view, [unit], unit.name, unit.status != "failed") for unit in view.units]
    else:
        runs = [_run(view, view.units, None, not view.failed)]
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": runs}


def _run(view: View, units: Sequence[Unit], name: str | None, successful: bool) -> dict[str, Any]:
    items = [item for unit in units for item in unit.items if item.level is not Level.DONE]
    errors = [error for unit in units for error in unit.errors]
    codes = {f.code: view.rule(f) for item in items for f in item.findings}
    rules = [codes[code] for code in sorted(codes)]
    index = {rule.code: number for number, rule in enumerate(rules)}
    driver: dict[str, Any] = {
        "name": "torchmigrate",
        "semanticVersion": __version__,
        "rules": [_rule(rule) for rule in rules],
    }
    kinds = sorted({error.code for error in errors})
    if kinds:
        driver["notifications"] = [{"id": code} for code in kinds]
    run: dict[str, Any] = {
        "tool": {"driver": driver},
        "invocations": [
            {
                "executionSuccessful": successful and view.complete,
                "toolExecutionNotifications": [_notification(error, kinds.index(error.code)) for error in errors],
            }
        ],
        "columnKind": "unicodeCodePoints",
        "results": [result for item in items for result in _results(item, index)],
    }
    if name is not None:
        run["automationDetails"] = {"id": f"torchmigrate/{name}/"}
    return run


def _rule(rule: RuleText) -> dict[str, Any]:
    text = "\n\n".join([rule.title + ".", *rule.paragraphs])
    found: dict[str, Any] = {
        "id": rule.code,
        "name": rule.name,
        "shortDescription": {"text": rule.title},
        "fullDescription": {"text": (rule.paragraphs or [rule.title])[0]},
        "help": {"text": text},
        "defaultConfiguration": {"level": "warning"},
        "properties": {"tags": [tag for tag in ("pytorch", rule.area) if tag]},
    }
    if rule.link:
        found["helpUri"] = rule.link
    return found


def _results(item: Item, index: Mapping[str, int]) -> Iterator[dict[str, Any]]:
    fixes = list(_fixes(item))
    for finding in item.findings:
        result: dict[str, Any] = {
            "ruleId": finding.code,
            "ruleIndex": index[finding.code],
            "level": _LEVELS[finding.outcome],
            "message": {"text": finding.message or finding.name},
            "locations": [_location(finding)],
            "partialFingerprints": {FINGERPRINT: finding.key},
        }
        if finding.suppressed is not None:
            suppression = {"kind": "external" if finding.suppressed == IN_BASELINE else "inSource"}
            if finding.suppressed:
                suppression["justification"] = finding.suppressed
            result["suppressions"] = [suppression]
        if item.is_new is not None:
            result["baselineState"] = "new" if item.is_new else "unchanged"
        if fixes:
            result["fixes"] = fixes
        properties = {"safety": finding.safety.value, "group": finding.group, "cell": finding.cell}
        result["properties"] = {name: value for name, value in properties.items() if value is not None}
        yield result


def _location(finding: Finding) -> dict[str, Any]:
    """Where a finding lies in its file; in a notebook that is a place in the JSON, so the cell is named as well."""
    span = finding.span
    physical = {
        "artifactLocation": {"uri": uri(finding.path)},
        "region": {
            "startLine": span.line,
            "startColumn": span.column,
            "endLine": span.end_line,
            "endColumn": span.end_column,
        },
    }
    if finding.cell is None:
        return {"physicalLocation": physical}
    return {"physicalLocation": physical, "logicalLocations": [{"name": f"cell {finding.cell}"}]}


def _notification(error: FileError, index: int) -> dict[str, Any]:
    physical: dict[str, Any] = {"artifactLocation": {"uri": uri(error.path)}}
    if error.line:
        physical["region"] = {"startLine": error.line} | ({"startColumn": error.column} if error.column else {})
    return {
        "descriptor": {"id": error.code, "index": index},
        "level": "error",
        "message": {"text": error.message},
        "locations": [{"physicalLocation": physical}],
    }


def uri(path: str) -> str:
    """A path as a URI reference: relative where the path is."""
    quoted = quote(os.fsencode(path))
    return f"file://{quoted}" if path.startswith("/") else quoted


def _fixes(item: Item) -> Iterator[dict[str, Any]]:
    """The answers to an item, the proposed one first; one that cannot be told exactly is left out."""
    if not item.is_whole:
        return
    offered = [(item.first.message, item.hunks)] if item.hunks else []
    offered += [(f"{choice.label}: {choice.evidence}", hunks) for choice, hunks in item.others]
    for text, hunks in offered:
        replacements = [_replacement(*block) for hunk in hunks for block in blocks(hunk)]
        exact = [one for one in replacements if one is not None]
        if replacements and len(exact) == len(replacements):
            change = {"artifactLocation": {"uri": uri(item.first.path)}, "replacements": exact}
            yield {"description": {"text": text}, "artifactChanges": [change]}


Block = tuple[int, tuple[bytes, ...], tuple[bytes, ...]]
"""A 0-based line of the old file, the lines that go there, and the lines that come."""


def blocks(hunk: Hunk) -> list[Block]:
    """What a hunk changes, without its context."""
    found: list[Block] = []
    at = start = hunk.old_start
    old: list[bytes] = []
    new: list[bytes] = []
    for line in (*hunk.lines, b" "):
        if line.startswith(b"-"):
            old.append(line[1:])
            at += 1
        elif line.startswith(b"+"):
            new.append(line[1:])
        else:
            if old or new:
                found.append((start, tuple(old), tuple(new)))
            old, new = [], []
            at += 1
            start = at
    return found


def _replacement(start: int, old: Sequence[bytes], new: Sequence[bytes]) -> dict[str, Any] | None:
    """Whole lines replaced; None for text that is no UTF-8 or holds a byte order mark, which viewers count apart."""
    try:
        texts = [line.decode("utf-8") for line in (*old, *new)]
    except UnicodeDecodeError:
        return None
    if any(text.startswith("\ufeff") for text in texts):
        return None
    last = texts[len(old) - 1] if old else "\n"
    whole = last.endswith("\n")
    region = {
        "startLine": start + 1,
        "startColumn": 1,
        "endLine": start + len(old) + (1 if whole else 0),
        "endColumn": 1 if whole else len(last) + 1,
    }
    found: dict[str, Any] = {"deletedRegion": region}
    if new:
        found["insertedContent"] = {"text": "".join(texts[len(old) :])}
    return found
