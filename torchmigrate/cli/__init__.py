"""The command line: one module per command, imported when it is asked for."""

from __future__ import annotations

import errno
import importlib
import os
import sys
from collections.abc import Sequence

import click

from torchmigrate import __version__
from torchmigrate.model import UsageError

COMMANDS = {
    "apply": ("apply", "apply", "Migrate files, after a look at each change or all at once."),
    "diff": ("apply", "diff", "Show what would change, as a patch; writes nothing."),
    "check": ("check", "check", "List what has to be migrated; writes nothing."),
    "baseline": ("baseline", "baseline", "Record today's findings, for checks of what comes later."),
    "ignore": ("ignore", "ignore", "Silence what is left, by comments in the code."),
    "audit": ("audit", "audit", "Count what each project has to know before it upgrades."),
    "bulk": ("bulk", "bulk", "Migrate every repository of a fleet, with one result."),
    "list": ("rules", "list_rules", "List the rules."),
    "explain": ("explain", "explain", "Explain a rule: why, before and after, limits."),
    "resume": ("resume", "resume", "Go on with a review that was stopped."),
    "runs": ("undo", "list_runs", "List past runs that wrote files."),
    "undo": ("undo", "undo", "Put back what a run wrote, byte for byte."),
    "bowler": ("bowler", "bowler", "Apply a script written for Bowler."),
    "config": ("config", "config", "Show the effective settings and where each comes from."),
}
"""Each command with its module, the name in it, and the line that `--help` shows (so that help imports no command)."""

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


class LazyGroup(click.Group):
    """A group whose commands are imported when they are run."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, name, _ = COMMANDS[cmd_name]
        command = getattr(importlib.import_module(f"torchmigrate.cli.{module}"), name)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0] if args else ""
        if name and not name.startswith("-") and name not in COMMANDS:
            from torchmigrate.config import near

            ctx.fail(f"no command {name!r}{near(name, COMMANDS)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name][2]) for name in COMMANDS])


@click.group(cls=LazyGroup, context_settings=CONTEXT)
@click.version_option(__version__, "-V", "--version", message="torchmigrate %(version)s")
def main() -> None:
    """Move Python code from PyTorch 2.14 to 2.15.

    `torchmigrate diff` shows what would change, `torchmigrate apply` changes it.
    """


def run(arguments: Sequence[str]) -> int:
    """Run the command line; the exit code. Usage and configuration errors are told on stderr, without a traceback."""
    try:
        code = main.main(list(arguments), prog_name="torchmigrate", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return 2
    except click.UsageError as error:
        hint = (
            f"       torchmigrate {error.ctx.info_name} -h shows all options" if error.ctx and error.ctx.parent else ""
        )
        return _refuse(error.format_message(), hint)
    except click.ClickException as error:
        return _refuse(error.format_message())
    except UsageError as error:
        return _refuse(str(error))
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        return 130
    except OSError as error:
        if error.errno != errno.EPIPE:
            raise
        # The reader of our output is gone; keep the interpreter from complaining when it closes the stream.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return code if isinstance(code, int) else 0


def _refuse(message: str, hint: str = "") -> int:
    click.echo(f"error: {message[:1].lower()}{message[1:]}", err=True)
    if hint:
        click.echo(hint, err=True)
    return 2
