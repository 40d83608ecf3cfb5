"""The reports of a run: formats for other tools, the page for people, and progress since an earlier report."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import click

from torchmigrate.model import Policy, UsageError
from torchmigrate.report.summary import Summary

if TYPE_CHECKING:
    from torchmigrate.report.compare import Key, Progress
    from torchmigrate.report.view import RuleText, View

F = TypeVar("F", bound=Callable[..., Any])

FORMS = ("text", "json", "jsonl", "sarif", "github", "markdown")
_VIEWED = ("sarif", "markdown")
"""Formats that show each change by itself and say what its rule says."""


def report_flags(function: F) -> F:
    """Flags about reports."""
    for decorator in (
        click.option("--compare", metavar="FILE", help="Tell what became of the places in an earlier JSON report."),
        click.option("--html", metavar="FILE", help="Also write a page for people, complete in one file."),
        click.option("--format", "form", type=click.Choice(FORMS), default="text", help="What to print."),
    ):
        function = decorator(function)
    return function


class Reports:
    """What reports a run is to make. Made before the run, so that what cannot be done is said at once.

    Raises UsageError where a report cannot be made.
    """

    def __init__(self, form: str, html: str | None, compare: str | None, load: Iterable[str] = ()) -> None:
        self.form = form
        self.html = html
        self._compare = compare
        self._load = tuple(load)
        self._view: View | None = None
        self._earlier: Mapping[Key, str] = {}
        if compare:
            from torchmigrate.report import compare as comparing

            self._earlier = comparing.read(compare)
        if html:
            from torchmigrate.report import html as pages

            pages.check()

    @property
    def reads_fleet(self) -> bool:
        """Whether more than the format is asked for."""
        return bool(self.html or self._compare)

    def policy(self, policy: Policy) -> Policy:
        """The policy of a run whose results these reports can show."""
        return replace(policy, propose=True) if self.html or self.form in _VIEWED else policy

    def text(self, summary: Summary, diffs: Mapping[str, bytes] | None = None) -> str | None:
        """What goes to stdout; None for the text format. `diffs` are those of `apply`."""
        if self.form in ("json", "jsonl"):
            from torchmigrate.report import json

            return json.dump(summary, diffs) if self.form == "json" else "".join(json.lines(summary, diffs))
        if self.form == "github":
            from torchmigrate.report import github

            return "".join(f"{line}\n" for line in github.commands(summary))
        return self._viewed(self.view(summary)) if self.form in _VIEWED else None

    def write(self, summary: Summary) -> list[str]:
        """Write the page, if one was asked for; what to say on stderr. Raises UsageError where it cannot be written."""
        return self._write(lambda: self.view(summary), self.progress(summary))

    def view(self, summary: Summary) -> View:
        """The run as readers meet it."""
        from torchmigrate.owners import Ownership
        from torchmigrate.report import view

        if self._view is None:
            self._view = view.of_run(
                summary,
                rule_texts(self._load),
                root_of=lambda path: summary.roots.get(path, os.curdir),
                owners_of=Ownership().of,
                progress=self.progress(summary),
            )
        return self._view

    def progress(self, summary: Summary) -> Progress | None:
        """How things stand against the earlier report."""
        done = {(f.path, f.key) for f in summary.taken} if summary.written else set()
        return self._progress({("", f.path, f.key): f.code for f in summary.findings if (f.path, f.key) not in done})

    def fleet_text(self, document: Mapping[str, Any], *, written: bool) -> str | None:
        """What goes to stdout for a fleet's result; None for the formats that need no view of it."""
        if self.form == "github":
            from torchmigrate.report import github

            return "".join(f"{line}\n" for line in github.commands_of(self.fleet_view(document, written=written)))
        return self._viewed(self.fleet_view(document, written=written)) if self.form in _VIEWED else None

    def fleet_write(self, document: Mapping[str, Any], *, written: bool) -> list[str]:
        """Write the page of a fleet, if one was asked for; what to say on stderr."""
        return self._write(
            lambda: self.fleet_view(document, written=written), self._fleet_progress(document, written=written)
        )

    def fleet_view(self, document: Mapping[str, Any], *, written: bool) -> View:
        """A fleet's result as readers meet it. With `written`, what was taken is done."""
        from torchmigrate.report import view

        if self._view is None:
            progress = self._fleet_progress(document, written=written)
            self._view = view.of_fleet(document, rule_texts(self._load), written=written, progress=progress)
        return self._view

    def _fleet_progress(self, document: Mapping[str, Any], *, written: bool) -> Progress | None:
        return self._progress(
            {
                (one["name"], f["path"], f["key"]): f["code"]
                for one in document["repositories"]
                for f in one["findings"]
                if not (written and f.get("decision") == "accept")
            }
        )

    def _progress(self, now: Mapping[Key, str]) -> Progress | None:
        if not self._compare:
            return None
        from torchmigrate.report.compare import Progress

        kinds = {bool(name) for name, _, _ in [*self._earlier, *now]}
        if len(kinds) > 1:
            raise UsageError(f"{self._compare} is of another kind: compare a fleet with a fleet, a run with a run")
        return Progress(self._compare, self._earlier, now)

    def _viewed(self, view: View) -> str:
        if self.form == "sarif":
            from torchmigrate.report import sarif

            return sarif.dump(view)
        from torchmigrate.report import markdown

        return markdown.render(view)

    def _write(self, view: Callable[[], View], progress: Progress | None) -> list[str]:
        said = [str(progress)] if progress else []
        if self.html:
            from torchmigrate.report import html

            create(self.html, html.encoded(html.render(view())))
            said.append(f"Wrote the report to {self.html}.")
        return said


def rule_texts(load: Iterable[str] = ()) -> dict[str, RuleText]:
    """What every rule says of itself, by code."""
    import inspect

    from torchmigrate import registry
    from torchmigrate.report.view import RuleText

    return {
        rule.code: RuleText(rule.code, rule.name, rule.area, inspect.cleandoc(rule.__doc__ or ""), rule.reference)
        for rule in registry.load(tuple(load)).codemods
    }


def breakdown(summary: Summary) -> list[str]:
    """The run by project and by owner, where there are several."""
    from torchmigrate.owners import Ownership
    from torchmigrate.report import breakdown as tables

    return list(tables.lines(summary, lambda path: summary.roots.get(path, os.curdir), Ownership().of))


def create(path: str, content: bytes) -> None:
    """Write a report. Raises UsageError where it cannot be written."""
    from pathlib import Path

    from torchmigrate import write

    try:
        write.create(Path(path), content)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror or error}") from None
