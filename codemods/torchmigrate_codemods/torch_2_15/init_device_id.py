"""TM101: the GPU of a process group is what init_process_group is told, not what set_device chose."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchmigrate.calls import Signature, bind
from torchmigrate.codemod import Codemod, Plan
from torchmigrate.edits import SetArgument
from torchmigrate.module import CallSite, Module
from torchmigrate_codemods.spellings import c10d

INIT = Signature(
    ("backend", "init_method", "timeout", "world_size", "rank", "store", "group_name", "pg_options", "device_id"),
    ("_ranks", "enable_reconfigure"),
)
_SET_DEVICE = ("torch.cuda.set_device", "torch.accelerator.set_device_index", "torch.accelerator.set_device_idx")


class InitDeviceId(Codemod):
    """Pass device_id to init_process_group."""

    code, name, area = "TM101", "init-device-id", "distributed"
    triggers = (b"init_process_group",)

    def check(self, module: Module) -> Iterator[Plan]:
        """One plan for each call that may start an NCCL group."""
        for site in module.calls(*c10d("init_process_group")):
            plan = self._plan(module, site)
            if plan is not None:
                yield plan

    def _plan(self, module: Module, site: CallSite) -> Plan | None:
        call = site.node
        binding = bind(call, INIT)
        if binding.get("device_id") is not None:
            return None
        backend = binding.get("backend")
        if not isinstance(backend, ast.Constant) or binding.doubles or binding.stars or not site.certain:
            return self.report(call, "which backend this is cannot be seen here")
        if "nccl" not in str(backend.value).lower():
            return None
        flow = module.flow(call)
        for one in module.calls(*_SET_DEVICE):
            function = module.function(call)
            if module.function(one.node) is function and len(one.node.args) == 1:
                index = one.node.args[0]
                earlier = one.node.lineno < call.lineno
                if isinstance(index, ast.Name) and earlier and flow.same(index.id, one.node, call):
                    torch_device = module.spell("torch.device", call)
                    if torch_device is not None:
                        return self.change(
                            call,
                            SetArgument(call, "device_id", f'{torch_device.text}("cuda", {index.id})'),
                            message=f"set_device({index.id}) on line {module.line(one.node)} chooses the GPU",
                            imports=torch_device.imports,
                            needs_torch="2.3",
                        )
        return self.report(call, "the GPU that this process uses cannot be seen here; pass it as device_id")
