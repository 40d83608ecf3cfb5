"""Where the value of an all_gather's future is read, and where it goes out of sight."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Literal

from torchmigrate.module import Module
from torchmigrate.reaching import key_of
from torchmigrate_codemods.torch_2_15.gathering.callbacks import Function
from torchmigrate_codemods.torch_2_15.gathering.futures import Futures, Held, Origin
from torchmigrate_codemods.torch_2_15.gathering.rows import bound_name, loads_of

_DEFS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_CHANGED = {
    "scatter": "the future of scatter holds [output] on torch 2.15; 2.14's NCCL backend gave the source rank's inputs",
    "barrier": "the future of barrier holds an empty list on torch 2.15; 2.14's NCCL backend gave [tensor]",
    "coalesced": "the future of coalesced work holds its tensors on torch 2.15; 2.14's NCCL backend gave an empty list",
}
_HEAD = "the future of all_gather holds one tensor per rank on torch 2.15, with NCCL on 2.14 one stacked tensor"
_LOST = f"{_HEAD}; {{}}, so read the output list by hand where the value is used"
_ITERATED = f"{_HEAD}; this takes the value apart: check that it means the tensors of the ranks"
_FIXED_BACKENDS = frozenset({"gloo", "mpi"})


@dataclass(frozen=True, eq=False, slots=True)
class Read:
    """A place where the value is read as one stacked tensor, or where a callback hands it on to its own future.

    `node` is what gets another value, `value` the future's value inside it; `waits` is the call that waits, None
    where a variable holds what was waited for. `assigned` are the assignments on the way of the value, with names.
    """

    kind: Literal["reads", "hands on", "handed"]
    node: ast.expr
    value: ast.expr
    waits: ast.Call | None
    origins: tuple[Origin, ...]
    unpacked: bool = False
    assigned: tuple[tuple[ast.stmt, ast.Name], ...] = ()


@dataclass(frozen=True, eq=False, slots=True)
class Finding:
    """A place to report."""

    node: ast.expr
    message: str


class Reads:
    """All reads of one module."""

    def __init__(self, module: Module, futures: Futures) -> None:
        self.module = module
        self.futures = futures
        self.reads: list[Read] = []
        self.findings: list[Finding] = []
        self._assigned: tuple[tuple[ast.stmt, ast.Name], ...] = ()
        for call in module.names.calls:
            self._look(call)
        self._broken_chains()
        self.findings += self._leaving()

    def _look(self, call: ast.Call) -> None:
        if isinstance(call.func, ast.Attribute) and call.func.attr in ("wait", "value", "result"):
            held = self.futures.held(call)
            if held.of("value"):
                self._value(call, held, call)
                return
        if self.module.refers_to(call.func, "torch.futures.wait_all"):
            self._listed(call, call)
        if self.module.refers_to(call.func, "torch.futures.collect_all") and call.args:
            futures = self.futures.elements(call.args[0])
            if any(self._concerns(o) and o.sure for o in futures.of("future")) and not self._collected(call):
                self._report(call, _LOST.format("the futures are collected here and used out of sight"))

    def _listed(self, node: ast.expr, waits: ast.Call | None) -> None:
        """A list of values: what `wait_all` returns."""
        parent = self.module.parents.get(node)
        if isinstance(parent, ast.Subscript) and parent.value is node and isinstance(parent.slice, ast.Constant):
            held = self.futures.held(parent)
            if held.of("value"):
                self._value(parent, held, waits)
            return
        target = bound_name(self.module, node)
        if target is not None and isinstance(parent, ast.Assign):
            saved, self._assigned = self._assigned, (*self._assigned, (parent, target))
            for load in loads_of(self.module, target) or []:
                self._listed(load, None)
            self._assigned = saved
            return
        if not isinstance(parent, ast.Expr):
            elements = self.futures.elements(node) if isinstance(node, ast.Call) else Held()
            if any(self._concerns(o) for o in elements.of("value")):
                self._report(node, _LOST.format("the values are used as a list"))

    def _collected(self, future: ast.expr) -> bool:
        """Whether a future of futures is only waited for, or its futures are taken out by number."""
        parent = self.module.parents.get(future)
        if isinstance(parent, ast.Attribute) and parent.attr in ("wait", "done"):
            call = self.module.parents.get(parent)
            return isinstance(call, ast.Call) and self._taken_out(call)
        target = bound_name(self.module, future)
        reads = loads_of(self.module, target) if target is not None else None
        return isinstance(parent, ast.Expr) or (reads is not None and all(self._collected(read) for read in reads))

    def _taken_out(self, listed: ast.expr) -> bool:
        parent = self.module.parents.get(listed)
        if isinstance(parent, ast.Subscript) and parent.value is listed:
            return isinstance(parent.slice, ast.Constant)
        target = bound_name(self.module, listed)
        reads = loads_of(self.module, target) if target is not None else None
        return isinstance(parent, ast.Expr) or (reads is not None and all(self._taken_out(read) for read in reads))

    def _concerns(self, origin: Origin) -> bool:
        return origin.op == "all_gather" and not fixed_backend(self.module, origin.call)

    # -- one value ---------------------------------------------------------------------------------------------

    def _value(self, node: ast.expr, held: Held, waits: ast.Call | None) -> None:
        values = held.of("value")
        ops = {o.op for o in values}
        if "all_gather" not in ops:
            self._changed_elsewhere(node, values)
            return
        gathered = tuple(o for o in values if self._concerns(o))
        if not gathered or self._per_rank(node):
            return
        if bound := self._followed(node):
            parent, target, reads = bound
            saved, self._assigned = self._assigned, (*self._assigned, (parent, target))
            for load in reads:
                self._value(load, self.futures.held(load), None)
            self._assigned = saved
            return
        read = self._read(node, gathered, waits)
        if read is None:
            return
        doubt = self._doubt(held, gathered)
        if isinstance(read, Read) and doubt is None:
            self.reads.append(read)
        elif isinstance(read, Read):
            self._report(read.node, f"{_HEAD}; {doubt}, so look at this read by hand")
        else:
            self.findings.append(read)

    def _doubt(self, held: Held, gathered: tuple[Origin, ...]) -> str | None:
        if far := next((o.far for o in gathered if o.far), None):
            return far
        if len(gathered) != len(held.origins) or held.other:
            return "this may be the value of another collective"
        if not all(o.sure for o in gathered):
            return "this all_gather may be another function than torch's"
        return None

    def _changed_elsewhere(self, node: ast.expr, values: tuple[Origin, ...]) -> None:
        origin = next((o for o in values if o.op in _CHANGED and o.sure), None)
        if origin is None or isinstance(self.module.parents.get(node), ast.Expr):
            return
        if fixed_backend(self.module, origin.call):
            return
        bound = self._followed(node)
        if bound is None or bound[2]:
            self._report(node, f"{_CHANGED[origin.op]}: check what is done with it")

    def _followed(self, node: ast.expr) -> tuple[ast.stmt, ast.Name, list[ast.Name]] | None:
        """The assignment of a value to a variable of its own, and the reads of that variable."""
        parent = self.module.parents.get(node)
        target = bound_name(self.module, node)
        if target is None or not isinstance(parent, (ast.Assign, ast.AnnAssign)):
            return None
        if isinstance(parent, ast.Assign) and not isinstance(parent.targets[0], ast.Name):
            return None
        reads = loads_of(self.module, target)
        return None if reads is None else (parent, target, reads)

    def _per_rank(self, node: ast.expr) -> bool:
        """Uses that 2.14's NCCL value cannot have had, or that need no value."""
        parent = self.module.parents.get(node)
        match parent:
            case ast.Expr():
                return True
            case ast.Subscript(value=value, slice=index) if value is node:
                return not isinstance(index, ast.Slice) and not _is_first(index)
            case ast.Assign(targets=[ast.Tuple(elts=elements) | ast.List(elts=elements)]):
                return len(elements) > 1 and not any(isinstance(e, ast.Starred) for e in elements)
        return False

    def _read(self, node: ast.expr, origins: tuple[Origin, ...], waits: ast.Call | None) -> Read | Finding | None:
        parent = self.module.parents.get(node)
        kind: Literal["reads", "handed"] = "handed" if any(o.handed for o in origins) else "reads"
        if kind == "handed" and not all(o.handed for o in origins):
            return Finding(node, _LOST.format("it comes from several places"))
        match parent:
            case ast.Subscript(value=value, slice=index, ctx=ast.Load()) if value is node and _is_first(index):
                return Read(kind, parent, node, waits, origins, assigned=self._assigned)
            case ast.Assign(targets=[ast.Tuple(elts=[ast.Name()]) | ast.List(elts=[ast.Name()])]):
                if kind == "reads":
                    return Read(kind, node, node, waits, origins, unpacked=True, assigned=self._assigned)
            case ast.Return() | ast.Lambda():
                function = self.module.function(node)
                if kind == "reads" and function is not None and self._handed_on(function):
                    return Read("hands on", node, node, waits, origins, assigned=self._assigned)
                return Finding(node, _LOST.format("it leaves this function here"))
            case ast.Assign(targets=[ast.Name()]) | ast.AnnAssign() | ast.NamedExpr():
                return Finding(node, _LOST.format("the variable here holds other values too"))
            case ast.For() | ast.comprehension() | ast.Starred() | ast.Assign(targets=[ast.Tuple() | ast.List()]):
                return Finding(node, _ITERATED)
            case ast.Call(func=function) if function is not node:
                known = key_of(function) in ("len", "list", "tuple", "enumerate", "zip", "sum", "iter")
                if known or any(n.startswith("torch.") for n in self.module.resolve(function).names):
                    return Finding(node, _ITERATED)
                return Finding(node, _LOST.format("it is passed on here"))
            case ast.Attribute() | ast.If() | ast.While() | ast.Compare() | ast.Assert():
                return None
        return Finding(node, _LOST.format("it goes out of sight here"))

    def _report(self, node: ast.expr, message: str) -> None:
        self.findings.append(Finding(node, message))

    # -- chains of callbacks -----------------------------------------------------------------------------------

    def _handed_on(self, function: Function) -> bool:
        """Whether a function is only a callback of `.then`, and each future that `.then` makes is used in sight."""
        uses = list(self.futures.callbacks.references(function))
        return bool(uses) and all(self._in_sight(use) for use in uses)

    def _in_sight(self, reference: ast.expr) -> bool:
        call = self.module.parents.get(reference)
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or call.func.attr != "then":
            return False
        return self._future_in_sight(call)

    def _future_in_sight(self, future: ast.expr) -> bool:
        parent = self.module.parents.get(future)
        if isinstance(parent, ast.Attribute) and parent.attr in ("then", "wait", "value", "done", "add_done_callback"):
            call = self.module.parents.get(parent)
            if not isinstance(call, ast.Call) or call.func is not parent:
                return False
            return parent.attr not in ("then", "add_done_callback") or bool(
                self.futures.callbacks.functions(call.args[0])
            )
        target = bound_name(self.module, future)
        if target is not None:
            reads = loads_of(self.module, target)
            return reads is not None and all(self._future_in_sight(read) for read in reads)
        return isinstance(parent, ast.Expr)

    def _broken_chains(self) -> None:
        """Chains where the hand-over or one of the reads behind it is not rewritten: report all of it."""
        handing = {read.node for read in self.reads if read.kind == "hands on"}
        reported = {id(f.node) for f in self.findings}
        lost = _LOST.format("it goes on through a callback")
        behind = {h for read in self.reads for o in read.origins if (h := o.handed)}
        self.reads = [r for r in self.reads if r.kind != "hands on" or r.node in behind or self._misread(r, reported)]
        for read in list(self.reads):
            handed = [h for o in read.origins if (h := o.handed) is not None]
            if (handed and not set(handed) <= handing) or (read.kind == "hands on" and self._misread(read, reported)):
                self.reads.remove(read)
                self.findings.append(Finding(read.node, lost))
        left = {read.node for read in self.reads if read.kind == "hands on"}
        for read in list(self.reads):
            if any(o.handed is not None and o.handed not in left for o in read.origins):
                self.reads.remove(read)
                self.findings.append(Finding(read.node, lost))

    def _misread(self, handing: Read, reported: set[int]) -> bool:
        """Whether a value handed on here is also read in a way that is only reported."""
        for finding in self.findings:
            if id(finding.node) not in reported:
                continue
            held = self.futures.held(finding.node)
            if any(o.handed is handing.node for o in held.origins):
                return True
            inner = finding.node.value if isinstance(finding.node, ast.Subscript) else finding.node
            if any(o.handed is handing.node for o in self.futures.held(inner).origins):
                return True
        return False

    # -- futures out of sight ----------------------------------------------------------------------------------

    def _leaving(self) -> list[Finding]:
        """Futures that somebody else reads: returned, passed to unknown functions, with unknown callbacks."""
        found: list[Finding] = []
        for call in self.module.names.calls:
            if not isinstance(call.func, ast.Attribute):
                continue
            if call.func.attr == "get_future":
                held = self.futures.held(call)
                if any(self._concerns(o) and o.sure for o in held.of("future")):
                    found += self._escapes(call)
            elif call.func.attr in ("then", "add_done_callback") and call.args:
                held = self.futures.held(call.func.value)
                concerned = any(self._concerns(o) and o.sure for o in held.of("future"))
                if concerned and not self.futures.callbacks.functions(call.args[0]):
                    found.append(Finding(call.args[0], f"{_HEAD}; this callback is not in sight: look at it by hand"))
        return found

    def _escapes(self, future: ast.expr) -> list[Finding]:
        parent = self.module.parents.get(future)
        match parent:
            case ast.Return() | ast.Yield():
                if self._called_here(future):
                    return []
                return [Finding(future, _LOST.format("the future leaves this function here"))]
            case ast.Call(func=function) if function is not future:
                harmless = self.module.refers_to(function, "torch.futures.wait_all", "torch.futures.collect_all")
                method = isinstance(function, ast.Attribute) and function.attr in ("append", "insert", "appendleft")
                if harmless or method or key_of(function) in ("print", "isinstance", "id", "type", "len"):
                    return []
                if any(True for _ in self.futures.callbacks.functions(function)):
                    return []
                return [Finding(future, _LOST.format("the future is passed on here"))]
        target = bound_name(self.module, future)
        if target is None:
            return []
        reads = loads_of(self.module, target)
        return [f for load in reads or [] for f in self._escapes(load)]

    def _called_here(self, node: ast.expr) -> bool:
        """Whether the function is called in this file, where its result is followed."""
        function = self.module.function(node)
        if function is None or isinstance(function, ast.Lambda):
            return False
        references = list(self.futures.callbacks.references(function))
        calls = [r for r in references if isinstance(c := self.module.parents.get(r), ast.Call) and c.func is r]
        return bool(calls) and len(calls) == len(references)


def _is_first(index: ast.expr) -> bool:
    """Index 0, or -1, which is the same where there is one element."""
    match index:
        case ast.Constant(value=0):
            return index.value is not False
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=1)):
            return True
    return False


def fixed_backend(module: Module, call: ast.Call) -> bool:
    """Whether a collective surely runs on a backend whose futures did not change."""
    group = next((k.value for k in call.keywords if k.arg == "group"), None)
    if group is None and len(call.args) > 2:
        group = call.args[2]
    if group is None or module.refers_to(group, "torch.distributed.group.WORLD"):
        inits = list(module.calls("torch.distributed.init_process_group"))
        return bool(inits) and all(_backend(site.node, 0) in _FIXED_BACKENDS for site in inits)
    key = key_of(group)
    if key is None:
        return False
    values: list[ast.expr | None] = []
    if isinstance(group, ast.Name):
        found = module.names.lookup(key, module.names.scope_of(call))
        values = [binding.value for binding in found[1]] if found else []
    elif inside := module.enclosing_class(call):
        stored = (n for n in ast.walk(inside) if isinstance(n, ast.Assign))
        values = [n.value for n in stored if any(key_of(t) == key for t in n.targets)]
    return bool(values) and all(
        isinstance(v, ast.Call)
        and module.refers_to(v.func, "torch.distributed.new_group")
        and _backend(v, 2) in _FIXED_BACKENDS
        for v in values
    )


def _backend(call: ast.Call, place: int) -> str | None:
    given = next((k.value for k in call.keywords if k.arg == "backend"), None)
    if given is None and len(call.args) > place:
        given = call.args[place]
    return given.value if isinstance(given, ast.Constant) and isinstance(given.value, str) else None
