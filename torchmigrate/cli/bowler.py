"""`bowler`: the changes of a Bowler script, through the same diff, decisions and writing as those of the rules."""

from __future__ import annotations

import os
from typing import Any

import click

from torchmigrate.cli import options
from torchmigrate.cli.apply import _apply, _diff_flags, _refuse_to_ask


@click.command()
@click.argument("script", type=click.Path(exists=True, dir_okay=False))
@click.option("-n", "--dry-run", is_flag=True, help="Print the diff, write nothing.")
@click.option("-y", "--yes", is_flag=True, help="Write all changes without asking.")
@click.option("--allow-dirty", is_flag=True, help="Write files that hold uncommitted edits too.")
@_diff_flags
@options.files
@options.engine
@options.talk
def bowler(script: str, **given: Any) -> int:
    """Apply a script written for Bowler to files and folders (default: the current folder).

    The script runs, but it writes nothing: what its queries propose becomes changes like those of the rules. The paths
    in the script do not count. Needs the extra: pip install 'torchmigrate[bowler]'.
    """
    from torchmigrate.bowler import CODE, queries_of

    dry_run, yes, allow_dirty = given.pop("dry_run"), given.pop("yes"), given.pop("allow_dirty")
    if dry_run and yes:
        raise click.UsageError("--dry-run and --yes contradict each other")
    if not (dry_run or yes or given["patch_out"]):
        _refuse_to_ask()
    queries_of(script)
    given |= {"unsafe": True, "no_cache": True, "select": ((CODE,),), "load": (f"bowler:{os.path.abspath(script)}",)}
    return _apply(given, writes=yes, allow_dirty=allow_dirty)
