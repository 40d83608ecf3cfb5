"""`config`: the effective settings of a path."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, fields
from typing import Any

import click

from torchmigrate import config as configuration
from torchmigrate.cli import options, terminal
from torchmigrate.cli.running import select
from torchmigrate.model import Settings

_NOT_SHOWN = frozenset(
    {"paths", "files_from", "changed_since", "max_changes", "load", "git", "include_from", "exclude_from", "given"}
    | {"select_from", "ignore_from", "projects_from", "only_projects", "only_owners", "config_file"}
)


@click.command()
@click.argument("path", default=".", type=click.Path(exists=True))
@click.option("--config", "file", metavar="FILE", help="Use this configuration file.")
@click.option("--isolated", is_flag=True, help="Use no configuration file.")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", help="What to print.")
def config(path: str, file: str | None, isolated: bool, form: str) -> int:
    """Show the settings that count for a path, and where each comes from."""
    if isolated and file:
        raise click.UsageError("--isolated and --config contradict each other")
    found = options.configuration((path,), isolated=isolated, file=file)
    settings, sources = configuration.settings(found, {}, {})
    select(settings)
    names = [field.name for field in fields(Settings) if field.name not in _NOT_SHOWN]
    if form == "json":
        shown = {_key(n): {"value": _plain(settings, n), "source": _source(sources[n])} for n in names}
        terminal.print_lines([json.dumps(shown, indent=2)])
        return 0
    width = max(len(_key(name)) for name in names)
    rows = [f"{_key(n):<{width}} = {json.dumps(_plain(settings, n))}  # {_source(sources[n])}" for n in names]
    terminal.print_lines(rows)
    return 0


def _key(name: str) -> str:
    return name.replace("_", "-")


def _plain(settings: Settings, name: str) -> Any:
    value = getattr(settings, name)
    if name == "overrides":
        return [asdict(one) for one in value]
    if name == "baseline" and value is not None:
        return os.path.relpath(value)
    return list(value) if isinstance(value, tuple) else value


def _source(source: str) -> str:
    return source if not os.path.isabs(source) else os.path.relpath(source)
