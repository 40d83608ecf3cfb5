"""A baseline silences the findings of one day, and nothing that came since."""

from __future__ import annotations

import json
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
    assert shell("baseline", *TOYS).code == 0
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
    known.write_text(baseline.dump(results, str(tmp_path)))
    marked = baseline.Baseline(str(known)).mark(results[0])
    assert [f.suppressed for f in marked.findings] == ["in the baseline"] * 3
    changed = replace(results[0], findings=(one, replace(one, key="4"), replace(one, key="3", group=None)))
    marked = baseline.Baseline(str(known)).mark(changed)
    assert [f.suppressed for f in marked.findings] == [None, None, "in the baseline"]
