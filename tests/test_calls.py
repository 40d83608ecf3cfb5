"""Which parameter each argument of a call goes to."""

from __future__ import annotations

import ast

import pytest

from torchmigrate.calls import Binding, Signature, bind, default_of

SIGNATURE = Signature(("backend", "rank", "store"), ("extra",))


def bound(text: str, signature: Signature = SIGNATURE) -> Binding:
    call = ast.parse(text, mode="eval").body
    assert isinstance(call, ast.Call)
    return bind(call, signature)


def given(binding: Binding) -> dict[str, str]:
    return {name: ast.unparse(value) for name, value in binding.given.items()}


def function(text: str) -> ast.FunctionDef:
    node = ast.parse(text).body[0]
    assert isinstance(node, ast.FunctionDef)
    return node


def test_positions_and_keywords() -> None:
    assert given(bound("f('nccl', store=s, extra=1)")) == {"backend": "'nccl'", "store": "s", "extra": "1"}


def test_what_the_signature_does_not_name() -> None:
    binding = bound("f(1, 2, 3, 4, other=5)")
    assert [ast.unparse(one) for one in binding.surplus] == ["4"]
    assert list(binding.unknown) == ["other"]


def test_a_parameter_given_twice_keeps_its_first_value() -> None:
    assert given(bound("f('nccl', backend='gloo')")) == {"backend": "'nccl'"}


@pytest.mark.parametrize(
    ("text", "absent"),
    [
        pytest.param("f('nccl')", {"rank", "store", "extra"}, id="plain"),
        pytest.param("f('nccl', **kw)", set(), id="a mapping may give anything"),
        pytest.param("f('nccl', *rest)", {"extra"}, id="a star fills positions, not keyword-only parameters"),
        pytest.param("f(*rest, rank=1)", {"extra"}, id="a star from the first position on"),
    ],
)
def test_surely_absent(text: str, absent: set[str]) -> None:
    binding = bound(text)
    assert {name for name in ("backend", "rank", "store", "extra") if binding.surely_absent(name)} == absent


def test_arguments_behind_a_star_have_no_known_parameter() -> None:
    binding = bound("f('nccl', *rest, 3)")
    assert given(binding) == {"backend": "'nccl'"}
    assert binding.first_star == 1
    assert binding.surplus == ()


def test_a_method_is_called_without_its_object() -> None:
    signature = Signature.of(function("def setup(self, rank, /, size, *, device=None): ..."), method=True)
    assert given(bound("t.setup(3, size=8, device=d)", signature)) == {"rank": "3", "size": "8", "device": "d"}
    assert signature.position("size") == 1
    assert signature.position("self") is None
    assert signature.position("device") is None


def test_defaults() -> None:
    one = function("def f(a, b=1, /, c=2, *rest, d, e=3, **kw): ...")
    shown = {name: default_of(one, name) for name in "abcde"}
    assert {k: ast.unparse(v) if v else None for k, v in shown.items()} == {
        "a": None,
        "b": "1",
        "c": "2",
        "d": None,
        "e": "3",
    }
    assert (Signature.of(one).variadic, Signature.of(one).open_keywords) == (True, True)
