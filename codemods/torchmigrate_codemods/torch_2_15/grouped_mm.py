"""TM302 grouped-mm."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import ClassVar

from torchmigrate.calls import Binding, Signature, bind
from torchmigrate.codemod import Alternative, Change, Codemod, Option, Place, Plan
from torchmigrate.edits import Keep, New, RewriteCall
from torchmigrate.imports import Import
from torchmigrate.model import Safety
from torchmigrate.module import Module
from torchmigrate_codemods.broken_calls import fitted
from torchmigrate_codemods.fallbacks import is_fallback
from torchmigrate_codemods.spellings import leads_to
from torchmigrate_codemods.torch_2_15.scaling.functional import Functional

_GROUPED = "torch._grouped_mm"
_SCALED = "torch._scaled_grouped_mm"
_NEW_NAMES = {"input": "mat_a", "mat2": "mat_b"}
_SIGNATURES = {
    _GROUPED: Signature(("input", "mat2", "offs", "bias", "out_dtype")),
    _SCALED: Signature(
        ("input", "mat2", "scale_a", "scale_b", "offs", "bias", "scale_result", "out_dtype", "use_fast_accum")
    ),
}
_NEEDS = "2.10"


class GroupedMm(Codemod):
    """Call torch.nn.functional.grouped_mm instead of torch._grouped_mm.

    The public name takes the same arguments and gives the same values; everything after the two matrices goes by
    keyword, so positional arguments get their names. `torch._scaled_grouped_mm` has a public counterpart too,
    `F.scaled_grouped_mm`, which must be told the scaling recipe: a scale for each row, or scales for blocks (MXFP8),
    which no caller shows. It is reported, and a reviewer may pick `RowWise`; the option
    `scaled-grouped-mm = "rowwise"` writes that everywhere. References to the operators stay right, because the public
    functions use them. Calls that only run on releases without the new function are left alone. The new names need
    torch 2.10.
    """

    code, name, area = "TM302", "grouped-mm", "fp8"
    triggers = (b"_grouped_mm",)
    requires: ClassVar = {b"": (leads_to("_(?:scaled_)?grouped_mm"),)}
    options: ClassVar = {
        "scaled-grouped-mm": Option(
            "report", ("report", "rowwise"), "report torch._scaled_grouped_mm, or write RowWise for both scales"
        )
    }
    reference = "https://github.com/pytorch/pytorch/pull/166314"
    example = """
    import torch

    def experts(x, w, offsets):
        return torch._grouped_mm(x, w, offs=offsets)
    """

    def check(self, module: Module) -> Iterator[Plan]:
        """One plan for each call."""
        for old in (_GROUPED, _SCALED):
            for site in module.calls(old):
                if not is_fallback(module, site.node, old.removeprefix("torch._")):
                    yield self._call(module, site.node, old, site.certain)

    def _call(self, module: Module, call: ast.Call, old: str, certain: bool) -> Plan:
        new = old.removeprefix("torch._")
        binding = bind(call, _SIGNATURES[old])
        functional = Functional(module, call)
        wants = f"torch.nn.functional.{new} is the public name"
        reason = _obstacle(binding)
        if not certain:
            reason = reason or "the name may be another function than torch's"
        if reason is None and functional.spelling(new) is None:
            reason = "the new function cannot be named here"
        if reason is not None:
            return self.report(call, f"{wants}; {reason}")
        place, imports = _written(call, binding, functional, new)
        if old == _GROUPED:
            return Change((place,), f"{wants}, by keyword after the two matrices", imports=imports, needs_torch=_NEEDS)
        message = f"{wants}; it must be told the recipe of the scales, RowWise or one for blocks"
        if self.settings["scaled-grouped-mm"] == "rowwise":
            return Change((place,), f"{message}: RowWise", Safety.UNSAFE, imports, _NEEDS)
        rowwise = Alternative("RowWise", "right if each row of the matrices has a scale", (place,), imports)
        return self.report(call, message, [rowwise])


def _obstacle(binding: Binding) -> str | None:
    if binding.stars or binding.doubles:
        return "the arguments come from * or **: rewrite by hand"
    scale_result = binding.get("scale_result")
    if scale_result is not None and not _is_none(scale_result):
        return "it has no scale_result=: keep the old call, or scale the result by hand"
    needed = ("input", "mat2", *(n for n in ("scale_a", "scale_b") if n in binding.signature.positional))
    if binding.unknown or binding.surplus or any(binding.get(name) is None for name in needed):
        return "the arguments do not fit the old call"
    return None


def _written(call: ast.Call, binding: Binding, functional: Functional, new: str) -> tuple[Place, tuple[Import, ...]]:
    """The call under its new name; the scaled one with RowWise for both scales."""
    scaled = new == "scaled_grouped_mm"
    parameters = {id(node): name for name, node in binding.given.items()}
    arguments: list[Keep | New] = []
    for index, node in enumerate([*call.args, *(k.value for k in call.keywords)]):
        name = parameters[id(node)]
        positional = index < len(call.args)
        if name == "scale_result" or (positional and index > 1 and _is_none(node)):
            continue
        if scaled and name == "out_dtype":
            if not _is_none(node):
                arguments.append(Keep(index, "output_dtype"))
            continue
        arguments.append(Keep(index, None if positional and index < 2 else _NEW_NAMES.get(name, name)))
        if name in ("scale_a", "scale_b"):
            arguments.append(New(f"scale_recipe_{name[-1]}", functional.name("ScalingType.RowWise")))
    edit = RewriteCall(call, functional.name(new), tuple(arguments))
    return Place(call, fitted(functional.module, edit)), functional.imports


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None
