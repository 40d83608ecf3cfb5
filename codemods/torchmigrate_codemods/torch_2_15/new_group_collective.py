"""TM108: making a subgroup of an NCCL group is now a collective step."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from torchmigrate.calls import Binding, bind
from torchmigrate.codemod import Codemod, Plan
from torchmigrate.module import CallSite, Module
from torchmigrate.reaching import Condition
from torchmigrate.values import Values
from torchmigrate_codemods.point_to_point import NEW_GROUP
from torchmigrate_codemods.spellings import RELEASE_NOTES, c10d
from torchmigrate_codemods.torch_2_15.init_device.backends import backend_of
from torchmigrate_codemods.torch_2_15.init_device.site import INIT

_RANK = re.compile(r"(?:^|[._\W])(?:get_)?(?:global_|world_|my_|node_|local_|dist_)?rank(?:\(|$|[\W])")
_EVERYWHERE = re.compile(r"-1\b|\bNone\b|is_initialized|>= 0|> -1")


class NewGroupCollective(Codemod):
    """Make every NCCL subgroup on every rank.

    Under an NCCL default group, `new_group` now splits the parent's communicator, which waits for all of its ranks;
    on torch 2.14 that was so only where `device_id` was given. A `new_group` that only some ranks call hangs in
    ncclCommSplit while the others run on. `use_local_synchronization=True`, which lets the other ranks skip the call,
    hangs for the same reason.

    Let all ranks make the call, in the same order. Where that is not possible, give the group a backend of its own
    (`backend="gloo"`), or options that are not split:
    `options = dist.ProcessGroupNCCL.Options(); options.lazy_init = True` (torch 2.15) as `pg_options`. The rule reports
    both shapes; groups whose backend is not NCCL, and those with `lazy_init`, are left alone.
    """

    code, name, area = "TM108", "new-group-collective", "distributed"
    reference = RELEASE_NOTES
    example = """
    import torch.distributed as dist

    dist.init_process_group("nccl")
    if dist.get_rank() < 2:
        pair = dist.new_group([0, 1], use_local_synchronization=True)
        dist.all_reduce(x, group=pair)
    """
    triggers = (b"new_group",)

    def check(self, module: Module) -> Iterator[Plan]:
        """One report for each `new_group` that may not be made by all ranks."""
        sites = list(module.calls(*c10d("new_group")))
        if not sites:
            return
        values = module.values
        if self._default_is_other(values):
            return
        for site in sites:
            message = self._problem(values, site)
            if message is not None:
                yield self.report(site.node, message)

    def _default_is_other(self, values: Values) -> bool:
        """Whether every default group that this file starts is surely no NCCL group."""
        found = []
        for site in values.module.calls(*c10d("init_process_group")):
            binding = bind(site.node, INIT)
            if binding.doubles or binding.stars:
                return False
            found.append(backend_of(values, binding.get("backend"), values.facts(site.node)))
        return bool(found) and all(one.never for one in found)

    def _problem(self, values: Values, site: CallSite) -> str | None:
        call = site.node
        binding = bind(call, NEW_GROUP)
        if self._own_communicator(values, call, binding):
            return None
        local = binding.get("use_local_synchronization")
        if local is not None and True in values.of(local, values.facts(call)).constants:
            return (
                "members of this group wait for all ranks of the default NCCL group (its communicator is split), but"
                " use_local_synchronization lets the others go on: let all ranks call it, or give it"
                " pg_options with lazy_init=True (torch 2.15)"
            )
        condition = self._by_rank(values.module, call)
        if condition is not None:
            test = ast.unparse(condition.test)
            return (
                f"only ranks {'with' if condition.truth else 'without'} `{test}` make this group, but it now waits for"
                " all ranks of the default NCCL group (its communicator is split): call it on every rank"
            )
        return None

    def _own_communicator(self, values: Values, call: ast.Call, binding: Binding) -> bool:
        """Whether a group is made without a split: another backend, or options with lazy_init."""
        given = binding.get("backend")
        if given is not None:
            backend = backend_of(values, given, values.facts(call))
            fresh = bool(backend.nccl) and all(name.startswith("nccl-") for name in backend.nccl)
            if backend.never or fresh:
                return True
        options = binding.get("pg_options")
        return options is not None and re.search(r"lazy_init\s*=\s*True", values.module.text) is not None

    def _by_rank(self, module: Module, call: ast.Call) -> Condition | None:
        """The condition on the rank under which a call is made, if there is one."""
        for condition in module.flow(call).conditions(call):
            text = ast.unparse(condition.test)
            if not condition.fatal and _RANK.search(text) and not _EVERYWHERE.search(text):
                return condition
        return None
