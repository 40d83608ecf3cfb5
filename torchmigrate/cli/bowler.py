"""`bowler`: the changes of a Bowler script, through the same diff, decisions and writing as those of the rules."""

from __future__ import annotations

import os
from typing import Any

import click

from torchmigrate.cli import options
from torchmigrate.cli.apply import migrate, mode_flags
from torchmigrate.cli.sections import Command
from torchmigrate.cli.showing import diff_flags


@click.command(cls=Command)
@click.argument("script", type=click.Path(exists=True, dir_okay=False))
@mode_flags
@diff_flags
@options.files
@options.engine
@options.talk
def bowler(script: str, **given: Any) -> int:
    """Apply a script written for Bowler to files and folders (default: the current folder).

    The script runs, but it writes nothing: what its queries propose becomes changes like those of the rules. The paths
    in the script do not count. Needs the extra: pip install 'torchmigrate[bowler]'.
    """
    from torchmigrate.bowler import CODE, queries_of

    queries_of(script)
    given |= {"unsafe": True, "no_cache": True, "select": ((CODE,),), "load": (f"bowler:{os.path.abspath(script)}",)}
    return migrate(given)
