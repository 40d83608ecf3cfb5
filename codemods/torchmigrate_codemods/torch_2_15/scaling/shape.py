"""Shapes of tensors as far as code shows them: a small algebra without any code in it.

A dimension is a number, ROWS (as many as some data has: one only by chance), or FREE (whatever is left, one included).
A shape of unknown rank keeps the first and the last dimensions that are known.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

ROWS = "rows"
FREE = "free"
Dim = int | str


@dataclass(frozen=True, slots=True)
class Shape:
    """The shape of a tensor; `number` for a plain Python number.

    With `open` there may be any dimensions between `head` and `tail`; else `head` is all of them. `dtype` is the last
    name of the torch dtype that the values surely have.
    """

    head: tuple[Dim, ...] = ()
    tail: tuple[Dim, ...] = ()
    open: bool = False
    number: bool = False
    dtype: str | None = None

    @property
    def dims(self) -> tuple[Dim, ...] | None:
        """All dimensions, None where the rank is unknown."""
        return None if self.open else self.head

    @property
    def single(self) -> bool:
        """Whether there surely is exactly one element."""
        return not self.open and all(dim == 1 for dim in self.head)

    @property
    def known(self) -> bool:
        """Whether anything at all is known."""
        return not self.open or bool(self.head or self.tail)

    def typed(self, dtype: str | None) -> Shape:
        """The same with another dtype."""
        return replace(self, dtype=dtype)


UNKNOWN = Shape(open=True)
NUMBER = Shape(number=True)
SCALAR = Shape()


def of(*dims: Dim) -> Shape:
    """A shape of known rank."""
    return Shape(dims)


def last(dim: Dim) -> Shape:
    """A shape whose last dimension is known."""
    return Shape(tail=(dim,), open=True)


def first(dim: Dim) -> Shape:
    """A shape whose first dimension is known."""
    return Shape(head=(dim,), open=True)


def merge(one: Shape, other: Shape) -> Shape:
    """What is true of both."""
    if one == other:
        return one
    dtype = one.dtype if one.dtype == other.dtype else None
    if one.single and other.single:
        return Shape(number=one.number and other.number, dtype=dtype)
    if one.dims is not None and other.dims is not None and len(one.dims) == len(other.dims):
        return Shape(tuple(_either(a, b) for a, b in zip(one.dims, other.dims, strict=True)), dtype=dtype)
    head = one.head[:1] if one.head[:1] == other.head[:1] and (one.open or other.open) else ()
    ends = [s.tail[-1:] if s.open else s.head[-1:] for s in (one, other)]
    tail = ends[0] if ends[0] == ends[1] else ()
    return Shape(head, tail, True, dtype=dtype)


def merged(shapes: list[Shape]) -> Shape:
    """What is true of all of several shapes; nothing is of none."""
    result = shapes[0] if shapes else UNKNOWN
    for shape in shapes[1:]:
        result = merge(result, shape)
    return result


def _either(one: Dim, other: Dim) -> Dim:
    if one == other:
        return one
    return FREE if 1 in (one, other) or FREE in (one, other) else ROWS


def broadcast(one: Shape, other: Shape) -> Shape:
    """The shape of an elementwise operation."""
    if one.number and other.number:
        return NUMBER
    if one.number or (one.single and one.dims == ()):
        return other if not other.number else one
    if other.number or (other.single and other.dims == ()):
        return one
    dtype = one.dtype if one.dtype == other.dtype else None
    if one.dims is None or other.dims is None:
        return UNKNOWN
    longer, shorter = sorted((one.dims, other.dims), key=len, reverse=True)
    padded = (1,) * (len(longer) - len(shorter)) + shorter
    return Shape(tuple(b if a == 1 else a for a, b in zip(longer, padded, strict=True)), dtype=dtype)


def transposed(shape: Shape, one: int = 0, other: int = 1) -> Shape:
    """Two dimensions swapped; for the usual two of a matrix also where the rank is unknown."""
    if shape.dims is not None:
        if len(shape.dims) < 2:
            return shape
        dims = list(shape.dims)
        try:
            dims[one], dims[other] = dims[other], dims[one]
        except IndexError:
            return UNKNOWN
        return replace(shape, head=tuple(dims))
    if {one, other} in ({0, 1}, {-1, -2}):
        return Shape(shape.tail[-1:], shape.head[:1], True, dtype=shape.dtype)
    return UNKNOWN.typed(shape.dtype)


def reduced(shape: Shape, dim: int | None, keep: bool) -> Shape:
    """One dimension (all with None) folded by max, amax, sum and the like; data of unknown rank counts as a matrix."""
    if dim is None:
        if keep and shape.dims is not None:
            return Shape((1,) * len(shape.dims))
        return SCALAR if not keep else UNKNOWN
    if shape.dims is None:
        if dim not in (0, 1, -1, -2):
            return UNKNOWN
        dims: list[Dim] = [ROWS, ROWS]
    else:
        dims = list(shape.dims)
    if not -len(dims) <= dim < len(dims):
        return UNKNOWN
    place = dim % len(dims)
    rest = dims[:place] + ([1] if keep else []) + dims[place + 1 :]
    return Shape(tuple(rest))


def unsqueezed(shape: Shape, dim: int) -> Shape:
    """One more dimension of size 1."""
    if shape.dims is not None:
        place = dim if dim >= 0 else len(shape.dims) + 1 + dim
        if not 0 <= place <= len(shape.dims):
            return UNKNOWN
        return replace(shape, head=(*shape.dims[:place], 1, *shape.dims[place:]))
    if dim == -1:
        return Shape(shape.head, (1,), True, dtype=shape.dtype)
    return Shape((1,), shape.tail, True, dtype=shape.dtype) if dim == 0 else UNKNOWN.typed(shape.dtype)


def squeezed(shape: Shape, dim: int | None) -> Shape:
    """Dimensions of size 1 taken away."""
    if shape.dims is None or FREE in shape.dims:
        return UNKNOWN.typed(shape.dtype)
    if dim is None:
        return replace(shape, head=tuple(d for d in shape.dims if d != 1))
    if not -len(shape.dims) <= dim < len(shape.dims):
        return shape
    place = dim % len(shape.dims)
    if shape.dims[place] != 1:
        return shape
    return replace(shape, head=(*shape.dims[:place], *shape.dims[place + 1 :]))


def viewed(shape: Shape, dims: tuple[Dim, ...]) -> Shape:
    """`view` or `reshape`; -1 stands for what is left."""
    if -1 not in dims:
        return Shape(dims, dtype=shape.dtype)
    rest: Dim = FREE
    if all(dim in (1, -1) for dim in dims) and shape.dims is not None:
        many = [dim for dim in shape.dims if dim != 1]
        if not many:
            rest = 1
        elif len(many) == 1:
            rest = many[0]
        elif FREE not in many:
            rest = ROWS
    elif any(dim not in (1, -1) for dim in dims):
        rest = ROWS
    return Shape(tuple(rest if dim == -1 else dim for dim in dims), dtype=shape.dtype)


def expanded(shape: Shape, dims: tuple[Dim, ...]) -> Shape:
    """`expand`; -1 keeps a dimension."""
    if -1 not in dims:
        return Shape(dims, dtype=shape.dtype)
    if shape.dims is None or len(shape.dims) != len(dims):
        return UNKNOWN.typed(shape.dtype)
    return Shape(tuple(a if b == -1 else b for a, b in zip(shape.dims, dims, strict=True)), dtype=shape.dtype)


def permuted(shape: Shape, order: tuple[int, ...]) -> Shape:
    """`permute`."""
    if shape.dims is None or sorted(p % max(len(order), 1) for p in order) != list(range(len(shape.dims))):
        return UNKNOWN.typed(shape.dtype)
    return replace(shape, head=tuple(shape.dims[p] for p in order))
