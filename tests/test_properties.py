"""Properties that hold for any file, any call layout and any answers."""

from __future__ import annotations

import ast
import io
import tokenize
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from torchmigrate.codemod import Codemod, Plan
from torchmigrate.edits import SetArgument
from torchmigrate.engine import process
from torchmigrate.model import EVERYTHING, LOOK, Decision, Outcome, Policy, Project, Verdict
from torchmigrate.module import Module
from torchmigrate.parse import compiles
from torchmigrate.source import read_python
from torchmigrate_codemods.torch_2_15 import CODEMODS

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures" / "torch_2_15"
INPUTS = sorted(
    text
    for path in FIXTURES.glob("*/*/*.py")
    if path.parent.name in ("rewrite", "manual", "noop") and ".out." not in path.name
    for text in [path.read_bytes().decode("utf-8", "replace")]
    if "__future__" not in text and "import *" not in text and "\r" not in text and "coding" not in text[:80]
)
RULES = [codemod() for codemod in CODEMODS]


class Append(Codemod):
    """Give every call of target the argument new=value."""

    code, name = "XX901", "append"
    triggers = (b"target",)

    def check(self, module: Module) -> list[Plan]:
        return [
            self.change(node, SetArgument(node, "new", "value"), message="append")
            for node in ast.walk(module.tree)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "target"
        ]


# -- call layouts ----------------------------------------------------------------------------------------------

GAPS = st.sampled_from(
    ["", " ", "\n", "\n    ", "\n        ", "  # c\n    ", "\n    # c\n    ", "\n\n    ", " \\\n  ", "\t", " # c\n"]
)
ARGUMENTS = st.sampled_from(
    ["1", "x", "'s'", "a.b", "(1, 2)", "[\n  1,\n]", "g(y)", "target(1)", "lambda: 0", "x if y else z", "'a' 'b'"]
)
KEYWORDS = st.sampled_from(["k=1", "k = 2", "k=target()", "k=[\n    1,\n    2,  # c\n]", "k=(yield)", "**rest"])
NEWLINES = st.sampled_from(["\n", "\r\n"])


@st.composite
def call(draw: st.DrawFn) -> str:
    positional = draw(st.lists(st.one_of(ARGUMENTS, st.just("*more")), max_size=3))
    keywords = draw(st.lists(KEYWORDS, max_size=1)) + draw(st.lists(st.just("last=0"), max_size=1))
    text = "target(" + draw(GAPS)
    arguments = [*positional, *keywords]
    for number, one in enumerate(arguments):
        text += one + draw(GAPS)
        if number < len(arguments) - 1 or draw(st.booleans()):
            text += "," + draw(GAPS)
    return text + ")"


@st.composite
def module_with_calls(draw: st.DrawFn) -> str:
    frames = ["{}\n", "x = {}\n", "x = {} + {}\n", "if {}:\n    pass\n", "x = [{}, {}]  # end\n", "assert {}, ({})\n"]
    text = "def f():\n" if draw(st.booleans()) else ""
    for _ in range(draw(st.integers(1, 3))):
        frame = draw(st.sampled_from(frames))
        statement = frame.format(*(draw(call()) for _ in range(frame.count("{}"))))
        text += "".join(("    " if text.startswith("def") else "") + line for line in statement.splitlines(True))
    return text


def tokens(text: str) -> list[tuple[int, str]]:
    layout = (tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    found = tokenize.generate_tokens(io.StringIO(text, newline="").readline)
    return [(token.type, token.string) for token in found if token.type not in layout]


def without_new(found: list[tuple[int, str]]) -> list[tuple[int, str]]:
    """The tokens without commas and without `new=value`: what no appended argument may touch."""
    names = [string for _, string in found]
    kept = []
    at = 0
    while at < len(found):
        if names[at : at + 3] == ["new", "=", "value"]:
            at += 3
            continue
        if names[at] != ",":
            kept.append(found[at])
        at += 1
    return kept


@settings(max_examples=300, deadline=None)
@given(module_with_calls(), NEWLINES)
def test_an_appended_argument_changes_nothing_else(text: str, newline: str) -> None:
    text = text.replace("\n", newline)
    before = text if _parses(text) else f"def f():{newline}    yield{newline}"
    result = process("a.py", before.encode(), [Append()], Project(), EVERYTHING)
    assert result.errors == ()
    after = (result.after or before.encode()).decode()
    for old, new in zip(_targets(before), _targets(after), strict=True):
        added = [k for k in new.keywords if k.arg == "new"]
        assert len(added) == 1
        assert [ast.unparse(k.value) for k in added] == ["value"]
        assert len(new.args) == len(old.args)
        assert [k.arg for k in new.keywords if k.arg != "new"] == [k.arg for k in old.keywords]
    assert without_new(tokens(after)) == tokens_without_commas(before)
    assert "\n" not in after.replace(newline, "")
    assert process("a.py", after.encode(), [Append()], Project(), EVERYTHING).after is None


def tokens_without_commas(text: str) -> list[tuple[int, str]]:
    return [token for token in tokens(text) if token[1] != ","]


def _targets(text: str) -> list[ast.Call]:
    calls = [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Call)]
    return [n for n in calls if isinstance(n.func, ast.Name) and n.func.id == "target"]


def _parses(text: str) -> bool:
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True


# -- any bytes -------------------------------------------------------------------------------------------------


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200).map(lambda data: b"target()\n" + data))
def test_any_bytes_are_kept_or_refused(data: bytes) -> None:
    result = process("a.py", data, [Append()], Project(), EVERYTHING)
    if result.after is None:
        assert result.errors or b"new" in data or data.count(b"target") != 1
    else:
        assert result.after.replace(b"target(new=value)", b"target()") == data.replace(
            b"target(new=value)", b"target()"
        )


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.sampled_from(["x = 1", "", "    ", "# ä", "\f", "s = '''", "'''", "if x:", "    y = '🔥'"]), max_size=8
    ),
    st.lists(st.sampled_from(["\n", "\r\n", "\r"]), min_size=9, max_size=9),
    st.sampled_from(["utf-8", "latin-1", "utf-8-sig"]),
)
def test_round_trip_of_lines(lines: list[str], ends: list[str], encoding: str) -> None:
    text = "".join(line + end for line, end in zip(lines, ends, strict=False)) + "target()"
    head = "# coding: latin-1\n" if encoding == "latin-1" else ""
    data = (head + text).encode(encoding, "ignore")
    source = read_python(data)
    assert source.encode(source.text) == data
    result = process("a.py", data, [Append()], Project(), EVERYTHING)
    if result.after is not None:
        assert result.after == data[: -len(b"target()")] + b"target(new=value)"


# -- all rules on files made of the fixtures -------------------------------------------------------------------


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.sampled_from(INPUTS), min_size=1, max_size=3), st.randoms(use_true_random=False))
def test_any_answers_give_a_file_that_compiles(parts: list[str], choose: object) -> None:
    data = "\n".join(parts).encode()
    looked = process("a.py", data, RULES, Project(), LOOK)
    assert not {e.code for e in looked.errors} & {"TM011", "TM012"}, looked.errors
    assert looked.after is None
    offered = sorted({f.decision_key for f in looked.findings if f.outcome is Outcome.REWRITE})
    taken = {key for key in offered if choose.random() < 0.5}  # type: ignore[attr-defined]
    policy = Policy(decisions={key: Decision(Verdict.ACCEPT) for key in taken})
    result = process("a.py", data, RULES, Project(), policy)
    assert not {e.code for e in result.errors} & {"TM011", "TM012"}, result.errors
    assert {f.key for f in result.findings} == {f.key for f in looked.findings}
    assert {f.decision_key for f in result.findings if f.key in result.accepted} <= taken
    assert (result.after is None) == (not result.accepted)
    if result.after is not None:
        assert compiles(result.after.decode()) or not compiles(data.decode())


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.sampled_from(INPUTS), min_size=1, max_size=3))
def test_a_second_run_changes_nothing(parts: list[str]) -> None:
    data = "\n".join(parts).encode()
    result = process("a.py", data, RULES, Project(), EVERYTHING)
    if result.after is not None:
        again = process("a.py", result.after, RULES, Project(), EVERYTHING)
        left = {f.code for f in result.pending if f.outcome is Outcome.REWRITE}
        assert again.after is None or left, [(f.code, f.before) for f in again.findings if f.key in again.accepted]
