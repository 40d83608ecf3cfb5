"""TM101: the GPU of a process group is what init_process_group is told, not what set_device chose."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import ClassVar

from torchmigrate.calls import bind
from torchmigrate.codemod import Codemod, Plan
from torchmigrate.module import CallSite, Module
from torchmigrate.reaching import key_of
from torchmigrate_codemods.spellings import RELEASE_NOTES, c10d
from torchmigrate_codemods.torch_2_15.init_device.backends import backend_of
from torchmigrate_codemods.torch_2_15.init_device.search import GpuSearch
from torchmigrate_codemods.torch_2_15.init_device.site import INIT, RULE, InitSite
from torchmigrate_codemods.torch_2_15.init_device.subgroups import MESH, meshes, subgroups
from torchmigrate_codemods.torch_2_15.init_device.wrappers import (
    CALLS,
    NAMES,
    WRAPPER,
    calls_of_wrappers,
    facts,
    with_callers,
)

_PARTIAL = frozenset({"functools.partial"})
_OWNERS = frozenset({"dist", "distributed", "c10d", "torch_dist"})


class InitDeviceId(Codemod):
    """Pass device_id to init_process_group.

    Up to torch 2.14 an NCCL group took the GPU of the first tensor that it saw. From 2.15 on a group is bound to one
    GPU when it is made: to `device_id`, else to `LOCAL_RANK % device_count`, else to the global rank modulo the
    device count. `torch.cuda.set_device` is not looked at. Where a process uses another GPU than that, the first
    collective raises `RuntimeError: Expected tensor on cuda:0 but found tensor on cuda:1`, or hangs.

    The rule writes `device_id=torch.device("cuda", index)` with the index that the same function gives to
    `torch.cuda.set_device`, to `torch.device`, or to what it puts on a GPU, before or after the call, or a variable
    that holds such a device. Names must have the same value at the call; where they have not, they are replaced by
    what they stand for. Failing that it looks at the functions that call this one and at the class around it (unsafe).
    It never infers a GPU from a rank: a launcher may show each process one GPU only. Nor from a device that something
    else replaces before anything works on it; one that is only printed, compared or loaded to is unsafe.

    A backend that is decided at run time gives a conditional device: `... if backend == "nccl" else None`. Without a
    backend the device depends on `torch.cuda.is_available()`. Groups that are surely not NCCL, and calls that pass a
    device_id in any form, are left alone. Whatever is not sure is reported with what is known.

    Where a function such as `setup_distributed(rank, backend)` starts the group and does not know the GPU, its calls in
    other files of the project are reported as well, unless they ask for another backend.

    `new_group(backend="nccl")` beside a default group of gloo gets the device_id itself (torch 2.7); `new_subgroups`
    and `new_subgroups_by_enumeration` take none and are reported, unless the GPU is LOCAL_RANK's.

    `set_device` stays: object collectives still use the current device. On torch 2.14 and older device_id makes the
    communicator at once, sends unbatched point-to-point messages one after another, and lets gloo subgroups hang: a
    project that still supports those gets the change as unsafe. TM102 looks for groups without device_id: run it in
    the same run or before, not after this rule.
    """

    code, name, area = "TM101", "init-device-id", "distributed"
    reference = RELEASE_NOTES
    example = """
    import torch
    import torch.distributed as dist

    def setup(local_rank):
        torch.cuda.set_device(local_rank)
        dist.init_process_group("nccl")
    """
    triggers = (b"init_process_group", b"init_device_mesh", *NAMES)
    requires: ClassVar = CALLS
    awaits: ClassVar = dict.fromkeys(NAMES, WRAPPER)
    gathers = True

    def facts(self, module: Module) -> Iterator[tuple[str, object]]:
        """The functions that start groups for other modules, and who calls such functions."""
        return facts(module, self._sites(module, GpuSearch(module.values)))

    def check(self, module: Module) -> Iterator[Plan]:
        """One plan for each call that may start an NCCL group."""
        search = GpuSearch(module.values)
        yield from calls_of_wrappers(self, module, search)
        sites = self._sites(module, search)
        partials = list(_partials(module))
        if not sites and not partials and not any(module.references(*MESH)):
            return
        for site in sites:
            plan = site.plan()
            if plan is not None:
                yield with_callers(plan, site)
        yield from subgroups(self, search, sites)
        for call in partials:
            yield from self._partial(search, call)
        yield from meshes(self, search)

    def _sites(self, module: Module, search: GpuSearch) -> list[InitSite]:
        found = [*module.calls(*c10d("init_process_group")), *_unresolved(module)]
        found.sort(key=lambda one: (one.node.lineno, one.node.col_offset))
        return [InitSite(self, search, site) for site in found]

    def _partial(self, search: GpuSearch, call: ast.Call) -> Iterator[Plan]:
        """`partial(init_process_group, ...)`: the call itself is made elsewhere."""
        binding = bind(ast.Call(call.args[0], call.args[1:], call.keywords), INIT)
        backend = backend_of(search.values, binding.get("backend"), search.values.facts(call))
        if binding.get("device_id") is None and not backend.never:
            message = f"{RULE}: pass the GPU of the process as device_id where this is called, if it is NCCL"
            yield self.report(call, message)


def _unresolved(module: Module) -> Iterator[CallSite]:
    """Calls that can be torch's although no import says so: `torch, nn = try_import_torch()`, `self.dist = ...`.

    Of those that do not spell `torch.distributed` only the ones with an NCCL backend count.
    """
    for call in module.names.calls:
        function = call.func
        if not isinstance(function, ast.Attribute) or function.attr != "init_process_group":
            continue
        owner = key_of(function.value) or ""
        if module.resolve(function).names or owner.rpartition(".")[2] not in _OWNERS:
            continue
        backend = backend_of(module.values, bind(call, INIT).get("backend"), module.values.facts(call))
        if owner == "torch.distributed" or backend.nccl:
            yield CallSite(call, False)


def _partials(module: Module) -> Iterator[ast.Call]:
    for reference, _ in module.references(*c10d("init_process_group")):
        parent = module.parents.get(reference)
        if not isinstance(parent, ast.Call) or not parent.args or parent.args[0] is not reference:
            continue
        if module.resolve(parent.func).names & _PARTIAL:
            yield parent
