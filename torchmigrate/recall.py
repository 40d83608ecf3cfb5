"""What is remembered of a review: its settings, and which answers still hold when a file comes up again."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from torchmigrate.drafts import Draft
from torchmigrate.journal import Answer, Run
from torchmigrate.model import Decision, FileResult, Finding, Override, Settings, Verdict
from torchmigrate.review import Given


def plain(settings: Settings, *, yes_safe: bool, allow_dirty: bool) -> dict[str, Any]:
    """Settings as JSON, for the journal."""
    return dataclasses.asdict(settings) | {"yes_safe": yes_safe, "allow_dirty": allow_dirty}


def from_plain(values: Mapping[str, Any]) -> tuple[Settings, bool, bool]:
    """Settings from a journal, and the flags `yes_safe` and `allow_dirty`."""
    names = {one.name for one in dataclasses.fields(Settings)}
    made: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in values.items() if name in names}
    overrides = []
    for one in made.get("overrides", ()):
        fields: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in one.items()}
        overrides.append(Override(**fields))
    settings = Settings(**{**made, "overrides": tuple(overrides)})
    return settings, bool(values.get("yes_safe")), bool(values.get("allow_dirty"))


def offers(findings: Iterable[Finding]) -> dict[str, str]:
    """A fingerprint, by decision key, of what is asked: the code before and after, the choices, how often equal code
    stands in the same scope. An answer holds for a changed file only where this is the same."""
    by_key: dict[str, list[Finding]] = {}
    for finding in findings:
        if finding.suppressed is None:
            by_key.setdefault(finding.decision_key, []).append(finding)
    alike = Counter(stem(key) for key in by_key)
    return {
        key: hashlib.blake2b(
            repr(
                (alike[stem(key)], [(f.before, f.after, f.safety, [c.label for c in f.choices]) for f in found])
            ).encode("utf-8", "surrogatepass"),
            digest_size=8,
        ).hexdigest()
        for key, found in by_key.items()
    }


def stem(key: str) -> str:
    """A decision key without the number that tells equal code in one scope apart."""
    return key.rpartition(":")[0]


def answer(path: str, key: str, given: Given, digest: str, offer: str) -> Answer:
    """An answer as the journal keeps it."""
    edited = json.dumps([dataclasses.asdict(draft) for draft in given.drafts]) if given.drafts else None
    return Answer(path, key, given.decision, edited, digest, offer)


def left(before: FileResult, given: Mapping[str, Given], after: FileResult, digest: str) -> list[Answer]:
    """The answers that hold for what a written file still asks about: what was declined before it was written.

    Equal code in one scope is told apart by its order, and only where as many places are left as were not taken.
    """
    gone = {f.decision_key for f in before.findings if f.key in before.accepted and not _drafted(given, f.decision_key)}
    old, new = _by_stem(before, gone), _by_stem(after, set())
    fingerprints = offers(after.findings)
    found = []
    for name, keys in new.items():
        for candidates in (old.get(name, []), [k for k in old.get(name, []) if not _drafted(given, k)]):
            if len(candidates) == len(keys):
                found += [
                    answer(after.path, key, Given(Decision(Verdict.DECLINE)), digest, fingerprints[key])
                    for key, was in zip(keys, candidates, strict=True)
                    if _drafted(given, was) or (was in given and given[was].decision.verdict is not Verdict.ACCEPT)
                ]
                break
    return found


def _drafted(given: Mapping[str, Given], key: str) -> bool:
    return key in given and bool(given[key].drafts)


def _by_stem(result: FileResult, without: set[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for key in dict.fromkeys(f.decision_key for f in result.findings if f.suppressed is None):
        if key not in without:
            found.setdefault(stem(key), []).append(key)
    for keys in found.values():
        keys.sort(key=_occurrence)
    return found


def _occurrence(key: str) -> int:
    return int(key.rpartition(":")[2].partition("+")[0])


class Memories:
    """What earlier parts of a review decided, asked for when a file comes up again."""

    def __init__(self, run: Run | None) -> None:
        self._answers: dict[tuple[str, str], dict[str, Answer]] = {}
        self._states: Mapping[str, str] = run.states if run else {}
        for one in run.answers if run else ():
            self._answers.setdefault((one.path, one.digest), {})[one.key] = one

    def of(self, result: FileResult) -> dict[str, Given]:
        """The answers that hold for a file: those given to the same offers, about this content or the last one known.

        What a reviewer wrote holds only for the content that it was written for.
        """
        same = self._answers.get((result.path, result.digest))
        last = self._states.get(result.path, "")
        found = self._answers.get((result.path, last), {}) if same is None else same
        if not found:
            return {}
        asked = offers(result.findings)
        return {
            key: given(one)
            for key, one in found.items()
            if asked.get(key) == one.offer and (same is not None or one.edited is None)
        }


def given(answer: Answer) -> Given:
    """The answer that a journal kept."""
    drafts: Sequence[Draft] = [Draft(**one) for one in json.loads(answer.edited)] if answer.edited else ()
    return Given(answer.decision, tuple(drafts))
