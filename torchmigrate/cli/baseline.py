"""`baseline`: records today's findings."""

from __future__ import annotations

import os
from typing import Any

import click

from torchmigrate import baseline as baselines
from torchmigrate.cli import options, terminal
from torchmigrate.cli.part import Part
from torchmigrate.cli.reporting import create
from torchmigrate.cli.running import run_all
from torchmigrate.cli.sections import Command
from torchmigrate.model import LOOK, UsageError
from torchmigrate.report import text
from torchmigrate.report.summary import DONE, FAILED, INTERRUPTED, Summary


@click.command(cls=Command)
@click.option("-o", "--output", metavar="FILE", help="Where to write the findings, if not to the configured baseline.")
@options.selection
@options.files
@options.engine
@options.talk
def baseline(output: str | None, quiet: bool, verbose: bool, exit_zero: bool, **given: Any) -> int:
    """Record today's findings, so that `check` tells only of what came since.

    `check` takes the file with --baseline, or as `baseline` in the configuration. Paths and flags that choose files or
    rules renew a part of the file; the findings of the rest stay in it.
    """
    if quiet and verbose:
        raise click.UsageError("--quiet and --verbose contradict each other")
    if "-" in given["paths"] or given["stdin_filename"]:
        raise click.UsageError("a baseline is of files, not of the path -")
    settings, sources = options.settings(given)
    is_configured = output is None
    if output is None:
        if settings.baseline is None:
            raise click.UsageError("no file to write to: name it with -o, or as baseline in the configuration")
        output = os.path.relpath(settings.baseline)
    part = Part(settings, sources)
    old = part.old(output)
    ran = run_all(settings, LOOK, quiet=quiet)
    summary = Summary(ran.results, ran.counts, ran.projects, interrupted=ran.interrupted)
    if summary.interrupted:
        terminal.say(["interrupted; nothing was written"])
        return INTERRUPTED
    folder = os.path.dirname(os.path.realpath(output))
    found = baselines.entries(ran.results, folder)
    kept = frozenset(part.rest(old - found, folder))
    if is_configured:
        _make_folder(output)
    create(output, baselines.dump(found | kept).encode())
    terminal.say(text.error_line(error) for error in summary.errors)
    if not quiet:
        said = f"Wrote {text.plural(len(found), 'finding')} to {text.one_line(output)}"
        said += f" and kept {len(kept)} that this run did not look for" if kept else ""
        terminal.say([f"{said}.", *text.closing(summary, verbose=verbose)])
    return FAILED if summary.unread else DONE


def _make_folder(file: str) -> None:
    try:
        os.makedirs(os.path.dirname(file) or os.curdir, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot make the folder of {file}: {error.strerror or error}") from None
