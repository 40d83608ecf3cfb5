"""`apply` and its read-only form `diff`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import click

from torchmigrate import git
from torchmigrate.cli import options, terminal
from torchmigrate.cli.running import Stop, run_all
from torchmigrate.cli.sections import Command
from torchmigrate.cli.stdin import look_at_stdin
from torchmigrate.model import EVERYTHING, SAFE_ONLY, FileResult, Policy, Settings, UsageError
from torchmigrate.report import text
from torchmigrate.report.summary import Summary

F = TypeVar("F", bound=Callable[..., Any])

_NAMED_FILES = 10


@dataclass(frozen=True, slots=True)
class Show:
    """How the outcome is shown."""

    form: str
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
    silent: bool = False
    """Nothing more goes to stdout."""


def _diff_flags(function: F) -> F:
    for decorator in (
        click.option(
            "--color", type=click.Choice(["auto", "always", "never"]), default="auto", help="Colour the diff."
        ),
        click.option("--output", metavar="FILE", help="Write what would go to stdout to a file."),
        click.option(
            "--format", "form", type=click.Choice(["text", "json", "github"]), default="text", help="What to print."
        ),
        click.option("--patch-out", metavar="FILE", help="Write the diff to a file that git apply takes."),
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


@click.command(cls=Command)
@click.option("-n", "--dry-run", is_flag=True, help="Show what would be written, write nothing.")
@click.option("-y", "--yes", is_flag=True, help="Write all changes without asking.")
@click.option("--allow-dirty", is_flag=True, help="Write files that hold uncommitted edits too.")
@_diff_flags
@options.selection
@options.files
@options.engine
@options.talk
def apply(**given: Any) -> int:
    """Migrate files and folders (default: the current folder).

    On a terminal, asks about each change. With --yes writes all safe changes, with --dry-run only shows them.
    """
    dry_run, yes, allow_dirty = given.pop("dry_run"), given.pop("yes"), given.pop("allow_dirty")
    if dry_run and yes:
        raise click.UsageError("--dry-run and --yes contradict each other")
    if not (dry_run or yes or given["patch_out"]):
        _refuse_to_ask()
    return _apply(given, writes=yes, allow_dirty=allow_dirty)


@click.command(cls=Command)
@_diff_flags
@options.selection
@options.files
@options.engine
@options.talk
def diff(**given: Any) -> int:
    """Show as a diff what `apply --yes` with the same flags would write; writes nothing."""
    return _apply(given, writes=False, allow_dirty=False)


def _refuse_to_ask() -> None:
    if sys.stdin.isatty() and sys.stderr.isatty():
        raise click.UsageError(
            "asking about each change is not there yet: add --yes to apply everything or --dry-run to look"
        )
    raise click.UsageError("not a terminal: add --yes to apply everything or --dry-run to look")


def _apply(given: dict[str, Any], *, writes: bool, allow_dirty: bool) -> int:
    show = _show(given)
    unsafe, name = given.pop("unsafe"), given["stdin_filename"]
    settings, _ = options.settings(given)
    policy = EVERYTHING if unsafe else SAFE_ONLY
    if "-" in settings.paths:
        return _filter(settings, name, policy, show, writes=writes, unsafe=unsafe)
    if name:
        raise click.UsageError("--stdin-filename goes with the path -")
    ran = run_all(settings, policy, quiet=show.quiet)
    summary = Summary(ran.results, ran.counts, ran.projects, unsafe=unsafe, interrupted=ran.interrupted)
    if ran.interrupted:
        terminal.say(["interrupted; nothing was written"])
        return summary.exit_code()
    if not writes:
        return conclude(summary, show)
    if settings.git and not allow_dirty:
        _refuse_dirty([result.path for result in summary.changed])
    return _write(summary, show, settings)


def _filter(settings: Settings, name: str | None, policy: Policy, show: Show, *, writes: bool, unsafe: bool) -> int:
    """Read stdin; the migrated code goes to stdout, or its diff when nothing is to be written."""
    ran, data = look_at_stdin(settings, name, policy)
    summary = Summary(ran.results, ran.counts, ran.projects, unsafe=unsafe, written=writes)
    if writes:
        _emit([data if result.after is None else result.after for result in ran.results], show)
        show = replace(show, silent=True)
    return conclude(summary, show)


def _show(given: dict[str, Any]) -> Show:
    pairs = [("stat", "name_only"), ("quiet", "verbose")]
    pairs += [("patch_out", "stat"), ("patch_out", "name_only")]
    for first, second in pairs:
        if given[first] and given[second]:
            raise click.UsageError(f"{_flag(first)} and {_flag(second)} contradict each other")
    for flag in ("stat", "name_only"):
        if given[flag] and given["form"] != "text":
            raise click.UsageError(f"{_flag(flag)} and --format {given['format']} contradict each other")
    names = ("form", "output", "context", "stat", "name_only", "patch_out", "quiet", "verbose", "exit_zero")
    return Show(colour=given.pop("color"), use_git=not given["no_git"], **{name: given.pop(name) for name in names})


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _refuse_dirty(paths: Sequence[str]) -> None:
    try:
        dirty = git.uncommitted(paths)
    except git.GitError as error:
        raise UsageError(f"{error}\n       pass --no-git to write without asking git") from None
    if dirty:
        named = ", ".join(dirty[:_NAMED_FILES]) + (", ..." if len(dirty) > _NAMED_FILES else "")
        has = "file that would change has" if len(dirty) == 1 else "files that would change have"
        raise UsageError(
            f"{len(dirty)} {has} uncommitted edits: {named}\n       commit or stash them, or pass --allow-dirty"
        )


def _write(summary: Summary, show: Show, settings: Settings) -> int:
    from torchmigrate import journal, runs

    changed = summary.changed
    if not changed:
        return conclude(replace(summary, written=True), show)
    journal.sweep()
    log = journal.Journal.start("apply", os.curdir, settings={"paths": list(settings.paths)})
    edits = [runs.Edit(r.path, r.before, r.after) for r in changed if r.before is not None and r.after is not None]
    with Stop() as stop:
        outcomes = list(runs.replace_all(log, edits, stop))
    log.close()
    reached = {outcome.path for outcome in outcomes}
    failures = [outcome.error for outcome in outcomes if outcome.error]
    results = [r if r.path in reached or r.after is None else _left_alone(r) for r in summary.results]
    summary = replace(summary, results=results, written=True, failures=failures, interrupted=stop())
    code = conclude(summary, show, notes=[outcome.note for outcome in outcomes if outcome.note])
    if summary.changed and not show.quiet:
        terminal.say([f"Undo with: torchmigrate undo {log.run}"])
    return code


def _left_alone(result: FileResult) -> FileResult:
    return replace(result, before=None, after=None, accepted=frozenset())


def conclude(summary: Summary, show: Show, notes: Sequence[str] = ()) -> int:
    """Print the outcome: data on stdout (or the output file), the summary on stderr; the exit code."""
    if not show.silent:
        _emit(_data(summary, show), show)
    if show.patch_out:
        notes = [*notes, *_patch_out(summary, show)]
    elif show.context == 0 and not summary.written and summary.changed and show.form == "text":
        notes = [*notes, "Hunks without context need: git apply --unidiff-zero"]
    lines = text.attention(summary) if show.quiet else text.outcome(summary, verbose=show.verbose)
    terminal.say(lines)
    terminal.say(notes)
    return summary.exit_code(exit_zero=show.exit_zero)


def _patches(summary: Summary, show: Show) -> dict[str, bytes]:
    if not summary.changed:
        return {}
    from torchmigrate.cli import patches

    return {r.path: patches.patch(r, context=show.context, use_git=show.use_git) for r in summary.changed}


def _data(summary: Summary, show: Show) -> list[bytes]:
    if show.form == "json":
        from torchmigrate.report import json

        return [json.dump(summary, _patches(summary, show)).encode()]
    if show.form == "github":
        from torchmigrate.report import github

        return [f"{line}\n".encode("utf-8", "backslashreplace") for line in github.commands(summary)]
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


def _emit(chunks: Sequence[bytes], show: Show) -> None:
    if show.output is None:
        terminal.data(chunks)
        return
    _create(show.output, b"".join(chunks))


def _create(path: str, content: bytes) -> None:
    from pathlib import Path

    from torchmigrate import write

    try:
        write.create(Path(path), content)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror or error}") from None


def _patch_out(summary: Summary, show: Show) -> list[str]:
    """Write the patch file, let git check it where git is there, and say how to apply it."""
    assert show.patch_out is not None
    _create(show.patch_out, b"".join(_patches(summary, show).values()))
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
