"""Which recipe the old scaled product chose for two scales, and what to say where that cannot be told."""

from __future__ import annotations

import ast
import enum
from dataclasses import dataclass

from torchmigrate.module import Module
from torchmigrate_codemods.torch_2_15.scaling.shape import FREE, Shape, transposed
from torchmigrate_codemods.torch_2_15.scaling.shapes import Shapes
from torchmigrate_codemods.torch_2_15.scaling.told import tested_many

TENSOR_WISE = "TensorWise"
ROW_WISE = "RowWise"


class Form(enum.Enum):
    """What a scale looks like: one element; one a row for certain; one a row or one element; something else."""

    ONE = "one element"
    ROWS = "one element a row"
    MAYBE_ROWS = "a column or row of unknown length"
    BLOCKS = "one element a block"
    UNKNOWN = "a shape that this file does not show"


@dataclass(frozen=True, slots=True)
class Recipe:
    """The recipe that both scales surely have, or None with the reason; `likely` is the best guess for a person."""

    name: str | None
    reason: str
    likely: str = TENSOR_WISE
    blocks: bool = False


def decide(module: Module, shapes: Shapes, scale_a: ast.expr, scale_b: ast.expr) -> Recipe:
    """The recipe of a call, as the old operator chooses it: one element each, else (M, 1) and (1, N)."""
    of_a, of_b = shapes.of(scale_a), shapes.of(scale_b)
    for shape, which in ((of_a, "scale_a"), (of_b, "scale_b")):
        if shape.dtype not in (None, "float32"):
            blocks = shape.dtype.startswith("float8")
            end = "so there is one scale for each block" if blocks else "where the recipes want float32"
            return Recipe(None, f"{which} is {shape.dtype}, {end}", blocks=blocks)
    a, b = form(of_a), form(transposed(of_b))
    if a is b is Form.ONE:
        return Recipe(TENSOR_WISE, "both scales have one element")
    rows = (Form.ROWS, Form.MAYBE_ROWS)
    many = Form.ROWS in (a, b) or tested_many(module, scale_a) or tested_many(module, scale_b)
    if a in rows and b in rows and many:
        return Recipe(ROW_WISE, "the scales are a column (M, 1) and a row (1, N)")
    if a is b is Form.MAYBE_ROWS:
        reason = "the scales are a column and a row, which may be of one element"
        return Recipe(None, reason, ROW_WISE)
    likely = ROW_WISE if Form.ROWS in (a, b) or Form.MAYBE_ROWS in (a, b) else TENSOR_WISE
    if Form.BLOCKS in (a, b):
        return Recipe(None, "the scales look like one for each block", blocks=True)
    named = ((a, "scale_a", scale_a), (b, "scale_b", scale_b))
    unknown = [f"{name} ({module.normal(node)[:60]})" for f, name, node in named if f is Form.UNKNOWN]
    if unknown:
        verb = "have shapes" if len(unknown) > 1 else "has a shape"
        return Recipe(None, f"{' and '.join(unknown)} {verb} that this file does not show", likely)
    return Recipe(None, f"scale_a has {a.value}, scale_b {b.value}", likely)


def form(shape: Shape) -> Form:
    """The form of the scale of the left operand (the right one transposed)."""
    if shape.number:
        return Form.UNKNOWN
    if shape.single:
        return Form.ONE
    if shape.dims is None:
        return Form.MAYBE_ROWS if shape.tail[-1:] == (1,) else Form.UNKNOWN
    if len(shape.dims) == 2 and shape.dims[1] == 1:
        return Form.MAYBE_ROWS if shape.dims[0] == FREE else Form.ROWS
    if len(shape.dims) == 2 and shape.dims[0] != 1 and FREE not in shape.dims:
        return Form.BLOCKS
    return Form.UNKNOWN


def misfits(shapes: Shapes, mat_a: ast.expr | None, mat_b: ast.expr | None) -> list[str]:
    """K and N where they are literal and no multiples of 16."""
    found: list[str] = []
    if mat_a is not None and (dims := shapes.of(mat_a).dims) and len(dims) == 2:
        found += [f"K = {dims[1]}"] if isinstance(dims[1], int) and dims[1] % 16 else []
    if mat_b is not None and (dims := shapes.of(mat_b).dims) and len(dims) == 2:
        found += [f"N = {dims[1]}"] if isinstance(dims[1], int) and dims[1] % 16 else []
    return found
