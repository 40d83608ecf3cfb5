"""TM105: with nccl-lazy in the project, "nccl" is not the only name that get_backend returns."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import ClassVar

from torchmigrate.codemod import Codemod, Plan
from torchmigrate.edits import Replace
from torchmigrate.module import Module
from torchmigrate.possible import Known
from torchmigrate_codemods.nccl_groups import Facts
from torchmigrate_codemods.nccl_inits import LAZY
from torchmigrate_codemods.origins import origins
from torchmigrate_codemods.spellings import c10d, leads_to, pull

_GET = frozenset(c10d("get_backend"))
_ASKED = (
    rb"get_backend(?<=\.get_backend)(?!\w)",
    rb"import[^\n]*get_backend(?!\w)",
    rb"get_backend[ \t]*(?:as \w+[ \t]*)?,?[ \t]*(?:#[^\n]*)?\r?\n",
)
"""What a file holds that asks torch for it: an attribute, or an import on one line or on several."""
_ENUM = c10d("Backend.NCCL")
_SAYS = 'get_backend() is "nccl-lazy" for such a group, and this project has one'

_NAMES = (ast.Name, ast.Attribute)
_ASKING = frozenset({ast.Compare, ast.Match, ast.Subscript, ast.Call})


class NcclBackendName(Codemod):
    """Let comparisons with get_backend() know nccl-lazy, in projects that use it.

    `dist.get_backend()` returns the name that a group was made with. For plain `"nccl"` that has not changed in torch
    2.15, so nothing is done. Where the project has a group on `"nccl-lazy"`, or gets one through TM102, a comparison
    with "nccl" is False for it, and the code takes the branch for gloo.

    `== "nccl"` (also `is dist.Backend.NCCL`, on lower-cased names, through a variable) becomes `.startswith("nccl")`,
    `!=` its negation, and `in ("nccl", "gloo")` gets "nccl-lazy" as well; a variable that may be None is asked with
    `in`. A constant that stands for "nccl", of this file or imported from the project, counts as well. Tables that are
    looked up with the name, and `match`, are reported.

    Left alone: `"nccl" in dist.get_backend()`, comparisons with other backends, and names that do not come from
    `dist.get_backend`. Names such as "cpu:gloo,cuda:nccl" begin with neither and are as before.
    """

    code, name, area = "TM105", "nccl-backend-name", "distributed"
    triggers = (b"get_backend",)
    requires: ClassVar = {b"": (rb"nccl|NCCL", _ASKED, leads_to("distributed"))}
    reference = pull(187508)
    example = """
    import torch.distributed as dist

    group = dist.new_group(backend="nccl-lazy")
    if dist.get_backend(group) == "nccl":
        print("on GPUs")
    """

    def check(self, module: Module) -> Iterator[Plan]:
        """Plan for every comparison, if the project has anything on nccl-lazy."""
        asked = [site.node for site in module.calls(*_GET) if site.certain]
        plans = list(self._plans(module, _Answers(module, asked))) if asked else []
        if plans and Facts.of(module).written:
            yield from plans

    def _plans(self, module: Module, answers: _Answers) -> Iterator[Plan]:
        for node in [one for one in module.parents if one.__class__ in _ASKING]:
            if isinstance(node, ast.Compare) and len(node.ops) == 1:
                yield from self._compared(module, node, answers)
            elif isinstance(node, ast.Match) and answers.hold(node.subject) and _has_case(node):
                yield self.report(node.subject, f"{_SAYS}: add a case for it")
            elif isinstance(node, (ast.Subscript, ast.Call)):
                key = _lookup(node)
                if key is not None and answers.hold(key):
                    yield self.report(node, f"{_SAYS}: add it to the table")

    def _compared(self, module: Module, node: ast.Compare, answers: _Answers) -> Iterator[Plan]:
        left, operator, right = node.left, node.ops[0], node.comparators[0]
        if isinstance(operator, (ast.In, ast.NotIn)):
            if not isinstance(right, (ast.Tuple, ast.List, ast.Set)) or not any(map(_may_be_nccl, right.elts)):
                return
            if answers.hold(left):
                yield from self._listed(module, node, right)
            return
        if not isinstance(operator, (ast.Eq, ast.NotEq, ast.Is, ast.IsNot)):
            return
        for name, other in ((left, right), (right, left)):
            if _may_be_nccl(other) and answers.hold(name) and _is_nccl(module, other):
                text = '"nccl"' if _is_enum(module, other) else module.source(other)
                positive = isinstance(operator, (ast.Eq, ast.Is))
                code = f"{'' if positive else 'not '}$name.startswith({text})"
                if _may_be_none(module, name):
                    lazy = f'"{LAZY}"'
                    if isinstance(other, ast.Constant):
                        lazy = text.replace("nccl", LAZY).replace("NCCL", LAZY.upper())
                    code = f"$name {'in' if positive else 'not in'} ({text}, {lazy})"
                yield self.change(node, Replace(node, code, (("name", name),)), message=_SAYS)
                return

    def _listed(self, module: Module, node: ast.Compare, listed: ast.Tuple | ast.List | ast.Set) -> Iterator[Plan]:
        own = [one for one in listed.elts if _is_nccl(module, one)]
        lazy = any(isinstance(one, ast.Constant) and str(one.value).lower() == LAZY for one in listed.elts)
        if not own or lazy:
            return
        source = module.source(own[0])
        new = f'"{LAZY}"'
        if isinstance(own[0], ast.Constant):
            new = source.replace("nccl", LAZY).replace("NCCL", LAZY.upper())
        yield self.change(node, Replace(own[0], f"{source}, {new}"), message=_SAYS)


def _may_be_nccl(node: ast.expr) -> bool:
    """Whether an expression can be the name at first sight."""
    return node.value in ("nccl", "NCCL") if isinstance(node, ast.Constant) else isinstance(node, _NAMES)


def _is_nccl(module: Module, node: ast.expr) -> bool:
    if isinstance(node, ast.Constant):
        return node.value in ("nccl", "NCCL")
    if not isinstance(node, _NAMES):
        return False
    return _is_enum(module, node) or module.values.of(node).options == frozenset({Known("nccl")})


def _is_enum(module: Module, node: ast.expr) -> bool:
    return isinstance(node, _NAMES) and module.refers_to(node, *_ENUM)


class _Answers:
    """Which expressions of a file are what calls of `get_backend` returned."""

    def __init__(self, module: Module, calls: list[ast.Call]) -> None:
        self._module = module
        self._variables: set[str] = set()
        reached: list[ast.AST] = [*calls]
        while reached:
            new = {name for at in reached for name in _assigned_to(module, at)} - self._variables
            self._variables |= new
            reached = [at for at in (*module.names.loads, *module.names.attributes) if _last(at) in new]

    def hold(self, node: ast.expr, depth: int = 0) -> bool:
        """Whether an expression is one, perhaps in other letters or through a variable."""
        match node:
            case ast.Call(func=ast.Attribute(value=inner, attr="lower" | "upper" | "casefold" | "strip"), args=[]):
                return self.hold(inner, depth)
            case ast.Call(func=ast.Name(id="str"), args=[inner]):
                return self.hold(inner, depth)
            case ast.Call():
                return self._module.resolve(node.func).surely(_GET)
            case ast.Name() | ast.Attribute() if depth < 3 and _last(node) in self._variables:
                found = origins(self._module, node) or []
                found = [one for one in found if not isinstance(one, ast.Constant) or one.value]
                return bool(found) and all(one is not node and self.hold(one, depth + 1) for one in found)
        return False


def _assigned_to(module: Module, node: ast.AST) -> Iterator[str]:
    """The variables and attributes to which a statement around an expression may assign it."""
    at: ast.AST | None = node
    while at is not None and not isinstance(at, ast.stmt):
        if isinstance(at, ast.NamedExpr):
            yield at.target.id
        at = module.parents.get(at)
    if isinstance(at, (ast.Assign, ast.AnnAssign)):
        for target in at.targets if isinstance(at, ast.Assign) else [at.target]:
            yield from (_last(one) for one in ast.walk(target) if isinstance(one, _NAMES))


def _last(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _may_be_none(module: Module, node: ast.expr) -> bool:
    """Whether a variable also holds None, as one that is filled later does."""
    return any(isinstance(one, ast.Constant) and one.value is None for one in origins(module, node) or [])


def _has_case(node: ast.Match) -> bool:
    values = [at.value for case in node.cases for at in ast.walk(case.pattern) if isinstance(at, ast.MatchValue)]
    texts = [value.value for value in values if isinstance(value, ast.Constant)]
    return "nccl" in texts and LAZY not in texts


def _lookup(node: ast.Subscript | ast.Call) -> ast.expr | None:
    """The key with which a table that has an entry for nccl is looked up."""
    match node:
        case ast.Subscript(value=ast.Dict(keys=keys), slice=key):
            pass
        case ast.Call(func=ast.Attribute(value=ast.Dict(keys=keys), attr="get"), args=[key, *_]):
            pass
        case _:
            return None
    texts = [one.value for one in keys if isinstance(one, ast.Constant)]
    return key if "nccl" in texts and LAZY not in texts else None
