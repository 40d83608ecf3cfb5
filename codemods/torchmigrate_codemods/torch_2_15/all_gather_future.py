"""TM201 all-gather-future."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from torchmigrate.codemod import Change, Codemod, Place, Plan
from torchmigrate.edits import Edit, InsertBefore, RemoveStatement, Replace, ReplaceStatement
from torchmigrate.imports import Import
from torchmigrate.module import Module
from torchmigrate.source import Splice, splice
from torchmigrate_codemods.fresh_names import FreshNames
from torchmigrate_codemods.torch_2_15.gathering.futures import Futures
from torchmigrate_codemods.torch_2_15.gathering.outputs import (
    Impossible,
    Listed,
    Outputs,
    moved_left,
    starts_line,
)
from torchmigrate_codemods.torch_2_15.gathering.reads import Read, Reads
from torchmigrate_codemods.torch_2_15.gathering.rows import bound_name, loads_of, picks_rows, reindexed

_MESSAGE = "the future of all_gather holds one tensor per rank on torch 2.15, not one stacked tensor: read {}"
_UNCONDITIONAL = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Return, ast.Expr, ast.For, ast.If)


@dataclass(eq=False, slots=True)
class _Group:
    """Reads that are rewritten together: those of one call, and of the callbacks that hand its value on."""

    reads: list[Read] = field(default_factory=list)
    calls: set[ast.Call] = field(default_factory=set)
    handed: set[ast.expr] = field(default_factory=set)


class AllGatherFuture(Codemod):
    """Read the output list of all_gather, not the value of its future.

    With the old NCCL backend the future of `all_gather(outs, x, async_op=True)` held `[stacked]`: a list with one
    tensor of shape (world, ...). The backend of 2.15 puts one tensor per rank into it, as gloo always did. Nothing
    raises: `fut.wait()[0]` silently becomes rank 0's tensor. The same goes for `fut.value()`, for `work.result()` and
    for what a `.then` callback sees.

    The new code waits on the future as before and reads the list that was given to the call: `torch.stack(outs)`
    where the old value was used as one tensor, `outs` itself where it was only used rank by rank. It gives 2.14's
    values on every version and backend. A list written inside the call gets a name first.

    Only the list form of all_gather changed; `[0]` after any other collective is left alone. Reported, not rewritten:
    values that are returned, passed on or iterated, futures kept in lists and attributes, callbacks that do not see
    the list, and the futures of scatter, barrier and coalesced work, which changed as well. Where the group is gloo
    for certain nothing changed and nothing is said.
    """

    code, name = "TM201", "all-gather-future"
    triggers = (b"get_future", b".result()")
    requires: ClassVar = {b"": (rb"gather|scatter|barrier|coalesc",)}
    reference = "https://github.com/pytorch/pytorch/issues/68478"
    example = """
    import torch
    import torch.distributed as dist

    def gather(x, world_size):
        outs = [torch.empty_like(x) for _ in range(world_size)]
        fut = dist.all_gather(outs, x, async_op=True).get_future()
        return sum(fut.wait()[0])
    """

    def check(self, module: Module) -> Iterator[Plan]:
        """One change for the reads of each call, a report for each read that cannot be rewritten."""
        if not any(word in module.text for word in ("gather", "scatter", "barrier", "coalesc")):
            return
        futures = Futures(module)
        found = Reads(module, futures)
        plans: list[tuple[tuple[int, int], Plan]] = []
        names = FreshNames(module)
        for group in _groups(found.reads):
            plan = _Writer(module, futures, group, names).plan(self)
            plans += [((_first(p)), p) for p in plan]
        plans += [((f.node.lineno, f.node.col_offset), self.report(f.node, f.message)) for f in found.findings]
        yield from (plan for _, plan in sorted(plans, key=lambda pair: pair[0]))


def _first(plan: Plan) -> tuple[int, int]:
    anchor = plan.places[0].anchor if isinstance(plan, Change) else plan.anchor
    return getattr(anchor, "lineno", 0), getattr(anchor, "col_offset", 0)


def _groups(reads: list[Read]) -> list[_Group]:
    groups: list[_Group] = []
    for read in reads:
        calls = {o.call for o in read.origins}
        handed = {h for o in read.origins if (h := o.handed)} | ({read.node} if read.kind == "hands on" else set())
        joined = [g for g in groups if g.calls & calls or g.handed & handed]
        merged = _Group()
        for one in joined:
            groups.remove(one)
            merged.reads += one.reads
            merged.calls |= one.calls
            merged.handed |= one.handed
        merged.reads.append(read)
        merged.calls |= calls
        merged.handed |= handed
        groups.append(merged)
    return groups


class _Writer:
    """Plans the new code of one group of reads."""

    def __init__(self, module: Module, futures: Futures, group: _Group, names: FreshNames) -> None:
        self.module = module
        self.group = group
        self.outputs = {call: Outputs(module, futures, call, names) for call in group.calls}
        self.imports: list[Import] = []
        self.waited: set[tuple[ast.stmt, str]] = set()

    def plan(self, rule: AllGatherFuture) -> Iterator[Plan]:
        reads = sorted(self.group.reads, key=lambda r: (r.node.lineno, r.node.col_offset))
        places: list[Place] = []
        failed: list[tuple[Read, str]] = []
        chained = any(read.kind != "reads" for read in reads)
        # A list that one read needs under a new name has that name for the others as well, so look twice.
        for _ in range(2):
            places, failed = [], []
            self.imports, self.waited = [], set()
            for read in reads:
                try:
                    edits, text = self._edits(read)
                    places.append(Place(read.node, tuple(edits), _MESSAGE.format(text)))
                except Impossible as error:
                    failed.append((read, str(error)))
        if failed and chained:
            known = {id(read): text for read, text in failed}
            failed = [(read, known.get(id(read), "another read of it cannot be rewritten")) for read in reads]
            places = []
        if places:
            hoists = [edit for outputs in self.outputs.values() for edit in outputs.edits()]
            edits = self._without_inner(hoists, [e for p in places for e in p.edits])
            first = places[0]
            places[0] = Place(first.anchor, (*edits, *first.edits), first.message)
            places[-1] = Place(places[-1].anchor, (*places[-1].edits, *self._unused()), places[-1].message)
            yield Change(tuple(places), places[0].message or "", imports=tuple(dict.fromkeys(self.imports)))
        for read, reason in failed:
            yield rule.report(read.node, f"{_MESSAGE.format('the output list')} ({reason})")

    def _without_inner(self, hoists: list[Edit], edits: list[Edit]) -> list[Edit]:
        """The hoists without the argument that a replaced read holds inside itself (that text has the new name)."""
        replaced = [e.node for e in edits if isinstance(e, Replace)]
        inside = {node for one in replaced for node in ast.walk(one)}
        return [h for h in hoists if not (isinstance(h, Replace) and h.node in inside)]

    def _unused(self) -> list[Edit]:
        """`values = fut.wait()` whose every read is rewritten becomes `fut.wait()`."""
        edits: list[Edit] = []
        read_from = {read.value for read in self.group.reads if isinstance(read.value, ast.Name)}
        for statement, name in {id(s): (s, n) for r in self.group.reads for s, n in r.assigned}.values():
            left = loads_of(self.module, name)
            if left is not None and isinstance(statement, ast.Assign):
                inner = {v for value in read_from for v in ast.walk(value)} | self._picked()
                if all(load in inner for load in left):
                    edits.append(ReplaceStatement(statement, self.module.source(statement.value)))
        return edits

    def _picked(self) -> set[ast.AST]:
        return {n for read in self.group.reads if read.waits is None for n in ast.walk(read.node)}

    # -- one read ----------------------------------------------------------------------------------------------

    def _edits(self, read: Read) -> tuple[list[Edit], str]:
        target = bound_name(self.module, read.node)
        uses = loads_of(self.module, target) if target is not None else None
        if target is not None and uses is not None:
            rows = bool(uses) and all(picks_rows(self.module, use) for use in uses)
        else:
            rows = picks_rows(self.module, read.node)
        if read.kind == "hands on":
            rows = True
        elif not all(self.outputs[o.call].fresh for o in read.origins):
            rows = False
        if read.kind == "handed":
            return self._from_handed(read, target, uses or [], rows)
        drops = target.id if target is not None and rows else None
        listed = self._listed(read, drops)
        edits: list[Edit] = list(listed.captures)
        if rows and target is not None:
            edits += self._row_uses(uses or [], listed.text if target.id == listed.text else target.id)
            if target.id == listed.text:
                return edits + self._dropped(read), listed.text
        edits += self._replaced(read, listed.text, rows)
        return edits, listed.text if rows else f"torch.stack({listed.text})"

    def _listed(self, read: Read, drops: str | None) -> Listed:
        found = [self.outputs[origin.call].at(read.node, origin, drops=drops) for origin in read.origins]
        if len({one.text for one in found}) != 1:
            raise Impossible("it is the value of one of several calls")
        return found[0]

    def _row_uses(self, uses: list[ast.Name], name: str) -> list[Edit]:
        edits: list[Edit] = []
        for use in uses:
            parent = self.module.parents.get(use)
            if isinstance(parent, ast.Subscript) and isinstance(parent.slice, ast.Tuple):
                edits.append(Replace(parent, reindexed(self.module, parent, name)))
        return edits

    def _dropped(self, read: Read) -> list[Edit]:
        """The read's whole statement becomes the wait alone: its name already is the list's."""
        statement = self.module.statement(read.node)
        wait = self._wait(read)
        return [ReplaceStatement(statement, wait) if wait else RemoveStatement(statement)]

    def _replaced(self, read: Read, listed: str, rows: bool) -> list[Edit]:
        node, text = self._new_value(read, listed, rows)
        wait = self._wait(read)
        target = bound_name(self.module, read.node)
        if read.unpacked and target is not None:
            statement = self.module.statement(read.node)
            lines = [*([wait] if wait else []), f"{target.id} = {text}"]
            if not starts_line(self.module, statement):
                raise Impossible("a line cannot be put before it")
            before: list[Edit] = [InsertBefore(statement, lines[0])] if wait else []
            return [*before, ReplaceStatement(statement, lines[-1])]
        if wait is None:
            return [Replace(node, text)]
        statement = self.module.statement(read.node)
        if (statement, wait) in self.waited:
            return [Replace(node, text)]
        if self._first_in_statement(read.node):
            self.waited.add((statement, wait))
            return [InsertBefore(statement, wait), Replace(node, text)]
        return [Replace(node, f"({' '.join(wait.split())}, {text})[1]")]

    def _new_value(self, read: Read, listed: str, rows: bool) -> tuple[ast.expr, str]:
        if not rows:
            return read.node, f"{self._stack(read.node)}({listed})"
        parent = self.module.parents.get(read.node)
        if isinstance(parent, ast.Subscript) and parent.value is read.node and read.kind == "reads":
            return parent, reindexed(self.module, parent, listed)
        return read.node, listed

    def _stack(self, at: ast.expr) -> str:
        spelling = self.module.spell("torch.stack", at)
        if spelling is None:
            raise Impossible("torch cannot be named here")
        self.imports += spelling.imports
        return spelling.text

    def _from_handed(
        self, read: Read, target: ast.Name | None, uses: list[ast.Name], rows: bool
    ) -> tuple[list[Edit], str]:
        """A read of what a callback handed on: that is the list itself now."""
        value = self.module.source(read.value)
        if target is not None and rows:
            return [*self._row_uses(uses, target.id), Replace(read.node, value)], "the list that the callback returns"
        if rows:
            parent = self.module.parents.get(read.node)
            if isinstance(parent, ast.Subscript) and parent.value is read.node:
                return [Replace(parent, reindexed(self.module, parent, value))], "the list that the callback returns"
            return [Replace(read.node, value)], "the list that the callback returns"
        return [Replace(read.node, f"{self._stack(read.node)}({value})")], "the list that the callback returns"

    # -- waiting -----------------------------------------------------------------------------------------------

    def _wait(self, read: Read) -> str | None:
        """The statement that waits as the read did; None where that has been done."""
        waits = read.waits
        if waits is None:
            return None
        text = self.module.source(waits)
        start, _ = self.module.extent(waits)
        splices: list[Splice] = []
        for outputs in self.outputs.values():
            inner = outputs.list
            if outputs.alias is not None and inner is not None and inner in set(ast.walk(waits)):
                low, high = self.module.extent(inner)
                splices.append(Splice(low - start, high - start, outputs.alias))
        text = splice(text, splices)
        if isinstance(waits.func, ast.Attribute) and waits.func.attr in ("value", "result"):
            head, _, _ = text.rpartition(waits.func.attr)
            text = f"{head}wait()"
            if self._waited(read, self.module.normal(waits.func.value)):
                return None
        elif isinstance(waits.func, ast.Attribute) and self._waited(read, self.module.normal(waits.func.value)):
            return None
        statement = self.module.statement(waits)
        begin, _ = self.module.extent(statement)
        return moved_left(text, self.module.text[self.module.lines.line_start(begin) : begin])

    def _waited(self, read: Read, receiver: str) -> bool:
        """Whether the statement just before waits on the same thing."""
        statement = self.module.statement(read.node)
        parent = self.module.parents.get(statement)
        for block in (getattr(parent, name, None) for name in ("body", "orelse", "finalbody")):
            if isinstance(block, list) and statement in block:
                at = block.index(statement)
                before = block[at - 1] if at else None
                return isinstance(before, ast.Expr) and self.module.normal(before) == f"{receiver}.wait()"
        return False

    def _first_in_statement(self, node: ast.expr) -> bool:
        """Whether a line before the statement runs exactly when the read would, and before all else in it."""
        statement = self.module.statement(node)
        if not isinstance(statement, _UNCONDITIONAL) or not starts_line(self.module, statement):
            return False
        if isinstance(statement, (ast.For, ast.If)):
            header = statement.iter if isinstance(statement, ast.For) else statement.test
            start, _ = self.module.extent(statement)
            if not any(n is node for n in ast.walk(header)) or self.module.text.startswith("elif", start):
                return False
        child: ast.AST = node
        for at in self.module.ancestors(node):
            if at is statement:
                break
            if isinstance(at, (ast.Lambda, ast.IfExp, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
                return False
            if isinstance(at, ast.BoolOp) and at.values[0] is not child:
                return False
            child = at
        inside = set(ast.walk(node))
        around = set(self.module.ancestors(node))
        first = (node.lineno, node.col_offset)
        return not any(
            isinstance(other, (ast.Call, ast.Await, ast.NamedExpr))
            and other not in inside
            and other not in around
            and (other.lineno, other.col_offset) < first
            for other in _header_nodes(statement)
        )


def _header_nodes(statement: ast.stmt) -> Iterator[ast.AST]:
    if isinstance(statement, ast.For):
        yield from ast.walk(statement.iter)
    elif isinstance(statement, ast.If):
        yield from ast.walk(statement.test)
    else:
        yield from ast.walk(statement)
