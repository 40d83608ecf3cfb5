"""`check`, and the machine formats that other tools rely on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commandline import TOYS, Shell

from torchmigrate import __version__

FILES = {
    "pkg/m.py": b"x = 1\n\n\ndef f():\n    toy_call('manual')\n",
    "pkg/s.py": b"toy_call(\n    1,\n)\n",
    "pkg/u.py": b"toy_call('unsafe')\n",
    "pkg/ignored.py": b"toy_call(1)  # torchmigrate: ignore[XX101]\n",
    "pkg/n.py": b"x = 1\n",
}


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    found = Shell(tmp_path / "repo", tmp_path / "state")
    found.write(FILES)
    return found


def test_one_finding_a_line(shell: Shell) -> None:
    done = shell("check", *TOYS)
    assert done.code == 1
    assert done.out == (
        "pkg/m.py:5:5: XX101 manual: choose a device yourself\n"
        "pkg/s.py:1:1: XX101 safe: the call gets a device\n"
        "pkg/u.py:1:1: XX101 unsafe: the call gets a device\n"
    )
    assert done.err.splitlines()[:2] == [
        "Found 3 places in 3 files: 1 safe, 1 unsafe, 1 manual",
        "1 place ignored by comments (-v shows them).",
    ]
    assert shell.contents() == FILES


def test_nothing_to_migrate_is_success(shell: Shell) -> None:
    done = shell("check", *TOYS, "pkg/n.py", "pkg/ignored.py")
    assert (done.code, done.out) == (0, "")
    assert done.err.startswith("Found nothing to migrate\n")


def test_the_json_contract(shell: Shell) -> None:
    shell.write({"pkg/broken.py": b"toy_call(\n"})
    done = shell("check", *TOYS, "--format", "json", "pkg")
    assert (done.code, done.err) == (3, "")
    shown = json.loads(done.out)
    assert list(shown) == ["schema", "tool", "findings", "errors", "totals"]
    assert shown["schema"] == 1
    assert shown["tool"] == {"name": "torchmigrate", "version": __version__}
    manual, safe, unsafe = shown["findings"]
    assert list(safe.items())[:13] == [
        ("path", "pkg/s.py"),
        ("line", 1),
        ("column", 1),
        ("end_line", 3),
        ("end_column", 2),
        ("cell", None),
        ("code", "XX101"),
        ("name", "add-device"),
        ("outcome", "rewrite"),
        ("safety", "safe"),
        ("message", "the call gets a device"),
        ("before", "toy_call(\n    1,\n)"),
        ("after", "toy_call(\n    1,\n    device=0,\n)"),
    ]
    assert list(safe)[13:] == ["key", "group"]
    assert safe["group"] is None
    assert (manual["outcome"], manual["safety"], manual["after"]) == ("report", "manual", None)
    assert (unsafe["outcome"], unsafe["safety"]) == ("rewrite", "unsafe")
    (error,) = shown["errors"]
    assert list(error) == ["path", "line", "column", "code", "message"]
    assert (error["path"], error["line"], error["column"], error["code"]) == ("pkg/broken.py", 1, 9, "TM001")
    assert shown["totals"] == {
        "files_seen": 6,
        "files_looked_at": 5,
        "files_with_findings": 3,
        "files_with_errors": 1,
        "findings": 3,
        "safe": 1,
        "unsafe": 1,
        "manual": 1,
        "suppressed": 1,
    }


def test_json_is_the_same_every_time_and_holds_no_absolute_path(shell: Shell) -> None:
    first = shell("check", *TOYS, "--format", "json", "-j", "1").raw
    assert shell("check", *TOYS, "--format", "json", "-j", "2").raw == first
    assert str(shell.folder).encode() not in first


@pytest.mark.parametrize("given", ["pkg", "./pkg", "pkg/", "pkg/s.py", "./pkg/../pkg/s.py"])
def test_paths_are_as_given(shell: Shell, given: str) -> None:
    shown = json.loads(shell("check", *TOYS, "--format", "json", given).out)
    path = next(f["path"] for f in shown["findings"] if f["path"].endswith("s.py"))
    assert path == ("pkg/../pkg/s.py" if ".." in given else "pkg/s.py")


def test_github_annotations(shell: Shell) -> None:
    shell.write({"pkg/a,b.py": b"toy_call('manual')\n"})
    done = shell("check", *TOYS, "--format", "github")
    assert done.out.splitlines() == [
        "::warning file=pkg/a%2Cb.py,line=1,col=1,endLine=1,title=XX101::choose a device yourself",
        "::warning file=pkg/m.py,line=5,col=5,endLine=5,title=XX101::choose a device yourself",
        "::notice file=pkg/s.py,line=1,col=1,endLine=3,title=XX101::the call gets a device",
        "::notice file=pkg/u.py,line=1,col=1,endLine=1,title=XX101::the call gets a device",
    ]


def test_github_annotations_say_what_the_limit_leaves_out(shell: Shell) -> None:
    shell.write({"pkg/many.py": b"toy_call('manual')\n" * 60})
    lines = shell("check", *TOYS, "--format", "github").out.splitlines()
    assert len(lines) == 51
    assert lines[-1] == "::notice title=torchmigrate::and 13 more; run torchmigrate check to see all"


def test_output_file_and_exit_zero(shell: Shell) -> None:
    done = shell("check", *TOYS, "--output", "found.txt", "--exit-zero", "-q")
    assert (done.code, done.out, done.err) == (0, "", "")
    assert (shell.folder / "found.txt").read_text().count("\n") == 3


def test_stdin(shell: Shell) -> None:
    done = shell("check", "-", *TOYS, "--stdin-filename", "lib/x.py", input=b"\ntoy_call(1)\n")
    assert (done.code, done.out) == (1, "lib/x.py:2:1: XX101 safe: the call gets a device\n")
    assert shell("check", "-", *TOYS, input=b"x = 1\n").code == 0


def test_unused_ignore_comments_are_told_and_cost_nothing(shell: Shell) -> None:
    shell.write({"pkg/n.py": b"x = toy_call  # torchmigrate: ignore[XX101]\n"})
    done = shell("check", *TOYS, "pkg/n.py")
    assert (done.code, done.out) == (0, "pkg/n.py:1:15: TM002 unused suppression of XX101\n")


def test_min_torch_and_its_source_are_said_once(shell: Shell) -> None:
    shell.write({"pyproject.toml": b'[project]\nname = "x"\nversion = "1"\ndependencies = ["torch>=2.12"]\n'})
    said = [line for line in shell("check", *TOYS).err.splitlines() if "torch" in line]
    assert said == ["The code must run on torch 2.12 and later (pyproject.toml:4)."]
    said = [line for line in shell("check", *TOYS, "--min-torch", "2.15").err.splitlines() if "torch" in line]
    assert said == ["The code must run on torch 2.15 and later (--min-torch)."]


def test_configuration_selects_and_sets_options(shell: Shell) -> None:
    shell.write({"torchmigrate.toml": b'exclude = ["/pkg/m.py"]\n[XX101]\ndevice = "1"\n'})
    done = shell("diff", *TOYS, "pkg")
    assert "device=1" in done.out
    assert "m.py" not in done.err
    assert "device=0" in shell("diff", *TOYS, "pkg", "--isolated").out
    shell.write({"torchmigrate.toml": b'[XX101]\ndevise = "1"\n'})
    refused = shell("check", *TOYS)
    assert refused.code == 2
    assert "XX101 has no option 'devise'; did you mean 'device'?" in refused.err


def test_configuration_for_some_paths(shell: Shell) -> None:
    shell.write({"torchmigrate.toml": b'[[overrides]]\npaths = ["pkg/u.py", "pkg/m.py"]\nignore = ["XX101"]\n'})
    assert shell("check", *TOYS).out == "pkg/s.py:1:1: XX101 safe: the call gets a device\n"


def test_what_was_left_out_is_said(shell: Shell) -> None:
    shell.write({"pkg/made.py": b"# @generated by a tool\ntoy_call(1)\n"})
    done = shell("check", *TOYS)
    assert "made.py:" not in done.out
    assert "1 generated file left out: pkg/made.py (add --include-generated)" in done.err
    assert "pkg/made.py:2:1" in shell("check", *TOYS, "--include-generated").out


def test_a_plugin_that_fails_to_load_is_an_error(shell: Shell) -> None:
    shell.write({"bad_rules.py": b"raise ValueError('no')\n"})
    done = shell("check", *TOYS, "--load", "bad_rules.py")
    assert done.code == 3
    assert "bad_rules.py: TM003 these codemods failed to load: ValueError: no" in done.out
    assert "could not be processed" not in done.err


def test_facts_of_a_whole_project_reach_every_file(shell: Shell) -> None:
    shell.write(
        {
            "one/pyproject.toml": b'[project]\nname = "one"\nversion = "1"\ndependencies = ["torch>=2.14"]\n',
            "one/a.py": b"toy_factory()\n",
            "one/b.py": b"toy_factory()\ntoy_factory()\n",
            "two/pyproject.toml": b'[project]\nname = "two"\nversion = "1"\ndependencies = ["torch>=2.13"]\n',
            "two/c.py": b"toy_factory()\n",
        }
    )
    done = shell("check", *TOYS[:3], "XX301", "one", "two")
    assert done.out == (
        "one/a.py:1:1: XX301 manual: one of 3 toy factories\n"
        "one/b.py:1:1: XX301 manual: one of 3 toy factories\n"
        "one/b.py:2:1: XX301 manual: one of 3 toy factories\n"
        "two/c.py:1:1: XX301 manual: one of 1 toy factories\n"
    )
    assert "  2.14 in one (one/pyproject.toml:4)\n  2.13 in two (two/pyproject.toml:4)\n" in done.err
