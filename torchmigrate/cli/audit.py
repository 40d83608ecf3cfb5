"""`audit`: what each project has to know before it upgrades."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click

from torchmigrate import __version__, inventory, registry
from torchmigrate import audit as report
from torchmigrate.cli import options, terminal
from torchmigrate.cli.running import run_all
from torchmigrate.cli.sections import Command
from torchmigrate.model import LOOK
from torchmigrate.owners import Ownership
from torchmigrate.report.summary import Summary
from torchmigrate.roots import Projects

SCHEMA = 1


@click.command(cls=Command)
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", help="What to print.")
@click.option("--min-torch", type=options.TORCH, help="The oldest torch that the code must still run on.")
@click.option("-q", "--quiet", is_flag=True, help="No progress, no errors on stderr.")
@options.files
@options.engine
def audit(form: str, quiet: bool, **given: Any) -> int:
    """Count, project by project, what matters before an upgrade; writes nothing.

    Every rule that is on by default is asked, whatever the configuration selects. The exit code is 0, or 3 where files
    could not be looked at.
    """
    settings, _ = options.settings(given)
    settings = replace(settings, select=(), ignore=(), overrides=(), load=(*settings.load, inventory.__file__))
    ran = run_all(settings, LOOK, quiet=quiet)
    asked, advice = report.questions(registry.load(settings.load).codemods)
    found = report.readiness(ran.results, ran.projects, Projects.of(settings).root_of, asked, advice, Ownership().of)
    summary = Summary(ran.results, ran.counts, ran.projects, interrupted=ran.interrupted)
    if form == "json":
        import json

        data = {
            "schema": SCHEMA,
            "tool": {"name": "torchmigrate", "version": __version__},
            "projects": report.document(found),
            "totals": report.totals(found),
            "errors": [
                {"path": e.path, "line": e.line, "column": e.column, "code": e.code, "message": e.message}
                for e in summary.errors
            ],
        }
        terminal.data([json.dumps(data, indent=2).encode() + b"\n"])
    else:
        terminal.print_lines(report.lines(found, asked))
    if not quiet:
        terminal.say(f"{e.path}:{e.line or 1}:{e.column or 1}: {e.code} {e.message}" for e in summary.errors)
    return summary.exit_code(exit_zero=True)
