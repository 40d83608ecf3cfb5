"""Which GPU a process uses: what the code itself shows, and how to write that at a call.

The strongest evidence is `torch.cuda.set_device(...)` in the same function, before or after the call, then a device
that is built there, then tensors and models that are moved to a GPU. What a process uses is never inferred from its
rank.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from torchmigrate.carry import Carried, Refused, carry
from torchmigrate.flow import Definition, key_of, settled, touches
from torchmigrate.functions import Caller, FunctionNode, default_of
from torchmigrate.imports import Import
from torchmigrate.module import Module
from torchmigrate.values import Facts, Known, Leaf, Values

SET_DEVICE = frozenset(
    {"torch.cuda.set_device", "torch.accelerator.set_device_index", "torch.accelerator.set_device_idx"}
)
_CONTEXT = frozenset({"torch.cuda.device"})
_DDP = frozenset({"torch.nn.parallel.DistributedDataParallel", "torch.nn.parallel.distributed.DistributedDataParallel"})
_FSDP = frozenset(
    {
        "torch.distributed.fsdp.FullyShardedDataParallel",
        "torch.distributed.fsdp.fully_sharded_data_parallel.FullyShardedDataParallel",
    }
)
_CURRENT = frozenset({"torch.cuda.current_device", "torch.accelerator.current_device_index"})
_INDEX_NAME = re.compile(
    r"(?:^|_)(?:rank|gpu|gpuid|gpu_?i?d?x?|device_(?:id|idx|index|num|number|ordinal)|dev_?id|idx|index|ordinal|local|id)s?$",
    re.IGNORECASE,
)
_CUDA_TEXT = re.compile(r"cuda:(\d+)")
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef)

Kind = Literal["set", "built", "used"]
Status = Literal["always", "perhaps", "never"]


@dataclass(frozen=True, eq=False, slots=True)
class Evidence:
    """One place that shows a GPU: the node, the device or index expression, and how to name it to people.

    `firm` evidence cannot be read otherwise (`set_device`, a built device, `device_ids` of DDP).
    """

    node: ast.expr
    device: ast.expr
    kind: Kind
    shown: str
    firm: bool = True


@dataclass(frozen=True, slots=True)
class Device:
    """A device expression for the call, with its evidence; `sure` when nothing about it is guessed.

    `index` is the text of its index at the call, where it is written out; `source` the node that it comes from.
    """

    text: str
    evidence: str
    imports: tuple[Import, ...] = ()
    sure: bool = True
    doubt: str = ""
    index: str = ""
    source: ast.expr | None = None


@dataclass(frozen=True, slots=True)
class Search:
    """What the search for a call's device gave: the device, or why none may be written, and candidates for a person."""

    device: Device | None = None
    reason: str = ""
    candidates: tuple[Device, ...] = ()


class Devices:
    """The search in one module."""

    def __init__(self, values: Values) -> None:
        self.values = values
        self.module: Module = values.module
        self._evidence: dict[ast.AST, list[Evidence]] = {}
        self._active: set[ast.AST] = set()

    # -- the search --------------------------------------------------------------------------------------------

    def find(self, call: ast.Call, facts: Facts, *, single: bool) -> Search:
        """The GPU that the process of a call uses, given what holds when the call makes an NCCL group.

        `single` says that the group has one process only: then a constant index is right.
        """
        facts = replace(facts, cuda=True)
        search = self._here(call, facts, single)
        if search.device is None and not search.reason:
            search = self._elsewhere(call, facts, single)
        return search

    def _here(self, call: ast.Call, facts: Facts, single: bool) -> Search:
        """What the call's own function shows."""
        found = self.evidence(self.module.function(call) or self.module.tree)
        reasons: list[str] = []
        candidates: list[Device] = []
        for kind in ("set", "built", "used"):
            search = self._of_kind(call, [e for e in found if e.kind == kind], facts, single)
            if search.device is not None:
                return search
            candidates += search.candidates
            if search.reason:
                reasons.append(search.reason)
            if kind == "set" and search.reason:
                break
        return Search(None, reasons[0] if reasons else "", tuple(dict.fromkeys(candidates)))

    def _elsewhere(self, call: ast.Call, facts: Facts, single: bool) -> Search:
        """What the functions that run the call's function show, or other methods of its class."""
        function = self.module.function(call)
        if not isinstance(function, _DEFINITIONS) or function in self._active:
            return Search()
        self._active.add(function)
        try:
            search = self._from_callers(call, function, single)
            if search.device is None and not search.reason:
                search = self._from_class(call, function, facts, single)
            if search.device is None and not search.reason:
                search = self._from_launch(call, function)
            return search
        finally:
            self._active.discard(function)

    def _from_callers(self, call: ast.Call, function: FunctionNode, single: bool) -> Search:
        devices: list[Device] = []
        for site in self.values.functions.callers(function).sites:
            if site.how != "call":
                continue
            facts = replace(self.values.facts(site.call), cuda=True)
            search = self._here(site.call, facts, single)
            if search.device is None and not search.reason:
                search = self._elsewhere(site.call, facts, single)
            if search.device is None:
                if search.reason:
                    return Search(None, search.reason)
                continue
            device = self._received(search.device, site, call, function)
            if device is None:
                return Search(None, f"{search.device.evidence} is not handed to {function.name}()")
            devices.append(device)
        if len({device.text for device in devices}) != 1:
            texts = ", ".join(sorted({device.text for device in devices}))
            return Search(None, f"callers show several: {texts}" if devices else "", tuple(devices))
        return Search(devices[0])

    def _received(self, device: Device, site: Caller, call: ast.Call, function: FunctionNode) -> Device | None:
        """A device of a caller in the words of the function that it calls."""
        flow = self.module.flow(call)
        doubt = f"it is what callers of {function.name}() use"
        for name, given in site.binding.given.items():
            version = settled(flow.version(name, call))
            if not (isinstance(version, Definition) and version.how == "parameter"):
                continue
            text = self.module.source(given)
            if text == device.text:
                return replace(device, text=name, imports=(), sure=False, doubt=doubt)
            if device.index and text in (device.index, f"int({device.index})"):
                return self._renamed(device, name, doubt, call)
        own = self._own_attribute(device, site, call, function)
        if own is not None:
            return self._renamed(device, own, doubt, call)
        if device.source is not None:
            try:
                carried = carry(self.values, device.source, call, Facts())
            except Refused:
                return None
            return self._renamed(device, carried.text, doubt, call)
        return None

    def _renamed(self, device: Device, index: str, doubt: str, call: ast.Call) -> Device | None:
        spelling = self.module.spell("torch.device", call)
        if spelling is None:
            return None
        quote = quote_of(self.module, call)
        text = f"{spelling.text}({quote}cuda{quote}, {index})"
        return replace(device, text=text, imports=spelling.imports, sure=False, doubt=doubt, index=index)

    def _own_attribute(self, device: Device, site: Caller, call: ast.Call, function: FunctionNode) -> str | None:
        """The attribute of `self` that a method stored the index in before it called another method."""
        cls = self.module.enclosing_class(call)
        if cls is None or self.module.enclosing_class(site.call) is not cls or not function.args.args:
            return None
        flow = self.module.flow(site.call)
        for attribute in self.module.names.attributes:
            statement = self.module.parents.get(attribute)
            if not isinstance(statement, ast.Assign) or not self.values.functions.is_self(attribute.value):
                continue
            if self.module.function(attribute) is not self.module.function(site.call):
                continue
            key = key_of(attribute)
            if key is None or self.module.source(statement.value) != device.index:
                continue
            version = settled(flow.version(key, site.call))
            if isinstance(version, Definition) and version.node is statement:
                return f"{function.args.args[0].arg}.{attribute.attr}"
        return None

    def _from_class(self, call: ast.Call, function: FunctionNode, facts: Facts, single: bool) -> Search:
        """What other methods of the class show, in attributes that `__init__` gives their value."""
        cls = self.module.enclosing_class(call)
        if cls is None:
            return Search()
        for kind in ("set", "built", "used"):
            found: list[Device] = []
            for method in cls.body:
                if not isinstance(method, _DEFINITIONS) or method is function:
                    continue
                for one in self.evidence(method):
                    if one.kind != kind or not one.firm or not _mentions_self(one.device):
                        continue
                    try:
                        device = self.device(one, call, Facts(cuda=True), before=False)
                    except Refused:
                        continue
                    if not self._constant(one, facts) or single:
                        doubt = f"it is what {cls.name}.{method.name}() uses"
                        found.append(replace(device, sure=False, doubt=doubt))
            if len({device.text for device in found}) == 1:
                return Search(found[0])
            if found:
                return Search(None, f"the methods of {cls.name} show several", tuple(found))
        return Search()

    def _from_launch(self, call: ast.Call, function: FunctionNode) -> Search:
        """One process for each GPU, which itself sets LOCAL_RANK to its index: that is the GPU that torch takes too."""
        index = self.values.functions.spawned_index(function)
        if index is None:
            return Search()
        flow = self.module.flow(call)
        version = settled(flow.version(index, call))
        local = settled(flow.version("os.environ['LOCAL_RANK']", call))
        if not (isinstance(version, Definition) and version.how == "parameter" and isinstance(local, Definition)):
            return Search()
        if local.value is None or ast.unparse(local.value) != f"str({index})":
            return Search()
        for site in self.values.functions.callers(function).sites:
            count = _processes(site.call)
            leaves = self.values.leaves(count) if count is not None else []
            names = [self.module.resolve(x.node.func).names for x in leaves if isinstance(x.node, ast.Call)]
            if site.how != "spawn" or not leaves or len(names) != len(leaves):
                return Search()
            if not all(one == {"torch.cuda.device_count"} for one in names):
                return Search()
            line = self.module.line(site.call)
            evidence = f"the process index of spawn on line {line} (one process for each GPU; LOCAL_RANK is set to it)"
            spelling = self.module.spell("torch.device", call)
            if spelling is None:
                return Search()
            quote = quote_of(self.module, call)
            text = f"{spelling.text}({quote}cuda{quote}, {index})"
            doubt = "no code here moves anything to that GPU"
            return Search(Device(text, evidence, spelling.imports, sure=False, doubt=doubt))
        return Search()

    def _of_kind(self, call: ast.Call, evidence: list[Evidence], facts: Facts, single: bool) -> Search:
        known = [(one, self.status(one.node, call, facts)) for one in evidence]
        known = [(one, status) for one, status in known if status != "never"]
        if not known:
            return Search()
        candidates: list[Device] = []
        refused: list[str] = []
        chosen: list[tuple[Evidence, Status, Device | None]] = []
        for one, status in self._relevant(known, call):
            try:
                device = self.device(one, call, facts, before=status == "always" and _before(one.node, call))
            except Refused as why:
                refused.append(f"{one.shown} on line {self.module.line(one.node)} {why}")
                chosen.append((one, status, None))
                continue
            if self._constant(one, facts) and not single:
                line = self.module.line(one.node)
                refused.append(f"{one.shown} on line {line} names one fixed GPU, whatever process runs it")
                candidates.append(replace(device, sure=False))
                chosen.append((one, status, None))
                continue
            chosen.append((one, status, device))
            candidates.append(device)
        texts = {device.text for _, _, device in chosen if device is not None}
        certain = [device for _, status, device in chosen if status == "always" and device is not None]
        if certain and len(texts) == 1 and not refused:
            return Search(self._preferred(certain[0], chosen[0][0], call, facts), candidates=tuple(candidates))
        if refused:
            return Search(None, refused[0], tuple(candidates))
        if len(texts) > 1:
            return Search(None, f"the code shows several: {', '.join(sorted(texts))}", tuple(candidates))
        if not chosen:
            return Search()
        one = chosen[0][0]
        why = self._condition(one.node, call, facts)
        return Search(None, f"{one.shown} on line {self.module.line(one.node)} runs only {why}", tuple(candidates))

    def _relevant(self, known: list[tuple[Evidence, Status]], call: ast.Call) -> list[tuple[Evidence, Status]]:
        """The last sure one before the call and what may come after it; else everything."""
        if known[0][0].kind != "set":
            return known
        before = [pair for pair in known if _before(pair[0].node, call)]
        sure = [i for i, (_, status) in enumerate(before) if status == "always"]
        if sure:
            return before[sure[-1] :]
        return known

    def status(self, node: ast.AST, call: ast.Call, facts: Facts) -> Status:
        """Whether code of the same function runs whenever the call does."""
        flow = self.module.flow(call)
        if not flow.reachable(node):
            return "never"
        held = {id(condition) for condition in flow.conditions(call)}
        status: Status = "always"
        for condition in flow.conditions(node):
            if id(condition) in held:
                continue
            truth = self.values.truth_of(condition, facts)
            if truth is None:
                status = status if condition.fatal else "perhaps"
            elif truth is not condition.truth:
                return "never"
        around = set(self.module.ancestors(call))
        for parent in self.module.ancestors(node):
            if isinstance(parent, (*_DEFINITIONS, ast.Lambda, ast.Module)):
                break
            if isinstance(parent, (ast.For, ast.AsyncFor, ast.While, ast.ExceptHandler)) and parent not in around:
                status = "perhaps"
            if isinstance(parent, ast.match_case) and parent not in around:
                status = "perhaps"
        return status

    def _condition(self, node: ast.AST, call: ast.Call, facts: Facts) -> str:
        flow = self.module.flow(call)
        held = {id(condition) for condition in flow.conditions(call)}
        for condition in flow.conditions(node):
            if id(condition) in held or condition.fatal:
                continue
            if self.values.truth_of(condition, facts) is None:
                test = ast.unparse(condition.test)
                return f"if {test}" if condition.truth else f"unless {test}"
        return "on some paths"

    def _constant(self, one: Evidence, facts: Facts) -> bool:
        """Whether an index is the same number in every process."""
        node = _unwrapped(self.module, one.device)
        for leaf in self.values.leaves(node, facts):
            inner = _index_of(self.module, leaf.node)
            options = leaf.options if inner is None else self.values.of(inner, leaf.facts).options
            if not all(isinstance(option, Known) for option in options):
                return False
        return True

    def _preferred(self, device: Device, one: Evidence, call: ast.Call, facts: Facts) -> Device:
        """A variable that holds the very device, where there is one."""
        if one.kind == "used" or key_of(one.device) == device.text:
            return device
        flow = self.module.flow(call)
        for built in self.evidence(self.module.function(call) or self.module.tree):
            statement = self.module.parents.get(built.node)
            if built.kind != "built" or not isinstance(statement, ast.Assign) or statement.value is not built.node:
                continue
            key = key_of(statement.targets[0])
            if key is None or len(statement.targets) != 1 or not _before(built.node, call):
                continue
            version = flow.version(key, call)
            alive = [settled(version)] if one.kind == "set" else self.values.sources(version, facts)
            if len(alive) != 1 or not isinstance(alive[0], Definition) or alive[0].node is not statement:
                continue
            try:
                same = self.device(built, call, facts, before=True)
            except Refused:
                continue
            if same.text == device.text and not touches(version):
                return replace(device, text=self.module.source(statement.targets[0]), imports=())
        return device

    # -- writing a device --------------------------------------------------------------------------------------

    def device(self, one: Evidence, call: ast.Call, facts: Facts, *, before: bool) -> Device:
        """The device of one evidence as an expression for the call. Raises Refused with the reason.

        `before` says that the evidence has run when the call runs.
        """
        node = _unwrapped(self.module, one.device)
        shape = self._shape(node, facts, before=before)
        evidence = f"{one.shown} on line {self.module.line(one.node)}"
        if shape == "device" and key_of(node) is not None:
            text = carry(self.values, node, call, facts)
            return self._written(text.text, text, one, evidence, ())
        if shape == "device":
            index = _index_of(self.module, node)
            if index is not None and not _is_text(index):
                return self._indexed(self._carried_index(index, call, facts), one, evidence, call)
            return self._from_text(index if index is not None else node, node, one, evidence, call, facts)
        if shape == "text":
            return self._from_text(node, node, one, evidence, call, facts)
        if shape == "index":
            return self._indexed(self._carried_index(node, call, facts), one, evidence, call)
        if one.kind == "set" and before:
            current = self.module.spell("torch.cuda.current_device", call)
            if current is not None:
                carried = Carried(f"{current.text}()")
                device = self._indexed(carried, one, evidence, call)
                return replace(device, imports=(*device.imports, *current.imports))
        raise Refused("may be given something else than an index")

    def _carried_index(self, node: ast.expr, call: ast.Call, facts: Facts) -> Carried:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "int" and node.args:
            inner = self.values.of(node.args[0], facts)
            if inner.options and all(option.kind == "int" for option in inner.options):
                node = node.args[0]
        return carry(self.values, node, call, facts)

    def _from_text(
        self, text: ast.expr, node: ast.expr, one: Evidence, evidence: str, call: ast.Call, facts: Facts
    ) -> Device:
        """A device from "cuda:1" or f"cuda:{index}"."""
        options = self.values.of(text, facts).options
        if len(options) == 1 and isinstance(known := next(iter(options)), Known) and isinstance(known.value, str):
            match = _CUDA_TEXT.fullmatch(known.value)
            if match is not None:
                return self._indexed(Carried(match[1]), one, evidence, call)
        if isinstance(text, ast.JoinedStr) and len(text.values) == 2 and isinstance(text.values[1], ast.FormattedValue):
            value = text.values[1].value
            if self._shape(value, facts, before=True) == "index":
                return self._indexed(self._carried_index(value, call, facts), one, evidence, call)
        device = self.module.spell("torch.device", call)
        if device is None:
            raise Refused("cannot be written here: torch is not in scope")
        carried = carry(self.values, text, call, facts)
        return self._written(f"{device.text}({carried.text})", carried, one, evidence, device.imports)

    def _indexed(self, index: Carried, one: Evidence, evidence: str, call: ast.Call) -> Device:
        device = self.module.spell("torch.device", call)
        if device is None:
            raise Refused("cannot be written here: torch is not in scope")
        quote = quote_of(self.module, call)
        text = f"{device.text}({quote}cuda{quote}, {index.text})"
        written = self._written(text, index, one, evidence, device.imports)
        node = _unwrapped(self.module, one.device)
        source = _index_of(self.module, node) or node
        return replace(written, index=index.text, source=None if _is_text(source) else source)

    def _written(
        self, text: str, carried: Carried, one: Evidence, evidence: str, imports: tuple[Import, ...]
    ) -> Device:
        doubt = ""
        if carried.touched:
            touched = carried.touched[0]
            doubt = f"{ast.unparse(touched.func)}() on line {self.module.line(touched)} could change it"
        elif not one.firm:
            doubt = "it is what the process seems to use"
        return Device(text, evidence, imports, sure=not doubt, doubt=doubt)

    def _shape(self, node: ast.expr, facts: Facts, *, before: bool) -> str:
        """What an expression is: "device" (with an index), "index", "text" ("cuda:1") or "unknown".

        Raises Refused for what can be no GPU: None, a negative number, a device without an index, the CPU.
        """
        shapes: set[str] = set()
        for leaf in self.values.leaves(node, facts):
            shapes |= self._leaf_shapes(leaf, before=before)
        if not shapes:
            raise Refused("cannot be reached under these conditions")
        for bad, reason in _BAD.items():
            if bad in shapes:
                raise Refused(reason)
        if shapes == {"unknown"} or shapes == {"unknown", "index"}:
            return "index" if _index_name(node) else "unknown"
        return shapes.pop() if len(shapes) == 1 else "unknown"

    def _leaf_shapes(self, leaf: Leaf, *, before: bool) -> set[str]:
        if isinstance(leaf.node, ast.Call) and self.module.resolve(leaf.node.func).names == {"torch.device"}:
            return self._device_shapes(leaf.node, leaf.facts)
        if isinstance(leaf.node, ast.Call) and self.module.resolve(leaf.node.func).names & _CURRENT:
            return {"current"}
        shapes: set[str] = set()
        for option in leaf.options:
            if isinstance(option, Known):
                shapes.add(_constant_shape(option, before))
            elif option.kind == "int":
                shapes.add("index")
            elif option.kind == "str":
                shapes.add("text" if "cuda:" in option.contains else "raw")
            elif option.origin == "no value":
                shapes.add("unbound")
            else:
                shapes.add("unknown")
        return shapes - {""}

    def _device_shapes(self, node: ast.Call, facts: Facts) -> set[str]:
        given = {k.arg: k.value for k in node.keywords}
        kind = node.args[0] if node.args else given.get("type", given.get("device"))
        index = node.args[1] if len(node.args) > 1 else given.get("index")
        if kind is None:
            return {"unknown"}
        shapes: set[str] = set()
        for option in self.values.of(kind, facts).options:
            if isinstance(option, Known) and option.value == "cuda":
                shapes.add("device" if index is not None and self._good_index(index, facts) else "bare")
            elif isinstance(option, Known) and isinstance(option.value, str):
                shapes.add("device" if _CUDA_TEXT.fullmatch(option.value) else "other")
            elif isinstance(option, Known) and isinstance(option.value, int):
                shapes.add("device" if option.value >= 0 else "negative")
            elif "cuda:" in option.contains or option.kind == "int":
                shapes.add("device")
            else:
                shapes.add("unknown")
        return shapes

    def _good_index(self, index: ast.expr, facts: Facts) -> bool:
        options = self.values.of(index, facts).options
        return not any(isinstance(o, Known) and (o.value is None or not isinstance(o.value, int)) for o in options)

    # -- evidence ----------------------------------------------------------------------------------------------

    def evidence(self, owner: ast.AST) -> list[Evidence]:
        """The evidence in a function, or at module level, in source order."""
        if owner not in self._evidence:
            found: list[Evidence] = []
            for node in walk(owner):
                if isinstance(node, ast.Call):
                    found += self._of_call(node)
            found.sort(key=lambda e: (e.node.lineno, e.node.col_offset))
            self._evidence[owner] = found
        return self._evidence[owner]

    def _of_call(self, node: ast.Call) -> Iterator[Evidence]:
        names = self.module.resolve(node.func).names
        first = node.args[0] if node.args and not isinstance(node.args[0], ast.Starred) else None
        given = {k.arg: k.value for k in node.keywords if k.arg}
        if names & SET_DEVICE:
            chosen = first if first is not None else given.get("device")
            if chosen is not None and not self._is_current(chosen):
                yield Evidence(node, chosen, "set", f"{_tail(node.func)}({self._short(chosen)})")
        elif names == {"torch.device"}:
            if _index_of(self.module, node) is not None and self._on_cuda(node):
                yield Evidence(node, node, "built", self._short(node))
        elif names & _DDP:
            ids = given.get("device_ids", node.args[1] if len(node.args) > 1 else None)
            if isinstance(ids, (ast.List, ast.Tuple)) and len(ids.elts) == 1 and not self._is_current(ids.elts[0]):
                yield Evidence(node, ids.elts[0], "used", f"device_ids=[{self._short(ids.elts[0])}]")
        elif names & _FSDP:
            bound = given.get("device_id")
            if bound is not None and not self._is_current(bound):
                yield Evidence(node, bound, "used", f"device_id={self._short(bound)}")
        elif isinstance(node.func, ast.Attribute) and node.func.attr in ("cuda", "to") and not names:
            moved = first if first is not None else given.get("device")
            if moved is not None and self._is_gpu(moved):
                yield Evidence(node, moved, "used", f".{node.func.attr}({self._short(moved)})", firm=False)
        elif (helper := self.values.functions.called(node)) is not None:
            yield from self._of_helper(node, helper)
        elif (placed := given.get("device")) is not None and self._is_gpu(placed):
            yield Evidence(node, placed, "used", f"device={self._short(placed)}", firm=False)

    def _of_helper(self, node: ast.Call, helper: FunctionNode) -> Iterator[Evidence]:
        """What a function of this module that is called here does to the current device, in the caller's words."""
        if helper in self._active or self.values.functions.is_generator(helper):
            return
        self._active.add(helper)
        try:
            inner = [one for one in self.evidence(helper) if one.kind == "set"]
        finally:
            self._active.discard(helper)
        flow = self.module.flow(helper.body[0])
        binding = self.values.functions.bind(node, helper)
        for one in inner:
            conditions = flow.conditions(one.node)
            if any(self.values.truth_of(c, Facts(cuda=True)) is not c.truth for c in conditions if not c.fatal):
                return
            if any(isinstance(a, (ast.For, ast.While, ast.ExceptHandler)) for a in self.module.ancestors(one.node)):
                return
            shown = f"{helper.name}() calls {one.shown}"
            name = key_of(_without_int(one.device))
            version = settled(flow.version(name, one.node)) if name else None
            if isinstance(version, Definition) and version.how == "parameter":
                given = binding.get(version.key) or default_of(helper, version.key)
                if given is not None:
                    yield Evidence(node, given, "set", shown)
            else:
                yield Evidence(node, one.device, "set", shown)

    def _is_current(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Call) and bool(self.module.resolve(node.func).names & _CURRENT)

    def _on_cuda(self, node: ast.Call) -> bool:
        given = {k.arg: k.value for k in node.keywords}
        kind = node.args[0] if node.args else given.get("type", given.get("device"))
        if kind is None:
            return False
        return any(
            str(o.value).startswith("cuda") if isinstance(o, Known) else "cuda:" in o.contains
            for o in self.values.of(kind).options
        )

    def _is_gpu(self, node: ast.expr) -> bool:
        """Whether what something is moved to is surely a GPU with an index."""
        if isinstance(node, ast.JoinedStr):
            first = node.values[0] if node.values else None
            return isinstance(first, ast.Constant) and str(first.value).startswith("cuda:")
        if isinstance(node, ast.Constant):
            return isinstance(node.value, str) and _CUDA_TEXT.fullmatch(node.value) is not None
        return isinstance(node, (ast.Name, ast.Attribute)) and _index_name(node)

    def _short(self, node: ast.expr) -> str:
        text = " ".join(self.module.source(node).split())
        return text if len(text) <= 40 else text[:37] + "..."


_BAD = {
    "negative": "may get -1",
    "none": "may get None",
    "bare": "has no index",
    "other": "may be another device than a GPU",
    "unbound": "uses a name that may have no value",
    "raw": "gets text, not a number",
    "current": "only repeats the current device",
}


def _constant_shape(option: Known, before: bool) -> str:
    value = option.value
    if value is None:
        return "" if before else "none"
    if isinstance(value, bool):
        return "unknown"
    if isinstance(value, int):
        return "index" if value >= 0 else "negative"
    if isinstance(value, str):
        return "text" if _CUDA_TEXT.fullmatch(value) else "bare" if value == "cuda" else "other"
    return "unknown"


def _unwrapped(module: Module, node: ast.expr) -> ast.expr:
    """`set_device(torch.cuda.device(index))` sets `index`."""
    if isinstance(node, ast.Call) and len(node.args) == 1 and module.resolve(node.func).names & _CONTEXT:
        return node.args[0]
    return node


def _index_of(module: Module, node: ast.expr | None) -> ast.expr | None:
    """The index of `torch.device("cuda", index)`, or the text of `torch.device(f"cuda:{index}")`."""
    if not isinstance(node, ast.Call) or module.resolve(node.func).names != {"torch.device"}:
        return None
    given = {k.arg: k.value for k in node.keywords}
    if len(node.args) > 1:
        return node.args[1]
    if "index" in given:
        return given["index"]
    only = node.args[0] if node.args else given.get("type", given.get("device"))
    return only if only is None or not (isinstance(only, ast.Constant) and only.value in ("cuda", "cpu")) else None


def _without_int(node: ast.expr) -> ast.expr:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "int" and len(node.args) == 1:
        return node.args[0]
    return node


def _mentions_self(node: ast.expr) -> bool:
    return any(isinstance(inner, ast.Name) and inner.id == "self" for inner in ast.walk(node))


def _processes(call: ast.Call) -> ast.expr | None:
    """The `nprocs` of an `mp.spawn` call."""
    given = next((k.value for k in call.keywords if k.arg == "nprocs"), None)
    return given if given is not None else call.args[2] if len(call.args) > 2 else None


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, (ast.JoinedStr, ast.IfExp)) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _index_name(node: ast.expr) -> bool:
    if isinstance(node, ast.Subscript):
        return _index_name(node.slice) or (isinstance(node.slice, ast.Constant) and bool(_INDEX_NAME.search(str(node.slice.value))))
    name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    return bool(_INDEX_NAME.search(name))


def _before(node: ast.expr, call: ast.Call) -> bool:
    return (node.lineno, node.col_offset) < (call.lineno, call.col_offset)


def _tail(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def quote_of(module: Module, call: ast.Call) -> str:
    """The quote that a call's own strings are written in, else the file's more common one."""
    for node in ast.walk(call):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = module.source(node).lstrip("rbufRBUF")
            if text[:1] in ("'", '"'):
                return text[0]
    return "'" if module.text.count("'") > 2 * module.text.count('"') else '"'


def walk(owner: ast.AST) -> Iterator[ast.AST]:
    """The nodes that a function, or a module's top level, runs itself."""
    stack: list[ast.AST] = [owner.body] if isinstance(owner, ast.Lambda) else list(getattr(owner, "body", []))
    while stack:
        at = stack.pop()
        yield at
        if isinstance(at, (*_DEFINITIONS, ast.Lambda, ast.ClassDef)):
            continue
        stack.extend(ast.iter_child_nodes(at))


__all__ = ["Device", "Devices", "Evidence", "FunctionNode", "Search", "quote_of", "walk"]
