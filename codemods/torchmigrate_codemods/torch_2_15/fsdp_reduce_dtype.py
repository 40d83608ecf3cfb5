"""TM401: FSDP2 no longer reduces gradients in param_dtype by default."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import PurePath
from typing import TYPE_CHECKING, ClassVar

from torchmigrate.codemod import Codemod, Extent, Option, Plan
from torchmigrate.edits import Edit, InsertBefore, Replace, SetArgument
from torchmigrate.model import Safety
from torchmigrate.module import Module
from torchmigrate.scopes import Kind
from torchmigrate_codemods.torch_2_15.fsdp_settings import unstated

if TYPE_CHECKING:
    from torchmigrate.documents import Document

CLASS = "MixedPrecisionPolicy"
POLICY = tuple(
    f"torch.distributed.{module}.{CLASS}"
    for module in (
        "fsdp",
        "fsdp._fully_shard",
        "fsdp._fully_shard._fsdp_api",
        "fsdp._fully_shard._fully_shard",
        "_composable.fsdp",
        "_composable.fsdp._fsdp_api",
        "_composable.fsdp.fully_shard",
        "_composable.replicate_with_fsdp",
    )
)
_REPLACE = ("dataclasses.replace", "copy.replace")
_METHODS = frozenset({"to_accumulated_grad_if_needed", "accumulate_unsharded_grad_if_needed"})
_COLLECTIVES = "torch.distributed.fsdp._fully_shard._fsdp_collectives.foreach_reduce"
_FACT = "fsdp2-policy"
_STATE = "torch 2.15 reduces its gradients in the parameters' own dtype; set reduce_dtype explicitly"


class FsdpReduceDtype(Codemod):
    """State reduce_dtype in MixedPrecisionPolicy.

    Up to torch 2.14, FSDP2 (`fully_shard`, `replicate`) reduced gradients in `param_dtype` when `reduce_dtype` was
    None. torch 2.15 reduces in the parameter's `grad_dtype`, by default the dtype that the parameter was created
    with, whatever `param_dtype` says. Nothing warns: float32 parameters with `param_dtype=torch.bfloat16` are reduced
    in float32 instead of bfloat16 (twice the traffic, other values), bfloat16 parameters with
    `param_dtype=torch.float32` in bfloat16 instead of float32 (less precision). `.grad.dtype` does not show it.

    The rule writes `reduce_dtype=` with the expression of `param_dtype`, which gives 2.14's values on every torch that
    has FSDP2. With the option `reduce-dtype = "float32"` it writes `torch.float32`: the new default for float32
    parameters, on every torch. An expression that is not a plain name, attribute or lookup is computed once, in a
    statement above; where that is not possible the place is reported. So are `**kwargs`, subclasses,
    `dataclasses.replace` on a policy from elsewhere, and uses of FSDP internals that this change removed. In YAML, TOML
    and JSON files it reports policies that are named by their class without a reduce_dtype and, where the project makes
    such policies, a `reduce_dtype` of null beside a `param_dtype`.

    FSDP1's `MixedPrecision` still reduces in `param_dtype` and is left alone, as is a policy that names
    `param_dtype_override_fn`: that keyword is new in torch 2.15 (a TypeError before) and keeps chosen parameters in
    their original dtype, which is often what a second policy with another `param_dtype` was for.
    """

    code, name, area = "TM401", "fsdp-reduce-dtype", "fsdp"
    triggers = (CLASS.encode(), b"param_dtype", b"unsharded_accumulated_grad", b"_grad_if_needed", b"foreach_reduce")
    requires: ClassVar = {b"param_dtype": (rb"MixedPrecisionPolicy|replace", rb"olicy|POLICY")}
    text_requires: ClassVar = {
        b"param_dtype": (rb"""reduce_dtype["']?\s*[:=]\s*(?:["']?[nN~!&*#,}\r\n]|["']{2}|\Z)""",),
    }
    options: ClassVar = {
        "reduce-dtype": Option(
            "preserve", ("preserve", "float32"), "keep reducing in param_dtype, or reduce in torch.float32"
        )
    }
    formats = frozenset({"python", "yaml", "toml", "json"})
    gathers = True
    reference = "https://github.com/pytorch/pytorch/pull/194434"
    example = """
    import torch
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    fully_shard(model, mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16))
    """

    def check(self, module: Module) -> Iterator[Plan]:
        """Plan for every policy, copy of a policy, subclass and use of removed internals."""
        for node, certain in module.references(*POLICY):
            parent = module.parents.get(node)
            if isinstance(parent, ast.Call) and parent.func is node:
                yield from self._policy(module, parent, 0, certain)
            elif isinstance(parent, ast.Call) and node in parent.args:
                if parent.args[0] is node and module.refers_to(parent.func, "functools.partial"):
                    yield from self._policy(module, parent, 1, certain)
            elif isinstance(parent, ast.ClassDef) and node in parent.bases and not _gives_default(parent):
                yield self.report(node, f"{parent.name} inherits reduce_dtype=None: {_STATE}")
        for call in module.names.calls:
            yield from self._other_call(module, call)
        yield from self._internals(module)

    def facts(self, module: Module) -> Iterator[tuple[str, object]]:
        """Whether a file names the class of the policies."""
        if CLASS in module.text:
            yield _FACT, module.path

    def check_text(self, document: Document) -> Iterator[Plan]:
        """Report what leaves the reduce_dtype of a policy to torch."""
        used = bool(document.project.facts.get(_FACT))
        for entry, param in unstated(document, frozenset(POLICY), used=used):
            where = "" if entry.value in POLICY else f"where this reaches a {CLASS}, "
            message = f"{where}torch 2.15 reduces its gradients in the parameters' own dtype, not in {param}"
            yield self.report(
                Extent(entry.start, entry.end, entry.value, ".".join(entry.path)),
                f"{message}: say a reduce_dtype explicitly",
            )

    # -- policies ----------------------------------------------------------------------------------------------

    def _policy(self, module: Module, call: ast.Call, first: int, certain: bool) -> Iterator[Plan]:
        """Plan for `MixedPrecisionPolicy(...)` (`first` 0) or `partial(MixedPrecisionPolicy, ...)` (`first` 1)."""
        given = _Arguments(call, first)
        if given.named("param_dtype_override_fn"):
            return
        param, reduce = given.argument("param_dtype", 0), given.argument("reduce_dtype", 1)
        if given.stars or (given.unpacked and (param is None or reduce is None)):
            if not _holds_reduce_dtype(module, given.unpacked) and (reduce is None or _is_none(reduce)):
                yield self.report(call, f"cannot see whether this policy gets a reduce_dtype; if not, {_STATE}")
            return
        if param is None or _is_none(param):
            if first and reduce is None and param is None:
                yield self.report(call, f"calls of this partial that give param_dtype must give reduce_dtype: {_STATE}")
            return
        if reduce is not None and not _is_none(reduce):
            yield from self._may_be_none(module, call, param, reduce, certain)
            return
        safety, note = (Safety.SAFE, "") if certain else (Safety.UNSAFE, " (unless the name stands for another class)")
        if first:
            safety, note = Safety.UNSAFE, " (a later call that gives another param_dtype keeps this reduce_dtype)"
        position = first + 1
        yield self._stated(module, call, param, position, safety, note)

    def _stated(
        self, module: Module, call: ast.Call, param: ast.expr, position: int | None, safety: Safety, note: str
    ) -> Plan:
        if self.settings["reduce-dtype"] == "float32":
            spelling = module.spell("torch.float32", call)
            if spelling is None:
                return self.report(call, f"torch is another name here, so torch.float32 cannot be written: {_STATE}")
            return self.change(
                call,
                SetArgument(call, "reduce_dtype", spelling.text, position),
                message=f"gradients are reduced in torch.float32, as torch 2.15 does for float32 parameters{note}",
                safety=safety,
                imports=spelling.imports,
            )
        if _repeatable(param):
            value = _code(module, param)
            return self.change(
                call,
                SetArgument(call, "reduce_dtype", value, position),
                message=f"keeps reducing gradients in {value}, as torch 2.14 does{note}",
                safety=safety,
            )
        hoisted = self._hoisted(module, call, param, position)
        if hoisted is None:
            return self.report(call, f"reduce_dtype is None and param_dtype is computed in the call: {_STATE}")
        return self.change(
            call, *hoisted, message=f"keeps reducing gradients in param_dtype, as torch 2.14 does{note}", safety=safety
        )

    def _hoisted(
        self, module: Module, call: ast.Call, param: ast.expr, position: int | None
    ) -> tuple[Edit, ...] | None:
        """Edits that compute param_dtype in a statement of its own, where that changes no order of evaluation."""
        statement = module.statement(call)
        if getattr(statement, "value", None) is not call or not isinstance(
            statement, (ast.Assign, ast.AnnAssign, ast.Return, ast.Expr)
        ):
            return None
        start, _ = module.extent(statement)
        alone = not module.text[module.lines.line_start(start) : start].strip()
        others = [a for a in (*call.args, *(k.value for k in call.keywords)) if a is not param]
        scope = module.names.scope_of(call)
        source = _code(module, param)
        if (
            not alone
            or scope.is_class
            or "\n" in source
            or not all(_repeatable(a) for a in others)
            or any(isinstance(node, (ast.Yield, ast.YieldFrom)) for node in ast.walk(param))
        ):
            return None
        name = _free_name(module, call)
        if name is None:
            return None
        return (
            InsertBefore(statement, f"{name} = {source}"),
            SetArgument(call, "param_dtype", name, None if position is None else position - 1),
            SetArgument(call, "reduce_dtype", name, position),
        )

    def _may_be_none(
        self, module: Module, call: ast.Call, param: ast.expr, reduce: ast.expr, certain: bool
    ) -> Iterator[Plan]:
        """Plan for a reduce_dtype that is None on one way only."""
        leaves = list(_none_leaves(reduce, module.normal(param)))
        if leaves:
            if self.settings["reduce-dtype"] == "float32" or not _repeatable(param):
                yield self.report(call, f"reduce_dtype can be None here: {_STATE}")
                return
            value = _code(module, param)
            value = value if isinstance(param, (ast.Name, ast.Attribute, ast.Subscript)) else f"({value})"
            yield self.change(
                call,
                *(Replace(leaf, value) for leaf in leaves),
                message=f"keeps reducing gradients in {value} where reduce_dtype was None, as torch 2.14 does",
                safety=Safety.SAFE if certain else Safety.UNSAFE,
            )
        elif isinstance(reduce, ast.Name) and module.normal(reduce) != module.normal(param):
            bindings = module.names.reaching(reduce) or []
            none = [b for b in bindings if b.kind is Kind.ASSIGN and b.value is not None and _can_be_none(b.value)]
            if none:
                yield self.report(call, f"reduce_dtype can be None here (line {none[0].position[0]}): {_STATE}")

    # -- other places ------------------------------------------------------------------------------------------

    def _other_call(self, module: Module, call: ast.Call) -> Iterator[Plan]:
        given = _Arguments(call, 0)
        param = given.named("param_dtype")
        if param is not None and call.args and module.refers_to(call.func, *_REPLACE):
            yield from self._copy(module, call, param)
            return
        if given.named("reduce_dtype") or given.unpacked or given.stars or len(call.args) > 1:
            return
        if (param is None and not call.args) or (param is not None and _is_none(param)):
            return
        origin = _first_party(module, call.func)
        if origin:
            yield self.report(call, f"if {CLASS} of {origin} is torch's own class, {_STATE}")
        elif param is not None and isinstance(call.func, ast.Name) and _chooses_policy(module, call.func):
            yield self.report(call, f"if this makes an FSDP2 {CLASS}, {_STATE}")

    def _copy(self, module: Module, call: ast.Call, param: ast.expr) -> Iterator[Plan]:
        """Plan for `dataclasses.replace(policy, param_dtype=...)`."""
        given = _Arguments(call, 0)
        reduce = given.named("reduce_dtype")
        if (reduce is not None and not _is_none(reduce)) or _is_none(param):
            return
        source = call.args[0]
        origins = _origins(module, source)
        if origins is None:
            if _looks_like_policy(module, source):
                yield self.report(call, f"if this copies an FSDP2 policy without reduce_dtype, {_STATE}")
            return
        kept = [_Arguments(origin, 0).argument("reduce_dtype", 1) for origin in origins]
        if reduce is None and all(one is not None and not _is_none(one) for one in kept):
            return
        plain = all(not _Arguments(o, 0).unpacked and not _Arguments(o, 0).stars for o in origins)
        unset = all(one is None or _is_none(one) for one in kept)
        if given.unpacked or (reduce is None and not (plain and unset)):
            yield self.report(call, f"the copied policy may be without reduce_dtype: {_STATE}")
            return
        yield self._stated(module, call, param, None, Safety.SAFE, "")

    def _internals(self, module: Module) -> Iterator[Plan]:
        own: set[str] = set()
        if any(node.attr == "unsharded_accumulated_grad" or node.attr in _METHODS for node in module.names.attributes):
            own = {node.name for node in module.parents if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))}
        for node in module.names.attributes:
            if node.attr == "unsharded_accumulated_grad" and not isinstance(node.ctx, ast.Load):
                if node.attr not in own:
                    yield self.report(node, "FSDPParam.unsharded_accumulated_grad cannot be set on torch 2.15")
            elif node.attr in _METHODS - own:
                yield self.report(node, f"FSDPParam.{node.attr} is gone in torch 2.15")
            elif node.attr != "foreach_reduce" or isinstance(node.ctx, ast.Load):
                continue
            elif _COLLECTIVES in module.resolve(node).names:
                yield self.report(node, "foreach_reduce takes other arguments on torch 2.15; check this replacement")
        for call in module.calls(_COLLECTIVES):
            yield self.report(call.node, "foreach_reduce takes other arguments on torch 2.15; check this call")


class _Arguments:
    """The arguments of a call whose first `skip` positional ones are not the policy's."""

    def __init__(self, call: ast.Call, skip: int) -> None:
        self._positional = call.args[skip:]
        self._keywords = {k.arg: k.value for k in call.keywords if k.arg}
        self.stars = any(isinstance(a, ast.Starred) for a in call.args)
        self.unpacked = tuple(k.value for k in call.keywords if k.arg is None)

    def named(self, keyword: str) -> ast.expr | None:
        return self._keywords.get(keyword)

    def argument(self, keyword: str, position: int) -> ast.expr | None:
        by_position = self._positional[position] if position < len(self._positional) else None
        return self.named(keyword) or by_position


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _repeatable(node: ast.expr) -> bool:
    """Whether an expression can be written twice: it calls nothing and binds nothing."""
    match node:
        case ast.Name() | ast.Constant():
            return True
        case ast.Attribute(value=value):
            return _repeatable(value)
        case ast.Subscript(value=value, slice=key):
            return _repeatable(value) and _repeatable(key)
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return _repeatable(test) and _repeatable(body) and _repeatable(orelse)
        case ast.BoolOp(values=values) | ast.Tuple(elts=values):
            return all(_repeatable(one) for one in values)
        case ast.Compare(left=left, comparators=others):
            return _repeatable(left) and all(_repeatable(one) for one in others)
        case ast.UnaryOp(operand=operand):
            return _repeatable(operand)
    return False


def _none_leaves(node: ast.expr, param: str = "") -> Iterator[ast.expr]:
    """The None constants that a conditional expression can come out as, but for those of `param` itself."""
    if isinstance(node, ast.IfExp):
        ways = [node.body, node.orelse]
    elif isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or):
        ways = [node.values[-1]]
    else:
        return
    if ast.unparse(node) != param:
        for way in ways:
            yield from [way] if _is_none(way) else _none_leaves(way, param)


def _can_be_none(node: ast.expr) -> bool:
    return _is_none(node) or any(True for _ in _none_leaves(node))


def _code(module: Module, node: ast.expr) -> str:
    source = module.source(node)
    return module.normal(node) if "\n" in source or "\r" in source else source


def _free_name(module: Module, call: ast.Call) -> str | None:
    """A name for the computed dtype that nothing in the file uses."""
    used = {node.id for node in ast.walk(module.tree) if isinstance(node, ast.Name)}
    used |= {
        name for node in ast.walk(module.tree) if isinstance(node, (ast.Global, ast.Nonlocal)) for name in node.names
    }
    used |= {node.arg for node in ast.walk(module.tree) if isinstance(node, ast.arg)}
    scope = module.names.scope_of(call)
    for name in ("param_dtype", "policy_dtype", "fsdp_param_dtype"):
        if name not in used and module.names.lookup(name, scope) is None:
            return name
    return None


def _gives_default(node: ast.ClassDef) -> bool:
    """Whether a subclass sets reduce_dtype itself: a field with a default, or code that names it."""
    return any(
        (isinstance(at, ast.Name) and at.id == "reduce_dtype" and isinstance(at.ctx, ast.Store))
        or (isinstance(at, ast.keyword) and at.arg == "reduce_dtype" and not _is_none(at.value))
        for at in ast.walk(node)
    )


def _holds_reduce_dtype(module: Module, unpacked: tuple[ast.expr, ...]) -> bool:
    """Whether a mapping in sight that is unpacked into a call holds a reduce_dtype that is not None."""
    for one in unpacked:
        value = one
        if isinstance(one, ast.Name):
            bindings = module.names.reaching(one) or []
            if len(bindings) != 1 or bindings[0].value is None:
                continue
            value = bindings[0].value
        if isinstance(value, ast.Dict):
            pairs = [(getattr(k, "value", None), v) for k, v in zip(value.keys, value.values, strict=True)]
        elif isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "dict":
            pairs = [(k.arg, k.value) for k in value.keywords]
        else:
            continue
        if any(name == "reduce_dtype" and not _is_none(given) for name, given in pairs):
            return True
    return False


def _origins(module: Module, source: ast.expr) -> list[ast.Call] | None:
    """The calls in sight that made a policy, when each way leads to one; None else."""
    if isinstance(source, ast.Call):
        return [source] if module.refers_to(source.func, *POLICY) else None
    if not isinstance(source, ast.Name):
        return None
    found: list[ast.Call] = []
    for binding in module.names.reaching(source) or []:
        value = binding.value
        if not (isinstance(value, ast.Call) and module.refers_to(value.func, *POLICY)):
            return None
        found.append(value)
    return found or None


def _looks_like_policy(module: Module, source: ast.expr) -> bool:
    """Whether an expression of unknown origin may be an FSDP2 policy: by name, or in a file that uses the class."""
    return "policy" in module.source(source).lower() or CLASS in module.text


def _first_party(module: Module, function: ast.expr) -> str | None:
    """The module of the file's own package from which a class of the policy's name is imported."""
    for name in sorted(module.resolve(function).names):
        origin, _, last = name.rpartition(".")
        top = origin.partition(".")[0]
        if last == CLASS and name not in POLICY and (not top or top in PurePath(module.path).parts):
            return origin
    return None


def _chooses_policy(module: Module, function: ast.Name) -> bool:
    """Whether a called name was assigned from an expression that mentions the class, such as a choice of classes."""
    for binding in module.names.reaching(function) or []:
        value = binding.value
        if binding.kind is Kind.ASSIGN and isinstance(value, (ast.IfExp, ast.BoolOp, ast.Call)):
            nodes = [n for n in ast.walk(value) if isinstance(n, (ast.Name, ast.Attribute))]
            called = isinstance(value, ast.Call) and module.refers_to(value.func, "functools.partial", *POLICY)
            if not called and any(module.resolve(n).perhaps(frozenset(POLICY)) for n in nodes):
                return True
    return False
