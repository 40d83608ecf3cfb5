"""TM801: optimizers warn when their parameters come as a set."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import ClassVar

from torchmigrate.codemod import Codemod, Plan
from torchmigrate.edits import Replace
from torchmigrate.model import Safety
from torchmigrate.module import Module
from torchmigrate_codemods.spellings import RELEASE_NOTES, leads_to

_OPTIMIZER = re.compile(r"torch\.optim\.(?:\w+\.)?[A-Z]\w*")
_WARNS = "torch 2.15 warns when an optimizer's parameters are a set, whose order changes between runs"
_OTHERS = tuple(rb"len list tuple sorted frozenset sum min max any all update union extend".split())
_SETS = (
    rb"\(\{\s*\w+\s+for\b",
    rb"\(\{(?<=\w\(\{)\s*[\w.]+\s*(?:,|\}\s*,)",
    rb"= \{p\w*\s+for\b",
    rb"param\w*\s*=\s*set\(",
    rb"set\((?:p|param) for\b",
    rb"set\((?:model|self|net)\.parameters",
    rb"\(set\(" + b"".join(rb"(?<!\b%b\(set\()" % one for one in _OTHERS),
    rb"\(\n(?<=\w\(\n)\s+set\(",
    rb"\(\r\n(?<=\w\(\r\n)\s+set\(",
)
"""Sets that may be given to an optimizer, as far as the text shows."""


class OptimizerSet(Codemod):
    """Give optimizers a list of parameters, not a set.

    The order of tensors in a set is another one in each run, so a saved optimizer state may be loaded onto the wrong
    parameters. torch 2.15 warns (FutureWarning) when an optimizer of `torch.optim` is given a set, and will refuse
    it; a set inside a parameter group was always refused.

    A set that is made in the call becomes `list(dict.fromkeys(...))`: each parameter once, in the order in which it
    comes, the same in every run. A variable that holds a set becomes `list(variable)`, which keeps what 2.14 did;
    its order still changes between runs, so build it with `dict.fromkeys` where that matters.

    Optimizers of other libraries, and classes of your own that hand on to `torch.optim`, are not looked at.
    """

    code, name, area = "TM801", "optimizer-set", "optim"
    triggers = (b"optim.", b"optim import", b"optim as", b"optim\n", b"optim\r")
    requires: ClassVar = {b"": (leads_to("optim"), (rb"\(\{", rb"\{p", rb"set\("), _SETS)}
    reference = RELEASE_NOTES
    example = """
    import torch

    params = {p for p in model.parameters() if p.requires_grad}
    torch.optim.SGD(params, lr=0.1)
    torch.optim.SGD(set(model.parameters()), lr=0.1)
    """

    def check(self, module: Module) -> Iterator[Plan]:
        """Plan for every optimizer that is given a set."""
        for call in module.names.calls:
            names = module.resolve(call.func).names
            if not names or not all(_OPTIMIZER.fullmatch(name) for name in names):
                continue
            keywords = [k.value for k in call.keywords if k.arg == "params"]
            for value in keywords or call.args[:1]:
                yield from self._value(module, call, value)

    def _value(self, module: Module, call: ast.Call, value: ast.expr) -> Iterator[Plan]:
        match value:
            case ast.Call(func=ast.Name(id="set") as function, args=[given], keywords=[]) if _is_builtin(
                module, function
            ):
                if isinstance(given, ast.GeneratorExp) and len(value.args) == 1:
                    text = module.source(given)
                    inner = text if text.startswith("(") else f"({text})"
                    yield self._ordered(module, value, f"list(dict.fromkeys{inner})", given)
                elif not isinstance(given, ast.Starred):
                    yield self._ordered(module, value, "list(dict.fromkeys($given))", given)
            case ast.SetComp():
                yield self._ordered(module, value, f"list(dict.fromkeys({module.source(value)[1:-1].strip()}))", value)
            case ast.Set(elts=elements):
                if not any(isinstance(one, ast.Starred) for one in elements) and _free(module, value, "list", "dict"):
                    yield self._ordered(module, value, f"list(dict.fromkeys([{module.source(value)[1:-1]}]))", value)
                else:
                    yield self.report(value, f"{_WARNS}; give a list")
            case ast.Name() if _is_set(module, value):
                if _free(module, value, "list"):
                    yield self.change(
                        value,
                        Replace(value, f"list({value.id})"),
                        message=f"{_WARNS}; a list of it does the same without (build it in a fixed order if the "
                        "optimizer's state is saved)",
                    )
                else:
                    yield self.report(value, f"{_WARNS}; give a list")

    def _ordered(self, module: Module, value: ast.expr, code: str, given: ast.expr) -> Plan:
        if not _free(module, value, "list", "dict"):
            return self.report(value, f"{_WARNS}; give a list")
        holes = (("given", given),) if "$given" in code else ()
        return self.change(
            value,
            Replace(value, code, holes),
            message=f"{_WARNS}; a list of each parameter once, in the order in which it comes",
            safety=Safety.SAFE,
        )


def _free(module: Module, at: ast.AST, *names: str) -> bool:
    """Whether names stand for the built-ins at a place."""
    scope = module.names.scope_of(at)
    return all(module.names.lookup(name, scope) is None for name in names)


def _is_builtin(module: Module, function: ast.Name) -> bool:
    return _free(module, function, function.id)


def _is_set(module: Module, name: ast.Name) -> bool:
    """Whether every value that the name can hold here was made as a set."""
    flow = module.flow(name)
    found = flow.definitions(name.id, name)
    made = [d.value for d in found if d.how in ("assign", "augmented")]
    sets = [v for v in made if v is not None and _makes_set(module, v)]
    return (
        bool(found)
        and len(made) == len(found)
        and bool(sets)
        and all((d.how == "augmented") or (d.value is not None and _makes_set(module, d.value)) for d in found)
    )


def _makes_set(module: Module, value: ast.expr) -> bool:
    match value:
        case ast.Set() | ast.SetComp():
            return True
        case ast.Call(func=ast.Name(id="set") as function):
            return _is_builtin(module, function)
        case ast.BinOp(op=ast.BitOr() | ast.BitAnd() | ast.Sub(), left=left):
            return _makes_set(module, left)
    return False
