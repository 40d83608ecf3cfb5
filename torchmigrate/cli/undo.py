"""`undo` and `runs`: what past runs wrote, and taking it back."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import click

from torchmigrate import git, journal
from torchmigrate import runs as past
from torchmigrate.cli import terminal
from torchmigrate.model import UsageError
from torchmigrate.report import text
from torchmigrate.report.summary import DONE, FAILED, PENDING


@click.command()
@click.argument("run", required=False, metavar="[ID]")
@click.option("-n", "--dry-run", is_flag=True, help="Say what would be put back, write nothing.")
@click.option("--force", is_flag=True, help="Also restore files that a killed run was overwriting in place.")
def undo(run: str | None, dry_run: bool, force: bool) -> int:
    """Put back, byte for byte, what a run wrote.

    Without an ID that is the last run in this repository (or folder) that is not undone. Files that changed since are
    left alone and named. Commits that the run made stay.
    """
    journal.sweep()
    chosen = journal.load(run) if run else _last()
    plans = list(past.plan_undo(chosen, force=force))
    refused = [plan for plan in plans if plan.refusal]
    edits = [plan.edit for plan in plans if plan.edit]
    errors = []
    restored = len(edits)
    if edits and not dry_run:
        log = journal.Journal.start("undo", chosen.root, undoes=chosen.id)
        errors = [outcome.error for outcome in past.replace_all(log, edits) if outcome.error]
        log.close()
        restored -= len(errors)
    terminal.say(f"{text.one_line(_shown(plan.path))}: left as it is: {plan.refusal}" for plan in refused)
    terminal.say(text.error_line(error) for error in errors)
    if restored:
        verb = "Would put back" if dry_run else "Put back"
        terminal.say([f"{verb} {text.plural(restored, 'file')} as before run {chosen.id}."])
    elif not refused and not errors:
        terminal.say([f"Nothing to put back: the files are as they were before run {chosen.id}."])
    if chosen.commits:
        terminal.say(_commits(chosen, restored=bool(restored)))
    if errors:
        return FAILED
    return PENDING if refused or (dry_run and restored) else DONE


@click.command("runs")
@click.option("--all", "everywhere", is_flag=True, help="Runs in other folders too.")
def list_runs(everywhere: bool) -> int:
    """List the runs in this repository (or folder) that wrote files, the newest first."""
    journal.sweep()
    here = home(os.curdir)
    found = [run for run in journal.runs() if run.replacements and (everywhere or home(run.root) == here)]
    undone = journal.undone(found)
    rows = []
    for run in found:
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(run.started))
        notes = [f"undoes {run.undoes}"] if run.undoes else []
        notes += ["undone"] if run.id in undone else []
        notes += [] if run.finished else ["not finished"]
        where = [text.one_line(run.root)] if everywhere else []
        rows.append("  ".join([run.id, when, f"{run.kind:<6}", text.plural(len(run.files), "file"), *where, *notes]))
    terminal.print_lines(rows)
    if not rows:
        terminal.say(["No run wrote anything here." if not everywhere else "No run wrote anything yet."])
    return DONE


def _last() -> journal.Run:
    """The newest run here that wrote something which is not undone, or not in all its files."""
    here = home(os.curdir)
    found = [run for run in journal.runs() if run.replacements and home(run.root) == here]
    undone = journal.undone(found)
    for run in found:
        if run.kind != "undo" and run.id not in undone:
            return run
    raise UsageError("no run here to undo; torchmigrate runs --all lists those in other folders")


def _commits(run: journal.Run, *, restored: bool) -> Iterator[str]:
    """What becomes of the commits that a run made: undoing it puts back files and nothing else."""
    from torchmigrate import commits

    made = commits.kept(run.root, run.commits)
    if not made:
        return
    stay = f"{text.plural(len(made), 'commit')} of run {run.id} {'stays' if len(made) == 1 else 'stay'} in the history"
    if commits.are_on_top(run.root, made):
        yield f"{stay}: git reset {made[0][:10]}^ takes {'it' if len(made) == 1 else 'them'} off the branch."
    elif restored:
        yield f"{stay}: to revert {'it' if len(made) == 1 else 'them'}, git commit the files as they were put back."


def home(folder: str) -> str:
    """The repository that a folder lies in, else the folder itself."""
    return git.toplevel(folder) or os.path.realpath(folder)


def _shown(path: str) -> str:
    """A path as seen from here, where it lies below."""
    here = Path(os.curdir).resolve()
    return str(Path(path).relative_to(here)) if Path(path).is_relative_to(here) else path
