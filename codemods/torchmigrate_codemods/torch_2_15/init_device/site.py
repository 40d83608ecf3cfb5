"""One call of init_process_group: what it starts, on which GPU, and how the device is written."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchmigrate.calls import Binding, Signature, bind
from torchmigrate.codemod import Alternative, Place, Plan
from torchmigrate.edits import SetArgument
from torchmigrate.imports import Import
from torchmigrate.model import Safety
from torchmigrate.module import CallSite
from torchmigrate.possible import Known
from torchmigrate.values import Facts
from torchmigrate.versions import older
from torchmigrate_codemods.spellings import c10d
from torchmigrate_codemods.torch_2_15.init_device.backends import (
    Backend,
    Guard,
    all_of,
    backend_from,
    backend_of,
    cuda_guard,
    guard,
    surely_nccl,
)
from torchmigrate_codemods.torch_2_15.init_device.devices import Device, quote_of
from torchmigrate_codemods.torch_2_15.init_device.hazards import hazard
from torchmigrate_codemods.torch_2_15.init_device.launches import cuda_is_certain, falls_back, obstacle, one_process
from torchmigrate_codemods.torch_2_15.init_device.search import GpuSearch, Search
from torchmigrate_codemods.torch_2_15.init_device.spread import item, mentions

if TYPE_CHECKING:
    from torchmigrate.codemod import Codemod

INIT = Signature(
    ("backend", "init_method", "timeout", "world_size", "rank", "store", "group_name", "pg_options", "device_id"),
    ("_ranks", "enable_reconfigure"),
)
RULE = "NCCL binds the group to device_id, else to LOCAL_RANK or the rank"
_NOT_SHOWN = "no code here shows which GPU this process uses"


class InitSite:
    """One call and all that decides about it."""

    def __init__(self, rule: Codemod, search: GpuSearch, site: CallSite) -> None:
        self.rule = rule
        self.search = search
        self.values = search.values
        self.module = search.module
        self.site = site
        self.call = site.node
        self.binding: Binding = bind(self.call, INIT)
        self.facts: Facts = self.values.facts(self.call)

    def plan(self) -> Plan | None:
        """What to do here; None where nothing is to be done."""
        if self.has_device():
            return None
        backend = self.backend()
        if backend is not None and (backend.never or self._decided_already(backend)):
            return None
        if backend is None or self.binding.stars or not self._complete():
            return self._open(backend)
        if backend.surely:
            return self._with_device(backend, self._fallback_guard(), self._nccl_cases(backend))
        condition = guard(self.values, backend, self.call, self.facts, quote_of(self.module, self.call))
        if backend.node is None and cuda_is_certain(self.values, self.facts):
            condition = None
        return self._with_device(backend, condition, condition.cases if condition is not None else (self.facts,))

    # -- what the call says ------------------------------------------------------------------------------------

    def has_device(self) -> bool:
        """Whether a device_id is there, in any form."""
        if self.binding.get("device_id") is not None or self.binding.surplus:
            return True
        return any(mentions(self.values, one, "device_id", self.call) for one in self.binding.doubles)

    def backend(self) -> Backend | None:
        """The backend, from the call or from a mapping that it spreads; None where that is not in sight."""
        node = self.binding.get("backend")
        if node is not None or self.binding.surely_absent("backend"):
            return backend_of(self.values, node, self.facts)
        if self.binding.stars:
            return None
        for mapping in self.binding.doubles:
            leaves = item(self.values, mapping, "backend", self.facts)
            if leaves is None:
                return None
            if leaves:
                return backend_from(leaves)
        return backend_of(self.values, None, self.facts)

    def _complete(self) -> bool:
        """Whether no mapping that the call spreads can hold a device_id of its own."""
        return all(item(self.values, one, "device_id", self.facts) == [] for one in self.binding.doubles)

    def _decided_already(self, backend: Backend) -> bool:
        """Whether another branch makes the group with a device_id, and this one is for those who cannot have it."""
        for condition in self.module.flow(self.call).conditions(self.call):
            branch = next((a for a in self.module.ancestors(condition.test) if isinstance(a, ast.If)), None)
            other = (branch.orelse if condition.truth else branch.body) if branch is not None else []
            if self._passes_device(other) and (not backend.surely or _about_devices(condition.test)):
                return True
        for around in self.module.ancestors(self.call):
            if isinstance(around, ast.Try) and any(self.call in ast.walk(handler) for handler in around.handlers):
                return self._passes_device(around.body)
        return False

    def _passes_device(self, body: list[ast.stmt]) -> bool:
        targets = set(c10d("init_process_group"))
        for statement in body:
            for node in ast.walk(statement):
                if isinstance(node, ast.Call) and self.module.resolve(node.func).names & targets:
                    given = bind(node, INIT)
                    if given.get("device_id") is not None:
                        return True
                    if any(mentions(self.values, one, "device_id", node) for one in given.doubles):
                        return True
        return False

    def _nccl_cases(self, backend: Backend) -> tuple[Facts, ...]:
        if backend.node is None:
            return (self.facts,)
        return tuple(self.values.cases(backend.node, surely_nccl, self.facts))

    def _fallback_guard(self) -> Guard | None:
        """A condition for calls that a machine without a GPU is meant to survive, by an except clause around them."""
        if falls_back(self.values, self.call):
            return cuda_guard(self.module, self.call, self.facts)
        return None

    def _single(self) -> bool:
        """Whether the group has one process."""
        size = self.binding.get("world_size")
        if size is not None:
            return self.values.of(size, self.facts).options == frozenset({Known(1)})
        for mapping in self.binding.doubles:
            leaves = item(self.values, mapping, "world_size", self.facts) or []
            if leaves:
                return {o for leaf in leaves for o in leaf.options} == {Known(1)}
        return one_process(self.values, self.call, self.facts)

    # -- what is offered ---------------------------------------------------------------------------------------

    def _with_device(self, backend: Backend, condition: Guard | None, cases: tuple[Facts, ...]) -> Plan:
        search = self.search.find(self.call, cases, single=self._single())
        if backend.unknown and not backend.nccl:
            return self._undecided(backend, search, condition)
        why = obstacle(self.values, self.call)
        if not self.site.certain:
            why = "whether this is torch's own function cannot be seen"
        if why is not None and (search.device is not None or not search.reason):
            search = Search(None, why, (search.device,) if search.device is not None else ())
        if search.device is None:
            return self._unsure(search, condition)
        if condition is None and not (backend.surely or backend.node is None):
            return self._undecided(backend, search, condition)
        return self._change(backend, search.device, condition)

    def _value(self, device: Device, condition: Guard | None) -> tuple[str, tuple[Import, ...]]:
        tests = [device.only_if] if device.only_if else []
        if condition is not None:
            tests.append(condition.text)
        value = f"{device.text} if {all_of(tests)} else None" if tests else device.text
        return value, (*device.imports, *(condition.imports if condition is not None else ()))

    def _place(self, value: str) -> Place:
        return Place(self.call, (SetArgument(self.call, "device_id", value),))

    def _change(self, backend: Backend, device: Device, condition: Guard | None) -> Plan:
        value, imports = self._value(device, condition)
        doubts = [device.doubt] if device.doubt else []
        if backend.unknown:
            doubts.append(f"the backend is {backend.origin}")
        project = self.module.project
        if older(project.torch_min, "2.15"):
            before = f"on torch {project.torch_min} ({project.torch_min_source})"
            doubts.append(f"{before} {hazard(self.module, self.search.values)}")
        message = f"the GPU is that of {device.evidence}; {RULE}"
        if doubts:
            message += f" (look twice: {'; '.join(doubts)})"
        return self.rule.change(
            self.call,
            SetArgument(self.call, "device_id", value),
            message=message,
            safety=Safety.UNSAFE if doubts or not device.sure else Safety.SAFE,
            imports=imports,
            needs_torch="2.3",
        )

    def _choices(self, devices: tuple[Device, ...], condition: Guard | None) -> list[Alternative]:
        found: list[Alternative] = []
        for device in devices:
            value, imports = self._value(device, condition)
            found.append(Alternative(f"device_id={value}", device.evidence, (self._place(value),), imports))
        return found

    def _unsure(self, search: Search, condition: Guard | None) -> Plan:
        message = f"pass the GPU of this process as device_id, since {RULE}: {search.reason or _NOT_SHOWN}"
        return self.rule.report(self.call, message, self._choices(search.candidates, condition))

    def _undecided(self, backend: Backend, search: Search, condition: Guard | None) -> Plan:
        devices = (search.device,) if search.device is not None else search.candidates
        named = f"{devices[0].text} ({devices[0].evidence})" if devices else "the GPU of this process"
        why = f" ({search.reason})" if search.reason else ""
        message = f"the backend is {backend.origin}; where it is NCCL, pass {named} as device_id{why}, since {RULE}"
        return self.rule.report(self.call, message, self._choices(devices, condition) if condition is not None else ())

    def _open(self, backend: Backend | None) -> Plan:
        """A call whose arguments are not all in sight."""
        spread = [*(f"*{ast.unparse(one)}" for one in self.binding.stars)]
        spread += [f"**{ast.unparse(one)}" for one in self.binding.doubles]
        search = self.search.find(self.call, (self.facts,), single=self._single())
        device = search.device or next(iter(search.candidates), None)
        named = f" ({device.text}: {device.evidence})" if device is not None else ""
        what = "NCCL needs" if backend is not None and backend.surely else "where this is NCCL, it needs"
        message = f"whether {' '.join(spread)} brings a device_id cannot be seen; {what} the GPU of this process{named}"
        return self.rule.report(self.call, f"{message}, since {RULE}")


def _about_devices(test: ast.expr) -> bool:
    """Whether a test asks for torch's version, a signature or a device: what decides who can pass a device_id."""
    text = ast.unparse(test).lower()
    return any(word in text for word in ("version", "signature", "device", "hasattr", "torch_", "support", "inspect"))
