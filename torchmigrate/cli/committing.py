"""Writes what a run changes and commits it part by part."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

from torchmigrate import commits, git, journal, runs
from torchmigrate.cli import terminal
from torchmigrate.cli.running import Stop
from torchmigrate.cli.showing import Show, conclude
from torchmigrate.model import FileError, FileResult, Settings, UsageError
from torchmigrate.owners import Ownership
from torchmigrate.report import text
from torchmigrate.report.summary import FAILED, Summary
from torchmigrate.roots import Projects


def write(summary: Summary, show: Show, settings: Settings, kind: str, stages: commits.Stages) -> int:
    """Write and commit; the exit code. When git or a hook stops it, what was written stays, and the text says so.

    Raises UsageError before anything is written.
    """
    try:
        top = commits.top_of(result.path for result in summary.changed)
        git.run(top, "var", "GIT_COMMITTER_IDENT")
    except (commits.Stopped, git.GitError) as error:
        raise UsageError(str(error)) from None
    parts = commits.split(kind, summary.changed, stages, Projects.of(settings).root_of, Ownership().of)
    journal.sweep()
    log = journal.Journal.start("apply", os.curdir, settings={"paths": list(settings.paths)})
    written: dict[str, list[bytes]] = {}
    failures: list[FileError] = []
    notes: list[str] = []
    stopped = ""
    with Stop() as stop:

        def put(edits: Sequence[runs.Edit]) -> Sequence[runs.Edit]:
            failed = {failure.path for failure in failures}
            outcomes = {
                one.path: one for one in runs.replace_all(log, (e for e in edits if e.path not in failed), stop)
            }
            failures.extend(one.error for one in outcomes.values() if one.error)
            notes.extend(one.note for one in outcomes.values() if one.note)
            done = [e for e in edits if e.path in outcomes and not outcomes[e.path].error]
            for edit in done:
                written.setdefault(edit.path, []).append(edit.after)
            if stop():
                raise commits.Stopped("interrupted before the next commit")
            return done

        try:
            for made in commits.make(parts, top, put):
                log.committed(made.commit)
                files = text.plural(len(made.part.edits), "file")
                notes.append(text.one_line(f"Committed {made.commit[:7]}: {made.part.subject} ({files})"))
        except commits.Stopped as error:
            stopped = str(error)
    log.close()
    results = [_as_written(r, written.get(r.path, []), stages.get(r.path, ())) for r in summary.results]
    summary = replace(summary, results=results, written=True, failures=failures, interrupted=stop())
    code = conclude(summary, show, notes=notes)
    if stopped:
        terminal.say([text.one_line(f"error: {stopped}")])
        terminal.say(["       what was written stays in the working tree, not committed"] * bool(written))
    if written and not show.quiet:
        terminal.say([f"Undo with: torchmigrate undo {log.run}"])
    return FAILED if stopped and not summary.interrupted else code


def _as_written(result: FileResult, contents: Sequence[bytes], stages: Sequence[tuple[str, bytes]]) -> FileResult:
    """The result as far as it is on disk: as a whole, up to the last stage that was written, or not at all."""
    if result.after is None or (contents and contents[-1] == result.after):
        return result
    if not contents:
        return replace(result, before=None, after=None, accepted=frozenset())
    codes = [code for code, _ in stages][: [after for _, after in stages].index(contents[-1]) + 1]
    keys = set(commits.keys_of(result, codes))
    accepted = frozenset(f.key for f in result.findings if f.key in result.accepted and f.decision_key in keys)
    return replace(result, after=contents[-1], accepted=accepted)
