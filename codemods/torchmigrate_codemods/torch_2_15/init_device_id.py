"""TM101: the GPU of a process group is what init_process_group is told, not what set_device chose."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from torchmigrate.calls import Binding, Signature, bind
from torchmigrate.codemod import Alternative, Codemod, Place, Plan
from torchmigrate.edits import SetArgument
from torchmigrate.imports import Import
from torchmigrate.model import Safety
from torchmigrate.module import CallSite, Module
from torchmigrate.values import Facts, Known, Values
from torchmigrate.versions import older
from torchmigrate_codemods.spellings import c10d
from torchmigrate_codemods.torch_2_15.backends import Backend, Guard, backend_of, cuda_guard, guard, surely_nccl
from torchmigrate_codemods.torch_2_15.devices import Device, Devices, Search, quote_of

INIT = Signature(
    ("backend", "init_method", "timeout", "world_size", "rank", "store", "group_name", "pg_options", "device_id"),
    ("_ranks", "enable_reconfigure"),
)
_RULE = "An NCCL group is bound to one GPU when it is made: device_id, else LOCAL_RANK, else the rank, says which"


class InitDeviceId(Codemod):
    """Pass device_id to init_process_group."""

    code, name, area = "TM101", "init-device-id", "distributed"
    triggers = (b"init_process_group",)

    def check(self, module: Module) -> Iterator[Plan]:
        """One plan for each call that may start an NCCL group."""
        sites = list(module.calls(*c10d("init_process_group")))
        if not sites:
            return
        values = Values(module)
        devices = Devices(values)
        for site in sites:
            plan = _Site(self, values, devices, site).plan()
            if plan is not None:
                yield plan


class _Site:
    """One call."""

    def __init__(self, rule: InitDeviceId, values: Values, devices: Devices, site: CallSite) -> None:
        self.rule = rule
        self.values = values
        self.module = values.module
        self.devices = devices
        self.site = site
        self.call = site.node
        self.quote = quote_of(self.module, self.call)
        self.binding: Binding = bind(self.call, INIT)

    def plan(self) -> Plan | None:
        if self.binding.get("device_id") is not None or self.binding.surplus:
            return None
        facts = self.values.facts(self.call)
        node = self.binding.get("backend")
        if node is None and not self.binding.surely_absent("backend"):
            return self.rule.report(self.call, f"{_RULE}; the arguments of this call are not in sight")
        backend = backend_of(self.values, node, facts)
        if backend.never:
            return None
        if self.binding.doubles or self.binding.stars:
            return self.rule.report(self.call, f"{_RULE}; the arguments of this call are not in sight")
        condition: Guard | None = None
        if backend.surely:
            nccl = self.values.implied(node, surely_nccl, facts) if node is not None else facts
            under = replace(nccl or facts, cuda=True)
        else:
            condition = guard(self.values, backend, self.call, facts, self.quote)
            under = condition.facts if condition is not None else replace(facts, cuda=True)
        search = self.devices.find(self.call, under, single=self._single(facts))
        if backend.unknown and not backend.nccl:
            return self._undecided(backend, search, condition)
        if search.device is None:
            return self._nothing_sure(search, condition)
        if not self.site.certain or (condition is None and not backend.surely):
            return self._undecided(backend, search, condition)
        return self._change(backend, search.device, condition)

    def _single(self, facts: Facts) -> bool:
        """Whether the group has one process."""
        size = self.binding.get("world_size")
        if size is not None:
            return self.values.of(size, facts).options == frozenset({Known(1)})
        return False

    def _value(self, device: Device, condition: Guard | None) -> tuple[str, tuple[Import, ...]]:
        if condition is None:
            return device.text, device.imports
        return f"{device.text} if {condition.text} else None", (*device.imports, *condition.imports)

    def _place(self, value: str) -> Place:
        return Place(self.call, (SetArgument(self.call, "device_id", value),))

    def _change(self, backend: Backend, device: Device, condition: Guard | None) -> Plan:
        value, imports = self._value(device, condition)
        doubts = [device.doubt] if device.doubt else []
        if backend.unknown:
            doubts.append(f"the backend is {backend.origin}")
        message = f"{_RULE}; {device.evidence} chooses the GPU here"
        project = self.module.project
        if older(project.torch_min, "2.15"):
            doubts.append(
                f"on torch {project.torch_min}, which the project allows ({project.torch_min_source}), device_id creates"
                " the communicator at once and sends point-to-point messages one after another"
            )
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

    def _choices(self, search: Search, condition: Guard | None) -> list[Alternative]:
        found: list[Alternative] = []
        for device in search.candidates:
            value, imports = self._value(device, condition)
            found.append(Alternative(f"device_id={value}", device.evidence, (self._place(value),), imports))
        return found

    def _nothing_sure(self, search: Search, condition: Guard | None) -> Plan:
        reason = search.reason or "no code here shows which GPU this process uses"
        return self.rule.report(self.call, f"{_RULE}; {reason}", self._choices(search, condition))

    def _undecided(self, backend: Backend, search: Search, condition: Guard | None) -> Plan:
        found = [search.device] if search.device is not None else list(search.candidates)
        named = f": device_id={found[0].text} ({found[0].evidence})" if found else ""
        return self.rule.report(
            self.call,
            f"{_RULE}; the backend is {backend.origin}: where it is NCCL, pass the GPU{named}",
            self._choices(replace(search, candidates=tuple(found)), condition),
        )


__all__ = ["INIT", "InitDeviceId", "cuda_guard"]
