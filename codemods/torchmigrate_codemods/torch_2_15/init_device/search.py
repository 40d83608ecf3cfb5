"""Which GPU the process of a call uses: what the code itself shows.

The strongest evidence is `torch.cuda.set_device(...)` in the same function, before or after the call, then a device
that is built there, then tensors and models that are put on a GPU; after that what the functions that run it and the
class around it show. A rank alone is no evidence: launchers that show each process one GPU make it out of range.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from torchmigrate.carry import Refused, carry
from torchmigrate.functions import Caller, FunctionNode
from torchmigrate.module import Module
from torchmigrate.reaching import Condition, Definition, key_of, settled
from torchmigrate.values import Facts, Values
from torchmigrate_codemods.spellings import c10d
from torchmigrate_codemods.torch_2_15.init_device.backends import all_of, negated
from torchmigrate_codemods.torch_2_15.init_device.devices import Device, Writer, before
from torchmigrate_codemods.torch_2_15.init_device.evidence import Evidence, Evidences

Status = Literal["always", "perhaps", "never"]

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_INITIALIZED = frozenset(c10d("is_initialized"))
_SKIPPED = (ast.For, ast.AsyncFor, ast.While, ast.ExceptHandler, ast.match_case)


@dataclass(frozen=True, slots=True)
class Search:
    """What the search gave: the device, or why none may be written (half a sentence), and candidates for a person."""

    device: Device | None = None
    reason: str = ""
    candidates: tuple[Device, ...] = ()


class GpuSearch:
    """The search in one module."""

    def __init__(self, values: Values) -> None:
        self.values = values
        self.module: Module = values.module
        self.evidences = Evidences(values)
        self.writer = Writer(values, self.evidences)
        self._active: set[ast.AST] = set()

    def find(self, call: ast.Call, cases: Sequence[Facts], *, single: bool) -> Search:
        """The GPU that the process of a call uses, in each case in which the call makes an NCCL group.

        `single` says that the group has one process only: then a constant index is right.
        """
        searches: list[Search] = []
        for case in cases:
            facts = replace(case, cuda=True)
            search = self._here(call, facts, single)
            if search.device is None and not search.reason:
                search = self._elsewhere(call, facts, single)
            searches.append(search)
        devices = [search.device for search in searches if search.device is not None]
        candidates = tuple(dict.fromkeys(one for search in searches for one in search.candidates))
        if devices and len(devices) == len(searches) and len({device.text for device in devices}) == 1:
            doubtful = next((device for device in devices if not device.sure), devices[0])
            return Search(doubtful, candidates=candidates)
        if len(devices) == len(searches) and devices:
            shown = dict.fromkeys(f"{device.text} ({device.evidence})" for device in devices)
            return Search(None, f"the GPU depends on what makes this an NCCL group: {', '.join(shown)}", candidates)
        reason = next((search.reason for search in searches if search.reason), "")
        return Search(None, reason, candidates)

    # -- the call's own function -------------------------------------------------------------------------------

    def _here(self, call: ast.Call, facts: Facts, single: bool) -> Search:
        found = self.evidences.around(call)
        reason = ""
        candidates: list[Device] = []
        for kind in ("set", "built", "used"):
            search = self._of_kind(call, [one for one in found if one.kind == kind], facts, single)
            if search.device is not None:
                used = [one for one in found if one.kind == "used" and kind == "built"]
                return self._agreed(search, self._of_kind(call, used, facts, single))
            candidates += search.candidates
            reason = reason or search.reason
            if kind == "set" and reason:
                break
        return Search(None, reason, tuple(dict.fromkeys(candidates)))

    def _agreed(self, built: Search, used: Search) -> Search:
        """A device that is built, unless something is surely put on another one, or more surely on the same."""
        if used.device is None or built.device is None:
            return built
        if "" in (indices := {built.device.index, used.device.index}):
            return built
        if len(indices) == 1:
            return used if used.device.sure and not built.device.sure else built
        shown = [f"{one.text} ({one.evidence})" for one in (built.device, used.device)]
        return Search(None, f"this code shows several GPUs: {', '.join(shown)}", (*built.candidates, *used.candidates))

    def _of_kind(self, call: ast.Call, evidence: list[Evidence], facts: Facts, single: bool) -> Search:
        known = [(one, self.status(one.node, call, facts)) for one in evidence]
        known = self._relevant([pair for pair in known if pair[1] != "never"], call)
        devices: list[tuple[Evidence, Status, Device]] = []
        refused = over = ""
        offered: list[Device] = []
        for one, status in known:
            place = f"{one.shown} on line {self.module.line(one.node)}"
            if why := self.writer.lives.of(one).over:
                over = over or f"{place} {why}"
                continue
            try:
                ran = status == "always" and before(one.node, call)
                device = self.writer.device(one, call, facts, before=ran)
            except Refused as error:
                reason = str(error) if status == "always" else f"runs only {self._when(one.node, call, facts)}"
                refused = refused or f"{place} {reason}"
                continue
            if self.writer.constant(one.device, facts) and not single:
                refused = refused or f"{place} names one fixed GPU, whatever process runs it"
                offered.append(replace(device, sure=False))
            elif why := self.writer.lives.rival(one, facts):
                refused = refused or f"{place} {why}"
                offered.append(replace(device, sure=False))
            else:
                devices.append((one, status, device))
        candidates = tuple(dict.fromkeys((*self._offered(devices, call, facts), *offered)))
        if refused:
            return Search(None, refused, candidates)
        if len({device.text for _, _, device in devices}) > 1:
            shown = dict.fromkeys(f"{device.text} ({device.evidence})" for _, _, device in devices)
            return Search(None, f"this code shows several GPUs: {', '.join(shown)}", candidates)
        for one, status, device in sorted(devices, key=lambda found: not found[0].firm):
            if status == "always":
                return Search(self.writer.preferred(device, one, call, facts), candidates=candidates)
        if devices:
            one, _, device = devices[0]
            return Search(None, f"{device.evidence} runs only {self._when(one.node, call, facts)}", candidates)
        return Search(None, over)

    def _offered(
        self, devices: list[tuple[Evidence, Status, Device]], call: ast.Call, facts: Facts
    ) -> Iterator[Device]:
        """The devices found as answers for a person: those of some paths only with the condition for these paths."""
        for one, status, device in devices:
            if status == "always":
                yield device
                continue
            tests: list[str] = []
            try:
                for condition in self._open_conditions(one.node, call, facts):
                    text = carry(self.values, condition.test, call, facts).text
                    tests.append(text if condition.truth else negated(text))
            except Refused:
                continue
            if tests:
                yield replace(device, only_if=all_of(tests), sure=False)

    def _relevant(self, known: list[tuple[Evidence, Status]], call: ast.Call) -> list[tuple[Evidence, Status]]:
        """For `set_device`: the last sure one before the call, what may undo it, and what surely comes later."""
        if not known or known[0][0].kind != "set":
            return known
        earlier = [pair for pair in known if before(pair[0].node, call)]
        sure = [i for i, (_, status) in enumerate(earlier) if status == "always"]
        if not sure:
            return known
        later = [pair for pair in known if not before(pair[0].node, call) and pair[1] == "always"]
        return [*earlier[sure[-1] :], *later]

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
            truth = self._truth(condition, call, facts)
            if truth is None:
                status = status if condition.fatal else "perhaps"
            elif truth is not condition.truth:
                return "never"
        around = set(self.module.ancestors(call))
        for parent in self.module.ancestors(node):
            if isinstance(parent, (*_DEFINITIONS, ast.Lambda, ast.Module)):
                break
            if isinstance(parent, _SKIPPED) and parent not in around:
                status = "perhaps"
            if isinstance(parent, ast.Try) and self._survived(parent, node, call):
                status = "perhaps"
            if isinstance(parent, (ast.With, ast.AsyncWith)) and self._context(node, parent) and parent not in around:
                return "never"
        return status

    def _survived(self, statement: ast.Try, node: ast.AST, call: ast.Call) -> bool:
        """Whether a call also runs after an error has kept the body of a `try` from reaching a node in it."""
        inside = {one for part in statement.body for one in ast.walk(part)}
        if node not in inside or call in inside or any(call in ast.walk(part) for part in statement.orelse):
            return False
        flow = self.module.flow(call)
        return any(flow.goes_on(handler) for handler in statement.handlers)

    def _context(self, node: ast.AST, statement: ast.With | ast.AsyncWith) -> bool:
        """Whether a node is what a `with` statement enters."""
        return any(node is item.context_expr for item in statement.items)

    def _open_conditions(self, node: ast.AST, call: ast.Call, facts: Facts) -> list[Condition]:
        """The conditions under which some code of the function runs that the facts do not decide."""
        flow = self.module.flow(call)
        held = {id(condition) for condition in flow.conditions(call)}
        found = [c for c in flow.conditions(node) if id(c) not in held and not c.fatal]
        return [condition for condition in found if self._truth(condition, call, facts) is None]

    def _truth(self, condition: Condition, call: ast.Call, facts: Facts) -> bool | None:
        """How a condition of the function comes out when the call runs: there is no group before it, and one after."""
        test = condition.test
        if isinstance(test, ast.Call) and self.module.resolve(test.func).names & _INITIALIZED:
            return not before(test, call)
        return self.values.truth_of(condition, facts)

    def _when(self, node: ast.AST, call: ast.Call, facts: Facts) -> str:
        for condition in self._open_conditions(node, call, facts):
            test = ast.unparse(condition.test)
            return f"if {test if condition.truth else negated(test)}"
        return "on some paths"

    # -- the functions and the class around --------------------------------------------------------------------

    def _elsewhere(self, call: ast.Call, facts: Facts, single: bool) -> Search:
        function = self.module.function(call)
        if not isinstance(function, _DEFINITIONS) or function in self._active:
            return Search()
        self._active.add(function)
        try:
            search = self._from_callers(call, function, single)
            if search.device is None and not search.reason:
                search = self._from_class(call, function, single)
            if search.device is None and not search.reason:
                search = self._from_launch(call, function)
            if search.device is None and not search.reason:
                search = self._from_module(call, single)
            return search
        except Refused as why:
            return Search(None, f"the GPU {why}")
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
                return Search(None, f"the GPU of {search.device.evidence} is not handed to {function.name}()")
            devices.append(device)
        if len({device.text for device in devices}) > 1:
            shown = dict.fromkeys(f"{device.text} ({device.evidence})" for device in devices)
            return Search(None, f"callers of {function.name}() use several GPUs: {', '.join(shown)}", tuple(devices))
        return Search(devices[0], candidates=tuple(devices[:1])) if devices else Search()

    def _received(self, device: Device, site: Caller, call: ast.Call, function: FunctionNode) -> Device | None:
        """A device of a caller in the words of the function that it calls."""
        flow = self.module.flow(call)
        doubt = f"it is what callers of {function.name}() use"
        for name, given in site.binding.given.items():
            version = settled(flow.version(name, call))
            if not (isinstance(version, Definition) and version.how == "parameter"):
                continue
            text = self.module.source(given) if given in self.module.parents else ast.unparse(given)
            if text == device.text:
                return replace(device, text=name, imports=(), sure=False, doubt=doubt)
            if device.index and text in (device.index, f"int({device.index})"):
                return self._renamed(device, name, doubt, call)
        own = self._own_attribute(device, site, call, function)
        if own is not None:
            return self._renamed(device, own, doubt, call)
        if device.source is not None:
            try:
                return self._renamed(device, carry(self.values, device.source, call, Facts()).text, doubt, call)
            except Refused:
                return None
        return None

    def _renamed(self, device: Device, index: str, doubt: str, call: ast.Call) -> Device:
        text, imports = self.writer.cuda(index, call)
        return replace(device, text=text, imports=imports, sure=False, doubt=doubt, index=index)

    def _own_attribute(self, device: Device, site: Caller, call: ast.Call, function: FunctionNode) -> str | None:
        """The attribute of `self` in which a method kept the index before it called another method."""
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

    def _from_class(self, call: ast.Call, function: FunctionNode, single: bool) -> Search:
        """What the methods of the class show, in attributes that `__init__` gives their value.

        What `__init__` itself does has surely run; what another method does is only a hint for a person.
        """
        cls = self.module.enclosing_class(call)
        if cls is None:
            return Search()
        facts = Facts(cuda=True)
        for kind in ("set", "built", "used"):
            sure: list[Device] = []
            hints: list[Device] = []
            for method in cls.body:
                if not isinstance(method, _DEFINITIONS) or method is function:
                    continue
                for one in self.evidences.within(method):
                    if one.kind != kind or not one.firm or not _mentions_self(one.device):
                        continue
                    if self.writer.lives.of(one).over:
                        continue
                    try:
                        device = self.writer.device(one, call, facts, before=False)
                    except Refused:
                        continue
                    if self.writer.constant(one.device, facts) and not single:
                        continue
                    device = replace(device, sure=False, doubt=f"it is what {cls.name}.{method.name}() uses")
                    runs = method.name == "__init__" and self._runs(one, method)
                    (sure if runs else hints).append(device)
            if len({device.text for device in (*sure, *hints)}) == 1 and sure:
                return Search(sure[0], candidates=(sure[0],))
            if hints or sure:
                found = hints[0] if hints else sure[0]
                where = found.doubt.removeprefix("it is what ").removesuffix(" uses")
                reason = f"{found.evidence} is in {where}, which need not run before"
                return Search(None, reason, tuple(dict.fromkeys((*sure, *hints))))
        return Search()

    def _runs(self, one: Evidence, method: FunctionNode) -> bool:
        flow = self.module.flow(method.body[0])
        conditions = [c for c in flow.conditions(one.node) if not c.fatal]
        return all(self.values.truth_of(c, Facts(cuda=True)) is c.truth for c in conditions)

    def _from_module(self, call: ast.Call, single: bool) -> Search:
        """What the module itself makes the current GPU when it is imported or run."""
        facts = Facts(cuda=True)
        flow = self.module.flow(self.module.tree.body[0])
        found = [one for one in self.evidences.within(self.module.tree) if one.kind == "set"]
        if len(found) != 1 or any(not condition.fatal for condition in flow.conditions(found[0].node)):
            return Search()
        if self.writer.constant(found[0].device, facts) and not single:
            return Search()
        device = self.writer.device(found[0], call, facts, before=False)
        device = replace(device, sure=False, doubt="it is what the module sets when it is imported")
        return Search(device, candidates=(device,))

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
        sites = self.values.functions.callers(function).sites
        if not all(site.how == "spawn" and self._one_for_each_gpu(site.call) for site in sites):
            return Search()
        line = self.module.line(sites[0].call)
        evidence = f"the process index of spawn on line {line} (one process for each GPU, LOCAL_RANK set to it)"
        text, imports = self.writer.cuda(index, call)
        device = Device(text, evidence, imports, sure=False, doubt="no code here puts anything on that GPU")
        return Search(device, candidates=(device,))

    def _one_for_each_gpu(self, spawn: ast.Call) -> bool:
        given = next((k.value for k in spawn.keywords if k.arg == "nprocs"), None)
        count = given if given is not None else spawn.args[2] if len(spawn.args) > 2 else None
        leaves = self.values.leaves(count) if count is not None else []
        calls = [leaf.node for leaf in leaves if isinstance(leaf.node, ast.Call)]
        counted = [self.module.resolve(one.func).names == {"torch.cuda.device_count"} for one in calls]
        return bool(leaves) and len(calls) == len(leaves) and all(counted)


def _mentions_self(node: ast.expr) -> bool:
    return any(isinstance(inner, ast.Name) and inner.id == "self" for inner in ast.walk(node))
