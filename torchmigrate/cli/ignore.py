"""`ignore`: silences what is left by comments, so that only what comes later is found."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import click

from torchmigrate import journal, runs
from torchmigrate.cli import options, patches, terminal
from torchmigrate.cli.apply import refuse_dirty
from torchmigrate.cli.running import Stop, run_all
from torchmigrate.cli.sections import Command
from torchmigrate.migration import Migration
from torchmigrate.model import LOOK, Decision, FileResult, Policy, Verdict
from torchmigrate.report import text
from torchmigrate.report.summary import DONE, FAILED, INTERRUPTED, PENDING, Summary, count


@click.command(cls=Command)
@click.option("--allow-dirty", is_flag=True, help="Write files that hold uncommitted edits too.")
@click.option("-n", "--dry-run", is_flag=True, help="Show what would be written, write nothing.")
@options.selection
@options.files
@options.engine
@options.talk
def ignore(dry_run: bool, allow_dirty: bool, quiet: bool, verbose: bool, exit_zero: bool, **given: Any) -> int:
    """Put a comment at every place that the rules of --select find, so that it is found no more.

    The comments say `# torchmigrate: ignore[CODE]`; what they silence is counted in every later run.
    """
    if not given["select"]:
        raise click.UsageError("name the rules whose places are to be ignored with --select")
    if quiet and verbose:
        raise click.UsageError("--quiet and --verbose contradict each other")
    if "-" in given["paths"] or given["stdin_filename"]:
        raise click.UsageError("the path - cannot be written to")
    settings, _ = options.settings(given)
    ran = run_all(settings, LOOK, quiet=quiet, narrow=_silenced)
    summary = Summary(ran.results, ran.counts, ran.projects, interrupted=ran.interrupted)
    if ran.interrupted:
        terminal.say(["interrupted; nothing was written"])
        return INTERRUPTED
    if dry_run:
        terminal.data(patches.patch(r, context=3, use_git=settings.git) for r in summary.changed)
    elif settings.git and not allow_dirty:
        refuse_dirty([result.path for result in summary.changed])
    notes: list[str] = []
    if summary.changed and not dry_run:
        summary, notes = _write(summary, settings.paths)
    return _conclude(summary, notes, dry_run=dry_run, quiet=quiet, verbose=verbose, exit_zero=exit_zero)


def _silenced(migration: Migration, results: Sequence[FileResult]) -> list[FileResult]:
    """The results with a comment at every place that none silences yet."""
    found = []
    for result in results:
        keys = dict.fromkeys(f.decision_key for f in result.findings if f.suppressed is None)
        decisions = dict.fromkeys(keys, Decision(Verdict.SUPPRESS))
        found.append(migration.process_one(result.path, Policy(decisions=decisions)) if keys else result)
    return found


def _write(summary: Summary, paths: Sequence[str]) -> tuple[Summary, list[str]]:
    from dataclasses import replace

    journal.sweep()
    log = journal.Journal.start("apply", os.curdir, settings={"paths": list(paths)})
    edits = [
        runs.Edit(r.path, r.before, r.after) for r in summary.changed if r.before is not None and r.after is not None
    ]
    with Stop() as stop:
        outcomes = list(runs.replace_all(log, edits, stop))
    log.close()
    done = {outcome.path for outcome in outcomes if not outcome.error}
    results = [
        r if r.after is None or r.path in done else replace(r, before=None, after=None, accepted=frozenset())
        for r in summary.results
    ]
    failures = [outcome.error for outcome in outcomes if outcome.error]
    notes = [outcome.note for outcome in outcomes if outcome.note]
    notes += [f"Undo with: torchmigrate undo {log.run}"] if done else []
    return replace(summary, results=results, written=True, failures=failures, interrupted=stop()), notes


def _conclude(
    summary: Summary, notes: Sequence[str], *, dry_run: bool, quiet: bool, verbose: bool, exit_zero: bool
) -> int:
    taken = {(f.path, f.key) for f in summary.taken}
    left = [f for f in summary.findings if (f.path, f.key) not in taken]
    lines = [f"{text.finding_line(f)} (no comment can be put there)" for f in left]
    lines += [text.error_line(error) for error in summary.errors]
    if not quiet:
        verb = "Would silence" if dry_run else "Silenced"
        where = f" in {text.plural(len(summary.changed), 'file')}" if summary.changed else ""
        lines.append(f"{verb} {text.plural(count(summary.taken), 'place')}{where}" + ".")
        lines += [*notes, *text.closing(summary, verbose=verbose)]
    terminal.say(lines)
    if summary.interrupted:
        return INTERRUPTED
    if summary.unread:
        return FAILED
    pending = left or (dry_run and summary.changed)
    return PENDING if pending and not exit_zero else DONE
