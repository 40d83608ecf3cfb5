"""What expressions can be: constants, "one of these", "something else", and what conditions leave of them."""

from __future__ import annotations

import ast
import textwrap

import pytest

from torchmigrate.carry import Refused, carry
from torchmigrate.module import Module
from torchmigrate.possible import Known, Unknown, Value, compare, truthy
from torchmigrate.reaching import key_of
from torchmigrate.values import Facts, Values

ANYTHING = "?"


class Probe:
    """A module in which `use(x)` asks what `x` can be."""

    def __init__(self, text: str) -> None:
        self.module = Module("probe.py", textwrap.dedent(text), ast.parse(textwrap.dedent(text)))
        self.values: Values = self.module.values
        found = [n for n in ast.walk(self.module.tree) if isinstance(n, ast.Call) and key_of(n.func) == "use"]
        self.calls = sorted(found, key=lambda node: (node.lineno, node.col_offset))

    def value(self, index: int = 0, facts: Facts | None = None) -> Value:
        call = self.calls[index]
        return self.values.of(call.args[0], self.values.facts(call) if facts is None else facts)

    def shown(self, index: int = 0) -> set[object]:
        """The possible constants; `?` or the name of a type for what is unknown."""
        value = self.value(index)
        return {*value.constants, *(one.kind or ANYTHING for one in value.unknown)}


def shown(text: str) -> set[object]:
    return Probe(text).shown()


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        pytest.param("'nccl'", {"nccl"}, id="literal"),
        pytest.param("-1", {-1}, id="negative number"),
        pytest.param("'a' if c else 'b'", {"a", "b"}, id="conditional"),
        pytest.param("None or 'a'", {"a"}, id="or skips what is false"),
        pytest.param("'a' or 'b'", {"a"}, id="or stops at what is true"),
        pytest.param("c or 'b'", {ANYTHING, "b"}, id="or of something unknown"),
        pytest.param("'a' and 'b'", {"b"}, id="and"),
        pytest.param("'NCCL'.lower()", {"nccl"}, id="lower"),
        pytest.param("str(3)", {"3"}, id="str"),
        pytest.param("int('3')", {3}, id="int"),
        pytest.param("int(c)", {"int"}, id="int of something"),
        pytest.param("f'cuda:{2}'", {"cuda:2"}, id="f-string"),
        pytest.param("f'cuda:{c}'", {"str"}, id="f-string with something"),
        pytest.param("'cuda:%d' % 2", {"cuda:2"}, id="percent"),
        pytest.param("'a' + 'b'", {"ab"}, id="plus"),
        pytest.param("2 * 3 - 1", {5}, id="arithmetic"),
        pytest.param("{'a': 1, 'b': 2}['b']", {2}, id="item of a dict"),
        pytest.param("{'a': 1, 'b': 2}[c]", {1, 2}, id="some item of a dict"),
        pytest.param("{'a': 1}.get('b', 3)", {3}, id="get with a default"),
        pytest.param("{'a': 1}.get(c, 3)", {1, 3}, id="get of something"),
        pytest.param("{'a': 1}.get('b')", {None}, id="get without a default"),
        pytest.param("('x', 'y')[1]", {"y"}, id="item of a tuple"),
        pytest.param("os.environ.get('A', 'x')", {"str", "x"}, id="environment with a default"),
        pytest.param("os.getenv('A')", {"str", None}, id="environment without a default"),
        pytest.param("os.environ['A']", {"str"}, id="environment"),
        pytest.param("int(os.environ.get('A', -1))", {"int", -1}, id="number from the environment"),
        pytest.param("dist.Backend.NCCL", {"nccl"}, id="torch's enum"),
        pytest.param("dist.Backend('NCCL')", {"nccl"}, id="torch's backend type"),
        pytest.param("torch.device('cuda', 1)", {"device"}, id="device"),
        pytest.param("torch.cuda.is_available()", {"bool"}, id="is_available"),
        pytest.param("1 == 1", {True}, id="comparison"),
        pytest.param("not 0", {True}, id="not"),
        pytest.param("unheard_of(1)", {ANYTHING}, id="another function"),
    ],
)
def test_expressions(expression: str, expected: set[object]) -> None:
    header = "import os\nimport torch\nimport torch.distributed as dist\n"
    assert shown(f"{header}def f(c):\n    use({expression})\n") == expected


def test_parameters_are_their_default_or_anything() -> None:
    assert shown("def f(backend='nccl'): use(backend)") == {"nccl", ANYTHING}
    assert shown("def f(backend: str = 'nccl'): use(backend)") == {"nccl", "str"}
    assert shown("def f(gpu: int | None): use(gpu)") == {None, "int"}
    assert shown("def f(*rest): use(rest)") == {"tuple"}


def test_a_private_function_gets_what_its_callers_give() -> None:
    text = """
        def _start(backend, rank=0):
            use(backend)
            use(rank)
        _start("gloo")
        _start(backend="mpi", rank=1)
    """
    assert (Probe(text).shown(0), Probe(text).shown(1)) == ({"gloo", "mpi"}, {0, 1})


def test_a_public_function_may_be_called_elsewhere() -> None:
    assert shown("def start(backend): use(backend)\nstart('gloo')") == {"gloo", ANYTHING}


def test_processes_and_their_index() -> None:
    text = """
        import torch.multiprocessing as mp
        def _worker(index, backend):
            use(index)
            use(backend)
        mp.spawn(_worker, args=("gloo",), nprocs=2)
    """
    value = Probe(text).value(0)
    assert [(one.kind, one.least) for one in value.unknown] == [("int", 0)]
    assert Probe(text).shown(1) == {"gloo"}


def test_parametrized_tests() -> None:
    text = """
        import pytest
        @pytest.mark.parametrize("backend, n", [("nccl", 1), pytest.param("gloo", 2, id="g")])
        def test_it(backend, n):
            use(backend)
            use(n)
    """
    assert (Probe(text).shown(0), Probe(text).shown(1)) == ({"nccl", "gloo"}, {1, 2})


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        pytest.param("'--backend', default='nccl'", {"nccl", "str"}, id="default"),
        pytest.param("'--backend', default='nccl', choices=['nccl', 'gloo']", {"nccl", "gloo"}, id="choices"),
        pytest.param("'-b', '--backend', type=int, default='3'", {3, "int"}, id="type converts a default"),
        pytest.param("'--backend', type=int", {None, "int"}, id="no default"),
        pytest.param("'--backend', required=True", {"str"}, id="required"),
        pytest.param("'--backend', action='store_true'", {True, False}, id="switch"),
        pytest.param("'--other', dest='backend', default=1, type=int", {1, "int"}, id="dest"),
        pytest.param("'backend', choices=('a',)", {None, "a"}, id="positional"),
    ],
)
def test_argparse(option: str, expected: set[object]) -> None:
    text = f"""
        import argparse
        parser = argparse.ArgumentParser()
        parser.add_argument({option})
        def main():
            args = parser.parse_args()
            use(args.backend)
    """
    assert shown(text) == expected


def test_arguments_that_come_as_a_parameter_may_be_set_elsewhere() -> None:
    text = """
        import argparse
        parser = argparse.ArgumentParser()
        parser.add_argument("--backend", default="nccl", choices=["nccl", "gloo"])
        def main(args):
            use(args.backend)
    """
    assert shown(text) == {"nccl", "gloo", "str"}


def test_click() -> None:
    text = """
        import click
        @click.command()
        @click.option("--backend", type=click.Choice(["nccl", "gloo"]), default="nccl")
        @click.option("--gpu", default=0)
        def main(backend, gpu):
            use(backend)
            use(gpu)
    """
    assert (Probe(text).shown(0), Probe(text).shown(1)) == ({"nccl", "gloo"}, {0, "int"})


def test_names_from_outside_the_function() -> None:
    assert shown("B = 'nccl'\ndef f(): use(B)") == {"nccl"}
    assert shown("B = 'nccl'\nif x: B = 'gloo'\ndef f(): use(B)") == {"nccl", "gloo"}
    assert shown("B = 'nccl'\ndef g():\n    global B\n    B = 'mpi'\ndef f(): use(B)") == {"nccl", "mpi"}
    assert shown("def f():\n    b = 'nccl'\n    def g(): use(b)") == {"nccl"}
    assert shown("from x import B\ndef f(): use(B)") == {ANYTHING}


def test_attributes_of_self() -> None:
    text = """
        class T:
            kind = "gloo"
            def __init__(self):
                self.backend = "nccl"
            @property
            def device(self):
                return "cuda:0"
            def f(self):
                use(self.backend)
                use(self.device)
                use(self.kind)
                self.backend = "mpi"
                use(self.backend)
                use(self.unheard_of)
    """
    probe = Probe(text)
    expected = [{"nccl", "mpi"}, {"cuda:0"}, {"gloo", ANYTHING}, {"mpi"}, {ANYTHING}]
    assert [probe.shown(i) for i in range(5)] == expected


def test_fields_and_enums_of_this_module() -> None:
    text = """
        import enum
        from dataclasses import dataclass, field
        @dataclass
        class Config:
            backend: str = "nccl"
            size: int = field(default=2)
        class Kind(enum.Enum):
            GPU = "nccl"
        def f(config: Config):
            use(config.backend)
            use(config.size)
            use(Config(backend="gloo").backend)
            use(Kind.GPU.value)
    """
    probe = Probe(text)
    assert [probe.shown(i) for i in range(4)] == [{"nccl", "str"}, {2, "int"}, {ANYTHING}, {"nccl"}]


def test_results_of_functions_of_this_module() -> None:
    text = """
        def name(fast):
            if fast:
                return "nccl"
            return "gloo"
        def pair():
            return 1, "x"
        def nothing(c):
            if c:
                return 1
        def f():
            use(name(True))
            first, second = pair()
            use(second)
            use(nothing(0))
    """
    probe = Probe(text)
    assert [probe.shown(i) for i in range(3)] == [{"nccl", "gloo"}, {"x"}, {1, None}]


def test_loops() -> None:
    assert shown("def f():\n    for b in ('nccl', 'gloo'): use(b)") == {"nccl", "gloo"}
    assert shown("def f():\n    for i in range(3): use(i)") == {"int"}
    assert shown("def f(names):\n    for b in names: use(b)") == {ANYTHING}
    text = """
        def f(y):
            x = "a"
            for i in y:
                use(x)
                x = x.upper()
    """
    assert shown(text) == {"a", "A", "str"}


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        pytest.param("x == 'a'", {"a"}, id="equal"),
        pytest.param("x != 'a'", {"b", None, ANYTHING}, id="not equal"),
        pytest.param("x is None", {None}, id="is None"),
        pytest.param("x is not None", {"a", "b", ANYTHING}, id="is not None"),
        pytest.param("x in ('a', 'c')", {"a", "c"}, id="in"),
        pytest.param("x not in ('a', None)", {"b", ANYTHING}, id="not in"),
        pytest.param("x", {"a", "b", ANYTHING}, id="true"),
        pytest.param("not x", {None, ANYTHING}, id="false"),
        pytest.param("x == 'a' or x == 'b'", {"a", "b"}, id="or"),
        pytest.param("x and x != 'a'", {"b", ANYTHING}, id="and"),
        pytest.param("x.lower() == 'a'", {"a"}, id="lower"),
        pytest.param("'a' in x", {"a", "str"}, id="contains"),
        pytest.param("x.startswith('b')", {"b", "str"}, id="startswith"),
        pytest.param("y == 'a'", {"a", "b", None, ANYTHING}, id="another name"),
    ],
)
def test_conditions_narrow(test: str, expected: set[object]) -> None:
    text = f"""
        def f(c, y, z):
            x = "a" if c == 1 else "b" if c == 2 else None if c == 3 else z
            if {test}:
                use(x)
    """
    assert shown(text) == expected


def test_numbers_narrow() -> None:
    text = """
        def f(n, rank=-1):
            if rank != -1:
                use(rank)
            if rank >= 0:
                use(rank)
            if n > 1:
                use(n > 0)
                use(n > 1)
                use(n > 2)
    """
    probe = Probe(text)
    assert [probe.shown(i) for i in range(5)] == [{ANYTHING}, {ANYTHING}, {True}, {True}, {"bool"}]


def test_conditions_narrow_through_variables() -> None:
    text = """
        import os
        rank = int(os.environ.get("RANK", -1))
        distributed = rank != -1
        def f():
            if distributed:
                use(rank)
            use(rank)
    """
    probe = Probe(text)
    assert (probe.shown(0), probe.shown(1)) == ({"int"}, {"int", -1})


def test_a_reassigned_name_is_not_narrowed() -> None:
    text = """
        def f(x, z):
            if x == "a":
                x = z
                use(x)
    """
    assert shown(text) == {ANYTHING}


def test_what_holds_on_one_path_is_not_said_of_another() -> None:
    text = """
        def f(args, gpu=None):
            args.gpu = gpu
            if args.gpu is not None:
                show(args)
            use(args.gpu)
    """
    assert shown(text) == {None, ANYTHING}


def test_a_branch_decides_what_else_is_known() -> None:
    text = """
        def f(cuda, rank):
            if cuda:
                backend = "nccl"
                device = "cuda:0"
            else:
                backend = "gloo"
                device = "cpu"
            use(backend)
            use(device)
    """
    probe = Probe(text)
    backend, device = (call.args[0] for call in probe.calls)
    (case,) = probe.values.cases(backend, lambda option: option == Known("nccl"))
    assert probe.values.of(device, case).constants == ("cuda:0",)
    assert probe.values.cases(backend, lambda option: option == Known("mpi")) == []


def test_facts_about_the_machine() -> None:
    text = """
        import torch
        use("nccl" if torch.cuda.is_available() else "gloo")
        use(torch.cuda.device_count() > 0)
    """
    probe = Probe(text)
    assert probe.value(0, Facts(cuda=True)).constants == ("nccl",)
    assert probe.value(1, Facts(cuda=True)).constants == (True,)
    assert probe.shown(0) == {"nccl", "gloo"}


def test_certain_values() -> None:
    assert Value(frozenset({Known("a"), Known("b")})).certain
    assert not Value(frozenset({Known("a"), Unknown()})).certain
    assert not Value(frozenset()).certain
    assert Known(True) != Known(1)


def test_comparisons_of_possibilities() -> None:
    assert compare(Known("a"), ast.Eq(), Known("a")) is True
    assert compare(Unknown("int"), ast.Is(), Known(None)) is False
    assert compare(Unknown(), ast.Is(), Known(None)) is None
    assert compare(Unknown("int", least=1), ast.Gt(), Known(0)) is True
    assert compare(Unknown("int", least=1), ast.Eq(), Known(0)) is False
    assert compare(Known("a"), ast.Lt(), Known(1)) is None
    assert truthy(Unknown("int", least=1)) is True
    assert truthy(Unknown()) is None


def test_deep_code_ends_in_something_unknown() -> None:
    lines = ["def f(c):", "    x0 = c"]
    lines += [f"    x{i + 1} = x{i} + x{i} if x{i} else x{i} * 2" for i in range(60)]
    probe = Probe("\n".join([*lines, "    use(x60)"]))
    assert probe.value().unknown


# -- saying an expression elsewhere ----------------------------------------------------------------------------------


def carried(text: str) -> str:
    """What the argument of the first `use` is at the second one."""
    probe = Probe("import os\nimport torch\n" + textwrap.dedent(text))
    here, there = probe.calls
    return carry(probe.values, here.args[0], there, Facts()).text


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param("use(rank)\nuse()", "rank", id="same value"),
        pytest.param("x = rank % 2\nuse(x)\nx = 3\nuse()", "rank % 2", id="what it stood for"),
        pytest.param("x = rank + 1\nuse(x * 2)\nx = 3\nuse()", "(rank + 1) * 2", id="parentheses"),
        pytest.param("x = os.environ['A']\nuse(int(x))\ndel x\nuse()", "int(os.environ['A'])", id="pure calls"),
        pytest.param("args.gpu = rank\nuse(args.gpu)\nuse()", "args.gpu", id="attribute"),
    ],
)
def test_carrying(body: str, expected: str) -> None:
    assert carried("def f(rank, args):\n" + textwrap.indent(body, "    ")) == expected


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        pytest.param("use(pick())\nuse()", "calls pick()", id="a call that must not run twice"),
        pytest.param("use(rank)\nrank = pick()\nuse()", "changes", id="changed since"),
        pytest.param("x = pick()\nuse(x)\nx = 2\nuse()", "calls pick()", id="came from such a call"),
        pytest.param("[use(i) for i in rank]\nuse()", "comprehension", id="a comprehension's own"),
        pytest.param("use(lambda: rank)\nuse()", "twice", id="no plain expression"),
    ],
)
def test_refusing_to_carry(body: str, reason: str) -> None:
    with pytest.raises(Refused, match=reason.replace("(", r"\(").replace(")", r"\)")):
        carried("def f(rank, args):\n" + textwrap.indent(body, "    "))


def test_carrying_between_functions() -> None:
    text = """
        RANK = int(os.environ["RANK"])
        def f():
            local = int(os.environ["LOCAL_RANK"])
            use(local + RANK)
        def g():
            use()
    """
    assert carried(text) == 'int(os.environ["LOCAL_RANK"]) + RANK'


def test_an_environment_variable_that_the_file_sets_stays_where_it_is() -> None:
    text = """
        def f():
            use(int(os.environ["LOCAL_RANK"]))
        def g():
            os.environ["LOCAL_RANK"] = "0"
        def h():
            use()
    """
    with pytest.raises(Refused, match="this file sets"):
        carried(text)
