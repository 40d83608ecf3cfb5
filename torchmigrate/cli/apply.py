"""`apply` and its read-only form `diff`."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import click

from torchmigrate import git
from torchmigrate.cli import options, terminal
from torchmigrate.cli.running import Stop, run_all
from torchmigrate.cli.sections import Command
from torchmigrate.cli.showing import Show, conclude, diff_flags, emit, show_from
from torchmigrate.cli.stdin import look_at_stdin
from torchmigrate.model import EVERYTHING, SAFE_ONLY, FileResult, Policy, Settings, UsageError
from torchmigrate.report.summary import Summary

F = TypeVar("F", bound=Callable[..., Any])

_NAMED_FILES = 10


def mode_flags(function: F) -> F:
    """Flags that say whether files are written."""
    for decorator in (
        click.option(
            "--commit",
            type=click.Choice(["none", "one", "per-codemod", "per-project", "per-owner"]),
            default="none",
            help="Commit what is written, with your hooks; nothing is pushed.",
        ),
        click.option("--allow-dirty", is_flag=True, help="Write files that hold uncommitted edits too."),
        click.option("-i", "--interactive", is_flag=True, help="Ask about each change (the default on a terminal)."),
        click.option("--yes-safe", is_flag=True, help="Write the safe changes, ask about the rest."),
        click.option("-y", "--yes", is_flag=True, help="Write all changes without asking."),
        click.option("--from-patch", metavar="FILE", help="Write the changes that are left in a patch of --patch-out."),
        click.option("-n", "--dry-run", is_flag=True, help="Show what would be written, write nothing."),
    ):
        function = decorator(function)
    return function


@click.command(cls=Command)
@mode_flags
@diff_flags
@options.selection
@options.files
@options.engine
@options.talk
def apply(**given: Any) -> int:
    """Migrate files and folders (default: the current folder).

    On a terminal, asks about each change. With --yes writes all safe changes, with --dry-run only shows them.
    """
    return migrate(given)


@click.command(cls=Command)
@diff_flags
@options.selection
@options.files
@options.engine
@options.talk
def diff(**given: Any) -> int:
    """Show as a diff what `apply --yes` with the same flags would write; writes nothing."""
    return migrate(
        given
        | {"dry_run": True, "yes": False, "allow_dirty": False, "interactive": False, "yes_safe": False}
        | {"commit": "none", "from_patch": None}
    )


def migrate(given: dict[str, Any]) -> int:
    """Carry out `apply` with the flags given; the exit code. Raises UsageError and click.UsageError."""
    dry_run, yes, allow_dirty = given.pop("dry_run"), given.pop("yes"), given.pop("allow_dirty")
    asks = {"--interactive": given.pop("interactive"), "--yes-safe": given.pop("yes_safe")}
    for flag, is_given in {**asks, "--dry-run": dry_run}.items():
        if is_given and yes:
            raise click.UsageError(f"{flag} and --yes contradict each other")
        if is_given and dry_run and flag != "--dry-run":
            raise click.UsageError(f"{flag} and --dry-run contradict each other")
    commit = given.pop("commit")
    taken = given.pop("from_patch")
    if taken and (any(asks.values()) or given["max_changes"] or "-" in given["paths"]):
        raise click.UsageError("--from-patch decides what is taken: leave out -i, --yes-safe, --max-changes and -")
    yes = yes or bool(taken and not dry_run)
    if commit != "none":
        _refuse_with_commit(given, yes=yes, allow_dirty=allow_dirty)
    if any(asks.values()) or not (dry_run or yes or given["patch_out"]):
        return _review(given, yes_safe=asks["--yes-safe"], allow_dirty=allow_dirty)
    show = show_from(given)
    unsafe, name = given.pop("unsafe"), given["stdin_filename"]
    settings, _ = options.settings(given)
    policy = show.reports.policy(EVERYTHING if unsafe else SAFE_ONLY)
    if "-" in settings.paths:
        return _filter(settings, name, policy, show, writes=yes, unsafe=unsafe)
    if name:
        raise click.UsageError("--stdin-filename goes with the path -")
    stages = commit == "per-codemod" or show.split == "codemod"
    if taken:
        from torchmigrate.cli.from_patch import EVERY_CHANGE, Patch

        unsafe = True
        patch = Patch(taken, use_git=settings.git)
        ran = run_all(settings, EVERY_CHANGE, quiet=show.quiet, stages=stages, narrow=patch.narrow)
    else:
        ran = run_all(settings, policy, quiet=show.quiet, stages=stages)
    show = replace(show, stages=ran.stages)
    summary = Summary(
        ran.results, ran.counts, ran.projects, unsafe=unsafe, interrupted=ran.interrupted, roots=ran.roots
    )
    if ran.interrupted:
        terminal.say(["interrupted; nothing was written"])
        return summary.exit_code()
    if not yes:
        return conclude(summary, show)
    if settings.git and not allow_dirty:
        refuse_dirty([result.path for result in summary.changed])
    if commit != "none" and summary.changed:
        from torchmigrate.cli import committing

        return committing.write(summary, show, settings, commit, ran.stages)
    return _write(summary, show, settings)


def _refuse_with_commit(given: dict[str, Any], *, yes: bool, allow_dirty: bool) -> None:
    if not yes:
        raise click.UsageError("--commit needs --yes")
    if allow_dirty:
        raise click.UsageError("--commit and --allow-dirty contradict each other")
    if given["no_git"]:
        raise click.UsageError("--commit and --no-git contradict each other")
    if "-" in given["paths"]:
        raise click.UsageError("--commit and the path - contradict each other")


_NOT_IN_A_REVIEW: tuple[str, ...] = (
    "patch_out",
    "stat",
    "name_only",
    "output",
    "max_changes",
    "stdin_filename",
    "exit_zero",
)
_NOT_IN_A_REVIEW += ("html", "compare")


def _review(given: dict[str, Any], *, yes_safe: bool, allow_dirty: bool) -> int:
    """Ask about each change on the terminal."""
    from torchmigrate.cli import review

    review.refuse_without_terminal()
    for name in _NOT_IN_A_REVIEW:
        if given[name]:
            raise click.UsageError(f"--{name.replace('_', '-')} needs --yes or --dry-run")
    if given["form"] != "text":
        raise click.UsageError("--format needs --yes or --dry-run")
    show = show_from(given)
    del given["unsafe"]
    settings, _ = options.settings(given)
    if "-" in settings.paths:
        raise click.UsageError("the path - needs --yes or --dry-run")
    return review.start(settings, colour=show.colour, yes_safe=yes_safe, allow_dirty=allow_dirty)


def _filter(settings: Settings, name: str | None, policy: Policy, show: Show, *, writes: bool, unsafe: bool) -> int:
    """Read stdin; the migrated code goes to stdout, or its diff when nothing is to be written."""
    ran, data = look_at_stdin(settings, name, policy)
    summary = Summary(ran.results, ran.counts, ran.projects, unsafe=unsafe, written=writes)
    if writes:
        emit([data if result.after is None else result.after for result in ran.results], show)
        show = replace(show, silent=True)
    return conclude(summary, show)


def refuse_dirty(paths: Sequence[str]) -> None:
    """Raises UsageError where one of the files holds edits that no commit keeps."""
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
