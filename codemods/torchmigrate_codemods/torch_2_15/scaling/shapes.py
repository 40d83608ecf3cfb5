"""The shape of an expression, as far as the file shows how its tensor is made.

Followed are names through assignments that agree, conditions such as `scale.numel() == 1`, `self.x` through the class,
module constants, and functions of the same file with the arguments that they get.
"""

from __future__ import annotations

import ast

from torchmigrate.calls import default_of
from torchmigrate.functions import Functions
from torchmigrate.module import Module
from torchmigrate.reaching import key_of
from torchmigrate.scopes import Kind
from torchmigrate_codemods.torch_2_15.scaling.frame import Frame, excluded
from torchmigrate_codemods.torch_2_15.scaling.members import Members, names_scale
from torchmigrate_codemods.torch_2_15.scaling.operations import Operations
from torchmigrate_codemods.torch_2_15.scaling.shape import (
    NUMBER,
    ROWS,
    UNKNOWN,
    Dim,
    Shape,
    broadcast,
    merge,
    merged,
    transposed,
)
from torchmigrate_codemods.torch_2_15.scaling.told import told

_DEPTH = 80
_STEPS = 600
_WRAPS = ("torch.nn.Parameter", "torch.nn.Buffer", "torch.nn.parameter.Parameter", "torch.nn.parameter.Buffer")
_NUMBERS = frozenset({"max", "min", "eps", "tiny", "smallest_normal", "bits", "resolution"})


class Shapes:
    """Shapes in one module."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.functions = Functions(module)
        self.operations = Operations(self)
        self.members = Members(self)
        self._active: list[ast.AST] = []
        self._known: dict[tuple[ast.expr, Frame | None], Shape] = {}
        self._steps = 0
        self._cut = False
        """Whether a shape was left open since a cycle or the depth was met: then nothing is kept."""

    def of(self, node: ast.expr, frame: Frame | None = None) -> Shape:
        """The shape of an expression where it stands."""
        if (node, frame) in self._known:
            return self._known[node, frame]
        self._steps = self._steps + 1 if self._active else 0
        if node in self._active or len(self._active) > _DEPTH or self._steps > _STEPS:
            self._cut = True
            return UNKNOWN
        before, self._cut = self._cut, False
        self._active.append(node)
        try:
            shape = self._shape(node, frame)
        finally:
            self._active.pop()
        if not self._cut:
            self._known[node, frame] = shape
        self._cut = self._cut or before
        return shape

    def _shape(self, node: ast.expr, frame: Frame | None) -> Shape:
        match node:
            case ast.Constant(value=int() | float()):
                return NUMBER
            case ast.Name() | ast.Attribute():
                return self._variable(node, frame)
            case ast.Call():
                return self._call(node, frame)
            case ast.BinOp(left=left, op=ast.MatMult()):
                return UNKNOWN
            case ast.BinOp(left=left, right=right):
                return broadcast(self.of(left, frame), self.of(right, frame))
            case ast.UnaryOp(operand=operand):
                return self.of(operand, frame)
            case ast.IfExp(body=body, orelse=orelse):
                return merge(self.of(body, frame), self.of(orelse, frame))
            case ast.NamedExpr(value=value) | ast.Await(value=value):
                return self.of(value, frame)
            case ast.Subscript():
                return self._item(node, frame)
        return UNKNOWN

    # -- variables ---------------------------------------------------------------------------------------------

    def _variable(self, node: ast.Name | ast.Attribute, frame: Frame | None) -> Shape:
        if isinstance(node, ast.Attribute):
            if node.attr in ("T", "mT", "H"):
                return transposed(self.of(node.value, frame), -1, -2)
            if node.attr in ("data", "values", "real"):
                return self.of(node.value, frame)
            if node.attr in _NUMBERS and not self.members.stored(node):
                return NUMBER
        shape = self._assigned(node, frame)
        said = told(self.module, node)
        return shape if said is None or (shape.dims is not None and said.single and not shape.single) else said

    def _assigned(self, node: ast.Name | ast.Attribute, frame: Frame | None) -> Shape:
        key = key_of(node)
        if key is None:
            return UNKNOWN
        shapes: list[Shape] = []
        for definition in self.module.flow(node).definitions(key, node):
            value = definition.value
            if isinstance(definition.node, ast.stmt) and excluded(self.module, definition.node, frame):
                continue
            if definition.how == "assign" and value is not None:
                if not _is_none(value):
                    shapes.append(self.of(value, frame))
            elif definition.how == "augmented" and value is not None and isinstance(definition.node, ast.AugAssign):
                shapes.append(broadcast(self._before(definition.node.target, frame), self.of(value, frame)))
            elif definition.how == "parameter" and isinstance(definition.node, ast.arg):
                shapes.append(self._parameter(definition.node, frame))
            elif definition.how == "unpack" and value is not None and definition.index is not None:
                shapes.append(self._part(value, definition.index, frame))
            elif definition.how == "free":
                shapes.append(self._outside(node))
            elif definition.how != "unbound":
                return UNKNOWN
        return merged(shapes)

    def _before(self, target: ast.expr, frame: Frame | None) -> Shape:
        return self._assigned(target, frame) if isinstance(target, (ast.Name, ast.Attribute)) else UNKNOWN

    def _parameter(self, arg: ast.arg, frame: Frame | None) -> Shape:
        if frame is not None and arg.arg in frame.given:
            return self.of(frame.given[arg.arg], frame.outer)
        annotation = arg.annotation
        if isinstance(annotation, ast.Name) and annotation.id in ("int", "float"):
            return NUMBER
        return UNKNOWN

    def _outside(self, node: ast.Name | ast.Attribute) -> Shape:
        """A closure variable, a module constant, or an attribute of self."""
        if isinstance(node, ast.Attribute):
            return self.members.member(node)
        names = self.module.names
        found = names.lookup(node.id, names.scope_of(node))
        if found is None:
            return NUMBER if node.id.isupper() else UNKNOWN
        shapes: list[Shape] = []
        for binding in found[1]:
            if binding.kind is Kind.ASSIGN and binding.value is not None:
                if not _is_none(binding.value):
                    shapes.append(self.of(binding.value))
            elif binding.kind is Kind.PARAMETER and isinstance(binding.node, ast.arg):
                shapes.append(self._parameter(binding.node, None))
            elif binding.kind is Kind.IMPORT and node.id.isupper() and not names_scale(node.id):
                shapes.append(NUMBER)
            else:
                return UNKNOWN
        return merged(shapes)

    # -- calls -------------------------------------------------------------------------------------------------

    def _call(self, node: ast.Call, frame: Frame | None) -> Shape:
        names = self.module.resolve(node.func).names
        name = next(iter(names)) if len(names) == 1 else ""
        if name in _WRAPS and node.args:
            return self.of(node.args[0], frame)
        if name.startswith("torch."):
            return self.operations.torch(node, name, frame)
        if isinstance(node.func, ast.Name) and node.func.id in ("float", "int", "max", "min", "len", "abs", "round"):
            return NUMBER
        if results := self._results(node, frame):
            return merged([self.of(value, inner) for value, inner in results])
        if isinstance(node.func, ast.Attribute) and not names:
            return self.operations.method(node, node.func, frame)
        return UNKNOWN

    # -- parts and functions -----------------------------------------------------------------------------------

    def _item(self, node: ast.Subscript, frame: Frame | None) -> Shape:
        index = node.slice
        if isinstance(index, ast.Constant) and isinstance(index.value, int):
            element = self._part(node.value, index.value, frame)
            if element.known:
                return element
        inner = self.of(node.value, frame)
        parts = index.elts if isinstance(index, ast.Tuple) else [index]
        if inner.dims is None:
            if _is_none(parts[-1]) and len(parts) > 1:
                return Shape((), (1,), True, dtype=inner.dtype)
            return Shape((1,), (), _is_none(parts[0]), dtype=inner.dtype) if _is_none(parts[0]) else UNKNOWN
        dims = list(inner.dims)
        result: list[Dim] = []
        taking = sum(1 for part in parts if not (isinstance(part, ast.Constant) and part.value in (None, ...)))
        for part in parts:
            if _is_none(part):
                result.append(1)
            elif isinstance(part, ast.Constant) and part.value is ...:
                kept = len(inner.dims) - taking
                result += dims[:kept]
                del dims[:kept]
            elif not dims:
                return UNKNOWN
            elif isinstance(part, ast.Slice):
                dim = dims.pop(0)
                whole = part.lower is None and part.upper is None
                result.append(dim if whole or dim == 1 else ROWS)
            elif self._plain_index(part):
                dims.pop(0)
            else:
                return UNKNOWN
        return Shape((*result, *dims), dtype=inner.dtype)

    def _plain_index(self, node: ast.expr) -> bool:
        match node:
            case ast.Constant(value=int()) | ast.UnaryOp():
                return True
            case ast.Name(id=name):
                definitions = self.module.flow(node).definitions(name, node)
                return bool(definitions) and all(d.how in ("loop", "unpack") for d in definitions)
        return False

    def _part(self, value: ast.expr, index: int, frame: Frame | None) -> Shape:
        """An element of the tuple that an expression gives."""
        match value:
            case ast.Tuple(elts=elements) if -len(elements) <= index < len(elements):
                return self.of(elements[index], frame)
            case ast.Attribute():
                return self.members.saved(value, index)
            case ast.Call(func=ast.Attribute(attr="max" | "min" | "median")):
                return self.of(value, frame) if index == 0 and (value.args or value.keywords) else UNKNOWN
            case ast.Call():
                shapes = [
                    self.of(result.elts[index], inner)
                    if isinstance(result, ast.Tuple) and index < len(result.elts)
                    else UNKNOWN
                    for result, inner in self._results(value, frame)
                ]
                return merged(shapes)
            case ast.Name():
                definitions = self.module.flow(value).definitions(value.id, value)
                if len(definitions) == 1 and definitions[0].how == "assign" and definitions[0].value is not None:
                    inner = definitions[0].value
                    parts = isinstance(inner, (ast.Call, ast.Tuple, ast.Attribute))
                    return self._part(inner, index, frame) if parts else UNKNOWN
        return UNKNOWN

    def _results(self, call: ast.Call, frame: Frame | None) -> list[tuple[ast.expr, Frame]]:
        """What a function of this file returns for a call of it, with the arguments in force."""
        function = self.functions.called(call)
        if function is None or self.functions.is_generator(function):
            return []
        binding = self.functions.bind(call, function)
        args = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
        defaults = {arg.arg: default for arg in args if (default := default_of(function, arg.arg)) is not None}
        inner = Frame({**defaults, **binding.given}, frame)
        returned = (value for value in self.functions.returns(function) if value is not None)
        return [(value, inner) for value in returned if not excluded(self.module, value, inner)]


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None
