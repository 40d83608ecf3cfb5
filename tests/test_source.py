"""Bytes, text and positions: every byte outside a change stays, and what cannot be read is refused by name."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from torchmigrate.codemod import Codemod, Plan
from torchmigrate.edits import SetArgument
from torchmigrate.engine import process
from torchmigrate.model import EVERYTHING, FileResult, Project
from torchmigrate.module import Module
from torchmigrate.newer import masked
from torchmigrate.parse import parse_python
from torchmigrate.source import Lines, SourceError, Splice, narrow, read_python, read_text, splice, wide


class Mark(Codemod):
    """Give every call of target the argument new=1."""

    code, name = "XX901", "mark"
    triggers = (b"target",)

    def check(self, module: Module) -> list[Plan]:
        return [
            self.change(node, SetArgument(node, "new", "1"), message="marked")
            for node in ast.walk(module.tree)
            if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] == "target"
        ]


def marked(data: bytes) -> FileResult:
    return process("a.py", data, [Mark()], Project(), EVERYTHING)


CONTENTS = {
    "plain": b"target()\n",
    "no final newline": b"x = 1\ntarget()",
    "only a call": b"target()",
    "windows": b"if x:\r\n    target()\r\n",
    "windows, no final newline": b"x = 1\r\ntarget()",
    "mixed line ends": b"a = 1\r\nb = 2\ntarget()\nc = 3\r\n",
    "old mac": b"a = 1\rtarget()\rb = 2\r",
    "lone carriage return in between": b"a = 1\n\rtarget()\n",
    "lone carriage return in a string": b"a = '''\r'''\ntarget()\n",
    "mixed line ends in a string": b"a = '''\r\n\n'''\r\ntarget()\r\n",
    "form feed on its own": b"a = 1\n\x0c\ntarget()\n",
    "form feed before code": b"a = 1\n\x0ctarget()\n",
    "form feed at the start": b"\x0ctarget()\n",
    "form feed in a comment": b"# a\x0cb\ntarget()\n",
    "vertical tab in a string": b"a = '\x0b'\ntarget()\n",
    "unicode separators in a string": "a = '\u2028\u2029\x85'\ntarget()\n".encode(),
    "byte order mark": b"\xef\xbb\xbftarget()\n",
    "byte order mark and cookie": b"\xef\xbb\xbf# coding: utf-8\ntarget()\n",
    "byte order mark, windows": b"\xef\xbb\xbfa = 1\r\ntarget()\r\n",
    "utf-8 before the call": "ä = '日本'; target()\n".encode(),
    "wide characters on the line": "f('🔥🔥', target())\n".encode(),
    "combining characters": "x = 'e\u0301'; target()  # e\u0301\n".encode(),
    "latin-1 cookie": "# -*- coding: latin-1 -*-\nx = 'é'; target()\n".encode("latin-1"),
    "cookie on the second line": "#!/bin/python\n# vim: set fileencoding=iso-8859-15 :\nx = '€'; target()\n".encode(
        "iso-8859-15"
    ),
    "cp1252 cookie": "# coding=cp1252\nx = '“'\ntarget()\n".encode("cp1252"),
    "shift-jis cookie": "# coding: shift_jis\nx = '日本'; target()\n".encode("shift_jis"),
    "tabs": b"if x:\n\ttarget()\n",
    "no line end in a block": b"if x: target()",
    "backslash continuation": b"x = 1 + \\\n    target()\n",
    "trailing blanks": b"x = 1   \ntarget()   \n   \n",
    "comment at the end": b"target()  # why\n# the end",
    "several on a line": b"target(); target(target())\n",
    "null-free long line": b"x = [" + b"1, " * 5000 + b"target()]\n",
    "inside an f-string": b"x = f'{target()}'\n" if sys.version_info >= (3, 12) else b"target(f'{x}')\n",
}


@pytest.mark.parametrize("data", CONTENTS.values(), ids=CONTENTS)
def test_only_the_calls_change(data: bytes) -> None:
    result = marked(data)
    assert result.errors == ()
    assert result.before == data
    expected = data.replace(b"target(target())", b"target(target(new=1), new=1)")
    expected = expected.replace(b"target()", b"target(new=1)").replace(b"target(f'{x}')", b"target(f'{x}', new=1)")
    assert result.after == expected


@pytest.mark.parametrize("data", CONTENTS.values(), ids=CONTENTS)
def test_positions_are_those_of_the_text(data: bytes) -> None:
    text = read_python(data).text
    lines = Lines(text)
    for finding in marked(data).findings:
        start = lines.starts[finding.span.line - 1] + finding.span.column - 1
        end = lines.starts[finding.span.end_line - 1] + finding.span.end_column - 1
        assert text[start:end] == finding.before


@pytest.mark.parametrize("data", CONTENTS.values(), ids=CONTENTS)
def test_round_trip(data: bytes) -> None:
    source = read_python(data)
    assert source.encode(source.text) == data


@pytest.mark.parametrize(
    ("data", "code", "message", "line"),
    [
        pytest.param(b"x = '\xe9'\ntarget()\n", "TM001", "cannot decode as utf-8: byte 0xe9", 1, id="no cookie"),
        pytest.param(b"a\n# \xff\ntarget()\n", "TM001", "byte 0xff; add the right coding comment", 2, id="second line"),
        pytest.param(b"# coding: no-such\ntarget()\n", "TM001", "unknown encoding", 1, id="unknown cookie"),
        pytest.param(b"\xef\xbb\xbf# coding: latin-1\ntarget()\n", "TM001", "encoding problem", 1, id="bom and cookie"),
        pytest.param(b"target(\n", "TM001", "cannot parse", 1, id="syntax error"),
        pytest.param(b"print 'x'\ntarget()\n", "TM001", "cannot parse", 1, id="python 2"),
        pytest.param(b"target()\0\n", "TM001", "cannot parse", 1, id="null byte"),
        pytest.param("x = 1\n".encode("utf-16"), "TM001", "cannot decode", 1, id="utf-16"),
        pytest.param(
            b"# coding: utf-7\nx = '+AGE-'\ntarget()\n", "TM006", "byte for byte", 1, id="encoded another way"
        ),
        pytest.param(b"if x:\ntarget()\n", "TM001", "cannot parse: expected an indented block", 2, id="indentation"),
    ],
)
def test_what_cannot_be_read_is_an_error_with_a_place(data: bytes, code: str, message: str, line: int) -> None:
    result = marked(data)
    assert result.after is None
    assert result.findings == ()
    (error,) = result.errors
    assert (error.code, error.line) == (code, line)
    assert message in error.message


def test_deep_nesting_is_an_error() -> None:
    result = marked(b"x = " + b"(" * 5000 + b")" * 5000 + b"\ntarget()\n")
    assert [error.code for error in result.errors] == ["TM001"]
    assert result.after is None


def test_new_text_that_the_encoding_cannot_hold_is_left_out() -> None:
    class Fire(Mark):
        code = "XX902"

        def check(self, module: Module) -> list[Plan]:
            calls = [node for node in ast.walk(module.tree) if isinstance(node, ast.Call)]
            return [self.change(node, SetArgument(node, "new", "'🔥'"), message="fire") for node in calls]

    result = process("a.py", b"# coding: latin-1\ntarget()\n", [Fire()], Project(), EVERYTHING)
    assert result.after is None
    assert [error.code for error in result.errors] == ["TM006"]
    assert result.findings


def test_text_that_is_not_python() -> None:
    assert read_text(b"\xff\xfd").encode("\xff\xfd") == b"\xff\xfd"
    assert read_text("é".encode()).text == "é"
    assert read_text(b"\xef\xbb\xbfx").bom


WIDE = ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"]


@pytest.mark.parametrize("encoding", WIDE)
@pytest.mark.parametrize("kind", ["python", "yaml", "json", "requirements", "env", "toml", "notebook"])
def test_text_of_wide_characters_is_an_error(encoding: str, kind: str) -> None:
    result = process("f", "\ufefftarget()\n".encode(encoding), [Mark()], Project(), EVERYTHING, kind)
    (error,) = result.errors
    assert (error.code, error.line, error.column) == ("TM001", 1, 1)
    assert f"the file is in {encoding[:6].upper()}; save it in UTF-8" in error.message
    assert result.findings == ()


@pytest.mark.parametrize("encoding", WIDE)
def test_python_reads_no_text_of_wide_characters(encoding: str, tmp_path: Path) -> None:
    path = tmp_path / "wide.py"
    path.write_bytes("\ufeffx = 1\n".encode(encoding))
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "SyntaxError" in done.stderr


def test_wide_characters_are_searched_as_utf8() -> None:
    for encoding in WIDE:
        assert "é target".encode() in narrow("\ufeffé target".encode(encoding))
        assert b"target" in narrow("\ufefftarget".encode(encoding) + b"\x00")
    assert (wide(b"target"), narrow(b"\xfftarget"), wide(b"")) == (None, b"\xfftarget", None)


def test_line_ends_near_a_place() -> None:
    lines = Lines("a\r\nb\nc\rd")
    assert [lines.newline_near(at) for at in (0, 3, 5, 7)] == ["\r\n", "\n", "\r", "\r"]
    assert Lines("a").newline_near(0) == "\n"


def test_splices() -> None:
    assert splice("abc", [Splice(2, 3, "C"), Splice(0, 0, "<"), Splice(0, 1, "A")]) == "<AbC"
    with pytest.raises(ValueError, match="overlapping"):
        splice("abc", [Splice(0, 2, ""), Splice(1, 3, "")])


def test_an_offset_of_utf8_columns() -> None:
    text = "ä = '🔥'; b\nc"
    lines = Lines(text)
    node = ast.parse(text).body[1]
    assert text[lines.offset(node.lineno, node.col_offset)] == "b"
    assert lines.position(len(text)) == (2, 2)


# -- syntax newer than the running Python ----------------------------------------------------------------------

NEWER = {
    "type parameters of a function": ((3, 12), "def f[T: int, *Ts](x: T) -> T:\n    return target(x)\n"),
    "type parameters of a class": ((3, 12), "class A[T]:\n    x = target()\n"),
    "type alias": ((3, 12), "type Pair[T] = tuple[T, T]\ntarget()\n"),
    "alias over lines": ((3, 12), "type Pair = (\n    int\n)\ntarget()\n"),
    "same quotes in an f-string": ((3, 12), "x = f'{a['b']}'\ntarget()\n"),
    "nested f-strings": ((3, 12), "x = f'{f'{f'{1}'}'}'; target()\n"),
    "backslash in an f-string": ((3, 12), "x = f'{\"\\n\".join(a)}'; target()\n"),
    "comment in an f-string": ((3, 12), "x = f'{\na # c\n}'\ntarget()\n"),
    "default of a type parameter": ((3, 13), "class A[T = int]:\n    x = target()\n"),
    "except without parentheses": ((3, 14), "try:\n    target()\nexcept A, B:\n    target()\n"),
    "except star without parentheses": ((3, 14), "try:\n    target()\nexcept* A, B:\n    pass\n"),
    "template string": ((3, 14), "x = t'{a}'\ntarget()\n"),
    "not ascii": ((3, 12), "ä = 'ö'; x = f'{a['ü']}'; target()\n"),
    "windows line ends": ((3, 12), "type A = int\r\nif x:\r\n    target()\r\n"),
}


@pytest.mark.parametrize(("since", "text"), NEWER.values(), ids=NEWER)
def test_newer_syntax_is_read_and_kept(since: tuple[int, int], text: str) -> None:
    data = text.encode()
    result = marked(data)
    assert result.errors == ()
    expected = text.replace("target()", "target(new=1)").replace("target(x)", "target(x, new=1)")
    assert result.after == expected.encode()
    if sys.version_info >= since:
        compile(result.after, "a.py", "exec")


@pytest.mark.parametrize(("since", "text"), NEWER.values(), ids=NEWER)
def test_masking_keeps_every_position(since: tuple[int, int], text: str) -> None:
    hidden = masked(text)
    assert hidden is not None
    assert len(hidden.encode()) == len(text.encode())
    assert [i for i, c in enumerate(hidden.encode()) if c in b"\r\n"] == [
        i for i, c in enumerate(text.encode()) if c in b"\r\n"
    ]
    ast.parse(hidden)


def test_masking_where_nothing_is_new() -> None:
    assert masked("x = 1\n") is None
    assert masked("x = (\n") is None


def test_a_real_syntax_error_beside_newer_syntax() -> None:
    with pytest.raises(SourceError) as caught:
        parse_python("type A = int\nx = )\n")
    assert caught.value.code == "TM001"
