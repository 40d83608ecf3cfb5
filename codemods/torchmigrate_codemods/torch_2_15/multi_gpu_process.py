"""TM106: one process cannot drive several GPUs through one NCCL group any more."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import ClassVar

from torchmigrate.codemod import Codemod, Plan
from torchmigrate.module import Module
from torchmigrate.reaching import key_of
from torchmigrate_codemods.nccl_inits import backend, inits
from torchmigrate_codemods.origins import visible
from torchmigrate_codemods.point_to_point import COLLECTIVES, DDP
from torchmigrate_codemods.spellings import leads_to, pull

_INDEXED = re.compile(r"cuda:(\d+)")
_LOOP = re.compile(r"device_count\(\)|\b\w*(?:gpu|device)\w*\b", re.IGNORECASE)
_BOUND = (
    "a group is bound to one GPU with the nccl of torch 2.15, and a tensor on another one raises "
    '"Expected tensor on cuda:X but found tensor on cuda:Y"; run one process for each GPU (backend nccl-legacy still '
    "takes several, until torch 2.16)"
)


class MultiGpuProcess(Codemod):
    """Find processes that use several GPUs through one process group.

    The NCCL backend up to torch 2.14 took tensors of any GPU: one process could call collectives on `cuda:0` and on
    `cuda:1`, or wrap a model that is spread over two GPUs in `DistributedDataParallel`. In torch 2.15 a group belongs
    to one GPU, with `device_id` or without; a tensor on another one raises RuntimeError.

    A report, since no rewrite within one group is possible: start one process for each GPU, or spread the model with
    FSDP or pipeline stages. `backend="nccl-legacy"` keeps the old behaviour in this release only.

    Found are loops over the GPUs with a collective inside, collectives on two literal devices in one function, and
    `DistributedDataParallel(model)` without `device_ids` where the model's class puts its parts on two devices.
    """

    code, name, area = "TM106", "multi-gpu-process", "distributed"
    triggers = (
        *(
            b"range(torch.cuda.device_count())",
            b"range(device_count())",
            b"cuda.device_count()):",
            b"cuda:1",
            b".cuda(1)",
        ),
        *(b"DistributedDataParallel(", b"DDP("),
    )
    requires: ClassVar = {
        b"": (leads_to("distributed|nn"), rb"reduce|gather|broadcast|scatter|all_to_all|DDP|DistributedD"),
        # a model whose layers are sent to devices, a loop over them, or two of them by number
        **dict.fromkeys(
            (b"DistributedDataParallel(", b"DDP("),
            (rb"\)\s*\.(?:to|cuda)\(|\bfor\s+\w+\s+in\b[^:]*(?:[Gg][Pp][Uu]|[Dd]evice)|cuda:[1-9]|\.cuda\([1-9]",),
        ),
    }
    reference = pull(192281)
    example = """
    import torch
    import torch.distributed as dist

    dist.init_process_group("nccl")
    for index in range(torch.cuda.device_count()):
        dist.all_reduce(torch.ones(8, device=f"cuda:{index}"))
    """

    def check(self, module: Module) -> Iterator[Plan]:
        """Report loops, pairs of devices and models on several devices."""
        if not _may_be_nccl(module):
            return
        calls = [call for call in module.names.calls if module.resolve(call.func).names & COLLECTIVES]
        yield from self._loops(module, calls)
        yield from self._pairs(module, calls)
        for call in module.names.calls:
            if module.resolve(call.func).names & DDP and _spreads(module, call):
                yield self.report(call, f"this model is on several GPUs: {_BOUND}")

    def _loops(self, module: Module, calls: list[ast.Call]) -> Iterator[Plan]:
        for call in calls:
            for at in module.ancestors(call):
                if isinstance(at, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
                    break
                if isinstance(at, ast.For) and isinstance(at.target, ast.Name) and _walks_gpus(module, at, call):
                    yield self.report(call, f"this runs on each GPU in turn: {_BOUND}")
                    break

    def _pairs(self, module: Module, calls: list[ast.Call]) -> Iterator[Plan]:
        seen: dict[ast.AST | None, dict[str, ast.Call]] = {}
        for call in calls:
            if any(k.arg == "group" and not _is_none(k.value) for k in call.keywords):
                continue
            for index in _devices(module, call):
                known = seen.setdefault(module.function(call), {})
                if known and index not in known:
                    other, first = next(iter(known.items()))
                    line = module.line(first)
                    yield self.report(call, f"this is on cuda:{index} and line {line} on cuda:{other}: {_BOUND}")
                known.setdefault(index, call)


def _may_be_nccl(module: Module) -> bool:
    """Whether the file shows no group that is surely of another backend, or of the old class."""
    kinds = {backend(module, call, binding.get("backend"))[0] for call, binding in inits(module)}
    return kinds != {"other"}


def _walks_gpus(module: Module, loop: ast.For, call: ast.Call) -> bool:
    """Whether a loop goes over GPUs and its variable chooses the device of a call inside."""
    if not isinstance(loop.target, ast.Name) or not _LOOP.search(module.source(loop.iter)):
        return False
    name = loop.target.id
    for node in ast.walk(loop):
        match node:
            case ast.Call(func=ast.Attribute(attr="cuda" | "to" | "device" | "set_device"), args=[first, *_]):
                used: ast.expr = first
            case ast.keyword(arg="device", value=value):
                used = value
            case _:
                continue
        if any(isinstance(at, ast.Name) and at.id == name for at in ast.walk(used)):
            return not _only_one_turn(loop, call)
    return False


def _only_one_turn(loop: ast.For, call: ast.Call) -> bool:
    """Whether the collective runs in one turn of the loop only: below a test, or before a break."""
    conditional = [at for at in ast.walk(loop) if isinstance(at, ast.If) and any(n is call for n in ast.walk(at))]
    return bool(conditional) or any(isinstance(at, (ast.Break, ast.Return)) for at in ast.walk(loop))


def _devices(module: Module, call: ast.Call) -> Iterator[str]:
    """The literal CUDA indices on which the tensors of a collective were made."""
    for given in (*call.args[:2], *(k.value for k in call.keywords if k.arg in ("tensor", "input", "output"))):
        found = {index for one in visible(module, given) for index in _literal(one)}
        if len(found) == 1:
            yield found.pop()


def _literal(node: ast.expr) -> Iterator[str]:
    for at in ast.walk(node):
        match at:
            case ast.Call(func=ast.Attribute(attr="cuda"), args=[ast.Constant(value=int() as index)]):
                yield str(index)
            case ast.Constant(value=str() as text) if (found := _INDEXED.fullmatch(text)) is not None:
                yield found[1]


def _spreads(module: Module, call: ast.Call) -> bool:
    """Whether DDP wraps, without device_ids, a model whose class puts its parts on two devices."""
    if len(call.args) > 1 or any(
        k.arg in ("device_ids", "output_device") and not _is_none(k.value) for k in call.keywords
    ):
        return False
    if not call.args:
        return False
    for one in visible(module, call.args[0]):
        if isinstance(one, ast.Call) and isinstance(one.func, ast.Name):
            for node in module.parents:
                if isinstance(node, ast.ClassDef) and node.name == one.func.id and len(_placed(node)) > 1:
                    return True
    return False


def _placed(owner: ast.ClassDef) -> set[str]:
    """The devices to which a class sends the layers that it makes in its constructor, as they are written."""
    found: set[str] = set()
    for method in owner.body:
        if not isinstance(method, ast.FunctionDef) or method.name != "__init__":
            continue
        for node in ast.walk(method):
            match node:
                case ast.Call(func=ast.Attribute(attr="to" | "cuda", value=ast.Call()), args=[device, *_]):
                    text = ast.unparse(device)
                    plain = isinstance(device, ast.Constant) or key_of(device) is not None
                    if plain and "cpu" not in text and "dtype" not in text and not text.startswith("torch."):
                        found.add(text.removeprefix("self."))
    return found


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None
