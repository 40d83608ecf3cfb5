"""TM102: unbatched point-to-point traffic wants backend "nccl-lazy"."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import ClassVar

from torchmigrate.calls import Binding
from torchmigrate.codemod import Codemod, Plan
from torchmigrate.edits import Edit, Replace, SetArgument
from torchmigrate.model import Safety
from torchmigrate.module import Module
from torchmigrate_codemods.nccl_groups import TRAFFIC, UNSERVED, Facts, Subgroup, gathered, subgroup
from torchmigrate_codemods.nccl_inits import LAZY, backend, bound, inits, lazy_code, names_lazy
from torchmigrate_codemods.point_to_point import Traffic, traffic
from torchmigrate_codemods.spellings import NOT_BATCHED, OTHER_ALIAS, imports_from_distributed, pull

_SENT = (b".send(", b".recv(")
_HANGS = (
    "with the nccl of torch 2.15 all traffic of a group shares one communicator, so a send waits for those to other "
    "peers and for collectives, and may hang"
)
_SLOWS = (
    "with the nccl of torch 2.15 all traffic of a group shares one communicator, so pipeline stages no longer overlap"
)
_OWN = 'give this traffic a new_group(backend="nccl-lazy") of its own, or use batch_isend_irecv'


class NcclLazy(Codemod):
    """Use backend nccl-lazy for unbatched point-to-point and pipeline traffic.

    Up to torch 2.14, NCCL groups without `device_id` gave each pair of ranks a communicator and a stream of its own for
    `send`, `recv`, `isend` and `irecv` outside `batch_isend_irecv`. In torch 2.15 `backend="nccl"` runs everything of a
    group on one communicator: a send waits for an earlier one to a slower peer, a ring of large messages or a transfer
    beside an asynchronous collective can hang, and pipeline stages no longer overlap (torch logs a hint). Nothing
    else warns. `"nccl-lazy"`, in torch 2.14 and 2.15, keeps a communicator for each pair.

    Traffic on the default group: the backend of `init_process_group` becomes "nccl-lazy". Traffic on a group that
    `new_group` made: that call gets `backend="nccl-lazy"` and the default group stays "nccl", since the groups made
    under a lazy default are not lazy themselves. With `device_id` on the default group, which TM101 adds, the second
    form needs torch 2.15.

    Run it together with TM101 or before it: afterwards it cannot tell a new device_id from one that was always there.

    Nothing is done where `device_id` was passed before (such code had the new behaviour already), for
    `batch_isend_irecv` alone, for two ranks that only talk to each other, and for other backends. What the code
    says across files (who sends, who starts the group) is gathered from the whole project; a rewrite that rests on
    another file is unsafe.

    Reported: traffic on both kinds of groups, groups of a device mesh (there
    `init_device_mesh(..., backend_override={"pp": "nccl-lazy"})`), groups from out of sight, backends that are not
    written in the call, and projects that use what nccl-lazy does not serve (`torch.distributed.nn`, whose backward
    passes ask for the name, `register_mem_pool`, `shrink_group`, sequence numbers, timing of collectives).
    `dist.get_backend()` then says "nccl-lazy": TM105 looks at comparisons.
    """

    code, name, area = "TM102", "nccl-lazy", "distributed"
    triggers = (
        *(b"init_process_group", b"new_group", b"isend", b"irecv", b"dist.send(", b"dist.recv(", b"distributed.send("),
        *(b"distributed.recv(", b"c10d.send(", b"c10d.recv(", *_SENT, b"PipelineStage", b"build_stage"),
        *(b"torch.distributed import", LAZY.encode(), b"distributed.nn", *(name.encode() for name in UNSERVED)),
    )
    requires: ClassVar = {
        **{name: (pattern,) for name, pattern in NOT_BATCHED.items()},
        **dict.fromkeys(_SENT, (OTHER_ALIAS,)),
        b"torch.distributed import": (imports_from_distributed("send|recv"),),
    }
    gathers = True
    reference = pull(187508)
    example = """
    import torch.distributed as dist

    def step(x, y, rank, device):
        dist.init_process_group("nccl")
        dist.send(x, rank + 1)
        dist.recv(y, rank - 1)
        dist.all_reduce(x)
    """

    def facts(self, module: Module) -> Iterable[tuple[str, object]]:
        """Who sends on which kind of group, who starts groups and how, and what nccl-lazy would hinder."""
        return gathered(module)

    def check(self, module: Module) -> Iterator[Plan]:
        """Plan for the groups that carry point-to-point traffic."""
        found = traffic(module)
        started = inits(module)
        if not found and not (started and module.project.facts.get(TRAFFIC)):
            return
        facts = Facts.of(module)
        if facts.quiet or not facts.sent:
            return
        yield from self._defaults(module, facts, found, started)
        yield from self._subgroups(module, facts, found, started)
        yield from self._others(module, facts, found)

    # -- the default group -------------------------------------------------------------------------------------

    def _defaults(
        self, module: Module, facts: Facts, found: list[Traffic], started: list[tuple[ast.Call, Binding]]
    ) -> Iterator[Plan]:
        here = [one for one in found if one.where == "default"]
        around = [call for call, _ in started if _holds(module, call, here)]
        alone = len([call for call, binding in started if not bound(binding)]) == 1
        for call, binding in started:
            kind, leaves = backend(module, call, binding.get("backend"))
            if kind == "other" or bound(binding) or (around and call not in around):
                continue
            source = _source(module, here[0]) if here else facts.sent_elsewhere(module.path, module.line(call))
            if source is None:
                continue
            slow = bool(here) and all(one.is_stage for one in here)
            text = f"{source} uses the default group: {_SLOWS if slow else _HANGS}"
            if facts.on("new"):
                both = f"and {facts.on('new')[0].place} a group of its own, which a lazy default would not reach"
                yield self.report(call, f"{text}; {both}: keep nccl here and {_OWN}")
            elif facts.hindrance:
                yield self.report(call, f"{text}; nccl-lazy has no {facts.hindrance}, so {_OWN}")
            elif leaves is None or binding.doubles or not all(one.certain for one in here):
                yield self.report(call, f"{text}; where the backend is nccl, make it nccl-lazy")
            else:
                sure = bool(here) and (alone or call in around)
                yield self.change(
                    call,
                    *(Replace(leaf, lazy_code(module, leaf)) for leaf in leaves),
                    message=text if sure else f"{text}; look whether that code runs under this call",
                    safety=Safety.SAFE if sure else Safety.UNSAFE,
                    needs_torch="2.14",
                )

    # -- groups of new_group -----------------------------------------------------------------------------------

    def _subgroups(
        self, module: Module, facts: Facts, found: list[Traffic], started: list[tuple[ast.Call, Binding]]
    ) -> Iterator[Plan]:
        made: dict[ast.Call, list[Traffic]] = {}
        for one in found:
            for call in one.made:
                made.setdefault(call, []).append(one)
        lazy = [call for call, binding in started if names_lazy(module, binding.get("backend"))]
        for call, own in made.items():
            group = subgroup(module, call)
            text = f"{_source(module, own[0])} uses this group: {_SLOWS if all(o.is_stage for o in own) else _HANGS}"
            if group.inherits and lazy:
                yield self.report(
                    call, f"{text}; a group made under a nccl-lazy default is not lazy itself: start nccl"
                )
            elif group.kind != "other":
                yield self._subgroup(module, facts, call, group, text, all(one.certain for one in own))

    def _subgroup(
        self, module: Module, facts: Facts, call: ast.Call, group: Subgroup, text: str, certain: bool
    ) -> Plan:
        edits: tuple[Edit, ...] = tuple(Replace(leaf, lazy_code(module, leaf)) for leaf in group.leaves)
        if group.inherits:
            edits = (SetArgument(call, "backend", f'"{LAZY}"', 2),)
        kind = facts.inherited if group.kind == "inherits" else group.kind
        if not certain or not edits or not (kind == "nccl" or (kind == "either" and group.leaves)):
            return self.report(call, f"{text}; where its backend is nccl, make it nccl-lazy")
        sure = group.kind != "inherits"
        return self.change(
            call,
            *edits,
            message=text if sure else f"{text}; if the default group is nccl here",
            safety=Safety.SAFE if sure else Safety.UNSAFE,
            needs_torch="2.15",
        )

    # -- everything else ---------------------------------------------------------------------------------------

    def _others(self, module: Module, facts: Facts, found: list[Traffic]) -> Iterator[Plan]:
        """One report a file for each kind of group that nothing in sight can change."""
        first: dict[str, Traffic] = {}
        for one in found:
            first.setdefault(one.where, one)
        for where, one in first.items():
            text = _SLOWS if one.is_stage else _HANGS
            if where == "mesh":
                way = 'give init_device_mesh backend_override={...: "nccl-lazy"} for this dimension'
                yield self.report(one.node, f"{text}; where the mesh is on nccl, {way}")
            elif where == "unknown":
                yield self.report(one.node, f"{text}; where this group is made with nccl, make it nccl-lazy")
            elif where == "default" and not facts.reached(module.path):
                yield self.report(one.node, f"{text}; where the default group is started with nccl, make it nccl-lazy")


def _holds(module: Module, call: ast.Call, found: list[Traffic]) -> bool:
    """Whether the function of an init call holds all of some traffic."""
    function = module.function(call)
    return function is not None and bool(found) and all(function in module.ancestors(one.node) for one in found)


def _source(module: Module, one: Traffic) -> str:
    """What sends and where, for messages."""
    return f"{one.name} (line {module.line(one.node)})"
