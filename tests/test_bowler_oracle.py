"""Bowler: its scripts in our pipeline, and its parser as an independent judge of a plain rename."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchmigrate import registry
from torchmigrate.bowler import CODE, codemods, queries_of
from torchmigrate.codemod import Codemod, Plan
from torchmigrate.edits import Replace, ReplaceText
from torchmigrate.engine import process
from torchmigrate.model import EVERYTHING, LOOK, Decision, FileResult, Policy, Project, Safety, UsageError, Verdict
from torchmigrate.module import Module

bowler = pytest.importorskip("bowler")

RENAME = """
from bowler import Query

def main():
    Query("somewhere/else").select_function("old_name").rename("new_name").write()
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "rename.py"
    path.write_text(RENAME)
    return path


def run(script: Path, data: bytes, policy: Policy = EVERYTHING, name: str = "pkg/a.py") -> FileResult:
    return process(name, data, [rule() for rule in codemods(str(script))], Project(), policy)


# -- the oracle ------------------------------------------------------------------------------------------------


class Rename(Codemod):
    """Rename lib.old_name to new_name by what names refer to."""

    code, name = "XX901", "rename"
    triggers = (b"old_name",)

    def check(self, module: Module) -> Iterable[Plan]:
        for node, _ in module.references("lib.old_name"):
            yield self.change(node, Replace(node, "new_name"), message="rename")
        for line in module.text.splitlines():
            if line.startswith("from lib import") and "old_name" in line:
                at = module.text.index(line) + line.index("old_name")
                edit = ReplaceText(at, at + len("old_name"), "new_name")
                yield self.change(module.tree.body[0], edit, message="rename the import")


EXPRESSIONS = st.recursive(
    st.sampled_from(["x", "1", "'old_name'", "a.b", "old_name", "[1, 2]", "{'k': x}", "(lambda y: y)", "(not x)"]),
    lambda inner: st.one_of(
        st.lists(inner, min_size=0, max_size=2).map(lambda args: f"old_name({', '.join(args)})"),
        st.lists(inner, min_size=1, max_size=2).map(lambda args: "other(\n    " + ",\n    ".join(args) + ",\n)"),
        st.tuples(inner, inner).map(lambda two: f"({two[0]} + {two[1]})"),
        inner.map(lambda one: f"[i for i in ({one},) if i]"),
        inner.map(lambda one: f"other(k={one})"),
    ),
    max_leaves=6,
)
STATEMENTS = st.one_of(
    EXPRESSIONS.map(lambda e: f"v = {e}\n"),
    EXPRESSIONS.map(lambda e: f"if ({e}):\n    pass  # old_name\n"),
    EXPRESSIONS.map(lambda e: f"for i in ({e}, 2): print({e})\n"),
    EXPRESSIONS.map(lambda e: f"def f(p=({e})):\n    '''old_name'''\n    return ({e})\n"),
    EXPRESSIONS.map(lambda e: f"class C(B):\n    @other({e})\n    def m(self): ({e})\n"),
    EXPRESSIONS.map(lambda e: f"with other({e}) as w:\n    assert ({e})\n"),
    st.just("\n\n# a comment with old_name\n"),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(STATEMENTS, min_size=1, max_size=4))
def test_a_different_parser_agrees_on_a_plain_rename(statements: list[str]) -> None:
    text = "from lib import old_name\n" + "".join(statements)
    ours = process("a.py", text.encode(), [Rename()], Project(), EVERYTHING)
    assert ours.errors == ()
    assert ours.after is not None
    judge = bowler.Query().select_function("old_name").rename("new_name")
    from torchmigrate.bowler import _Proposer

    assert ours.after.decode() == _renamed_references(_Proposer(judge).propose("a.py", text))


def _renamed_references(text: str) -> str:
    """Bowler's select_function renames definitions, imports and calls; plain reads of the name are left to us."""
    import io
    import tokenize

    lines = text.splitlines(keepends=True)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.NAME and token.string == "old_name":
            row, column = token.start
            assert not lines[row - 1][token.end[1] :].startswith("("), "a call that Bowler did not rename"
            lines[row - 1] = lines[row - 1][:column] + "new_name" + lines[row - 1][token.end[1] :]
    return "".join(lines)


# -- scripts in the pipeline -----------------------------------------------------------------------------------


def test_changes_are_unsafe_and_decided_one_by_one(script: Path) -> None:
    data = b"import os\nold_name(1)\n\nx = 2\n\nold_name(3)\n"
    looked = run(script, data, LOOK)
    assert [(f.code, f.safety, f.span.line, f.before, f.after) for f in looked.findings] == [
        (CODE, Safety.UNSAFE, 2, "old_name(1)\n", "new_name(1)\n"),
        (CODE, Safety.UNSAFE, 6, "old_name(3)\n", "new_name(3)\n"),
    ]
    assert looked.findings[0].message == "rename.py changes this"
    second = Policy(decisions={looked.findings[1].key: Decision(Verdict.ACCEPT)})
    assert run(script, data, second).after == b"import os\nold_name(1)\n\nx = 2\n\nnew_name(3)\n"
    assert run(script, data).after == data.replace(b"old_name", b"new_name")


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"a = 1\r\nold_name()\r\n", id="windows"),
        pytest.param(b"a = 1\r\nb = 2\nold_name()\nold_name()\r\n", id="mixed line ends"),
        pytest.param(b"old_name()", id="no final newline"),
        pytest.param(b"a = 1\r\nold_name()", id="no final newline, windows"),
        pytest.param(b"\xef\xbb\xbfold_name()\n", id="byte order mark"),
        pytest.param("# coding: latin-1\nx = 'é'; old_name()\n".encode("latin-1"), id="latin-1"),
        pytest.param(b"a = 1\n\x0c\nold_name()\n", id="form feed"),
    ],
)
def test_bytes_that_bowler_itself_loses_are_kept(script: Path, data: bytes) -> None:
    result = run(script, data)
    assert result.errors == ()
    assert result.after == data.replace(b"old_name", b"new_name")


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("def f(a, /):\n    old_name(a)\n", id="positional-only"),
        pytest.param("match x:\n    case 1:\n        old_name()\n", id="match"),
        pytest.param("with (a as b, c as d):\n    old_name()\n", id="parenthesised with"),
    ],
)
def test_what_its_parser_cannot_read_is_named(script: Path, source: str) -> None:
    result = run(script, source.encode())
    assert result.after is None
    (error,) = result.errors
    assert error.code == "TM008"
    assert error.line is not None
    assert "Bowler's parser cannot read this file" in error.message


def test_queries_see_what_the_ones_before_them_made(tmp_path: Path) -> None:
    path = tmp_path / "two.py"
    path.write_text(
        "from bowler import Query\n"
        "Query().select_function('a').rename('b').idiff()\n"
        "Query().select_function('b').rename('c').execute(write=True)\n"
    )
    assert run(path, b"a()\nb()\n").after == b"c()\nc()\n"


def test_a_script_s_own_callbacks_turn_hunks_away(tmp_path: Path) -> None:
    path = tmp_path / "picky.py"
    path.write_text(
        "from bowler import Query\n"
        "def only_second(filename, hunk):\n"
        "    assert filename == 'pkg/a.py' and hunk[2].startswith('@@')\n"
        "    return '-a(2)' in hunk\n"
        "Query().select_function('a').rename('b').process(only_second).write()\n"
    )
    assert run(path, b"a(1)\n\na(2)\n").after == b"a(1)\n\nb(2)\n"


def test_files_that_the_script_leaves_out(tmp_path: Path) -> None:
    path = tmp_path / "names.py"
    path.write_text(
        "from bowler import Query\n"
        "Query(filename_matcher=lambda name: name.endswith('_x.py')).select_function('a').rename('b').write()\n"
    )
    assert run(path, b"a()\n").findings == ()
    assert run(path, b"a()\n", name="pkg/a_x.py").after == b"b()\n"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        pytest.param("x = 1\n", "executes no query", id="no query"),
        pytest.param("raise ValueError('oops')\n", "failed: ValueError: oops", id="fails"),
        pytest.param("import sys\nsys.exit(3)\n", "failed: SystemExit: 3", id="exits"),
        pytest.param("from bowler import Query\nQuery().select_root().dump()\n", "dumps trees", id="dump"),
        pytest.param("def (\n", "failed: SyntaxError", id="syntax"),
    ],
)
def test_scripts_that_cannot_be_used(tmp_path: Path, source: str, message: str) -> None:
    path = tmp_path / "script.py"
    path.write_text(source)
    with pytest.raises(UsageError, match=message):
        queries_of(str(path))


def test_running_a_script_changes_no_file_and_prints_to_stderr(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "script.py"
    path.write_text("from bowler import Query\nprint('hello')\nQuery('.').select_function('a').rename('b').write()\n")
    victim = tmp_path / "a.py"
    victim.write_text("a()\n")
    monkeypatch.chdir(tmp_path)
    assert len(queries_of(str(path))) == 1
    assert victim.read_text() == "a()\n"
    assert capsys.readouterr() == ("", "hello\n")


def test_a_transform_that_fails_is_an_error_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "script.py"
    path.write_text(
        "from bowler import Query\n"
        "def broken(node, capture, filename):\n    raise KeyError('x')\n"
        "Query().select_function('a').modify(broken).write()\n"
    )
    (error,) = run(path, b"a()\n").errors
    assert error.code == "TM008"
    assert "the script failed on this file: KeyError" in error.message


def test_the_registry_makes_it_from_a_named_script(script: Path) -> None:
    loaded = registry.load([f"bowler:{script}"])
    assert loaded.errors == ()
    assert [rule.name for rule in loaded.codemods if rule.code == CODE] == ["bowler-script"]


# -- the command -----------------------------------------------------------------------------------------------


def torchmigrate(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "torchmigrate", *arguments], cwd=cwd, capture_output=True, text=True, check=False
    )


@pytest.fixture
def project(tmp_path: Path, script: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "pkg").mkdir(parents=True)
    (folder / "pkg" / "a.py").write_text("def old_name(a):\n    return a\n\n\nprint(old_name(1))\n")
    (folder / "pkg" / "b.py").write_text("def f(a, /):\n    return a\n")
    return folder


def test_the_command_shows_and_writes(project: Path, script: Path) -> None:
    shown = torchmigrate("bowler", str(script), "-n", "--no-git", ".", cwd=project)
    assert shown.returncode == 3, shown.stderr
    assert "+def new_name(a):" in shown.stdout
    assert "+print(new_name(1))" in shown.stdout
    assert "TM008" in shown.stderr
    assert "old_name" in (project / "pkg" / "a.py").read_text()
    written = torchmigrate("bowler", str(script), "--yes", "--no-git", ".", cwd=project)
    assert written.returncode == 3, written.stderr
    expected = "def new_name(a):\n    return a\n\n\nprint(new_name(1))\n"
    assert (project / "pkg" / "a.py").read_text() == expected
    assert torchmigrate("undo", cwd=project).returncode == 0
    assert (project / "pkg" / "a.py").read_text() == expected.replace("new_name", "old_name")


def test_the_command_refuses_a_script_that_fails(project: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.py"
    bad.write_text("1 / 0\n")
    done = torchmigrate("bowler", str(bad), "-n", cwd=project)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "failed: ZeroDivisionError: division by zero" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_command_without_bowler_says_how_to_install_it(project: Path, script: Path, tmp_path: Path) -> None:
    (tmp_path / "hide").mkdir()
    (tmp_path / "hide" / "bowler.py").write_text("raise ImportError('hidden')\n")
    code = f"import sys; sys.path.insert(0, {str(tmp_path / 'hide')!r}); from torchmigrate.__main__ import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), "bowler", str(script), "-n"],
        cwd=project,
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "", "HOME": str(tmp_path)},
    )
    assert "pip install 'torchmigrate[bowler]'" in done.stderr
    assert "Traceback" not in done.stderr
