"""The flags that several commands share, and the settings that they add up to."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import click

from torchmigrate import config
from torchmigrate.model import Settings

F = TypeVar("F", bound=Callable[..., Any])


class Words(click.ParamType):  # type: ignore[type-arg]
    """A comma-separated list."""

    name = "list"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        if isinstance(value, tuple):
            return value
        return tuple(word for word in (part.strip() for part in value.split(",")) if word)


class Parsed(click.ParamType):  # type: ignore[type-arg]
    """A value that a function reads and refuses with ValueError."""

    def __init__(self, name: str, parse: Callable[[str], Any]) -> None:
        self.name = name
        self._parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        try:
            return self._parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


WORDS = Words()
SIZE = Parsed("size", config.parse_size)
TORCH = Parsed("version", config.parse_torch)
SECONDS = click.FloatRange(0, min_open=True)
NATURAL = click.IntRange(min=0)
POSITIVE = click.IntRange(min=1)


def _decorate(function: F, decorators: list[Callable[[F], F]]) -> F:
    for decorator in reversed(decorators):
        function = decorator(function)
    return function


def selection(function: F) -> F:
    """Flags that choose rules."""
    return _decorate(
        function,
        [
            click.option("--select", type=WORDS, multiple=True, help="Rules to run: codes, prefixes, names or areas."),
            click.option("--ignore", type=WORDS, multiple=True, help="Rules not to run."),
            click.option("--min-torch", type=TORCH, help="The oldest torch that the code must still run on."),
            click.option(
                "--load", multiple=True, type=click.Path(exists=True, dir_okay=False), help="A file with more rules."
            ),
        ],
    )


def files(function: F) -> F:
    """Flags that choose files."""
    return _decorate(
        function,
        [
            click.argument("paths", nargs=-1, type=click.Path()),
            click.option("--include", type=WORDS, multiple=True, help="Look only at files that match these globs."),
            click.option("--exclude", type=WORDS, multiple=True, help="Leave out files that match these globs."),
            click.option(
                "--project", "only_projects", multiple=True, metavar="DIR", help="Only files of this project."
            ),
            click.option("--owner", "only_owners", multiple=True, metavar="NAME", help="Only files of this owner."),
            click.option("--files-from", metavar="FILE", help="Read the paths from a file, or from stdin with -."),
            click.option("--changed-since", metavar="REF", help="Look only at files that differ from a git commit."),
            click.option("--include-stubs", is_flag=True, default=None, help="Look at .pyi files too."),
            click.option("--include-generated", is_flag=True, default=None, help="Look at generated files too."),
            click.option("--no-gitignore", is_flag=True, help="Look at files that git ignores too."),
            click.option("--no-git", is_flag=True, help="Do not ask git anything."),
            click.option("--max-size", type=SIZE, help="Leave out larger files, such as 4MB.  [default: 4MB]"),
            click.option("--stdin-filename", metavar="NAME", help="What to call the code that - reads from stdin."),
        ],
    )


def engine(function: F) -> F:
    """Flags about how a run is done."""
    return _decorate(
        function,
        [
            click.option("-j", "--jobs", type=NATURAL, metavar="N", help="Processes; 0 means as many as fit."),
            click.option("--timeout", type=SECONDS, metavar="S", help="Seconds for one file.  [default: 120]"),
            click.option("--no-cache", is_flag=True, help="Forget what earlier runs found unchanged."),
            click.option("--config", "config_file", metavar="FILE", help="Use this configuration file."),
            click.option("--isolated", is_flag=True, help="Use no configuration file."),
        ],
    )


def talk(function: F) -> F:
    """Flags about what is said and what the exit code tells."""
    return _decorate(
        function,
        [
            click.option("-q", "--quiet", is_flag=True, help="No summary."),
            click.option("-v", "--verbose", is_flag=True, help="Also show what was ignored, and why."),
            click.option("--exit-zero", is_flag=True, help="Exit with 0 where it would be 1."),
        ],
    )


_RENAMED = {"jobs": "-j"}
_NEGATIVE = {"no_gitignore": "gitignore", "no_git": "git", "no_cache": "cache"}


def settings(given: dict[str, Any]) -> tuple[Settings, dict[str, str]]:
    """The settings from the flags of `selection`, `files` and `engine` (taken out of `given`) and the configuration.

    Raises click.UsageError and UsageError.
    """
    flags: dict[str, Any] = {}
    names: dict[str, str] = dict(_RENAMED)
    for name in ("select", "ignore", "include", "exclude"):
        words = tuple(word for group in given.pop(name, ()) for word in group)
        flags[name] = words or None
    for name in (
        "min_torch",
        "files_from",
        "changed_since",
        "include_stubs",
        "include_generated",
        "max_size",
        "jobs",
        "timeout",
        "max_changes",
        "baseline",
    ):
        flags[name] = given.pop(name, None)
    for flag, name in _NEGATIVE.items():
        if given.pop(flag, False):
            flags[name] = False
            names[name] = "--" + flag.replace("_", "-")
    for name in ("only_projects", "only_owners"):
        flags[name] = tuple(given.pop(name, ())) or None
    flags["load"] = tuple(given.pop("load", ())) or None
    paths = tuple(given.pop("paths", ()))
    given.pop("stdin_filename", None)
    flags["paths"] = paths or None
    isolated, config_file = given.pop("isolated", False), given.pop("config_file", None)
    if isolated and config_file:
        raise click.UsageError("--isolated and --config contradict each other")
    if flags["files_from"] and paths:
        raise click.UsageError("--files-from and paths contradict each other")
    for path in paths:
        if path != "-" and not os.path.lexists(path):
            raise click.UsageError(f"no such file or folder: {path}")
    found = configuration(paths, isolated=isolated, file=config_file)
    settings, sources = config.settings(found, flags, names)
    if not isolated and not config_file:
        nested = {name: value for name, value in flags.items() if value is not None}
        settings = replace(settings, given=nested, config_file=found.path)
    return settings, sources


def configuration(paths: tuple[str, ...], *, isolated: bool, file: str | None) -> config.Config:
    """The configuration that counts: the file named, else the nearest one to the first path. Raises ConfigError."""
    if isolated:
        return config.Config()
    first = next((path for path in paths if path != "-"), ".")
    found = file or config.find(config.folder_of(first))
    return config.load(found) if found else config.Config()
