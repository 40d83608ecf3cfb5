"""The shapes of attributes: those of a module's parameters and buffers, and what an autograd function keeps."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchmigrate.reaching import key_of
from torchmigrate_codemods.origins import attribute_assignments
from torchmigrate_codemods.torch_2_15.scaling.shape import NUMBER, UNKNOWN, Shape, merged

if TYPE_CHECKING:
    from torchmigrate_codemods.torch_2_15.scaling.shapes import Shapes

_MOVES = frozenset(
    {"_apply", "to", "cuda", "cpu", "half", "float", "bfloat16", "to_cpu", "to_cuda", "share_memory"},
)


class Members:
    """Attributes of `self` and of the context of autograd functions, asking `shapes` for those of values."""

    def __init__(self, shapes: Shapes) -> None:
        self.shapes = shapes
        self.module = shapes.module

    def stored(self, node: ast.Attribute) -> bool:
        """Whether the class around assigns the attribute."""
        owner = self.module.enclosing_class(node)
        return owner is not None and any(True for _ in attribute_assignments(owner, node.attr))

    def member(self, node: ast.Attribute) -> Shape:
        """The shape of an attribute, as the class around assigns it, its base and derived classes of the file too."""
        owner = self.module.enclosing_class(node)
        if owner is None or not isinstance(node.value, ast.Name):
            return NUMBER if node.attr.isupper() and not names_scale(node.attr) else UNKNOWN
        if node.value.id not in ("self", "cls"):
            return self._context(owner, node)
        shapes: list[Shape] = []
        for cls in self._family(owner):
            for target, value in attribute_assignments(cls, node.attr):
                if value is None:
                    return UNKNOWN
                if target is not node and not _is_none(value) and not self._moves(target):
                    shapes.append(self.shapes.of(value))
            shapes += [self.shapes.of(value) for value in _registered(cls, node.attr)]
        shapes += [self.shapes.of(value) for value in self._assigned_from_outside(node.attr)]
        return merged(shapes)

    def _family(self, owner: ast.ClassDef) -> list[ast.ClassDef]:
        """A class, and the classes of the file that it comes from or that come from it."""
        classes = [at for at in ast.walk(self.module.tree) if isinstance(at, ast.ClassDef)]
        bases = {cls: {key_of(base) for base in cls.bases} for cls in classes}
        found = [owner]
        for cls in found:
            found += [other for other in classes if cls.name in bases[other] and other not in found]
        above = [owner]
        for cls in above:
            above += [other for other in classes if other.name in bases[cls] and other not in (*above, *found)]
        return [*found, *above[1:]]

    def _assigned_from_outside(self, attr: str) -> Iterator[ast.expr]:
        """What code of the file assigns to the attribute of an object that is not `self`."""
        for at in ast.walk(self.module.tree):
            if not isinstance(at, ast.Assign) or _is_none(at.value):
                continue
            for target in at.targets:
                if isinstance(target, ast.Attribute) and target.attr == attr:
                    receiver = key_of(target.value)
                    if receiver not in ("self", "cls") and not self._is_context(target.value):
                        yield at.value

    def _moves(self, target: ast.expr) -> bool:
        """Whether an assignment stands in a method that only moves a module's tensors."""
        function = self.module.function(target)
        return isinstance(function, ast.FunctionDef) and function.name in _MOVES

    # -- autograd functions ------------------------------------------------------------------------------------

    def _context(self, owner: ast.ClassDef, node: ast.Attribute) -> Shape:
        """`ctx.scale` in backward, as forward stored it."""
        if not self._is_context(node.value):
            return UNKNOWN
        shapes: list[Shape] = []
        for at in ast.walk(owner):
            if isinstance(at, ast.Assign):
                stored = [t for t in at.targets if isinstance(t, ast.Attribute) and t.attr == node.attr]
                if any(self._is_context(t.value) for t in stored):
                    shapes.append(self.shapes.of(at.value))
        return merged(shapes)

    def saved(self, node: ast.Attribute, index: int) -> Shape:
        """An element of `ctx.saved_tensors`, as forward saved it."""
        owner = self.module.enclosing_class(node)
        if owner is None or node.attr != "saved_tensors" or not self._is_context(node.value):
            return UNKNOWN
        calls = [
            at
            for at in ast.walk(owner)
            if isinstance(at, ast.Call) and isinstance(at.func, ast.Attribute) and at.func.attr == "save_for_backward"
        ]
        if len(calls) != 1 or any(isinstance(a, ast.Starred) for a in calls[0].args) or index >= len(calls[0].args):
            return UNKNOWN
        return self.shapes.of(calls[0].args[index])

    def _is_context(self, node: ast.expr) -> bool:
        """Whether a name is the first parameter of a static method around it."""
        function = self.module.function(node)
        if not isinstance(node, ast.Name) or not isinstance(function, ast.FunctionDef):
            return False
        static = any(key_of(d) == "staticmethod" for d in function.decorator_list)
        return static and bool(function.args.args) and function.args.args[0].arg == node.id


def names_scale(name: str) -> bool:
    """Whether a constant's name says that it may be a tensor."""
    return any(word in name.lower() for word in ("scale", "identity", "one", "tensor"))


def _registered(owner: ast.ClassDef, attr: str) -> Iterator[ast.expr]:
    """What `register_buffer` and `register_parameter` give an attribute."""
    for at in ast.walk(owner):
        match at:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="self"), attr="register_buffer" | "register_parameter"),
                args=[ast.Constant(value=name), value, *_],
            ) if name == attr and not _is_none(value):
                yield value


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None
