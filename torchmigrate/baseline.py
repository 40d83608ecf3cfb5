"""A baseline: the findings of one day, by content, so that later checks ask only about what came since.

The file is JSON with one finding a line, so that it can be kept in a repository and its diffs be read. Paths in it are
relative to the folder that it lies in.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import replace

from torchmigrate.model import IN_BASELINE, FileResult, UsageError

SCHEMA = 1
Entry = tuple[str, str]


def entries(results: Iterable[FileResult], folder: str) -> frozenset[Entry]:
    """What a baseline in a folder holds of some results; what comments silence is not in it."""
    return frozenset((_name(r.path, folder), f.key) for r in results for f in r.findings if f.suppressed is None)


def dump(held: Iterable[Entry]) -> str:
    """The text of a baseline."""
    lines = ",\n".join("    " + json.dumps({"path": path, "key": key}) for path, key in sorted(held))
    body = f"[\n{lines}\n  ]" if lines else "[]"
    return f'{{\n  "schema": {SCHEMA},\n  "findings": {body}\n}}\n'


def code_of(entry: Entry) -> str:
    """The code of the rule that a finding in a baseline is of."""
    return entry[1].partition(":")[0]


def read(file: str) -> frozenset[Entry]:
    """What a baseline holds. Raises UsageError."""
    try:
        with open(file, encoding="utf-8") as opened:
            text = opened.read()
        if not text.strip():
            raise ValueError("it is empty")
        return _held(json.loads(text))
    except OSError as error:
        raise UsageError(f"cannot read the baseline {file}: {error.strerror or error}") from None
    except ValueError as error:
        raise UsageError(f"{file} is no baseline ({error})") from None


def _held(document: object) -> frozenset[Entry]:
    """Raises ValueError."""
    if not isinstance(document, dict) or not {"schema", "findings"} <= document.keys():
        raise ValueError("it must hold an object with schema and findings")
    if document["schema"] != SCHEMA:
        raise ValueError(f"its schema is {json.dumps(document['schema'])}, but this version knows {SCHEMA} alone")
    found = set()
    for one in document["findings"] if isinstance(document["findings"], list) else (None,):
        path, key = (one.get("path"), one.get("key")) if isinstance(one, dict) else (None, None)
        if not isinstance(path, str) or not isinstance(key, str):
            raise ValueError("its findings must be a list of objects, each with a path and a key")
        found.add((path, key))
    return frozenset(found)


class Baseline:
    """A baseline that was read. Raises UsageError."""

    def __init__(self, file: str) -> None:
        self._folder = os.path.dirname(os.path.realpath(file))
        try:
            self._entries = read(file)
        except UsageError as error:
            raise UsageError(f"{error}; torchmigrate baseline writes one") from None
        self._met: set[Entry] = set()

    def mark(self, result: FileResult) -> FileResult:
        """The result with the findings of the baseline silenced; of those that go together all or none are."""
        name = _name(result.path, self._folder)
        told = {finding.decision_key for finding in result.findings if (name, finding.key) not in self._entries}
        findings = []
        for finding in result.findings:
            entry = (name, finding.key)
            if finding.suppressed is None and entry in self._entries:
                self._met.add(entry)
                if finding.decision_key not in told:
                    finding = replace(finding, suppressed=IN_BASELINE)
            findings.append(finding)
        return replace(result, findings=tuple(findings))

    @property
    def gone(self) -> int:
        """How many of its findings no result held."""
        return len(self._entries - self._met)


def _name(path: str, folder: str) -> str:
    return os.path.relpath(os.path.realpath(path), folder).replace(os.sep, "/")
