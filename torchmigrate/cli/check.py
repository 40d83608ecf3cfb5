"""`check`: findings for people, other tools and CI."""

from __future__ import annotations

from typing import Any

import click

from torchmigrate.cli import options, terminal
from torchmigrate.cli.running import run_all
from torchmigrate.cli.sections import Command
from torchmigrate.cli.stdin import look_at_stdin
from torchmigrate.model import LOOK, UsageError
from torchmigrate.report import text
from torchmigrate.report.summary import Summary


@click.command(cls=Command)
@click.option("--format", "form", type=click.Choice(["text", "json", "github"]), default="text", help="What to print.")
@click.option("--output", metavar="FILE", help="Write the findings to a file instead of stdout.")
@options.selection
@options.files
@options.engine
@options.talk
def check(form: str, output: str | None, quiet: bool, verbose: bool, exit_zero: bool, **given: Any) -> int:
    """List what has to be migrated, one finding a line; writes nothing."""
    if quiet and verbose:
        raise click.UsageError("--quiet and --verbose contradict each other")
    name = given["stdin_filename"]
    settings, _ = options.settings(given)
    if name and "-" not in settings.paths:
        raise click.UsageError("--stdin-filename goes with the path -")
    if "-" in settings.paths:
        ran, _ = look_at_stdin(settings, name, LOOK)
    else:
        ran = run_all(settings, LOOK, quiet=quiet)
    summary = Summary(ran.results, ran.counts, ran.projects, interrupted=ran.interrupted)
    _emit(_text(summary, form), output)
    if summary.interrupted:
        terminal.say(["interrupted; not all files were looked at"])
    elif not quiet and form == "text":
        terminal.say(text.checked(summary, verbose=verbose))
    return summary.exit_code(exit_zero=exit_zero)


def _text(summary: Summary, form: str) -> str:
    if form == "json":
        from torchmigrate.report import json

        return json.dump(summary)
    if form == "github":
        from torchmigrate.report import github

        return "".join(f"{line}\n" for line in github.commands(summary))
    return "".join(f"{line}\n" for line in text.findings(summary))


def _emit(content: str, output: str | None) -> None:
    data = content.encode("utf-8", "backslashreplace")
    if output is None:
        terminal.data([data])
        return
    from pathlib import Path

    from torchmigrate import write

    try:
        write.create(Path(output), data)
    except OSError as error:
        raise UsageError(f"cannot write {output}: {error.strerror or error}") from None
