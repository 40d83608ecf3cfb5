"""TM301 scaled-mm."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import ClassVar

from torchmigrate.calls import Signature, bind
from torchmigrate.codemod import Alternative, Change, Codemod, Option, Place, Plan, Report
from torchmigrate.edits import Edit, InsertBefore, Keep, New, RewriteCall
from torchmigrate.imports import Import
from torchmigrate.model import Safety
from torchmigrate.module import Module
from torchmigrate_codemods.broken_calls import fitted
from torchmigrate_codemods.fallbacks import is_fallback
from torchmigrate_codemods.torch_2_15.scaling.doubts import missed_errors, plugin, replacements
from torchmigrate_codemods.torch_2_15.scaling.functional import Functional
from torchmigrate_codemods.torch_2_15.scaling.recipe import ROW_WISE, TENSOR_WISE, Recipe, decide, misfits
from torchmigrate_codemods.torch_2_15.scaling.shapes import Shapes

_PLAIN = ("torch._scaled_mm",)
_ATEN = ("torch.ops.aten._scaled_mm", "torch.ops.aten._scaled_mm.default")
_OUT = "torch.ops.aten._scaled_mm.out"
_REST = ("mat2", "scale_a", "scale_b", "bias", "scale_result", "out_dtype", "use_fast_accum")
_SIGNATURES = {"input": Signature(("input", *_REST), ("out",)), "self": Signature(("self", *_REST), ("out",))}
_NEW_NAMES = {"input": "mat_a", "self": "mat_a", "mat2": "mat_b", "out_dtype": "output_dtype"}
_NEEDS = "2.10"
_NEEDS_COMPILED = "2.13"
_WANTS = "torch.nn.functional.scaled_mm is the public call, the only one on MPS (K and N multiples of 16 there)"


class ScaledMm(Codemod):
    """Call torch.nn.functional.scaled_mm with the scaling recipe spelled out.

    `torch._scaled_mm` still works in 2.15, but `F.scaled_mm` has replaced it, and on MPS FP8 works through the new
    call alone. The old call guesses the recipe from the shapes of the scales; the new one is told: `TensorWise` for
    one element each, `RowWise` for a column (M, 1) and a row (1, N). The call is rewritten where the code shows how
    both scales are made and they agree. `output_dtype` is always written, because the defaults differ: the old call
    returned the type of its first matrix, the new one bfloat16 unless it is told None.

    Reported: scales whose shapes the file does not show (a reviewer may pick the recipe), scales for blocks, whose
    layout differs between the calls, `scale_result=` and `out=`, which the new call does not have, references to the
    operator, as in dispatch tables, and its replacement by other functions. The option
    `scaled-mm-unknown = "dispatch"` writes a choice at run time where the recipe is unknown: one choice for both
    scales, because a choice for each breaks at M = 1. Calls that only run on releases without the new function are
    left alone. Errors of the new call are ValueError where the old one raised RuntimeError: a change inside a handler
    that catches only those is unsafe. The new call needs torch 2.10, and 2.13 in compiled code.
    """

    code, name, area = "TM301", "scaled-mm", "fp8"
    triggers = (b"_scaled_mm",)
    options: ClassVar = {
        "scaled-mm-unknown": Option(
            "report", ("report", "dispatch"), "what to do where the recipe is unknown: report, or choose at run time"
        )
    }
    reference = "https://github.com/pytorch/pytorch/pull/164142"
    example = """
    import torch

    def linear(x, w):
        one = torch.tensor(1.0, device="cuda")
        return torch._scaled_mm(x, w.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16)
    """

    def check(self, module: Module) -> Iterator[Plan]:
        """One plan for each call and each reference."""
        shapes = Shapes(module)
        replaced = replacements(module)
        for place in replaced:
            yield self.report(place, f"{_WANTS}; code that calls it does not meet this replacement of the old one")
        for node, certain in module.references(*_PLAIN, *_ATEN, _OUT):
            parent = module.parents.get(node)
            if isinstance(parent, ast.Attribute) and module.resolve(parent).names & {*_ATEN, _OUT}:
                continue
            if isinstance(parent, ast.Call) and parent.func is node:
                if not is_fallback(module, parent, "scaled_mm"):
                    yield self._call(module, shapes, parent, certain and not replaced)
            elif not _only_names_it(module, node):
                yield self._reference(module, node)

    def _reference(self, module: Module, node: ast.expr) -> Report:
        if module.resolve(node).names & {*_ATEN, _OUT}:
            text = "compiled code and F.scaled_mm use the operator aten._scaled_mm_v2: register that one here as well"
        else:
            text = f"{_WANTS}; pass that function here, with its other arguments"
        return self.report(node, text)

    def _call(self, module: Module, shapes: Shapes, call: ast.Call, certain: bool) -> Plan:
        writer = _Writer(module, shapes, call)
        reason = writer.obstacle()
        if not certain:
            reason = reason or "the name may be another function than torch's"
        if reason is not None:
            return self.report(call, f"{_WANTS}; {reason}{writer.note}")
        recipe = writer.recipe()
        needs = _NEEDS_COMPILED if "torch.compile" in module.text else _NEEDS
        if recipe.name is not None:
            place, imports = writer.written(recipe.name)
            message = f"{_WANTS}; {recipe.reason}: {recipe.name}{writer.note}"
            doubts: list[str] = []
            if device := plugin(module):
                doubts.append(f"does torch for {device} have the new operator?")
            if (line := missed_errors(module, call)) is not None:
                doubts.append(f"its errors are ValueError, which the handler in line {line} does not catch")
            safety = Safety.UNSAFE if doubts else Safety.SAFE
            return Change((place,), "; ".join((message, *doubts)), safety, imports, needs)
        if self.settings["scaled-mm-unknown"] == "dispatch" and not recipe.blocks and writer.pure:
            place, imports = writer.dispatched()
            message = f"{_WANTS}; {recipe.reason}: the recipe is chosen at run time, between one element and one a row"
            return Change((place,), f"{message}{writer.note}", Safety.UNSAFE, imports, needs)
        how = "say the scaling recipe by hand" if recipe.blocks else "choose the recipe"
        return self.report(call, f"{_WANTS}; {recipe.reason}: {how}{writer.note}", writer.choices(recipe))


class _Writer:
    """Plans the new form of one call."""

    def __init__(self, module: Module, shapes: Shapes, call: ast.Call) -> None:
        self.module = module
        self.shapes = shapes
        self.call = call
        first = "self" if module.resolve(call.func).names & {*_ATEN, _OUT} else "input"
        self.binding = bind(call, _SIGNATURES[first])
        self.first = first
        self.functional = Functional(module, call)

    def obstacle(self) -> str | None:
        """Why the call has no counterpart, whatever the recipe."""
        if self.binding.stars or self.binding.doubles:
            return "the arguments come from * or **: rewrite by hand"
        if self.binding.get("out") is not None or self.module.refers_to(self.call.func, _OUT):
            return "it has no out=: copy the result, or keep the old call"
        scale_result = self.binding.get("scale_result")
        if scale_result is not None and not _is_none(scale_result):
            return "it has no scale_result=: keep the old call, or scale the result by hand"
        needed = (self.first, "mat2", "scale_a", "scale_b")
        if self.binding.unknown or self.binding.surplus or any(self.binding.get(n) is None for n in needed):
            return "the arguments do not fit the old call"
        if self.functional.spelling("scaled_mm") is None:
            return "the new function cannot be named here"
        return None

    @property
    def note(self) -> str:
        """What to say of literal sizes that do not fit."""
        found = misfits(self.shapes, self.binding.get(self.first), self.binding.get("mat2"))
        return f" ({' and '.join(found)}: no multiple of 16)" if found else ""

    @property
    def scales(self) -> tuple[ast.expr, ast.expr]:
        """Both scales."""
        scale_a, scale_b = self.binding.get("scale_a"), self.binding.get("scale_b")
        assert scale_a is not None and scale_b is not None
        return scale_a, scale_b

    @property
    def pure(self) -> bool:
        """Whether the scales can be asked for their sizes once more without running anything twice."""
        return all(_is_pure(scale) for scale in self.scales)

    def recipe(self) -> Recipe:
        """What both scales show."""
        return decide(self.module, self.shapes, *self.scales)

    def choices(self, recipe: Recipe) -> list[Alternative]:
        """The answers that a reviewer may pick."""
        if recipe.blocks:
            return []
        names = [recipe.likely, TENSOR_WISE if recipe.likely == ROW_WISE else ROW_WISE]
        evidence = {TENSOR_WISE: "each scale has one element", ROW_WISE: "scale_a is (M, 1) and scale_b is (1, N)"}
        found: list[Alternative] = []
        for name in names:
            place, imports = self.written(name)
            found.append(Alternative(name, f"right if {evidence[name]}", (place,), imports))
        if self.pure:
            place, imports = self.dispatched()
            found.append(Alternative("at run time", "right if it is one of the two, by call", (place,), imports))
        return found

    def written(self, recipe: str) -> tuple[Place, tuple[Import, ...]]:
        """The call with one recipe for both scales."""
        text = self.functional.name(f"ScalingType.{recipe}")
        return Place(self.call, self._rewrite(text)), self.functional.imports

    def dispatched(self) -> tuple[Place, tuple[Import, ...]]:
        """The call with a choice at run time, made once for both scales."""
        single, rows = (self.functional.name(f"ScalingType.{r}") for r in (TENSOR_WISE, ROW_WISE))
        a, b = (self.module.source(scale) for scale in self.scales)
        choice = f"{single} if {a}.numel() == 1 and {b}.numel() == 1 else {rows}"
        statement = self.module.statement(self.call)
        if self._plain_statement(statement):
            name = self.functional.fresh("recipe")
            edits: tuple[Edit, ...] = (InsertBefore(statement, f"{name} = {choice}"), *self._rewrite(name))
        else:
            edits = self._rewrite(choice)
        return Place(self.call, edits), self.functional.imports

    def _plain_statement(self, statement: ast.stmt) -> bool:
        """Whether a line before the statement runs exactly when the call does."""
        start, _ = self.module.extent(statement)
        if self.module.text[self.module.lines.line_start(start) : start].strip():
            return False
        if not isinstance(statement, (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Return, ast.Expr)):
            return False
        for at in self.module.ancestors(self.call):
            if at is statement:
                return True
            if isinstance(at, (ast.Lambda, ast.IfExp, ast.BoolOp, ast.ListComp, ast.SetComp, ast.DictComp)):
                return False
            if isinstance(at, (ast.GeneratorExp, ast.NamedExpr)):
                return False
        return False

    def _rewrite(self, recipe: str) -> tuple[Edit, ...]:
        nodes = [*self.call.args, *(k.value for k in self.call.keywords)]
        parameters = {id(node): name for name, node in self.binding.given.items()}
        arguments: list[Keep | New] = []
        for index, node in enumerate(nodes):
            name = parameters[id(node)]
            positional = index < len(self.call.args)
            if name == "scale_result" or (positional and name == "bias" and _is_none(node)):
                continue
            keyword = None if positional and index < 2 else _NEW_NAMES.get(name, name)
            arguments.append(Keep(index, keyword))
            if name in ("scale_a", "scale_b"):
                arguments.append(New(f"scale_recipe_{name[-1]}", recipe))
        if self.binding.get("out_dtype") is None:
            arguments.append(New("output_dtype", "None"))
        edit = RewriteCall(self.call, self.functional.name("scaled_mm"), tuple(arguments))
        return fitted(self.module, edit)


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _is_pure(node: ast.expr) -> bool:
    """Names, attributes, items, and methods that only look at a tensor from another side."""
    match node:
        case ast.Name():
            return True
        case ast.Attribute(value=value):
            return _is_pure(value)
        case ast.Subscript(value=value, slice=ast.Constant() | ast.Name()):
            return _is_pure(value)
        case ast.Call(func=ast.Attribute(value=value, attr="t" | "view" | "unsqueeze" | "squeeze"), args=args):
            return _is_pure(value) and all(isinstance(a, (ast.Constant, ast.UnaryOp)) for a in args)
    return False


def _only_names_it(module: Module, node: ast.expr) -> bool:
    """`mm = torch._scaled_mm`: the calls of the new name are looked at."""
    parent = module.parents.get(node)
    if not isinstance(parent, ast.Assign) or len(parent.targets) != 1 or not isinstance(parent.targets[0], ast.Name):
        return False
    target = parent.targets[0]
    loads = [load for load in module.names.loads if load.id == target.id]
    called = [load for load in loads if isinstance(c := module.parents.get(load), ast.Call) and c.func is load]
    return bool(loads) and len(called) == len(loads)
