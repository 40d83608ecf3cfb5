"""`resume`: go on with a review that was stopped."""

from __future__ import annotations

import os

import click

from torchmigrate import journal
from torchmigrate.cli import review
from torchmigrate.cli.undo import home


@click.command()
@click.argument("run", required=False, metavar="[ID]")
@click.option("--color", type=click.Choice(["auto", "always", "never"]), default="auto", help="Colour what is shown.")
def resume(run: str | None, color: str) -> int:
    """Go on with a review that ended before all was decided (default: the newest one in this repository or folder).

    What was decided stays decided; what no longer matches, because files were edited in between, is asked again.
    """
    review.refuse_without_terminal()
    return review.go_on(_chosen(run), colour=color)


def _chosen(run: str | None) -> journal.Run:
    if run is None:
        here = home(os.curdir)
        undone = {one.undoes for one in journal.runs() if one.kind == "undo"}
        waiting = (r for r in journal.runs() if r.kind == "review" and not r.finished and r.id not in undone)
        found = next((r for r in waiting if home(r.root) == here), None)
        if found is None:
            raise journal.JournalError("no review waits here to be gone on with")
        return found
    found = journal.load(run)
    if found.kind != "review":
        raise journal.JournalError(f"run {run} was no review; only reviews can be gone on with")
    if found.finished:
        raise journal.JournalError(f"nothing is left to decide in run {run}")
    if any(one.undoes == run for one in journal.runs()):
        raise journal.JournalError(f"run {run} was undone; start anew with torchmigrate apply")
    return found
