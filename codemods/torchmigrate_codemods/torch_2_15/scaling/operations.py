"""What torch's functions and a tensor's methods make of shapes."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import TYPE_CHECKING

from torchmigrate.reaching import key_of
from torchmigrate_codemods.torch_2_15.scaling.frame import Frame
from torchmigrate_codemods.torch_2_15.scaling.shape import (
    NUMBER,
    ROWS,
    SCALAR,
    UNKNOWN,
    Dim,
    Shape,
    broadcast,
    expanded,
    permuted,
    reduced,
    squeezed,
    transposed,
    unsqueezed,
    viewed,
)

if TYPE_CHECKING:
    from torchmigrate_codemods.torch_2_15.scaling.shapes import Shapes

_SAME = frozenset(
    (
        *("abs", "abs_", "neg", "exp", "exp2", "log", "log2", "log10", "sqrt", "rsqrt", "reciprocal", "reciprocal_"),
        *("clamp", "clamp_", "clamp_min", "clamp_min_", "clamp_max", "clip", "clip_", "round", "ceil", "floor", "sign"),
        *("contiguous", "clone", "detach", "detach_", "cuda", "cpu", "requires_grad_", "nan_to_num", "fill_", "copy_"),
        *("uniform_", "normal_", "zero_", "pin_memory", "share_memory_", "square", "masked_fill", "masked_fill_"),
        *("mul_", "div_", "add_", "sub_", "pow", "pow_", "xpu", "npu", "float_power", "sigmoid", "tanh"),
    )
)
_TYPES = {"float": "float32", "half": "float16", "double": "float64", "bfloat16": "bfloat16"}
_PAIRED = frozenset({"mul", "div", "add", "sub", "maximum", "minimum", "where", "true_divide", "divide", "multiply"})
_FOLDS = frozenset({"max", "min", "amax", "amin", "sum", "mean", "norm", "prod", "median"})
_MADE = frozenset({"ones", "zeros", "empty", "rand", "randn", "full", "new_ones", "new_zeros", "new_empty", "new_full"})
_LIKE = frozenset({"ones_like", "zeros_like", "empty_like", "full_like", "rand_like", "randn_like"})


class Operations:
    """Shapes of calls, asking `shapes` for those of the operands."""

    def __init__(self, shapes: Shapes) -> None:
        self.shapes = shapes

    def torch(self, node: ast.Call, name: str, frame: Frame | None) -> Shape:
        tail = name.rpartition(".")[2]
        if tail in ("tensor", "as_tensor", "scalar_tensor") and node.args:
            return self._literal(node.args[0], frame).typed(_dtype(node))
        if tail in _MADE:
            return self._made(node, tail, frame).typed(_dtype(node))
        if tail in _LIKE and node.args:
            return self.shapes.of(node.args[0], frame).typed(_dtype(node))
        if not node.args or any(isinstance(a, ast.Starred) for a in node.args):
            return UNKNOWN
        inner = self.shapes.of(node.args[0], frame)
        if tail in _FOLDS:
            if (
                tail in ("max", "min")
                and len(node.args) == 2
                and not isinstance(node.args[1], (ast.Constant, ast.UnaryOp))
            ):
                return broadcast(inner, self.shapes.of(node.args[1], frame))
            return self._folded(node, inner, 1, frame)
        if tail in _PAIRED:
            return self._all(node.args[1:] if tail == "where" else node.args, frame)
        if tail in ("t", "transpose", "unsqueeze", "squeeze", "reshape", "permute"):
            return self._moved(tail, inner, node.args[1:], node, frame)
        return inner if tail in _SAME else UNKNOWN

    def _all(self, nodes: Iterable[ast.expr], frame: Frame | None) -> Shape:
        shape = NUMBER
        for node in nodes:
            shape = broadcast(shape, self.shapes.of(node, frame))
        return shape

    def method(self, node: ast.Call, function: ast.Attribute, frame: Frame | None) -> Shape:
        attr = function.attr
        if attr in ("item", "numel", "size", "dim"):
            return NUMBER
        if attr in ("new_tensor",) and node.args:
            return self._literal(node.args[0], frame)
        if attr in _MADE:
            return self._made(node, attr, frame)
        inner = self.shapes.of(function.value, frame)
        if attr in _TYPES:
            return inner.typed(_TYPES[attr])
        if attr in ("to", "type"):
            given = _dtype(node) or next((d for a in node.args if (d := _dtype_name(a))), None)
            return inner.typed(given or inner.dtype)
        if attr in ("type_as", "to_dense"):
            return inner.typed(None)
        if attr in _FOLDS:
            return self._folded(node, inner, 0, frame)
        if attr in _PAIRED and node.args:
            return broadcast(inner, self.shapes.of(node.args[0], frame))
        if attr in _SAME:
            return inner
        return self._moved(attr, inner, node.args, node, frame)

    def _moved(self, attr: str, inner: Shape, args: list[ast.expr], node: ast.Call, frame: Frame | None) -> Shape:
        if any(isinstance(a, ast.Starred) for a in args):
            return UNKNOWN.typed(inner.dtype)
        if attr == "view" and len(args) == 1 and (dtype := _dtype_name(args[0])):
            return inner.typed(dtype)
        if attr in ("view", "reshape", "expand", "unflatten"):
            dims = self._dims(args, frame)
            if dims is None or attr == "unflatten":
                return UNKNOWN.typed(inner.dtype)
            return viewed(inner, dims) if attr != "expand" else expanded(inner, dims)
        if attr == "t":
            return transposed(inner)
        if attr in ("transpose", "swapaxes", "permute"):
            order = [
                self._int(frame, a)
                for a in (args[0].elts if len(args) == 1 and isinstance(args[0], ast.Tuple) else args)
            ]
            if None in order:
                return UNKNOWN.typed(inner.dtype)
            places = tuple(place for place in order if place is not None)
            if attr == "permute":
                return permuted(inner, places)
            return transposed(inner, *places) if len(places) == 2 else UNKNOWN
        if attr in ("unsqueeze", "unsqueeze_"):
            dim = self._int(frame, args[0] if args else _keyword(node, "dim"))
            return UNKNOWN.typed(inner.dtype) if dim is None else unsqueezed(inner, dim)
        if attr in ("squeeze", "squeeze_"):
            given = args[0] if args else _keyword(node, "dim")
            return squeezed(inner, None) if given is None else squeezed(inner, self._int(frame, given))
        if attr in ("flatten", "ravel") and not args:
            return viewed(inner, (-1,))
        return UNKNOWN.typed(inner.dtype)

    def _folded(self, node: ast.Call, inner: Shape, place: int, frame: Frame | None) -> Shape:
        """max, amax and the like; `place` is the position of `dim`."""
        given = _keyword(node, "dim") or _keyword(node, "axis")
        if isinstance(node.func, ast.Attribute) and node.func.attr == "norm":
            place += 1
        if given is None and len(node.args) > place:
            given = node.args[place]
        kept = _keyword(node, "keepdim") or (node.args[place + 1] if len(node.args) > place + 1 else None)
        keep = isinstance(kept, ast.Constant) and kept.value is True
        if kept is not None and not isinstance(kept, ast.Constant):
            return UNKNOWN
        if given is None or _is_none(given):
            return reduced(inner, None, keep)
        if isinstance(given, (ast.Tuple, ast.List)):
            dims = [self._int(frame, d) for d in given.elts]
            if len(dims) == 2 and set(dims) in ({0, 1}, {-1, -2}) and (inner.dims is None or len(inner.dims) == 2):
                return Shape((1, 1)) if keep else SCALAR
            return UNKNOWN
        dim = self._int(frame, given)
        return UNKNOWN if dim is None else reduced(inner, dim, keep)

    def _made(self, node: ast.Call, name: str, frame: Frame | None) -> Shape:
        size = _keyword(node, "size")
        args = [size] if size is not None else node.args
        if name in ("full", "new_full"):
            args = args[:1]
        dims = self._dims(args, frame)
        return UNKNOWN if dims is None else Shape(dims)

    def _dims(self, args: list[ast.expr], frame: Frame | None) -> tuple[Dim, ...] | None:
        """The sizes given to `view`, `ones` and the like."""
        if len(args) == 1 and isinstance(args[0], (ast.Tuple, ast.List)):
            args = args[0].elts
        elif len(args) == 1 and not self._is_number(args[0], frame):
            return None
        if any(isinstance(a, ast.Starred) for a in args):
            return None
        return tuple(ROWS if (size := self._int(frame, a)) is None else size for a in args)

    def _is_number(self, node: ast.expr, frame: Frame | None) -> bool:
        """Whether the only argument of `view(n)` is a number and not a whole shape."""
        if self._int(frame, node) is not None:
            return True
        match node:
            case ast.Subscript(value=ast.Attribute(attr="shape"), slice=index):
                return not isinstance(index, ast.Slice)
            case ast.BinOp():
                return True
            case ast.Call(func=function, args=args):
                return bool(args) and isinstance(function, ast.Attribute) and function.attr == "size"
            case ast.Name(id=name):
                return len(name) == 1 or not any(word in name.lower() for word in ("shape", "size", "dims"))
        return False

    def _literal(self, node: ast.expr, frame: Frame | None) -> Shape:
        """The data given to `torch.tensor`."""
        match node:
            case ast.List(elts=elements) | ast.Tuple(elts=elements):
                if any(isinstance(e, ast.Starred) for e in elements) or not elements:
                    return UNKNOWN
                inner = self._literal(elements[0], frame)
                return UNKNOWN if inner.dims is None else Shape((len(elements), *inner.dims))
            case ast.Constant() | ast.UnaryOp():
                return SCALAR
        shape = self.shapes.of(node, frame)
        return SCALAR if shape.number else shape

    def _int(self, frame: Frame | None, node: ast.expr | None) -> int | None:
        match node:
            case ast.Constant(value=int() as value) if not isinstance(value, bool):
                return value
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() as value)):
                return -value
            case ast.Name():
                definitions = self.shapes.module.flow(node).definitions(node.id, node)
                if len(definitions) == 1 and (definition := definitions[0]).value is not None:
                    return self._int(frame, definition.value) if definition.how == "assign" else None
                if frame is not None and node.id in frame.given and all(d.how == "parameter" for d in definitions):
                    return self._int(frame.outer, frame.given[node.id])
        return None


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _keyword(node: ast.Call, name: str) -> ast.expr | None:
    return next((k.value for k in node.keywords if k.arg == name), None)


def _dtype(node: ast.Call) -> str | None:
    given = _keyword(node, "dtype")
    return None if given is None else _dtype_name(given)


def _dtype_name(node: ast.expr) -> str | None:
    """The name of a torch dtype, given as `torch.float32`."""
    if isinstance(node, ast.Attribute) and key_of(node) in (f"torch.{node.attr}",) and node.attr[-1].isalnum():
        name = "float32" if node.attr == "float" else node.attr
        return name if name.startswith(("float", "bfloat", "half", "double", "uint", "int")) else None
    return None
