"""What calls change behind the back of the code around them, and what that does to values and versions."""

from __future__ import annotations

import ast
import textwrap

import pytest

from torchmigrate.module import Module
from torchmigrate.reaching import calls_between, key_of


def module_of(text: str) -> Module:
    text = textwrap.dedent(text)
    return Module("probe.py", text, ast.parse(text))


def call_of(module: Module, name: str) -> ast.Call:
    return next(call for call in module.names.calls if key_of(call.func) == name)


@pytest.mark.parametrize(
    ("text", "call", "changed", "kept"),
    [
        ("gpu = 0\ndef f():\n    global gpu\n    gpu = 1\nf()", "f", "gpu", "rank"),
        ("def main(gpu):\n    def f():\n        nonlocal gpu\n        gpu = 1\n    f()", "f", "gpu", "rank"),
        (
            "import os\ndef g():\n    os.environ['A'] = ''\ndef f():\n    g()\nf()",
            "f",
            "os.environ['A']",
            "os.environ['B']",
        ),
        ("import os\nos.environ.update(A='1')", "os.environ.update", "os.environ['A']", "os.environ['B']"),
        ("import os\nos.environ.update(found)", "os.environ.update", "os.environ['B']", "gpu"),
        ("from os import environ\nenviron.pop('A')", "environ.pop", "environ['A']", "environ['B']"),
        ("globals()['gpu'] = 1", "globals", "gpu", "rank"),
    ],
)
def test_a_call_changes_what_it_names_and_nothing_else(text: str, call: str, changed: str, kept: str) -> None:
    module = module_of(text)
    assert module.effects.changes(call_of(module, call), changed)
    assert not module.effects.changes(call_of(module, call), kept)


@pytest.mark.parametrize("text", ["exec(open('a').read())", "globals().update(found)", "globals()[name] = 1"])
def test_dynamic_code_may_change_everything(text: str) -> None:
    module = module_of(text)
    assert any(module.effects.changes(call, "backend") for call in module.names.calls)


def test_exec_in_its_own_namespace_changes_nothing() -> None:
    module = module_of("space = {}\nexec(open('a').read(), space)")
    assert not module.effects.changes(call_of(module, "exec"), "backend")


@pytest.mark.parametrize(
    ("between", "constants", "certain"),
    [
        ("pass", ("nccl",), True),
        ("setattr(args, 'backend', chosen)", ("nccl",), False),
        ("setattr(args, 'other', chosen)", ("nccl",), True),
        ("setattr(args, name, chosen)", ("nccl",), False),
        ("for name in found:\n    setattr(args, name, 1)", ("nccl",), False),
        ("vars(args).update(found)", ("nccl",), False),
        ("args.__dict__.update(other=1)", ("nccl",), True),
        ("args.merge_from_file(path)", ("nccl",), False),
        ("same = args\nsame.backend = 'gloo'", ("gloo", "nccl"), True),
        ("from settings import *", ("nccl",), False),
    ],
)
def test_what_may_set_an_attribute_by_name(between: str, constants: tuple[str, ...], certain: bool) -> None:
    module = module_of(f"args = make()\nargs.backend = 'nccl'\n{between}\nuse(args.backend)")
    value = module.values.of(call_of(module, "use").args[0])
    assert value.constants == constants
    assert value.certain is certain


def test_the_calls_between_two_places_are_the_same_in_either_order() -> None:
    module = module_of("def f(args):\n    first(args)\n    use()\n    second(args)\n    again()")
    flow = module.flow(call_of(module, "use"))
    one, other = (flow.version("args.gpu", call_of(module, name)) for name in ("use", "again"))
    assert calls_between(one, other) == calls_between(other, one) == (call_of(module, "second"),)
    assert calls_between(one, one) == ()
