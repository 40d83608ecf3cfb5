"""TM101: the GPU of a process group is what init_process_group is told, not what set_device chose."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from torchmigrate.calls import Binding, Signature, bind
from torchmigrate.codemod import Alternative, Codemod, Place, Plan
from torchmigrate.edits import SetArgument
from torchmigrate.flow import key_of
from torchmigrate.imports import Import
from torchmigrate.model import Safety
from torchmigrate.module import CallSite, Module
from torchmigrate.values import Facts, Known, Values
from torchmigrate.versions import older
from torchmigrate_codemods.spellings import c10d
from torchmigrate_codemods.torch_2_15.backends import Backend, Guard, backend_from, backend_of, guard, surely_nccl
from torchmigrate_codemods.torch_2_15.devices import Device, Devices, Search, quote_of
from torchmigrate_codemods.torch_2_15.launches import obstacle, one_process
from torchmigrate_codemods.torch_2_15.spread import item, mentions

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
        sites = [*module.calls(*c10d("init_process_group")), *_unresolved(module)]
        if not sites:
            return
        values = Values(module)
        devices = Devices(values)
        for site in sorted(sites, key=lambda one: (one.node.lineno, one.node.col_offset)):
            plan = _Site(self, values, devices, site).plan()
            if plan is not None:
                yield plan


def _unresolved(module: Module) -> Iterator[CallSite]:
    """`torch.distributed.init_process_group` where `torch` is no import (`torch, nn = try_import_torch()`)."""
    for call in module.names.calls:
        if key_of(call.func) == "torch.distributed.init_process_group" and not module.resolve(call.func).names:
            yield CallSite(call, False)


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
        if any(mentions(self.values, one, "device_id", self.call) for one in self.binding.doubles):
            return None
        facts = self.values.facts(self.call)
        backend = self._backend(facts)
        if backend is not None and (backend.never or self._decided_already(backend)):
            return None
        if backend is None or self.binding.stars or not self._complete(facts):
            return self._open(backend, facts)
        condition: Guard | None = None
        if backend.surely:
            node = backend.node
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
        if (why := obstacle(self.values, self.call)) is not None:
            return self._nothing_sure(Search(None, why, (search.device,)), condition)
        if not self.site.certain:
            return self._nothing_sure(Search(None, "torch comes from no import here", (search.device,)), condition)
        if condition is None and not backend.surely:
            return self._undecided(backend, search, condition)
        return self._change(backend, search.device, condition)

    def _backend(self, facts: Facts) -> Backend | None:
        """The backend, from the call or from a mapping that it spreads; None where that is not in sight."""
        node = self.binding.get("backend")
        if node is not None or self.binding.surely_absent("backend"):
            return backend_of(self.values, node, facts)
        if self.binding.stars:
            return None
        for mapping in self.binding.doubles:
            leaves = item(self.values, mapping, "backend", facts)
            if leaves is None:
                return None
            if leaves:
                return backend_from(leaves)
        return backend_of(self.values, None, facts)

    def _complete(self, facts: Facts) -> bool:
        """Whether no mapping that the call spreads can hold a device_id of its own."""
        return all(item(self.values, one, "device_id", facts) == [] for one in self.binding.doubles)

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
        for statement in body:
            for node in ast.walk(statement):
                if isinstance(node, ast.Call) and self.module.resolve(node.func).names & set(c10d("init_process_group")):
                    given = bind(node, INIT)
                    spread = any(mentions(self.values, one, "device_id", node) for one in given.doubles)
                    if given.get("device_id") is not None or spread:
                        return True
        return False

    def _open(self, backend: Backend | None, facts: Facts) -> Plan:
        """A call whose arguments are not all in sight."""
        spread = [*(f"*{ast.unparse(one)}" for one in self.binding.stars)]
        spread += [f"**{ast.unparse(one)}" for one in self.binding.doubles]
        search = self.devices.find(self.call, replace(facts, cuda=True), single=self._single(facts))
        device = search.device or next(iter(search.candidates), None)
        named = f" ({device.text}: {device.evidence})" if device is not None else ""
        what = "this is NCCL" if backend is not None and backend.surely else "it may be NCCL"
        return self.rule.report(
            self.call,
            f"{_RULE}; {what}, and whether {' '.join(spread) or 'the call'} brings a device_id cannot be seen:"
            f" add one where it is missing{named}",
        )

    def _single(self, facts: Facts) -> bool:
        """Whether the group has one process."""
        size = self.binding.get("world_size")
        if size is not None:
            return self.values.of(size, facts).options == frozenset({Known(1)})
        return one_process(self.values, self.call, facts)

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


def _about_devices(test: ast.expr) -> bool:
    """Whether a test asks for torch's version, a signature or a device: what decides who can pass a device_id."""
    text = ast.unparse(test).lower()
    return any(word in text for word in ("version", "signature", "device", "hasattr", "torch_", "support", "inspect"))
