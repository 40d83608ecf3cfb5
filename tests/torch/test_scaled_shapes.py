"""What TM301 reads from the code about the shapes of scales, and that torch makes tensors of these shapes."""

from __future__ import annotations

import ast
import json
import os
import subprocess

import pytest

from torchmigrate.module import Module
from torchmigrate_codemods.torch_2_15.scaling.recipe import Form, form
from torchmigrate_codemods.torch_2_15.scaling.shapes import Shapes

# x is (M, K), w is (N, K), v is (M,); K of them are not known to the file.
SHAPES = {
    "torch.tensor(0.5)": "",
    "torch.tensor([0.5])": "1",
    "torch.tensor([[0.5, 1.0]])": "1 2",
    "torch.ones(())": "",
    "torch.ones(1, 1)": "1 1",
    "torch.full((1,), 2.0)": "1",
    "x.abs().max()": "",
    "x.amax().float() / 448.0": "",
    "(448.0 / x.abs().max()).reciprocal().clamp(min=1e-12)": "",
    "torch.max(torch.abs(x)).view(1)": "1",
    "x.abs().max().reshape(1, 1).to(torch.float32)": "1 1",
    "torch.zeros_like(x.max())": "",
    "torch.where(x.max() > 0, x.max(), 1.0)": "",
    "x.norm()": "",
    "x.amax(dim=(0, 1))": "",
    "x.amax(dim=(-2, -1), keepdim=True)": "1 1",
    "x.amax(dim=1, keepdim=True)": "rows 1",
    "x.amax(-1, True)": "rows 1",
    "x.abs().max(dim=-1, keepdim=True)[0]": "rows 1",
    "x.max(dim=1, keepdim=True).values.float()": "rows 1",
    "torch.amax(x.abs(), dim=-1, keepdim=True).clamp_min(1e-12)": "rows 1",
    "x.amax(dim=1).unsqueeze(-1)": "rows 1",
    "x.amax(dim=1)[:, None]": "rows 1",
    "x.amax(dim=1).view(-1, 1)": "rows 1",
    "x.amax(dim=1)[..., None].contiguous()": "rows 1",
    "w.amax(dim=1, keepdim=True).t()": "1 rows",
    "w.amax(dim=1, keepdim=True).T": "1 rows",
    "w.amax(1).unsqueeze(0)": "1 rows",
    "w.amax(1)[None, :]": "1 rows",
    "w.t().amax(dim=0, keepdim=True)": "1 rows",
    "w.amax(1).reshape(1, -1)": "1 rows",
    "torch.transpose(w.amax(1, keepdim=True), 0, 1)": "1 rows",
    "w.amax(1, keepdim=True).permute(1, 0)": "1 rows",
    "torch.rand(x.shape[0], 1)": "rows 1",
    "torch.rand((1, w.size(0)))": "1 rows",
    "torch.ones(1).expand(x.shape[0], 1).contiguous()": "rows 1",
    "torch.tensor(2.0).reshape(1, 1).expand(-1, w.shape[0])": "1 rows",
    "x.amax(dim=1, keepdim=True) * x.max()": "rows 1",
    "x.amax(dim=1)": "rows",
    "x.amax(1, keepdim=True).squeeze(1)": "rows",
    "x.view(x.shape[0], -1, 2).amax(dim=2)": "rows rows",
    "x.new_ones(3, 4)": "3 4",
    "v.unsqueeze(-1)": "... 1",
    "v[:, None]": "... 1",
    "v.view(1, -1)": "1 free",
    "v.view(-1, 1)": "free 1",
    "v": "...",
    "x.matmul(w.t())": "...",
}


def read(expression: str) -> Shapes:
    text = f"import torch\n\n\ndef function(x, w, v):\n    return {expression}\n"
    return Shapes(Module("m.py", text, ast.parse(text)))


def said(expression: str) -> str:
    shapes = read(expression)
    node = next(n for n in ast.walk(shapes.module.tree) if isinstance(n, ast.Return))
    assert node.value is not None
    shape = shapes.of(node.value)
    dims = (*shape.head, "...", *shape.tail) if shape.dims is None else shape.dims
    return " ".join(str(dim) for dim in dims)


@pytest.mark.parametrize(("expression", "dims"), SHAPES.items(), ids=list(SHAPES))
def test_shape(expression: str, dims: str) -> None:
    assert said(expression) == dims


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("torch.ones(1, 1)", Form.ONE),
        ("3.0", Form.UNKNOWN),
        ("x.amax(1, keepdim=True)", Form.ROWS),
        ("v.view(-1, 1)", Form.MAYBE_ROWS),
        ("v.unsqueeze(-1)", Form.MAYBE_ROWS),
        ("x.view(x.shape[0], -1, 2).amax(dim=2)", Form.BLOCKS),
        ("x.amax(1)", Form.UNKNOWN),
        ("v", Form.UNKNOWN),
    ],
)
def test_form_of_the_left_scale(expression: str, expected: Form) -> None:
    shapes = read(expression)
    node = next(n for n in ast.walk(shapes.module.tree) if isinstance(n, ast.Return))
    assert node.value is not None
    assert form(shapes.of(node.value)) is expected


@pytest.mark.torch
def test_torch_makes_these_shapes() -> None:
    given = [one for one in os.environ.get("TORCHMIGRATE_TORCH", "").split(os.pathsep) if one]
    if not given:
        pytest.fail("TORCHMIGRATE_TORCH names no interpreters; see CONTRIBUTING.md", pytrace=False)
    code = (
        "import json, sys, torch\n"
        "x, w, v = torch.rand(6, 8), torch.rand(10, 8), torch.rand(6)\n"
        "print(json.dumps([list(eval(e).shape) for e in json.load(sys.stdin)]))"
    )
    run = subprocess.run([given[-1], "-c", code], input=json.dumps(list(SHAPES)), capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    for (expression, dims), real in zip(SHAPES.items(), json.loads(run.stdout.splitlines()[-1]), strict=True):
        assert fits(dims.split(), real), f"{expression} is {real}, not {dims}"


def fits(dims: list[str], real: list[int]) -> bool:
    if "..." in dims:
        cut = dims.index("...")
        head, tail = dims[:cut], dims[cut + 1 :]
        return len(real) >= len(head) + len(tail) and fits(
            head + tail, real[: len(head)] + real[len(real) - len(tail) :]
        )
    named = {"rows", "free"}
    return len(dims) == len(real) and all(d in named or int(d) == r for d, r in zip(dims, real, strict=True))
