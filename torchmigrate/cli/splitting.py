"""`--split`: writes one patch for each rule, owner or folder into a folder."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from torchmigrate import git, split, write
from torchmigrate.cli import patches
from torchmigrate.model import FileResult, UsageError
from torchmigrate.owners import Ownership
from torchmigrate.report import text
from torchmigrate.report.summary import Summary

if TYPE_CHECKING:
    from torchmigrate.cli.showing import Show


def patch_out(summary: Summary, show: Show) -> list[str]:
    """Write the patches, let git check that they apply in order, and say how. Raises UsageError."""
    assert show.patch_out is not None and show.split is not None
    owners = Ownership()
    bases = {path: patches.base(path, use_git=show.use_git) for path in (r.path for r in summary.changed)}
    parts = split.parts(
        show.split, summary.changed, show.stages, owners.of, lambda path: patches.name(path, bases[path])
    )
    files = [os.path.join(show.patch_out, part.file) for part in parts]
    _make_room(show.patch_out, {part.file for part in parts})
    results = {result.path: result for result in summary.changed}
    contents: list[bytes] = []
    for part, file in zip(parts, files, strict=True):
        content = b"".join(
            patches.patch(
                _of(results[edit.path], edit.before, edit.after, part.code), context=show.context, use_git=show.use_git
            )
            for edit in part.edits
        )
        try:
            write.create(Path(file), content)
        except OSError as error:
            raise UsageError(f"cannot write {file}: {error.strerror or error}") from None
        contents.append(content)
    if not parts:
        return [f"No change, so no patch in {show.patch_out}."]
    said = [f"{file}: {text.plural(len(part.edits), 'file')}" for part, file in zip(parts, files, strict=True)]
    if show.split == "owner":
        said += [
            f"{path} belongs to {' '.join(who)}: in the patch of {who[0]}"
            for path, who in split.shared(summary.changed, owners.of)
        ]
    zero = ["--unidiff-zero"] if show.context == 0 else []
    tops = set(bases.values())
    where = "" if tops == {os.path.realpath(os.curdir)} else f" (in {', '.join(sorted(tops))})"
    order = " in this order" if show.split == "codemod" else ""
    said.append(f"Apply them with git apply{' --unidiff-zero' if zero else ''}{order}{where}.")
    if not summary.written and len(tops) == 1:
        _check(tops.pop(), contents, zero)
    return [text.one_line(line) for line in said]


def _make_room(folder: str, names: set[str]) -> None:
    """Make the folder; patches of an earlier run in it that would not be replaced are refused."""
    try:
        os.makedirs(folder, exist_ok=True)
        others = sorted(name for name in os.listdir(folder) if name.endswith(".patch") and name not in names)
    except OSError as error:
        raise UsageError(f"cannot write to the folder {folder}: {error.strerror or error}") from None
    if others:
        raise UsageError(f"{folder} holds other patches, such as {others[0]}; remove them or name another folder")


def _of(result: FileResult, before: bytes, after: bytes, code: str) -> FileResult:
    """The part of a result that one patch holds."""
    keys = frozenset(f.key for f in result.findings if f.key in result.accepted and code in ("", f.code))
    return replace(result, before=before, after=after, accepted=keys)


def _check(top: str, contents: Sequence[bytes], flags: Sequence[str]) -> None:
    """Let git check the patches in their order, each on top of the ones before it."""
    import shutil

    if shutil.which("git") is None:
        return
    try:
        git.run(top, "apply", "--check", *flags, "-", stdin=b"".join(contents), ceiling=os.path.dirname(top))
    except git.GitError as error:
        raise UsageError(f"git does not take the patches: {error}; please report this") from None
