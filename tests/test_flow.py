"""Versions and conditions: which assignment a name holds where, and what must have been true on the way."""

from __future__ import annotations

import ast
import textwrap
from pathlib import Path

import pytest

from torchmigrate.flow import Flow
from torchmigrate.module import Module
from torchmigrate.reaching import key_of, owner_key


class Probe:
    """A module in which `use(...)` calls mark the places that are asked about."""

    def __init__(self, text: str) -> None:
        self.text = textwrap.dedent(text)
        self.module = Module("probe.py", self.text, ast.parse(self.text))
        self.calls = [
            node for node in ast.walk(self.module.tree) if isinstance(node, ast.Call) and key_of(node.func) == "use"
        ]
        self.calls.sort(key=lambda node: (node.lineno, node.col_offset))

    def flow(self, index: int = 0) -> Flow:
        return self.module.flow(self.calls[index])

    def lines(self, key: str, index: int = 0) -> list[int | str]:
        """The lines (or kinds, for what has no place) of the definitions that reach a use."""
        found = self.flow(index).definitions(key, self.calls[index])
        return sorted((getattr(d.node, "lineno", d.how) for d in found), key=str)

    def known(self, index: int = 0) -> list[tuple[str, bool]]:
        """The conditions that hold at a use."""
        found = self.flow(index).conditions(self.calls[index])
        return [(ast.unparse(one.test), one.truth) for one in found]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param("x = 1\nx = 2\nuse(x)", [3], id="the last one"),
        pytest.param("x = 1\nif c:\n    x = 2\nuse(x)", [2, 4], id="a branch adds one"),
        pytest.param("if c:\n    x = 1\nelse:\n    x = 2\nuse(x)", [3, 5], id="two branches"),
        pytest.param("if c:\n    x = 1\nuse(x)", [3, "unbound"], id="no value on one path"),
        pytest.param("x = 1\nif c:\n    x = 2\n    return\nuse(x)", [2], id="a path that leaves"),
        pytest.param("x = 1\nif c:\n    x = 2\n    raise E\nuse(x)", [2], id="a path that raises"),
        pytest.param("x = 1\nif c:\n    x = 2\n    sys.exit(1)\nuse(x)", [2], id="a path that ends the program"),
        pytest.param("x = 1\nfor i in y:\n    use(x)\n    x = 2", [2, 4 + 1], id="a loop comes round"),
        pytest.param("for i in y:\n    x = 1\n    break\nelse:\n    x = 2\nuse(x)", [3, 6], id="break and else"),
        pytest.param("while True:\n    x = 1\n    if x:\n        break\nuse(x)", [3], id="only a break leaves"),
        pytest.param("x = 1\ntry:\n    x = 2\nexcept E:\n    use(x)", [2, 4], id="a handler sees before and after"),
        pytest.param(
            "try:\n    if c:\n        x = 1\n        f()\n    return\nexcept E:\n    use(x)",
            [4, "unbound"],
            id="nested",
        ),
        pytest.param("try:\n    x = 1\nexcept E:\n    raise\nuse(x)", [3], id="after a handler that raises"),
        pytest.param("try:\n    x = 1\nfinally:\n    x = 2\nuse(x)", [5], id="finally"),
        pytest.param("with a as x:\n    use(x)", [2], id="with"),
        pytest.param("x = 1\nwith suppress(E):\n    f()\n    x = 2\nuse(x)", [2, 5], id="a with that swallows errors"),
        pytest.param("x, y = 1, 2\nuse(x)", [2], id="a tuple"),
        pytest.param("(x := 1)\nuse(x)", [2], id="a walrus"),
        pytest.param("x = 1\ndel x\nuse(x)", [3], id="deleted"),
        pytest.param("import x\nuse(x)", [2], id="an import"),
        pytest.param("use(x)", ["free"], id="from outside"),
    ],
)
def test_definitions(body: str, expected: list[int | str]) -> None:
    probe = Probe("def f(c, y):\n" + textwrap.indent(body, "    "))
    assert probe.lines("x") == sorted(expected, key=str)


def test_attributes_and_items_are_followed() -> None:
    probe = Probe("""
        def f(args, kw):
            args.gpu = 1
            kw["a"] = 2
            use(args.gpu, kw["a"])
            args = other()
            use(args.gpu)
    """)
    assert probe.lines("args.gpu") == [3]
    assert probe.lines("kw['a']") == [4]
    assert probe.lines("args.gpu", 1) == ["free"]


def test_a_key_that_is_not_constant_makes_the_mapping_unknown() -> None:
    probe = Probe("""
        def f(kw, name):
            kw[name] = 1
            use(kw)
    """)
    assert [d.how for d in probe.flow().definitions("kw", probe.calls[0])] == ["other"]


def test_same_value_at_two_places() -> None:
    probe = Probe("""
        def f(rank, args, pick):
            use(rank)
            use(rank)
            rank = pick()
            use(rank)
            tune(args)
            use(args.gpu)
    """)
    one, two, three, four = probe.calls
    flow = probe.flow()
    assert flow.same("rank", one, two)
    assert not flow.same("rank", one, three)
    assert flow.same("args.gpu", one, four)
    assert not flow.same("args.gpu", one, four, strict=True)


def test_a_call_on_one_path_is_no_new_value() -> None:
    probe = Probe("""
        def f(args, verbose):
            use(args.gpu)
            if verbose:
                tune(args)
            use(args.gpu)
    """)
    flow = probe.flow()
    assert flow.same("args.gpu", *probe.calls)
    assert not flow.same("args.gpu", *probe.calls, strict=True)


def test_printing_an_object_does_not_touch_it() -> None:
    probe = Probe("""
        def f(args):
            use()
            print(args)
            use()
            tune(args)
            use()
    """)
    one, two, three = probe.calls
    assert probe.flow().same("args.gpu", one, two, strict=True)
    assert not probe.flow().same("args.gpu", two, three, strict=True)


def test_bound() -> None:
    probe = Probe("""
        def f(c):
            if c:
                x = 1
                use(x)
            use(x)
            use(y)
    """)
    flow = probe.flow()
    assert [flow.bound("x", probe.calls[0]), flow.bound("x", probe.calls[1])] == [True, False]
    assert flow.bound("y", probe.calls[2])


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param("if a and not b:\n    use()", [("a", True), ("b", False)], id="and"),
        pytest.param("if a or b:\n    pass\nelse:\n    use()", [("a", False), ("b", False)], id="else of an or"),
        pytest.param("if a:\n    return\nuse()", [("a", False)], id="early return"),
        pytest.param("assert a\nuse()", [("a", True)], id="assert"),
        pytest.param("x = 1 if a else use()", [("a", False)], id="conditional expression"),
        pytest.param("a and use()", [("a", True)], id="short circuit"),
        pytest.param("match a:\n    case 1 | 2:\n        use()", [("a in (1, 2)", True)], id="match"),
        pytest.param(
            "match a:\n    case 1:\n        pass\n    case _:\n        use()", [("a == 1", False)], id="match rest"
        ),
        pytest.param("while a:\n    use()", [("a", True)], id="while"),
        pytest.param("if a:\n    pass\nuse()", [], id="joined again"),
    ],
)
def test_conditions(body: str, expected: list[tuple[str, bool]]) -> None:
    probe = Probe("def f(a, b):\n" + textwrap.indent(body, "    "))
    assert probe.known() == expected


def test_a_condition_names_the_versions_that_it_speaks_of() -> None:
    probe = Probe("""
        def f(a):
            if a:
                a = 2
                use(a)
    """)
    (condition,) = probe.flow().conditions(probe.calls[0])
    assert [key for key, _ in condition.versions] == ["a"]
    assert condition.versions[0][1] is not probe.flow().version("a", probe.calls[0])


def test_what_ends_the_program_is_marked() -> None:
    probe = Probe("""
        def f(a, b, c):
            assert a
            if not b:
                raise ValueError(b)
            if not c:
                return
            use()
    """)
    found = {ast.unparse(one.test): one.fatal for one in probe.flow().conditions(probe.calls[0])}
    assert found == {"a": True, "b": True, "c": False}


def test_code_that_cannot_run() -> None:
    probe = Probe("""
        def f(a):
            return a
            use(a)
    """)
    assert not probe.flow().reachable(probe.calls[0])
    assert not probe.flow().falls_through


def test_the_end_of_a_body() -> None:
    probe = Probe("use(1)\nx = 1\nif y:\n    x = 2\n")
    flow = probe.flow()
    assert flow.falls_through
    assert type(flow.final("x")).__name__ == "Phi"


def test_keys() -> None:
    node = ast.parse("a.b['c'].d[0]", mode="eval").body
    assert key_of(node) == "a.b['c'].d[0]"
    assert owner_key("a.b['c'].d[0]") == "a.b['c'].d"
    assert owner_key("a") is None
    assert key_of(ast.parse("f().x", mode="eval").body) is None


def test_every_function_of_this_project_has_a_flow() -> None:
    statements = 0
    for path in sorted(Path(__file__).resolve().parent.parent.joinpath("torchmigrate").rglob("*.py")):
        module = Module(path.name, path.read_text("utf-8"), ast.parse(path.read_text("utf-8")))
        for node in ast.walk(module.tree):
            if isinstance(node, ast.FunctionDef):
                flow = Flow(module, node)
                assert flow.reachable(node.body[0])
                statements += sum(flow.reachable(one) for one in ast.walk(node) if isinstance(one, ast.stmt))
    assert statements > 1000
