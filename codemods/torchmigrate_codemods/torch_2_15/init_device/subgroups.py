"""NCCL groups that are made otherwise: by new_group beside a default group of gloo, and by init_device_mesh."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchmigrate.calls import Signature, bind
from torchmigrate.codemod import Plan
from torchmigrate.edits import SetArgument
from torchmigrate.model import Safety
from torchmigrate.possible import Known
from torchmigrate.reaching import key_of
from torchmigrate.values import Facts
from torchmigrate_codemods.point_to_point import NEW_GROUP
from torchmigrate_codemods.spellings import c10d
from torchmigrate_codemods.torch_2_15.init_device.backends import backend_of, guard, surely_nccl
from torchmigrate_codemods.torch_2_15.init_device.devices import quote_of
from torchmigrate_codemods.torch_2_15.init_device.launches import obstacle
from torchmigrate_codemods.torch_2_15.init_device.search import GpuSearch
from torchmigrate_codemods.torch_2_15.init_device.site import InitSite

if TYPE_CHECKING:
    from torchmigrate.codemod import Codemod

MESH = ("torch.distributed.init_device_mesh", "torch.distributed.device_mesh.init_device_mesh")
_MESH = Signature(("device_type", "mesh_shape"), ("mesh_dim_names", "backend_override"))
_MANY = {
    "new_subgroups": Signature(("group_size", "group", "timeout", "backend", "pg_options", "group_desc")),
    "new_subgroups_by_enumeration": Signature(
        ("ranks_per_subgroup_list", "timeout", "backend", "pg_options", "group_desc")
    ),
}
"""Functions that make several groups by `new_group`, to which they can hand no device_id."""
_RULE = "NCCL binds the group to device_id, else to LOCAL_RANK or the rank"


def subgroups(rule: Codemod, search: GpuSearch, sites: list[InitSite]) -> Iterator[Plan]:
    """The `new_group` calls that make NCCL groups, where every default group of the file is of another backend."""
    backends = [site.backend() for site in sites]
    if not backends or not all(one is not None and one.never for one in backends):
        return
    if any(site.has_device() for site in sites):
        return
    module, values = search.module, search.values
    for made in module.calls(*c10d("new_group")):
        call = made.node
        binding = bind(call, NEW_GROUP)
        given = binding.get("backend")
        if given is None or not binding.surely_absent("device_id"):
            continue
        facts = values.facts(call)
        backend = backend_of(values, given, facts)
        if not backend.nccl:
            continue
        condition = None if backend.surely else guard(values, backend, call, facts, quote_of(module, call))
        cases = condition.cases if condition is not None else tuple(values.cases(given, surely_nccl, facts))
        found = search.find(call, cases, single=False)
        why = obstacle(values, call)
        if found.device is None or why is not None or not made.certain or (condition is None and not backend.surely):
            reason = why or found.reason or "no code here shows which GPU this process uses"
            yield rule.report(call, f"pass the GPU of this process as device_id, since {_RULE}: {reason}")
            continue
        value = found.device.text if condition is None else f"{found.device.text} if {condition.text} else None"
        imports = (*found.device.imports, *(condition.imports if condition is not None else ()))
        doubt = f" (look twice: {found.device.doubt})" if found.device.doubt else ""
        yield rule.change(
            call,
            SetArgument(call, "device_id", value),
            message=f"the GPU is that of {found.device.evidence}, for an NCCL group beside a default group of another"
            f" backend; {_RULE}{doubt}",
            safety=Safety.SAFE if found.device.sure and not backend.unknown else Safety.UNSAFE,
            imports=imports,
            needs_torch="2.7",
        )
    for name in _MANY:
        yield from _many(rule, search, name)


def _many(rule: Codemod, search: GpuSearch, name: str) -> Iterator[Plan]:
    """The calls that make several NCCL groups at once, unless LOCAL_RANK is the GPU that they need."""
    module, values = search.module, search.values
    for made in module.calls(*c10d(name)):
        call = made.node
        given = bind(call, _MANY[name]).get("backend")
        facts = values.facts(call)
        if given is None or not backend_of(values, given, facts).nccl:
            continue
        found = search.find(call, tuple(values.cases(given, surely_nccl, facts)), single=False)
        why = obstacle(values, call)
        device = found.device
        if device is not None and why is None and device.source is not None and _is_local_rank(search, device.source):
            continue
        if why is not None or device is None:
            reason = why or found.reason or "no code here shows which GPU this process uses"
        else:
            reason = f"the GPU is that of {device.evidence}"
        yield rule.report(
            call,
            f"{name} takes no device_id, and {_RULE}: make these groups by new_group on every rank, with"
            f" {device.text if device is not None else 'the GPU of this process'} as device_id (torch 2.7); {reason}",
        )


def meshes(rule: Codemod, search: GpuSearch) -> Iterator[Plan]:
    """CUDA meshes that make the default group themselves, in processes that use another GPU than LOCAL_RANK's."""
    module, values = search.module, search.values
    if any(_starts_group(key_of(call.func) or "") for call in module.names.calls):
        return
    for made in module.calls(*MESH):
        call = made.node
        kind = bind(call, _MESH).get("device_type")
        facts = values.facts(call)
        if kind is None or values.of(kind, facts).options != frozenset({Known("cuda")}):
            continue
        found = search.find(call, (facts,), single=True)
        device = found.device or next(iter(found.candidates), None)
        if device is None or device.source is None or _is_local_rank(search, device.source):
            continue
        yield rule.report(
            call,
            f"{device.evidence} chooses another GPU than LOCAL_RANK, but the group that this mesh makes is bound to"
            f" LOCAL_RANK or the rank: call init_process_group with device_id={device.text} before it",
        )


def _starts_group(name: str) -> bool:
    last = name.rpartition(".")[2].lower()
    return "init_process_group" in last or ("init" in last and "dist" in last) or last in ("accelerator", "fabric")


def _is_local_rank(search: GpuSearch, node: ast.expr) -> bool:
    """Whether an index is, or may well be, the one that torch takes by itself."""
    if "local_rank" in ast.unparse(node).lower() or "LOCAL_RANK" in ast.unparse(node):
        return True
    for leaf in search.values.leaves(node, Facts(cuda=True)):
        if leaf.node is not None and "LOCAL_RANK" in ast.unparse(leaf.node):
            return True
        if any("LOCAL_RANK" in getattr(option, "origin", "") for option in leaf.options):
            return True
    return False
