"""Puts the changes of a run into commits: one, or one a rule, a project or an owner. Nothing is ever pushed.

Commits are made by the user's own git, with its identity and its hooks. A hook that refuses or that changes files ends
the run, and the text says at which rule, project or owner.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from torchmigrate import git, write
from torchmigrate.model import DEFAULT_TORCH, FileResult
from torchmigrate.runs import Edit

KINDS = ("one", "per-codemod", "per-project", "per-owner")
NOBODY = "unowned"

Stages = Mapping[str, Sequence[tuple[str, bytes]]]
"""For files that several rules change: the content after each of them, by code, in the order of the codes."""


class Stopped(Exception):
    """A commit was not made; the text says of what, why, and what state that leaves."""


@dataclass(frozen=True, slots=True)
class Part:
    """What goes into one commit. `label` names the rule, project or owner; it is empty for a single commit."""

    label: str
    edits: tuple[Edit, ...]
    rules: tuple[str, ...] = ()

    @property
    def subject(self) -> str:
        """The first line of the commit's message."""
        target = f"igrate to torch {DEFAULT_TORCH}"
        return f"{_one_line(self.label)}: m{target}" if self.label else f"M{target}"

    @property
    def message(self) -> str:
        """The whole message of the commit."""
        rules = "".join(f"\n- {rule}" for rule in self.rules)
        return f"{self.subject}\n\nWritten by torchmigrate:\n{rules}\n" if rules else f"{self.subject}\n"


@dataclass(frozen=True, slots=True)
class Committed:
    """One commit that was made."""

    part: Part
    commit: str


def split(
    kind: str,
    changed: Sequence[FileResult],
    stages: Stages,
    root_of: Callable[[str], str],
    owners_of: Callable[[str], tuple[str, ...]],
) -> list[Part]:
    """The commits to make, in the order of codes, roots or owners; what nobody owns comes last.

    A file with several owners goes to the first. Applied in turn, the parts give exactly what the run gave.
    """
    if kind == "per-codemod":
        return _by_code(changed, stages)
    label: Callable[[str], str] = {
        "one": lambda path: "",
        "per-project": lambda path: root_of(path) or os.curdir,
        "per-owner": lambda path: next(iter(owners_of(path)), NOBODY),
    }[kind]
    groups: dict[str, list[FileResult]] = {}
    for result in changed:
        groups.setdefault(label(result.path), []).append(result)
    return [
        Part(name, tuple(_edit(result) for result in groups[name]), _rules(groups[name]))
        for name in sorted(groups, key=lambda name: (name == NOBODY, name))
    ]


def _edit(result: FileResult) -> Edit:
    assert result.before is not None and result.after is not None
    return Edit(result.path, result.before, result.after)


def _rules(results: Iterable[FileResult]) -> tuple[str, ...]:
    names = {(f.code, f.name) for result in results for f in result.findings if f.key in result.accepted}
    return tuple(f"{code} {name}" for code, name in sorted(names))


def _by_code(changed: Sequence[FileResult], stages: Stages) -> list[Part]:
    edits: dict[str, list[Edit]] = {}
    names: dict[str, str] = {}
    for result in changed:
        whole = _edit(result)
        codes = codes_of(result)
        names.update({f.code: f.name for f in result.findings})
        before = whole.before
        for code, after in stages.get(result.path) or [(codes[-1], whole.after)]:
            if after != before:
                edits.setdefault(code, []).append(Edit(result.path, before, after))
            before = after
        assert before == whole.after
    return [Part(f"{code} {names[code]}", tuple(edits[code]), (f"{code} {names[code]}",)) for code in sorted(edits)]


def codes_of(result: FileResult) -> list[str]:
    """The codes of the rules that change a file, in order; what is taken together counts for the first of its codes."""
    return sorted({_code_of(result, key) for key in _taken(result)})


def keys_of(result: FileResult, codes: Iterable[str]) -> list[str]:
    """The decision keys of those changes of a file that count for the given codes."""
    wanted = set(codes)
    return [key for key in _taken(result) if _code_of(result, key) in wanted]


def _taken(result: FileResult) -> list[str]:
    return list(dict.fromkeys(f.decision_key for f in result.findings if f.key in result.accepted))


def _code_of(result: FileResult, key: str) -> str:
    return min(f.code for f in result.findings if f.decision_key == key)


def top_of(paths: Iterable[str]) -> str:
    """The working tree that all files lie in. Raises Stopped where there is none or more than one."""
    tops = {git.toplevel(os.path.dirname(os.path.realpath(path))) for path in paths}
    if None in tops:
        raise Stopped("--commit needs a git repository, and a file that would change is in none")
    if len(tops) > 1:
        raise Stopped(f"--commit works in one repository at a time, not in {', '.join(sorted(map(str, tops)))}")
    return str(tops.pop())


def make(parts: Sequence[Part], top: str, put: Callable[[Sequence[Edit]], Sequence[Edit]]) -> Iterator[Committed]:
    """Write and commit one part after another. `put` writes edits and gives back those that are on disk.

    Raises Stopped when git or a hook refuses, or a hook changes what was written.
    """
    for number, part in enumerate(parts):
        written = put(part.edits)
        if not written:
            continue
        names = [os.fsencode(os.path.relpath(os.path.realpath(edit.path), top)) for edit in written]
        try:
            commit = git.commit(top, part.message, names)
        except git.GitError as error:
            touched = _touched(written)
            why = f"a hook changed {', '.join(touched)}: {error}" if touched else str(error)
            raise Stopped(_stopped(part, why, parts[number + 1 :])) from None
        yield Committed(part, commit)
        if touched := _touched(written):
            why = f"a hook changed {', '.join(touched)} while it was committed ({commit[:7]})"
            raise Stopped(_stopped(part, why, parts[number + 1 :]))


def kept(folder: str, made: Sequence[str]) -> list[str]:
    """Those of some commits that the branch checked out in a folder still holds."""
    try:
        gone = git.run(folder, "rev-list", *made, "--not", "HEAD").decode("ascii").split() if made else []
    except git.GitError:
        return []
    return [commit for commit in made if commit not in gone]


def are_on_top(folder: str, made: Sequence[str]) -> bool:
    """Whether nothing was committed after some commits, given in order, and no other repository is known to have them.

    Then the branch can go back to what was before the first, which is no first commit of a history either.
    """
    try:
        newest = git.run(folder, "rev-list", f"--max-count={len(made)}", "HEAD").decode("ascii").split()
        git.run(folder, "rev-parse", "--verify", "--quiet", f"{made[0]}^")
        far = git.run(folder, "for-each-ref", f"--contains={made[0]}", "refs/remotes")
    except git.GitError:
        return False
    return newest == list(reversed(made)) and not far


def _touched(edits: Iterable[Edit]) -> list[str]:
    found = []
    for edit in edits:
        try:
            same = write.read(edit.path) == edit.after
        except OSError:
            same = False
        if not same:
            found.append(edit.path)
    return found[:3] + ["..."] * (len(found) > 3)


def _stopped(part: Part, why: str, others: Sequence[Part]) -> str:
    what = f"the commit of {_one_line(part.label)}" if part.label else "the commit"
    rest = f"; {len(others)} more not begun" if others else ""
    return f"{what} was stopped: {why}{rest}"


def _one_line(text: str) -> str:
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
