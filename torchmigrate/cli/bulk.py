"""`bulk`: the same migration for every repository of a fleet."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from torchmigrate.cli import options, terminal
from torchmigrate.cli.reporting import Reports, report_flags
from torchmigrate.cli.sections import Command
from torchmigrate.commits import KINDS
from torchmigrate.model import UsageError
from torchmigrate.report import text
from torchmigrate.report.summary import DONE, FAILED, INTERRUPTED, PENDING

WORK = "torchmigrate-work"


@click.command(cls=Command)
@click.argument("fleet", type=click.Path(exists=True, dir_okay=False))
@click.option("-n", "--dry-run", is_flag=True, help="Only look: no branch, no commits, nothing written in clones.")
@click.option("--unsafe", is_flag=True, help="Also take changes that rest on what cannot be seen.")
@click.option("--branch", metavar="NAME", help="Commit the changes to this new branch in each clone.")
@click.option("--commit", type=click.Choice(KINDS), help="How changes are put into commits.  [default: one]")
@click.option("--in-place", is_flag=True, help="Change local checkouts themselves instead of clones.")
@click.option("--verify", metavar="COMMAND", help="Run this shell command in each repository that changes.")
@click.option(
    "--verify-timeout", type=options.SECONDS, default=600, metavar="S", help="Seconds for it.  [default: 600]"
)
@click.option("--work-dir", default=WORK, metavar="DIR", help=f"Where everything is kept.  [default: {WORK}]")
@click.option("--only", multiple=True, metavar="NAME", help="Do these repositories only; * stands for anything.")
@click.option("--retry", type=click.Choice(["missing", "failed", "all"]), help="Which to do; both by default.")
@click.option("--canary", type=options.POSITIVE, metavar="N", help="Do N repositories, then stop.")
@click.option("--max-failures", type=options.POSITIVE, metavar="N", help="Begin no more after N have failed.")
@click.option("--repository-timeout", type=options.SECONDS, default=1800, metavar="S", help="Seconds for each.  [1800]")
@click.option("--engine", "address", metavar="tcp://HOST:PORT", help="Do the work on a Dask cluster.")
@report_flags
@click.option("--include", type=options.WORDS, multiple=True, help="Look only at files that match these globs.")
@click.option("--exclude", type=options.WORDS, multiple=True, help="Leave out files that match these globs.")
@click.option("--include-stubs", is_flag=True, default=None, help="Look at .pyi files too.")
@click.option("--include-generated", is_flag=True, default=None, help="Look at generated files too.")
@click.option("--max-size", type=options.SIZE, help="Leave out larger files, such as 4MB.  [default: 4MB]")
@click.option("-j", "--jobs", type=options.NATURAL, default=0, metavar="N", help="Repositories at a time; 0: as fit.")
@click.option("--timeout", type=options.SECONDS, metavar="S", help="Seconds for one file.  [default: 120]")
@options.selection
@click.option("-q", "--quiet", is_flag=True, help="No progress, no summary.")
@click.option("--exit-zero", is_flag=True, help="Exit with 0 where it would be 1.")
def bulk(fleet: str, **given: Any) -> int:
    """Migrate every repository that FLEET names: a TOML file, or a list of folders and git URLs, one a line.

    Each is cloned into the work folder and migrated there; local checkouts stay as they are. What comes of it (patches,
    branches, logs, result.json) is kept there too, and a second run takes up what is missing or failed. Nothing is ever
    pushed.
    """
    from torchmigrate.fleet import plan, run, state

    _check(given)
    reports = Reports(given["form"], given["html"], given["compare"], given["load"])
    repositories = plan.read(fleet)
    quiet, address = given["quiet"], given["address"]
    order = _order(given, len(repositories))
    work = state.Work(given["work_dir"], order)
    try:
        wanted = state.chosen(work, repositories, given["retry"], given["only"], given["canary"])
        if address:
            from torchmigrate import cluster

            engine = cluster.engine(address)
        else:
            engine = run.local(order, wanted, given["jobs"])
        progress = terminal.Progress(quiet=quiet)
        interrupted = False
        stopped: UsageError | None = None
        try:
            for repository, result in run.carry_out(
                work,
                order,
                wanted,
                engine,
                most_failures=given["max_failures"],
                shares_folder=not address,
                tell=lambda counts: progress.update_fleet(counts.done, counts.failed, counts.wanted, counts.changes),
            ):
                if result["status"] == "failed" and not quiet:
                    progress.clear()
                    log = os.path.join(given["work_dir"], "logs", f"{repository.key}.log")
                    terminal.say([text.one_line(f"{repository.name}: failed: {result['reason']} ({log})")])
        except KeyboardInterrupt:
            interrupted = True
        except UsageError as error:
            stopped = error
        finally:
            progress.clear()
        if stopped is not None:
            work.conclude(repositories)
            raise stopped
        totals = state.ordered(work.conclude(repositories))
        notes = _show(work, repositories, reports, written=bool(given["branch"] or given["in_place"]))
    finally:
        work.close()
    if not quiet:
        terminal.say(_summary(totals, given["work_dir"], interrupted=interrupted, dry_run=order.dry_run))
        terminal.say(notes)
    code = _code(totals, dry_run=order.dry_run)
    return INTERRUPTED if interrupted else DONE if code == PENDING and given["exit_zero"] else code


def _check(given: Mapping[str, Any]) -> None:
    pairs = [("dry_run", "branch"), ("dry_run", "in_place"), ("in_place", "address")]
    for first, second in pairs:
        if given[first] and given[second]:
            spelled = {"address": "engine"}.get(second, second)
            raise click.UsageError(f"{_flag(first)} and {_flag(spelled)} contradict each other")
    if given["commit"] and not given["branch"]:
        raise click.UsageError("--commit needs --branch, the branch to commit to")
    branch = given["branch"]
    if branch is not None and not _is_branch(branch):
        raise click.UsageError(f"{branch!r} cannot be the name of a branch")


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _is_branch(name: str) -> bool:
    from torchmigrate import git

    try:
        git.run(os.curdir, "check-ref-format", "--branch", name)
    except git.GitError:
        return False
    return not name.startswith("-")


def _order(given: Mapping[str, Any], repositories: int) -> Any:
    from torchmigrate.fleet import Order
    from torchmigrate.pool import usable_processors

    flags: dict[str, Any] = {}
    for name in ("select", "ignore", "include", "exclude"):
        flags[name] = tuple(word for group in given[name] for word in group) or None
    for name in ("min_torch", "include_stubs", "include_generated", "max_size", "timeout"):
        flags[name] = given[name]
    flags["load"] = tuple(os.path.abspath(path) for path in given["load"]) or None
    at_once = min(given["jobs"] or usable_processors(), repositories)
    return Order(
        flags={name: value for name, value in flags.items() if value is not None},
        unsafe=given["unsafe"],
        dry_run=given["dry_run"],
        branch=given["branch"],
        commit=given["commit"] or "one",
        verify=given["verify"],
        verify_timeout=float(given["verify_timeout"]),
        timeout=float(given["repository_timeout"]),
        in_place=given["in_place"],
        jobs=max(usable_processors() // at_once, 1),
    )


def _show(work: Any, repositories: Sequence[Any], reports: Reports, *, written: bool) -> list[str]:
    """The outcome on stdout and in the page; what else to say."""
    whole = work.folder / "result.json"
    if reports.form == "text":
        terminal.print_lines(_table((one.name, work.known(one)) for one in repositories))
    elif reports.form == "json":
        with open(whole, "rb") as file:
            terminal.data(iter(lambda: file.read(1 << 16), b""))
    if reports.form in ("text", "json") and not reports.reads_fleet:
        return []
    with open(whole, encoding="utf-8") as file:
        document = json.load(file)
    if reports.form == "jsonl":
        lines = [{"type": "repository"} | one for one in document["repositories"]]
        terminal.print_lines(json.dumps(line) for line in [*lines, {"type": "totals"} | document["totals"]])
    content = reports.fleet_text(document, written=written)
    if content is not None:
        terminal.data([content.encode("utf-8", "backslashreplace")])
    return reports.fleet_write(document, written=written)


_NAME = 40


def _table(rows: Iterator[tuple[str, dict[str, Any] | None]]) -> Iterator[str]:
    yield f"{'repository':{_NAME}}  {'changes':>7}  {'left':>5}  {'errors':>6}  outcome"
    for name, result in rows:
        if result is None:
            yield f"{text.one_line(name):{_NAME}}  {'':7}  {'':5}  {'':6}  not run yet"
            continue
        totals = result["totals"]
        left = totals.get("findings", 0) - totals.get("taken", 0)
        numbers = (totals.get("changes", 0), left, totals.get("files_with_errors", 0))
        yield text.one_line(
            f"{result['name']:{_NAME}}  {numbers[0]:7}  {numbers[1]:5}  {numbers[2]:6}  {_outcome(result)}"
        )


def _outcome(result: Mapping[str, Any]) -> str:
    if result["reason"]:
        return f"{result['status']}: {result['reason']}"
    notes = "".join(f"; {note}" for note in result["notes"])
    return f"{result['status']}{', verified' if result['verification'] else ''}{notes}"


def _summary(totals: Mapping[str, int], folder: str, *, interrupted: bool, dry_run: bool) -> list[str]:
    done = text.plural(totals["done"], "repository", "repositories")
    changes = text.plural(totals.get("changes", 0), "change")
    files = text.plural(totals.get("files_changed", 0), "file")
    others = [(totals["empty"], "without a commit"), (totals["failed"], "failed"), (totals["left"], "not run yet")]
    said = "".join(f", {number:,} {what}" for number, what in others if number)
    return [
        *(["interrupted; run again to go on"] if interrupted else []),
        f"{done} of {totals['repositories']:,} done{said}: {changes} in {files}{' to make' if dry_run else ''}.",
        f"Everything is in {os.path.join(folder, '')}; the whole result in {os.path.join(folder, 'result.json')}.",
    ]


def _code(totals: Mapping[str, int], *, dry_run: bool) -> int:
    if totals["failed"] or totals.get("files_with_errors"):
        return FAILED
    taken = 0 if dry_run else totals.get("taken", 0)
    return PENDING if totals["left"] or totals.get("findings", 0) > taken else DONE
