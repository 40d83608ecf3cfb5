"""A baseline silences the findings of one day, and nothing that came since."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from commandline import SAMPLE, TOYS, Shell

from torchmigrate import baseline
from torchmigrate.model import FileResult, Finding, Outcome, Safety, Span


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    found = Shell(tmp_path / "repo", tmp_path / "state")
    found.write(SAMPLE)
    return found


def test_only_what_came_since_is_found(shell: Shell) -> None:
    done = shell("baseline", "-o", "known.json", *TOYS, ".")
    assert done.code == 0
    assert "Wrote 5 findings to known.json." in done.err
    clean = shell("check", "--baseline", "known.json", *TOYS, ".")
    assert (clean.code, clean.out) == (0, "")
    assert "5 places in the baseline (-v shows them)." in clean.err
    shell.write({"train/a.py": b"# moved\n" + SAMPLE["train/a.py"] + b"\ntoy_call(9)\n", "train/late.py": b""})
    later = shell("check", "--baseline", "known.json", *TOYS, ".")
    assert later.code == 1
    assert [line.split(" ")[0] for line in later.out.splitlines()] == ["train/a.py:8:1:"]
    assert "2 findings of the baseline are gone or were not looked at." in later.err


def test_a_baseline_holds_wherever_the_check_stands(shell: Shell) -> None:
    shell("baseline", "-o", "known.json", *TOYS, ".")
    done = shell("check", "--baseline", "../known.json", *TOYS, cwd=shell.folder / "train")
    assert (done.code, done.out) == (0, "")


def test_what_is_known_is_marked_in_json(shell: Shell) -> None:
    shell("baseline", "-o", "known.json", *TOYS, "train/a.py")
    told = json.loads(shell("check", "--baseline", "known.json", "--format", "json", *TOYS, "train").out)
    assert told["totals"]["suppressed"] == 1


def test_the_same_files_give_the_same_baseline(shell: Shell) -> None:
    shell("baseline", "-o", "1.json", *TOYS, "-j", "1", ".")
    shell("baseline", "-o", "2.json", *TOYS, "-j", "4", ".")
    assert (shell.folder / "1.json").read_bytes() == (shell.folder / "2.json").read_bytes()


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "it is empty"),
        (b"<<<<<<< ours", "Expecting value: line 1 column 1"),
        (b"[]", "it must hold an object with schema and findings"),
        (b"{}", "it must hold an object with schema and findings"),
        (b'{"schema": 9, "findings": []}', "its schema is 9, but this version knows 1 alone"),
        (b'{"schema": 1, "findings": {}}', "its findings must be a list of objects, each with a path and a key"),
        (b'{"schema": 1, "findings": [{"path": "a"}]}', "its findings must be a list of objects"),
        (b'{"schema": 1, "findings": ["a"]}', "its findings must be a list of objects"),
    ],
)
def test_what_is_no_baseline_is_refused(shell: Shell, content: bytes, why: str) -> None:
    shell.write({"known.json": content})
    done = shell("check", "--baseline", "known.json", *TOYS, ".")
    assert done.code == 2
    assert f"known.json is no baseline ({why}" in done.err
    assert done.err.endswith("); torchmigrate baseline writes one\n")


def test_files_that_cannot_be_read_are_told(shell: Shell) -> None:
    shell.write({"bad.py": b"toy_call(\n"})
    done = shell("baseline", "-o", "known.json", *TOYS, ".")
    assert done.code == 3
    assert "bad.py:1:9: TM001" in done.err
    assert "cannot read the baseline none.json" in shell("check", "--baseline", "none.json", *TOYS, ".").err


CONFIGURED = {"pyproject.toml": b'[tool.torchmigrate]\nbaseline = "ci/known.json"\n', "ci/x.txt": b""}


def test_the_configuration_names_the_baseline(shell: Shell) -> None:
    shell.write(CONFIGURED)
    done = shell("baseline", *TOYS)
    assert done.code == 0
    assert "Wrote 5 findings to ci/known.json." in done.err
    clean = shell("check", *TOYS, cwd=shell.folder / "train")
    assert (clean.code, clean.out) == (0, "")
    assert "5 places in the baseline" in clean.err
    assert 'baseline          = "ci/known.json"  # pyproject.toml' in shell("config").out


def test_the_folder_of_the_configured_baseline_is_made(shell: Shell) -> None:
    shell.write({"pyproject.toml": b'[tool.torchmigrate]\nbaseline = "ci/of/known.json"\n'})
    assert shell("baseline", *TOYS).code == 0
    assert shell("check", *TOYS).code == 0
    refused = shell("baseline", "-o", "typo/known.json", *TOYS)
    assert (refused.code, refused.err) == (2, "error: cannot write typo/known.json: No such file or directory\n")
    shell.write({"pyproject.toml": b'[tool.torchmigrate]\nbaseline = "train/a.py/known.json"\n'})
    blocked = shell("baseline", *TOYS)
    assert blocked.code == 2
    assert "cannot make the folder of train/a.py/known.json: " in blocked.err


def test_a_flag_wins_over_the_configured_baseline(shell: Shell) -> None:
    shell.write(CONFIGURED)
    shell("baseline", *TOYS)
    shell("baseline", "-o", "less.json", *TOYS, "train/a.py")
    assert (shell.folder / "ci/known.json").read_text() != (shell.folder / "less.json").read_text()
    assert len(shell("check", "--baseline", "less.json", *TOYS).out.splitlines()) == 4
    assert len(shell("check", "--isolated", *TOYS).out.splitlines()) == 5


@pytest.mark.parametrize(
    ("content", "told"),
    [(None, "cannot read the baseline"), (b"[]", "is no baseline")],
    ids=["missing", "broken"],
)
def test_a_configured_baseline_that_cannot_be_used_is_refused(shell: Shell, content: bytes | None, told: str) -> None:
    shell.write(CONFIGURED)
    if content is not None:
        shell.write({"ci/known.json": content})
    done = shell("check", *TOYS)
    assert (done.code, done.out) == (2, "")
    assert f"{shell.folder / 'pyproject.toml'}: baseline: " in done.err
    assert told in done.err
    assert "torchmigrate baseline writes one" in done.err
    whole = shell("baseline", *TOYS[:2])
    assert (whole.code, whole.err.splitlines()[0]) == (0, "Wrote 5 findings to ci/known.json.")
    assert shell("check", *TOYS).code == 0


def test_a_baseline_without_a_name_is_refused(shell: Shell) -> None:
    done = shell("baseline", *TOYS)
    assert done.code == 2
    assert "name it with -o, or as baseline in the configuration" in done.err


def test_what_goes_together_is_known_only_as_a_whole(tmp_path: Path) -> None:
    path = str(tmp_path / "m.py")
    outcome = (Outcome.REWRITE, Safety.SAFE)
    one = Finding(path, Span(1, 1, 1, 2), "XX101", "toy", *outcome, "", "a", "b", key="1", group="1+2")
    results = [FileResult(path, (one, replace(one, key="2"), replace(one, key="3", group=None)))]
    known = tmp_path / "known.json"
    known.write_text(baseline.dump(baseline.entries(results, str(tmp_path))))
    marked = baseline.Baseline(str(known)).mark(results[0])
    assert [f.suppressed for f in marked.findings] == ["in the baseline"] * 3
    changed = replace(results[0], findings=(one, replace(one, key="4"), replace(one, key="3", group=None)))
    marked = baseline.Baseline(str(known)).mark(changed)
    assert [f.suppressed for f in marked.findings] == [None, None, "in the baseline"]


LOAD = TOYS[:2]
PARTS = {
    "app/a.py": b"toy_call(1)\ntoy_sum([1])\n",
    "app/pyproject.toml": b'[project]\nname = "app"\n',
    "lib/b.py": b"toy_call(2)\ntoy_sum([2])\n",
    "lib/c.py": b"toy_call(3)\n",
    "CODEOWNERS": b"/lib/ @lib\n",
    "list.txt": b"lib/c.py\n",
    "torchmigrate.toml": b'baseline = "ci/known.json"\n',
}
ALL = frozenset({("app/a.py", "XX101"), ("app/a.py", "XX201"), ("lib/b.py", "XX101"), ("lib/b.py", "XX201")}) | {
    ("lib/c.py", "XX101")
}


@pytest.fixture
def parts(tmp_path: Path) -> Shell:
    """A repository with a baseline of all of its findings, in which since then every file has changed."""
    found = Shell(tmp_path / "parts", tmp_path / "state")
    found.write(PARTS)
    found.commit()
    assert "Wrote 5 findings to ci/known.json." in found("baseline", *LOAD).err
    for name in ("app/a.py", "lib/b.py", "lib/c.py"):
        found.write({name: PARTS[name].replace(b"(", b"(0 + ").replace(b"(0 + [", b"([0] + [")})
    assert _known(found) == {(path, code, False) for path, code in ALL}
    return found


def _known(shell: Shell) -> set[tuple[str, str, bool]]:
    """The file and the rule of each finding in the baseline, and whether it is of the content that is there now."""
    done = shell("check", "--isolated", "--format", "json", *LOAD)
    now = {(one["path"], one["key"]) for one in json.loads(done.out)["findings"]}
    held = json.loads((shell.folder / "ci/known.json").read_text())["findings"]
    pairs = [(one["path"].removeprefix("../"), one["key"]) for one in held]
    return {(path, key.partition(":")[0], (path, key) in now) for path, key in pairs}


@pytest.mark.parametrize(
    ("arguments", "cwd", "renewed"),
    [
        (["app"], "", {one for one in ALL if one[0] == "app/a.py"}),
        (["lib/c.py", "app"], "", {one for one in ALL if one[0] != "lib/b.py"}),
        ([], "lib", {one for one in ALL if one[0] != "app/a.py"}),
        (["--select", "XX2"], "", {one for one in ALL if one[1] == "XX201"}),
        (["--ignore", "add-start"], "", {one for one in ALL if one[1] == "XX101"}),
        (["--select", "XX2", "lib"], "", {("lib/b.py", "XX201")}),
        (["--project", "app"], "", {one for one in ALL if one[0] == "app/a.py"}),
        (["--owner", "@lib"], "", {one for one in ALL if one[0] != "app/a.py"}),
        (["--files-from", "list.txt"], "", {("lib/c.py", "XX101")}),
        (["--exclude", "lib/c.py", "lib"], "", {one for one in ALL if one[0] == "lib/b.py"}),
        (["--include", "c.py"], "", {("lib/c.py", "XX101")}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_a_run_over_a_part_keeps_the_rest(
    parts: Shell, arguments: list[str], cwd: str, renewed: set[tuple[str, str]]
) -> None:
    done = parts("baseline", *LOAD, *arguments, cwd=parts.folder / cwd)
    assert done.code == 0
    assert _known(parts) == {(*one, one in renewed) for one in ALL}
    found = "1 finding" if len(renewed) == 1 else f"{len(renewed)} findings"
    name = os.path.relpath("ci/known.json", cwd or ".")
    assert done.err.startswith(f"Wrote {found} to {name} and kept {5 - len(renewed)} that this run did not look for.")


def test_only_what_changed_is_renewed(parts: Shell) -> None:
    parts.commit()
    parts.write({"lib/b.py": b"toy_call(7)\n"})
    done = parts("baseline", *LOAD, "--changed-since", "HEAD")
    assert "Wrote 1 finding to ci/known.json and kept 3 that" in done.err
    assert _known(parts) == {(*one, one == ("lib/b.py", "XX101")) for one in ALL - {("lib/b.py", "XX201")}}


def test_a_run_over_everything_keeps_nothing_old(parts: Shell) -> None:
    parts.write({"lib/b.py": b"", "lib/c.py": b""})
    done = parts("baseline", *LOAD)
    assert done.err.startswith("Wrote 2 findings to ci/known.json.\n")
    assert _known(parts) == {("app/a.py", "XX101", True), ("app/a.py", "XX201", True)}


def test_findings_of_files_that_are_gone_are_not_kept(parts: Shell) -> None:
    (parts.folder / "lib/b.py").unlink()
    assert "and kept 1 that" in parts("baseline", *LOAD, "app").err
    assert {path for path, *_ in _known(parts)} == {"app/a.py", "lib/c.py"}


def test_what_cannot_be_kept_is_not_overwritten(parts: Shell) -> None:
    before = (parts.folder / "ci/known.json").read_bytes()
    listed = parts("baseline", *LOAD, "--files-from", "-", input=b"app/a.py\n")
    assert listed.code == 2
    assert "with --files-from -, which is read only once: name a file that lists the paths, or write" in listed.err
    assert (parts.folder / "ci/known.json").read_bytes() == before
    parts.write({"ci/known.json": b"<<<<<<< ours\n" + before})
    for arguments, cwd in ((["app"], ""), ([], "lib"), (["--select", "XX"], ""), (["--owner", "@lib"], "")):
        done = parts("baseline", *LOAD, *arguments, cwd=parts.folder / cwd)
        assert done.code == 2
        assert "this run looks at a part only: run torchmigrate baseline over everything, or write another" in done.err
        assert (parts.folder / "ci/known.json").read_bytes() == b"<<<<<<< ours\n" + before
    assert parts("baseline", *LOAD, "-o", "other.json", "app").code == 0
    assert "Wrote 5 findings" in parts("baseline", *LOAD, ".").err
