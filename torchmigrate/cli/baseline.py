"""`baseline`: records today's findings."""

from __future__ import annotations

import os
from typing import Any

import click

from torchmigrate import baseline as baselines
from torchmigrate.cli import options, terminal
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

    `check` takes the file with --baseline, or as `baseline` in the configuration.
    """
    if quiet and verbose:
        raise click.UsageError("--quiet and --verbose contradict each other")
    if "-" in given["paths"] or given["stdin_filename"]:
        raise click.UsageError("a baseline is of files, not of the path -")
    settings, _ = options.settings(given)
    is_configured = output is None
    if output is None:
        if settings.baseline is None:
            raise click.UsageError("no file to write to: name it with -o, or as baseline in the configuration")
        output = os.path.relpath(settings.baseline)
    ran = run_all(settings, LOOK, quiet=quiet)
    summary = Summary(ran.results, ran.counts, ran.projects, interrupted=ran.interrupted)
    if summary.interrupted:
        terminal.say(["interrupted; nothing was written"])
        return INTERRUPTED
    content = baselines.dump(ran.results, os.path.dirname(os.path.realpath(output)))
    if is_configured:
        _make_folder(output)
    create(output, content.encode())
    terminal.say(text.error_line(error) for error in summary.errors)
    if not quiet:
        found = text.plural(baselines.count(content), "finding")
        terminal.say([f"Wrote {found} to {text.one_line(output)}.", *text.closing(summary, verbose=verbose)])
    return FAILED if summary.unread else DONE


def _make_folder(file: str) -> None:
    try:
        os.makedirs(os.path.dirname(file) or os.curdir, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot make the folder of {file}: {error.strerror or error}") from None
