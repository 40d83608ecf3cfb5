"""One file through the engine: composition of edits, decisions, suppression, keys, and what is refused."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Callable, Iterable

import pytest

from torchmigrate.codemod import Alternative, Change, Codemod, Extent, Place, Plan
from torchmigrate.edits import (
    Edit,
    InsertAfter,
    InsertBefore,
    Keep,
    New,
    RemoveArgument,
    RemoveStatement,
    Replace,
    ReplaceStatement,
    ReplaceText,
    RewriteCall,
    SetArgument,
)
from torchmigrate.engine import digest, process, process_first
from torchmigrate.facts import hangs_on
from torchmigrate.model import (
    EVERYTHING,
    LOOK,
    SAFE_ONLY,
    Decision,
    FileResult,
    Outcome,
    Policy,
    Project,
    Safety,
    Verdict,
)
from torchmigrate.module import Module
from torchmigrate.suppress import Suppressions
from torchmigrate.texts import comments

Check = Callable[[Codemod, Module], Iterable[Plan]]


def rule(check: Check, code: str = "XX901") -> Codemod:
    """A codemod made of one function."""
    made = type(
        f"Rule{code}",
        (Codemod,),
        {"code": code, "name": f"rule-{code.lower()}", "triggers": (b"f",), "check": check, "__doc__": "A rule."},
    )
    instance = made()
    assert isinstance(instance, Codemod)
    return instance


def calls(module: Module, name: str = "f") -> list[ast.Call]:
    return [n for n in module.names.calls if isinstance(n.func, ast.Name) and n.func.id == name]


def setting(keyword: str, value: str, code: str = "XX901", name: str = "f", safety: Safety = Safety.SAFE) -> Codemod:
    """A codemod that gives each call of a function a keyword argument that it lacks."""

    def check(self: Codemod, module: Module) -> Iterable[Plan]:
        for call in calls(module, name):
            if keyword not in [k.arg for k in call.keywords]:
                yield self.change(call, SetArgument(call, keyword, value), message=f"sets {keyword}", safety=safety)

    return rule(check, code)


def run(source: str, *rules: Codemod, policy: Policy = EVERYTHING, project: Project | None = None) -> FileResult:
    text = textwrap.dedent(source).lstrip("\n")
    return process("pkg/a.py", text.encode(), list(rules), project or Project(), policy)


def text(result: FileResult) -> str:
    assert result.errors == ()
    assert result.after is not None
    return result.after.decode()


# -- composition -----------------------------------------------------------------------------------------------


def test_two_rules_on_one_call() -> None:
    first, second = setting("a", "1"), setting("b", "2", "XX902")
    assert text(run("f(x)\n", first, second)) == "f(x, a=1, b=2)\n"
    assert text(run("f(x)\n", second, first)) == "f(x, b=2, a=1)\n"


def test_two_rules_one_after_the_other_and_together_agree() -> None:
    first, second = setting("a", "1"), setting("b", "2", "XX902")
    one = text(run("f(f(x), y)\n", first))
    assert text(run(one, second)) == text(run("f(f(x), y)\n", first, second)) == "f(f(x, a=1, b=2), y, a=1, b=2)\n"


def test_nested_calls_each_change() -> None:
    assert text(run("f(f(f()), g(f(1)))\n", setting("a", "f(0)"))) == (
        "f(f(f(a=f(0)), a=f(0)), g(f(1, a=f(0))), a=f(0))\n"
    )


def test_calls_in_every_place() -> None:
    source = """
        @f(1)
        class A(f(2), metaclass=f(3)):
            x: f(4) = f(5)
            def g(self, y=f(6), *, z: f(7) = f(8)) -> f(9):
                with f(10) as v, f(11):
                    for i in f(12):
                        while f(13): yield f(14)
                if f(15): return f(16)
                elif f(17): raise f(18) from f(19)
                else: assert f(20), f(21)
                try: del f(22).x
                except f(23): x[f(24):f(25)] += f(26)
                finally: lambda q=f(27): f(28)
                match f(29):
                    case {"a": 1} if f(30): print([f(31) for i in f(32) if f(33)], {f(34): f(35)}, *f(36), **f(37))
                return f(38) if f(39) else (w := f(40))
        """
    changed = text(run(source, setting("a", "1")))
    expected = textwrap.dedent(source).lstrip("\n")
    for number in range(1, 41):
        expected = expected.replace(f"f({number})", f"f({number}, a=1)")
    assert changed == expected


def test_replacing_around_a_changed_expression() -> None:
    def wrap(self: Codemod, module: Module) -> Iterable[Plan]:
        for call in calls(module, "g"):
            edit = Replace(call, "h($first, new=$first)", (("first", call.args[0]),))
            yield self.change(call, edit, message="g is h")

    assert text(run("g(f(x) + 1)\n", setting("a", "1"), rule(wrap, "XX902"))) == "h(f(x, a=1) + 1, new=f(x, a=1) + 1)\n"


def test_replacing_keeps_its_own_and_the_place_s_parentheses() -> None:
    def swap(code: str) -> Check:
        def check(self: Codemod, module: Module) -> Iterable[Plan]:
            nodes = [n for n in ast.walk(module.tree) if isinstance(n, ast.Name) and n.id == "f"]
            return [self.change(n, Replace(n, code), message="swap") for n in nodes]

        return check

    assert text(run("x = f if f else y\n", rule(swap("(a or b)")))) == "x = (a or b) if (a or b) else y\n"
    assert text(run("x = (f)\n", rule(swap("a or b")))) == "x = (a or b)\n"
    assert text(run("x = (\n    f  # why\n)\n", rule(swap("a")))) == "x = (\n    a  # why\n)\n"


def test_overlapping_replacements_do_not_both_happen() -> None:
    def outer(self: Codemod, module: Module) -> Iterable[Plan]:
        return [self.change(c, Replace(c, "gone()"), message="outer") for c in calls(module, "g")]

    result = run("g(f(x))\nf(y)\n", rule(outer), setting("a", "1", "XX902"))
    assert result.after == b"gone()\nf(y, a=1)\n"
    assert len(result.accepted) == 2
    assert len(result.findings) == 3
    assert [f.before for f in result.pending] == ["f(x)"]


def test_statements_around_a_changed_call() -> None:
    def hoist(self: Codemod, module: Module) -> Iterable[Plan]:
        for call in calls(module):
            at = module.statement(call)
            edits: tuple[Edit, ...] = (
                InsertBefore(at, "first = 1\nsecond = 2"),
                SetArgument(call, "a", "first"),
                InsertAfter(at, "third = 3"),
            )
            yield self.change(call, *edits, message="hoist")

    source = """
        if x:
            y = f(  # open
                1,
            )  # close
        z = 2
        """
    assert text(run(source, rule(hoist))) == textwrap.dedent(
        """
        if x:
            first = 1
            second = 2
            y = f(  # open
                1,
                a=first,
            )  # close
            third = 3
        z = 2
        """
    ).lstrip("\n")


@pytest.mark.parametrize("source", ["if x: f()\n", "y = 1; f()\n", "while x: f()\n"])
def test_a_statement_that_shares_its_line_is_reported(source: str) -> None:
    def hoist(self: Codemod, module: Module) -> Iterable[Plan]:
        return [self.change(c, InsertBefore(module.statement(c), "a = 1"), message="hoist") for c in calls(module)]

    result = run(source, rule(hoist))
    assert result.after is None
    (finding,) = result.findings
    assert finding.outcome is Outcome.REPORT
    assert "hoist (not rewritten: the statement does not start its line)" in finding.message


def test_statements_replaced_and_removed() -> None:
    def check(self: Codemod, module: Module) -> Iterable[Plan]:
        for call in calls(module):
            at = module.statement(call)
            only = len(call.args) == 1
            yield self.change(at, RemoveStatement(at) if only else ReplaceStatement(at, "g()"), message="out")

    assert text(run("a = 1\nf(1)  # gone too\nf(2, 3)  # stays\n", rule(check))) == "a = 1\ng()  # stays\n"
    result = run("if x:\n    f(1)\n", rule(check))
    assert result.after is None
    assert [f.outcome for f in result.findings] == [Outcome.REPORT]


def test_arguments_moved_renamed_and_removed() -> None:
    def check(self: Codemod, module: Module) -> Iterable[Plan]:
        for call in calls(module):
            if len(call.args) == 3:
                kept = (Keep(0), New("n", "0"), Keep(2, "third"), Keep(3, "last"))
                yield self.change(call, RewriteCall(call, "m.g", kept), message="rewrite")
            else:
                yield self.change(call, RemoveArgument(call, "b"), message="remove")

    source = "f(\n    1,  # one\n    2,  # two\n    3,  # three\n    k=4,  # four\n)\n"
    source += "f(a=1, b=2, c=3)\nf(b=2)\nf(a=1, b=2)\n"
    assert text(run(source, rule(check))) == (
        "m.g(\n    1,  # one\n    n=0,\n    third=3,  # three\n    last=4,  # four\n)\nf(a=1, c=3)\nf()\nf(a=1)\n"
    )


def test_imports_come_once_and_only_with_an_accepted_change() -> None:
    def check(self: Codemod, module: Module) -> Iterable[Plan]:
        for call in calls(module):
            spelling = module.spell("lib.thing", call)
            assert spelling is not None
            edit = SetArgument(call, "a", spelling.text)
            yield self.change(call, edit, message="x", imports=spelling.imports)

    assert (
        text(run("import os\nf(1)\nf(2)\n", rule(check)))
        == "import os\nimport lib\nf(1, a=lib.thing)\nf(2, a=lib.thing)\n"
    )
    assert run("import os\nf(1)\n", rule(check), policy=LOOK).after is None
    keys = [f.key for f in run("import os\nf(1)\nf(2)\n", rule(check), policy=LOOK).findings]
    one = Policy(decisions={keys[1]: Decision(Verdict.ACCEPT)})
    assert (
        text(run("import os\nf(1)\nf(2)\n", rule(check), policy=one))
        == "import os\nimport lib\nf(1)\nf(2, a=lib.thing)\n"
    )


def test_a_change_that_breaks_the_file_is_left_out_and_named() -> None:
    def breaks(self: Codemod, module: Module) -> Iterable[Plan]:
        start, end = module.extent(calls(module)[0])
        return [self.change(calls(module)[0], ReplaceText(start, end, "return ("), message="broken")]

    result = run("f(1)\nf(2)\n", rule(breaks), setting("a", "1", "XX902"))
    assert [e.code for e in result.errors] == ["TM012"]
    assert "XX901" in result.errors[0].message
    assert result.after == b"f(1, a=1)\nf(2, a=1)\n"


def test_a_rule_that_fails_is_an_error_of_the_file_and_the_others_go_on() -> None:
    def fails(self: Codemod, module: Module) -> Iterable[Plan]:
        yield self.change(calls(module)[0], message="never seen")
        raise RuntimeError("oops")

    result = run("f(1)\n", rule(fails), setting("a", "1", "XX902"))
    assert [(e.code, "RuntimeError: oops" in e.message) for e in result.errors] == [("TM011", True)]
    assert result.after == b"f(1, a=1)\n"


# -- findings, decisions, keys ---------------------------------------------------------------------------------


def test_a_finding_says_where_and_what() -> None:
    result = run("x = 1\nif x:\n    ä = f(\n        2)\n", setting("a", "1"), policy=LOOK)
    (finding,) = result.findings
    assert (finding.path, finding.code, finding.name) == ("pkg/a.py", "XX901", "rule-xx901")
    span = finding.span
    assert (span.line, span.column, span.end_line, span.end_column) == (3, 9, 4, 11)
    assert (finding.before, finding.after) == ("f(\n        2)", "f(\n        2,\n        a=1)")
    assert (finding.outcome, finding.safety) == (Outcome.REWRITE, Safety.SAFE)
    assert result.digest == digest("x = 1\nif x:\n    ä = f(\n        2)\n".encode())
    assert result.after is None


def test_levels_decide_without_decisions() -> None:
    rules = [setting("a", "1"), setting("b", "2", "XX902", safety=Safety.UNSAFE)]
    assert text(run("f()\n", *rules, policy=SAFE_ONLY)) == "f(a=1)\n"
    assert text(run("f()\n", *rules, policy=EVERYTHING)) == "f(a=1, b=2)\n"
    assert run("f()\n", *rules, policy=LOOK).after is None


def test_decisions_win_over_levels() -> None:
    rules = [setting("a", "1"), setting("b", "2", "XX902", safety=Safety.UNSAFE)]
    keys = {f.code: f.key for f in run("f()\n", *rules, policy=LOOK).findings}
    policy = Policy(
        SAFE_ONLY.default,
        {keys["XX901"]: Decision(Verdict.DECLINE), keys["XX902"]: Decision(Verdict.ACCEPT)},
    )
    result = run("f()\n", *rules, policy=policy)
    assert text(result) == "f(b=2)\n"
    assert result.accepted == {keys["XX902"]}
    assert [f.code for f in result.pending] == ["XX901"]


def test_every_subset_of_decisions_is_what_it_says() -> None:
    source, rules = "f(f(1))\ng = [f(2), f(3)]\n", [setting("a", "1"), setting("b", "2", "XX902")]
    findings = run(source, *rules, policy=LOOK).findings
    assert len(findings) == 8
    for bits in range(2 ** len(findings)):
        chosen = {f.key for i, f in enumerate(findings) if bits >> i & 1}
        result = run(source, *rules, policy=Policy(decisions={key: Decision(Verdict.ACCEPT) for key in chosen}))
        assert result.accepted == chosen
        after = (result.after or source.encode()).decode()
        ast.parse(after)
        assert after.count("a=1") + after.count("b=2") == len(chosen)


def test_places_of_one_change_share_a_group_and_a_decision() -> None:
    def check(self: Codemod, module: Module) -> Iterable[Plan]:
        places = tuple(Place(c, (SetArgument(c, "a", "1"),), f"place {i}") for i, c in enumerate(calls(module)))
        yield Change(places, "all of them")

    result = run("f(1)\nf(2)\n", rule(check), policy=LOOK)
    first, second = result.findings
    assert first.group == second.group is not None
    assert first.key != second.key
    assert [first.message, second.message] == ["place 0", "place 1"]
    taken = run("f(1)\nf(2)\n", rule(check), policy=Policy(decisions={first.decision_key: Decision(Verdict.ACCEPT)}))
    assert text(taken) == "f(1, a=1)\nf(2, a=1)\n"
    assert taken.accepted == {first.key, second.key}


def test_keys_survive_edits_elsewhere() -> None:
    before = run("def g():\n    f(1)\n    f(1)\nf(1)\n", setting("a", "1"), policy=LOOK).findings
    after = run(
        "import os\n\n\ndef g():\n    x = 2\n    f( 1 )\n    f(1)\n    f(2)\nf(1)\n", setting("a", "1"), policy=LOOK
    )
    assert len({f.key for f in before}) == 3
    assert {f.key for f in before} < {f.key for f in after.findings}


def test_choices() -> None:
    def check(self: Codemod, module: Module) -> Iterable[Plan]:
        for call in calls(module):
            other = Alternative("a=2", "because", (Place(call, (SetArgument(call, "a", "2"),)),))
            yield self.change(
                call, SetArgument(call, "a", "1"), message="either", alternatives=[other], label="a=1", evidence="so"
            )
        for call in calls(module, "g"):
            answer = Alternative("b=1", "if", (Place(call, (SetArgument(call, "b", "1"),)),))
            yield self.report(call, "you say", [answer])

    looked = run("f()\ng()\n", rule(check), policy=LOOK)
    change, report = looked.findings
    assert [c.label for c in change.choices] == ["a=1", "a=2"]
    assert [c.evidence for c in report.choices] == ["if"]
    assert (report.outcome, report.safety, report.after) == (Outcome.REPORT, Safety.MANUAL, None)
    assert text(run("f()\ng()\n", rule(check))) == "f(a=1)\ng()\n"
    picked = {change.key: Decision(Verdict.ACCEPT, 1), report.key: Decision(Verdict.ACCEPT)}
    assert text(run("f()\ng()\n", rule(check), policy=Policy(decisions=picked))) == "f(a=2)\ng(b=1)\n"
    too_many = {change.key: Decision(Verdict.ACCEPT, 2)}
    assert run("f()\ng()\n", rule(check), policy=Policy(decisions=too_many)).after is None


def test_a_change_that_needs_a_newer_torch_is_unsafe_below_it() -> None:
    def check(self: Codemod, module: Module) -> Iterable[Plan]:
        call = calls(module)[0]
        yield self.change(call, SetArgument(call, "a", "1"), message="new", needs_torch="2.14")

    old = Project(torch_min="2.9", torch_min_source="pyproject.toml:7")
    (finding,) = run("f()\n", rule(check), policy=LOOK, project=old).findings
    assert finding.safety is Safety.UNSAFE
    assert "needs torch 2.14, but the project still allows 2.9: pyproject.toml:7" in finding.message
    assert run("f()\n", rule(check), policy=SAFE_ONLY, project=old).after is None
    (finding,) = run("f()\n", rule(check), policy=LOOK, project=Project(torch_min="2.14")).findings
    assert finding.safety is Safety.SAFE


def test_an_extent_anchors_what_is_no_node() -> None:
    def check(self: Codemod, module: Module) -> Iterable[Plan]:
        at = module.text.index("alias")
        anchor = Extent(at, at + 5, "alias", "imports")
        yield self.change(anchor, ReplaceText(at, at + 5, "other"), message="rename")

    result = run("from f import alias\n", rule(check))
    assert text(result) == "from f import other\n"
    (finding,) = result.findings
    assert (finding.before, finding.after, finding.span.column) == ("alias", "other", 15)
    assert ":imports:" in finding.key


# -- suppression -----------------------------------------------------------------------------------------------

SILENT = {
    "same line": "f(1)  # torchmigrate: ignore[XX901] known\n",
    "line above": "# torchmigrate: ignore[XX901] known\nf(1)\n",
    "above, with other comments between": "# torchmigrate: ignore[XX901] known\n# more\n\nf(1)\n",
    "prefix of the code": "f(1)  # torchmigrate: ignore[XX9] known\n",
    "among others": "f(1)  # noqa: E501  # torchmigrate: ignore[XX777, XX901] known\n",
    "last line of a call": "f(\n    1\n)  # torchmigrate: ignore[XX901] known\n",
    "inside a call": "f(\n    1,  # torchmigrate: ignore[XX901] known\n)\n",
    "whole file, below": "f(1)\n# torchmigrate: ignore-file[XX901] known\n",
    "whole file, above": '"""Doc."""\n# torchmigrate: ignore-file[XX901] known\nf(1)\n',
    "windows": "# torchmigrate: ignore[XX901] known\r\nf(1)\r\n",
    "spaces": "f(1)  #torchmigrate:ignore [XX901]   known\n",
}
HEARD = {
    "another code": "f(1)  # torchmigrate: ignore[XX777] known\n",
    "no code": "f(1)  # torchmigrate: ignore[] known\n",
    "no brackets": "f(1)  # torchmigrate: ignore known\n",
    "two lines above": "# torchmigrate: ignore[XX901] known\nx = 1\nf(1)\n",
    "line below": "f(1)\n# torchmigrate: ignore[XX901] known\n",
    "trailing comment of the line above": "x = 1  # torchmigrate: ignore[XX901] known\nf(1)\n",
    "in a string": "f('# torchmigrate: ignore[XX901] known')\n",
    "in a string of several lines": "x = '''\n# torchmigrate: ignore[XX901] known\n'''; f(1)\n",
    "in a docstring": '"""\n# torchmigrate: ignore-file[XX901] known\n"""\nf(1)\n',
    "another tool": "f(1)  # ruff: ignore[XX901] known\n",
}


@pytest.mark.parametrize("source", SILENT.values(), ids=SILENT)
def test_a_comment_silences(source: str) -> None:
    result = process("a.py", source.encode(), [setting("a", "1")], Project(), EVERYTHING)
    assert result.after is None
    (finding,) = result.findings
    assert finding.suppressed == "known"
    assert result.pending == ()


@pytest.mark.parametrize("source", HEARD.values(), ids=HEARD)
def test_what_does_not_silence(source: str) -> None:
    result = process("a.py", source.encode(), [setting("a", "1")], Project(), EVERYTHING)
    (finding,) = result.findings
    assert finding.suppressed is None
    assert finding.key in result.accepted


def test_a_decision_does_not_bring_back_what_is_silenced() -> None:
    (finding,) = run(SILENT["same line"], setting("a", "1"), policy=LOOK).findings
    accept = Policy(decisions={finding.key: Decision(Verdict.ACCEPT)})
    assert run(SILENT["same line"], setting("a", "1"), policy=accept).after is None


def test_one_comment_silences_one_rule() -> None:
    result = run("f()  # torchmigrate: ignore[XX901]\n", setting("a", "1"), setting("b", "2", "XX902"))
    assert text(result) == "f(b=2)  # torchmigrate: ignore[XX901]\n"
    assert [f.suppressed for f in result.findings] == ["", None]


def test_a_comment_that_silences_nothing_is_named() -> None:
    result = run("x = 1\ny = 2  # torchmigrate: ignore[XX901, ZZ1]\n", setting("a", "1"), policy=LOOK)
    (error,) = result.errors
    assert (error.code, error.line, error.column) == ("TM002", 2, 8)
    assert error.message == "unused suppression of XX901"


@pytest.mark.parametrize(
    ("comment", "why"),
    [
        ("ignore", "no code of a rule is named"),
        ("ignore known", "no code of a rule is named"),
        ("ignore-file", "no code of a rule is named"),
        ("ignore[]", "no code of a rule is named"),
        ("ignore[set-a]", "set-a is no code of a rule"),
        ("ignore[xx901]", "xx901 is no code of a rule"),
    ],
)
def test_a_comment_that_can_silence_nothing_is_told(comment: str, why: str) -> None:
    result = run(f"f(1)  # torchmigrate: {comment}\n", setting("a", "1"))
    assert result.after == f"f(1, a=1)  # torchmigrate: {comment}\n".encode()
    (error,) = result.errors
    assert (error.code, error.line, error.column) == ("TM002", 1, 7)
    assert error.message.startswith(f"this comment silences nothing: {why}; write ignore[CODE]")


def test_a_word_that_only_begins_like_ignore_is_no_such_comment() -> None:
    assert run("f(1)  # torchmigrate: ignored by nobody\n", setting("a", "1")).errors == ()


@pytest.mark.parametrize(
    ("source", "after"),
    [
        pytest.param("f()\n", "# torchmigrate: ignore[XX901]\nf()\n", id="statement"),
        pytest.param("if x:\n\tf()\n", "if x:\n\t# torchmigrate: ignore[XX901]\n\tf()\n", id="tabs"),
        pytest.param("if x: f()\n", "# torchmigrate: ignore[XX901]\nif x: f()\n", id="one line"),
        pytest.param("g(\n    f(),\n)\n", "g(\n    # torchmigrate: ignore[XX901]\n    f(),\n)\n", id="inside a call"),
        pytest.param(
            "x = '''\n''' + f()\n", "x = '''\n''' + f()  # torchmigrate: ignore[XX901]\n", id="behind a string"
        ),
        pytest.param("x = \\\n  f()\n", "x = \\\n  f()  # torchmigrate: ignore[XX901]\n", id="after a backslash"),
        pytest.param("f()", "# torchmigrate: ignore[XX901]\nf()", id="no final newline"),
        pytest.param("f()\r\n", "# torchmigrate: ignore[XX901]\r\nf()\r\n", id="windows"),
        pytest.param("@f()\ndef g(): pass\n", "# torchmigrate: ignore[XX901]\n@f()\ndef g(): pass\n", id="decorator"),
    ],
)
def test_the_answer_ignore_writes_a_comment_that_works(source: str, after: str) -> None:
    (finding,) = run(source, setting("a", "1"), policy=LOOK).findings
    result = run(source, setting("a", "1"), policy=Policy(decisions={finding.key: Decision(Verdict.SUPPRESS)}))
    assert text(result) == after
    again = run(after, setting("a", "1"))
    assert again.after is None
    assert [f.suppressed for f in again.findings] == [""]


def test_comments_of_other_formats() -> None:
    text = "a: 1  # torchmigrate: ignore[XX1] why\n# torchmigrate: ignore[XX2]\nb: 2\n"
    found = Suppressions.read(text, lambda text: comments.extents(text, "yaml"))
    assert found.reason("XX1", 1, 1) == "why"
    assert found.reason("XX2", 3, 3) == ""
    assert found.reason("XX2", 1, 1) is None


class TestParsing:
    def test_a_file_is_parsed_only_when_a_rule_asks_for_its_tree(self) -> None:
        broken = b"def f(:\n"
        text_only = rule(lambda codemod, module: () if "g(" not in module.text else calls(module, "g"))
        assert process("a.py", broken, [text_only], Project(), LOOK) == FileResult("a.py", digest=digest(broken))
        result = process(
            "a.py", broken, [text_only, rule(lambda codemod, module: calls(module), "XX902")], Project(), LOOK
        )
        assert [(e.code, e.line) for e in result.errors] == [("TM001", 1)]

    def test_what_a_result_hangs_on_is_told(self) -> None:
        def check(codemod: Codemod, module: Module) -> Iterable[Plan]:
            return [codemod.report(c, str(module.project.facts.get("seen", ()))) for c in calls(module)]

        asking = rule(check)
        telling = rule(lambda codemod, module: (), "XX902")
        telling.facts = lambda module: [("seen", 1), ("other", 2)]  # type: ignore[method-assign]
        telling.gathers = True  # type: ignore[misc]
        result, gathered, read = process_first("a.py", b"f()\n", [asking, telling], Project(), LOOK)
        assert [f.message for f in result.findings] == ["(1,)"]
        assert (gathered, read) == ((("seen", 1), ("other", 2)), {"seen"})
        _, _, read = process_first("a.py", b"x = 1\n", [asking, telling], Project(), LOOK)
        assert read == frozenset()
        assert not hangs_on(frozenset({"seen"}), gathered, {"seen": (1,), "other": (2, 3)})
        assert hangs_on(frozenset({"seen"}), gathered, {"seen": (1, 1)})
        assert hangs_on(frozenset({"absent"}), gathered, {"absent": (1,)})

    def test_counting_or_listing_facts_is_reading_all_of_them(self) -> None:
        def check(codemod: Codemod, module: Module) -> Iterable[Plan]:
            return [codemod.report(module.tree, "") for _ in range(0 * len(module.project.facts))]

        _, gathered, read = process_first("a.py", b"f()\n", [rule(check)], Project(), LOOK)
        assert hangs_on(read, gathered, {"any": (1,)})
        assert not hangs_on(read, gathered, {})
