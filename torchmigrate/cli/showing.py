"""What a run shows: the diff or a report on stdout or in files, the summary on stderr."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import click

from torchmigrate import git
from torchmigrate.cli import options, terminal
from torchmigrate.cli.reporting import Reports, breakdown, create, report_flags
from torchmigrate.model import UsageError
from torchmigrate.report import text
from torchmigrate.report.summary import Summary

if TYPE_CHECKING:
    from torchmigrate.commits import Stages

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Show:
    """How the outcome is shown."""

    reports: Reports
    output: str | None
    context: int
    stat: bool
    name_only: bool
    patch_out: str | None
    colour: str
    quiet: bool
    verbose: bool
    exit_zero: bool
    use_git: bool
    split: str | None = None
    stages: Stages = field(default_factory=dict)
    silent: bool = False
    """Nothing more goes to stdout."""

    @property
    def form(self) -> str:
        """The format of what goes to stdout."""
        return self.reports.form


def _kind_of_split(given: str) -> str:
    from torchmigrate import split

    return split.check(given)


def diff_flags(function: F) -> F:
    """Flags about what is shown, and how much of it is taken."""
    for decorator in (
        report_flags,
        click.option(
            "--color", type=click.Choice(["auto", "always", "never"]), default="auto", help="Colour the diff."
        ),
        click.option("--output", metavar="FILE", help="Write what would go to stdout to a file."),
        click.option("--patch-out", metavar="FILE", help="Write the diff to a file that git apply takes."),
        click.option(
            "--split",
            type=options.Parsed("kind", _kind_of_split),
            help="Write a patch for each codemod, owner or dir:N into the folder of --patch-out.",
        ),
        click.option("--name-only", is_flag=True, help="Print names of files instead of a diff."),
        click.option("--stat", is_flag=True, help="Print counts of lines per file instead of a diff."),
        click.option(
            "-U",
            "--unified",
            "context",
            type=options.NATURAL,
            default=3,
            metavar="N",
            help="Lines of context.  [default: 3]",
        ),
        click.option("--max-changes", type=options.POSITIVE, metavar="N", help="Take the first N changes only."),
        click.option("--unsafe", is_flag=True, help="Also take changes that rest on what cannot be seen."),
    ):
        function = decorator(function)
    return function


def show_from(given: dict[str, Any]) -> Show:
    """How to show what the flags of `diff_flags` ask for (taken out of `given`). Raises click.UsageError."""
    pairs = [("stat", "name_only"), ("quiet", "verbose")]
    pairs += [("patch_out", "stat"), ("patch_out", "name_only")]
    for first, second in pairs:
        if given[first] and given[second]:
            raise click.UsageError(f"{_flag(first)} and {_flag(second)} contradict each other")
    if given["split"] and not given["patch_out"]:
        raise click.UsageError("--split needs --patch-out")
    for flag in ("stat", "name_only"):
        if given[flag] and given["form"] != "text":
            raise click.UsageError(f"{_flag(flag)} and --format {given['form']} contradict each other")
    reports = Reports(given.pop("form"), given.pop("html"), given.pop("compare"), given["load"])
    names = ("output", "context", "stat", "name_only", "patch_out", "split", "quiet", "verbose", "exit_zero")
    return Show(
        reports, colour=given.pop("color"), use_git=not given["no_git"], **{name: given.pop(name) for name in names}
    )


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def conclude(summary: Summary, show: Show, notes: Sequence[str] = ()) -> int:
    """Print the outcome: data on stdout (or the output file), the summary on stderr; the exit code."""
    if not show.silent:
        emit(_data(summary, show), show)
    if show.patch_out:
        notes = [*notes, *_patch_out(summary, show)]
    elif show.context == 0 and not summary.written and summary.changed and show.form == "text":
        notes = [*notes, "Hunks without context need: git apply --unidiff-zero"]
    lines = text.attention(summary) if show.quiet else text.outcome(summary, verbose=show.verbose)
    notes = [*notes, *show.reports.write(summary)]
    terminal.say(lines)
    if not show.quiet:
        terminal.say(breakdown(summary))
    terminal.say(notes)
    return summary.exit_code(exit_zero=show.exit_zero)


def _patches(summary: Summary, show: Show) -> dict[str, bytes]:
    if not summary.changed:
        return {}
    from torchmigrate.cli import patches

    return {r.path: patches.patch(r, context=show.context, use_git=show.use_git) for r in summary.changed}


def _data(summary: Summary, show: Show) -> list[bytes]:
    diffs = _patches(summary, show) if show.form in ("json", "jsonl") else None
    content = show.reports.text(summary, diffs)
    if content is not None:
        return [content.encode("utf-8", "backslashreplace")]
    if show.name_only:
        return [os.fsencode(result.path) + b"\n" for result in summary.changed]
    if show.stat:
        import shutil

        from torchmigrate.cli import patches

        return [
            patches.stat(summary.changed, width=shutil.get_terminal_size().columns).encode("utf-8", "backslashreplace")
        ]
    if summary.written or show.patch_out:
        return []
    parts = list(_patches(summary, show).values())
    if not show.output and terminal.wants_colour(show.colour, sys.stdout):
        from torchmigrate.cli import patches

        return [chunk for part in parts for chunk in patches.coloured(part)]
    return parts


def emit(chunks: Sequence[bytes], show: Show) -> None:
    """Send data to stdout, or to the output file that was asked for. Raises UsageError where it cannot be written."""
    if show.output is None:
        terminal.data(chunks)
        return
    create(show.output, b"".join(chunks))


def _patch_out(summary: Summary, show: Show) -> list[str]:
    """Write the patch file, let git check it where git is there, and say how to apply it."""
    assert show.patch_out is not None
    if show.split:
        from torchmigrate.cli import splitting

        return splitting.patch_out(summary, show)
    create(show.patch_out, b"".join(_patches(summary, show).values()))
    if not summary.changed:
        return [f"Wrote an empty patch to {show.patch_out}."]
    import shutil

    from torchmigrate.cli import patches

    bases = {patches.base(r.path, use_git=show.use_git) for r in summary.changed}
    zero = ["--unidiff-zero"] if show.context == 0 else []
    where = "" if bases == {os.path.realpath(os.curdir)} else f" (in {', '.join(sorted(bases))})"
    said = [f"Wrote the patch of {text.plural(len(summary.changed), 'file')} to {show.patch_out}."]
    said += [f"Apply it with: git apply {' '.join([*zero, show.patch_out])}{where}"]
    if not summary.written and len(bases) == 1 and shutil.which("git"):
        try:
            git.check_patch(bases.pop(), os.path.abspath(show.patch_out), *zero)
        except git.GitError as error:
            raise UsageError(f"git does not take {show.patch_out}: {error}; please report this") from None
    return said
