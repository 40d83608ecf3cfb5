"""`check`: findings for people, other tools and CI."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from torchmigrate.cli import options, terminal
from torchmigrate.cli.reporting import Reports, breakdown, create, report_flags
from torchmigrate.cli.running import run_all
from torchmigrate.cli.sections import Command
from torchmigrate.cli.stdin import look_at_stdin
from torchmigrate.model import LOOK, UsageError
from torchmigrate.report import text
from torchmigrate.report.summary import Summary

if TYPE_CHECKING:
    from torchmigrate.baseline import Baseline


@click.command(cls=Command)
@report_flags
@click.option("--baseline", metavar="FILE", help="Leave out the findings that `torchmigrate baseline` recorded.")
@click.option("--output", metavar="FILE", help="Write the findings to a file instead of stdout.")
@options.selection
@options.files
@options.engine
@options.talk
def check(
    form: str,
    html: str | None,
    compare: str | None,
    output: str | None,
    quiet: bool,
    verbose: bool,
    exit_zero: bool,
    **given: Any,
) -> int:
    """List what has to be migrated, one finding a line; writes nothing."""
    if quiet and verbose:
        raise click.UsageError("--quiet and --verbose contradict each other")
    name = given["stdin_filename"]
    settings, sources = options.settings(given)
    if name and "-" not in settings.paths:
        raise click.UsageError("--stdin-filename goes with the path -")
    reports = Reports(form, html, compare, settings.load)
    known = _baseline(settings.baseline, sources["baseline"])
    policy = reports.policy(LOOK)
    if "-" in settings.paths:
        ran, _ = look_at_stdin(settings, name, policy)
    else:
        ran = run_all(settings, policy, quiet=quiet)
    results = [known.mark(result) for result in ran.results] if known else ran.results
    summary = Summary(results, ran.counts, ran.projects, interrupted=ran.interrupted, roots=ran.roots)
    content = reports.text(summary)
    if content is None:
        content = "".join(f"{line}\n" for line in text.findings(summary))
    _emit(content, output)
    notes = reports.write(summary)
    if summary.interrupted:
        terminal.say(["interrupted; not all files were looked at"])
    elif not quiet and form == "text":
        terminal.say(text.checked(summary, verbose=verbose))
        terminal.say(breakdown(summary))
        terminal.say(notes)
        if known and known.gone and not summary.interrupted:
            gone = text.plural(known.gone, "finding")
            terminal.say([f"{gone} of the baseline {'is' if known.gone == 1 else 'are'} gone or were not looked at."])
    return summary.exit_code(exit_zero=exit_zero)


def _baseline(file: str | None, source: str) -> Baseline | None:
    """What is known already, by the file that a flag or a configuration names. Raises UsageError."""
    if file is None:
        return None
    from torchmigrate.baseline import Baseline

    try:
        return Baseline(file)
    except UsageError as error:
        if source.startswith("-"):
            raise
        raise UsageError(f"{source}: baseline: {error}") from None


def _emit(content: str, output: str | None) -> None:
    data = content.encode("utf-8", "backslashreplace")
    if output is None:
        terminal.data([data])
    else:
        create(output, data)
