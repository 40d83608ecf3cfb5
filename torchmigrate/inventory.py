"""What the readiness report counts besides findings: calls that make groups, and frameworks that make them themselves.

These are codemods that only report; `torchmigrate audit` loads them beside the rules, so that they share the run.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchmigrate.codemod import Codemod, Plan
from torchmigrate.module import Module

WITH_DEVICE, WITHOUT_DEVICE = "with device_id", "without device_id"
FRAMEWORKS = {
    "accelerate": "accelerate",
    "colossalai": "colossalai",
    "composer": "mosaicml",
    "deepspeed": "deepspeed",
    "fabric": "lightning-fabric",
    "horovod": "horovod",
    "ignite": "pytorch-ignite",
    "lightning": "lightning",
    "lightning_fabric": "lightning-fabric",
    "megatron": "megatron-core",
    "mmengine": "mmengine",
    "nemo": "nemo-toolkit",
    "pytorch_lightning": "pytorch-lightning",
    "ray": "ray",
    "torchtune": "torchtune",
    "transformers": "transformers",
    "trl": "trl",
    "vllm": "vllm",
}
"""Packages that call init_process_group themselves: the name that code imports, and the one that indexes know."""
_HOMES = ("torch.distributed", "torch.distributed.distributed_c10d")
_GROUPS = ("new_group", "new_subgroups", "new_subgroups_by_enumeration", "split_group")
_MESHES = ("torch.distributed.device_mesh.init_device_mesh", "torch.distributed.init_device_mesh")
_DEVICE_POSITION = 8


class InitCalls(Codemod):
    """Calls of init_process_group, with and without device_id."""

    code, name = "TI1", "init-calls"
    triggers = (b"init_process_group",)

    def check(self, module: Module) -> Iterator[Plan]:
        """One report a call; the message says which kind it is."""
        for site in module.calls(*(f"{home}.init_process_group" for home in _HOMES)):
            yield self.report(site.node, WITH_DEVICE if _has_device(site.node) else WITHOUT_DEVICE)


class Groups(Codemod):
    """Calls that make further groups."""

    code, name = "TI2", "groups"
    triggers = (b"new_group", b"new_subgroups", b"split_group", b"init_device_mesh")

    def check(self, module: Module) -> Iterator[Plan]:
        """One report a call."""
        for site in module.calls(*(f"{home}.{name}" for home in _HOMES for name in _GROUPS), *_MESHES):
            yield self.report(site.node, "makes a group")


class Frameworks(Codemod):
    """Imports of frameworks that call init_process_group themselves."""

    code, name = "TI3", "frameworks"
    triggers = tuple(f"{word} {name}".encode() for word in ("import", "from") for name in FRAMEWORKS)

    def check(self, module: Module) -> Iterator[Plan]:
        """One report a framework; the message is the name of its package."""
        seen: set[str] = set()
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
                names = [node.module]
            else:
                continue
            for package in (FRAMEWORKS.get(name.partition(".")[0]) for name in names):
                if package is not None and package not in seen:
                    seen.add(package)
                    yield self.report(node, package)


CODEMODS: tuple[type[Codemod], ...] = (InitCalls, Groups, Frameworks)


def _has_device(call: ast.Call) -> bool:
    given = [k.value for k in call.keywords if k.arg == "device_id"]
    given += call.args[_DEVICE_POSITION : _DEVICE_POSITION + 1]
    return any(not (isinstance(value, ast.Constant) and value.value is None) for value in given)
