"""Point-to-point traffic in one file: what sends unbatched, or builds pipeline stages, and on which group."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePath

from torchmigrate.calls import Signature, bind
from torchmigrate.module import Module
from torchmigrate_codemods.origins import origins
from torchmigrate_codemods.spellings import c10d

SEND, RECEIVE = ("send", "isend"), ("recv", "irecv")
NEW_GROUP = Signature(
    ("ranks", "timeout", "backend", "pg_options", "use_local_synchronization", "group_desc", "device_id", "sort_ranks")
)
_SIGNATURES = {
    **dict.fromkeys(SEND, Signature(("tensor", "dst", "group", "tag", "group_dst"))),
    **dict.fromkeys(RECEIVE, Signature(("tensor", "src", "group", "tag", "group_src"))),
}
_PIPELINING = "torch.distributed.pipelining"
_STAGES = {
    "PipelineStage": Signature(
        (
            *("submodule", "stage_index", "num_stages", "device", "input_args", "output_args", "output_grads"),
            *("input_grads", "group", "dw_builder", "get_mesh"),
        )
    ),
    "build_stage": Signature(("stage_module", "stage_index", "pipe_info", "device", "group")),
}
_PIPE_METHOD = Signature(("stage_index", "device", "group"))
_WORLD = frozenset([*c10d("group.WORLD", "GroupMember.WORLD"), "torch.distributed.distributed_c10d._get_default_group"])
_NEW = frozenset(c10d("new_group"))
COLLECTIVES = frozenset(
    c10d(
        *("all_reduce", "all_gather", "all_gather_into_tensor", "all_gather_single", "_all_gather_base", "broadcast"),
        *("reduce", "reduce_scatter", "reduce_scatter_tensor", "reduce_scatter_single", "_reduce_scatter_base"),
        *("gather", "scatter", "all_to_all", "all_to_all_single", "all_gather_object", "broadcast_object_list"),
    )
)
DDP = frozenset({"torch.nn.parallel.DistributedDataParallel", "torch.nn.parallel.distributed.DistributedDataParallel"})


@dataclass(frozen=True, eq=False, slots=True)
class Traffic:
    """One unbatched call or pipeline stage.

    `where` is the kind of its group: "default", "new" (made by the `new_group` calls in `made`), "mesh" or "unknown".
    """

    node: ast.Call
    name: str
    where: str
    peer: ast.expr | None = None
    made: tuple[ast.Call, ...] = ()
    certain: bool = True

    @property
    def is_stage(self) -> bool:
        """A pipeline stage, which sends by itself."""
        return self.name not in _SIGNATURES


def traffic(module: Module) -> list[Traffic]:
    """What has several peers or runs beside collectives of its group, in source order.

    Two ranks that only talk to each other are left out.
    """
    found = [*_unbatched(module), *_stages(module)]
    found.sort(key=lambda one: (one.node.lineno, one.node.col_offset))
    groups: dict[tuple[str, tuple[ast.Call, ...]], list[Traffic]] = {}
    for one in found:
        groups.setdefault((one.where, one.made), []).append(one)
    quiet = {key for key, own in groups.items() if _two_ranks(own)}
    if quiet:
        quiet -= _with_collectives(module, groups)
    return [one for one in found if (one.where, one.made) not in quiet]


def _two_ranks(found: list[Traffic]) -> bool:
    peers = {_constant(one.peer) for one in found}
    return None not in peers and len(peers) <= 2 and not any(one.is_stage for one in found)


def _with_collectives(
    module: Module, wanted: dict[tuple[str, tuple[ast.Call, ...]], list[Traffic]]
) -> set[tuple[str, tuple[ast.Call, ...]]]:
    """The groups, of those that are wanted, on which the file also calls collectives."""
    found: set[tuple[str, tuple[ast.Call, ...]]] = set()
    for call in module.names.calls:
        names = module.resolve(call.func).names
        if names & (COLLECTIVES | DDP):
            keyword = "process_group" if names & DDP else "group"
            given = next((k.value for k in call.keywords if k.arg == keyword), None)
            by_position = [group_of(module, one) for one in call.args]
            groups = [group_of(module, given)] if given is not None else [g for g in by_position if g in wanted]
            found |= set(groups or [("default", ())])
    return found


def _constant(node: ast.expr | None) -> object:
    return node.value if isinstance(node, ast.Constant) else None


def _unbatched(module: Module) -> Iterator[Traffic]:
    targets = {name: one for one in _SIGNATURES for name in c10d(one)}
    for site in module.calls(*targets):
        (names, certain) = (module.resolve(site.node.func).names, site.certain)
        name = next(targets[one] for one in sorted(names) if one in targets)
        yield _sent(module, site.node, name, certain)
    for call in module.names.calls:
        if (own := _reexported(module, call) or _method(module, call)) is not None:
            yield _sent(module, call, own, False)


def _reexported(module: Module, call: ast.Call) -> str | None:
    """The function that a call reaches through a module of the file's own package that is called `distributed`."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in _SIGNATURES:
        return None
    for name in module.resolve(call.func).names:
        parts = name.split(".")
        if parts[0] != "torch" and parts[-2] == "distributed" and parts[0] in PurePath(module.path).parts:
            return call.func.attr
    return None


def _method(module: Module, call: ast.Call) -> str | None:
    """The function behind a method of an object that sends its tensors one by one, as a tensordict does."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in ("isend", "irecv"):
        return None
    side = "dst" if call.func.attr == "isend" else "src"
    known = any(keyword.arg == side for keyword in call.keywords) or "tensordict" in module.text
    return call.func.attr if known and not module.resolve(call.func).names else None


def _sent(module: Module, call: ast.Call, name: str, certain: bool) -> Traffic:
    binding = bind(call, _SIGNATURES[name])
    side = "dst" if name in SEND else "src"
    peer = binding.get(side) or binding.get(f"group_{side}")
    where, made = group_of(module, binding.get("group"))
    if binding.doubles or binding.stars:
        where, made = "unknown", ()
    return Traffic(call, name, where, peer, made, certain)


def _stages(module: Module) -> Iterator[Traffic]:
    if "pipelining" not in module.text and "build_stage" not in module.text:
        return
    for call in module.names.calls:
        names = module.resolve(call.func).names
        last = next((n.rpartition(".")[2] for n in sorted(names) if n.startswith(_PIPELINING)), None)
        signature = _STAGES.get(last or "")
        if signature is None and isinstance(call.func, ast.Attribute) and call.func.attr == "build_stage" and not names:
            made = origins(module, call.func.value) or []
            pipes = [one for one in made if isinstance(one, ast.Call)]
            if any(f"{_PIPELINING}.pipeline" in module.resolve(pipe.func).names for pipe in pipes):
                signature = _PIPE_METHOD
        if signature is not None:
            binding = bind(call, signature)
            where, new = group_of(module, binding.get("group"))
            if binding.doubles or binding.stars:
                where, new = "unknown", ()
            yield Traffic(call, last or "build_stage", where, None, new)


def group_of(module: Module, node: ast.expr | None) -> tuple[str, tuple[ast.Call, ...]]:
    """The kind of group that a `group=` argument is, and the `new_group` calls that it goes back to."""
    if node is None or _is_none(node):
        return "default", ()
    if module.resolve(node).names & _WORLD:
        return "default", ()
    found = origins(module, node)
    if not found:
        return "unknown", ()
    real = [one for one in found if not _is_none(one)] or found
    kinds = {_kind(module, one) for one in real}
    if kinds == {"new"}:
        return "new", tuple(one for one in real if isinstance(one, ast.Call))
    if len(kinds) == 1 and len(real) == len(found):
        return kinds.pop(), ()
    return ("mesh" if kinds == {"mesh"} else "unknown"), ()


def _kind(module: Module, node: ast.expr) -> str:
    if _is_none(node) or module.resolve(node).names & _WORLD:
        return "default"
    if isinstance(node, ast.Call):
        names = module.resolve(node.func).names
        if names & _NEW:
            return "new"
        if names & _WORLD:
            return "default"
        if isinstance(node.func, ast.Attribute) and node.func.attr in ("get_group", "get_all_groups"):
            return "mesh"
    return "unknown"


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None
