"""TM103: the ways back to the old NCCL backend end with torch 2.16."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar

from torchmigrate.codemod import Codemod, Extent, Plan
from torchmigrate.edits import ReplaceText
from torchmigrate.model import Safety
from torchmigrate.module import Module
from torchmigrate.versions import older
from torchmigrate_codemods.spellings import RELEASE_NOTES

if TYPE_CHECKING:
    from torchmigrate.documents import Document
    from torchmigrate_codemods.environment import Found

BACKEND = "nccl-legacy"
SWITCH = "TORCH_DIST_USE_NCCL2"
_DEADLINE = "it is announced to go in torch 2.16"
_NAMED = "nccl-legacy-named"
_NEEDS = "nccl-legacy-needs"
_TRAFFIC = "nccl-legacy-traffic"
_SPEAKING = (
    *(b"comm_split_count", b"_set_enable_nan_check", b"_group_start", b"_set_default_timeout", b"ProcessGroupNCCL"),
    *(b"get_future", b"isend", b"irecv", b"distributed.send", b"distributed.recv", b"dist.send", b"dist.recv"),
    *(b"distributed.pipelining", b"cuda:1", b"range(torch.cuda.device_count())"),
)
"""What speaks for the old backend, where a project names it at all."""
_POINT_TO_POINT = tuple(
    f"torch.distributed{module}.{name}"
    for module in ("", ".distributed_c10d")
    for name in ("send", "recv", "isend", "irecv", "send_object_list", "recv_object_list")
)
_CREATORS = tuple(
    f"torch.distributed{module}.{name}"
    for module in ("", ".distributed_c10d")
    for name in ("init_process_group", "new_group")
)


@functools.cache
def _patterns() -> tuple[tuple[re.Pattern[str], str], ...]:
    """What only the old backend can do, and what was written for it."""
    return (
        (re.compile(r"\.comm_split_count\b"), "comm_split_count"),
        (re.compile(r"\._set_default_timeout\b"), "_set_default_timeout"),
        (re.compile(r"\._set_enable_nan_check\b"), "_set_enable_nan_check"),
        (re.compile(r"\._group_(?:start|end)\b"), "_group_start and _group_end"),
        (re.compile(r"\bProcessGroupNCCL\b(?!\.Options)"), "ProcessGroupNCCL"),
        (re.compile(r"\.get_future\(|\.then\("), "futures of collectives"),
        (re.compile(r"""[=!]=\s*["']nccl-legacy"""), "comparisons with its name"),
        (re.compile(r"""["']cuda:[1-9]"""), "a second GPU in one process"),
        (re.compile(r"range\(\s*torch\.cuda\.device_count\(\)"), "a loop over all GPUs in one process"),
    )


@functools.cache
def _backend() -> re.Pattern[str]:
    """A backend name, alone or in a composite."""
    return re.compile(r"(?<![\w-])nccl-legacy(?![\w-])", re.IGNORECASE)


class NcclLegacy(Codemod):
    """Leave nccl-legacy before it goes.

    torch 2.15 has two ways back to the NCCL backend of 2.14: the backend name `nccl-legacy`, and
    `TORCH_DIST_USE_NCCL2=0` in the environment of every rank before the first group is made. Neither prints a warning,
    and both are announced to go in torch 2.16. `TORCH_DIST_USE_NCCL2=1` chose the new backend on 2.14 and means
    nothing on 2.15.

    Every place is reported, in whatever file it stands. Only two kinds of code need the old backend: a process that
    drives several GPUs through one group, and code that calls methods which the new class does not have.

    A group that is created with `nccl-legacy` and a `device_id` is rewritten to `nccl` where nothing in the project
    speaks for the old backend, or to `nccl-lazy` where the default group carries unbatched point-to-point traffic. The
    change is unsafe: that no other code depends on the old backend can only be tried. `TORCH_DIST_USE_NCCL2=1` is
    removed where torch 2.14 is no longer supported.
    """

    code, name, area = "TM103", "nccl-legacy", "distributed"
    triggers = (BACKEND.encode(), SWITCH.encode(), *_SPEAKING)
    awaits: ClassVar = dict.fromkeys(_SPEAKING, _NAMED)
    formats = frozenset({"python", "shell", "yaml", "toml", "json", "dockerfile", "env", "makefile", "cfg", "cpp"})
    gathers = True
    reference = RELEASE_NOTES
    example = """
    import torch
    import torch.distributed as dist

    def setup(local_rank):
        dist.init_process_group("nccl-legacy", device_id=torch.device("cuda", local_rank))
    """

    # -- facts -------------------------------------------------------------------------------------------------

    def facts(self, module: Module) -> Iterator[tuple[str, object]]:
        """Whether a file names the old backend, what in it needs that one, and what sends point to point."""
        if _backend().search(module.text):
            yield (_NAMED, module.path)
        yield from ((_NEEDS, need) for need in _needs(module))
        if _sends(module):
            yield (_TRAFFIC, module.path)

    # -- plans -------------------------------------------------------------------------------------------------

    def check(self, module: Module) -> Iterator[Plan]:
        """Report the switch and the name; rewrite calls that show that they can do without."""
        yield from self._switches(module)
        if _backend().search(module.text) is None:
            return
        calls = {id(backend): call for backend, call in _created(module)}
        for node in module.names.texts:
            text = str(node.value)
            if not re.fullmatch(r"(?:[\w-]+:)?nccl-legacy(?:,.*)?|[\w:,-]+,\w+:nccl-legacy(?:,.*)?", text, re.I):
                continue
            call = calls.get(id(node))
            yield self._group(module, node, call) if call is not None else self.report(node, _NAME)

    def check_text(self, document: Document) -> Iterator[Plan]:
        """Report the switch and the name."""
        yield from self._switches(document)
        for match in document.matches(_backend()):
            yield self.report(Extent(*match.span(), match[0]), _NAME)

    def _switches(self, module: Module) -> Iterator[Plan]:
        from torchmigrate_codemods.environment import found

        if SWITCH in module.text:
            yield from (self._switch(module, one) for one in found(module, [SWITCH]))

    def _switch(self, module: Module, one: Found) -> Plan:
        use = one.use
        if use.role != "set":
            text = f"{SWITCH} chooses the old NCCL backend with 0; {_DEADLINE}"
        elif use.value == "0":
            text = f"{SWITCH}=0 goes back to the NCCL backend of torch 2.14; {_DEADLINE}: move to the new one before"
        elif use.value == "1":
            text = f"{SWITCH}=1 chose the new NCCL backend on torch 2.14; it does nothing on 2.15"
            if use.removal is not None and not older(module.project.torch_min, "2.15"):
                return self.change(one.anchor, *use.removal, message=text)
            text += ": remove it once 2.14 is no longer supported"
        else:
            text = f"{SWITCH} may choose the NCCL backend of torch 2.14 here (0 does); {_DEADLINE}"
        return self.report(one.anchor, text)

    def _group(self, module: Module, node: ast.Constant, call: ast.Call) -> Plan:
        """A group that is created on the old backend."""
        message = f"{BACKEND} is the NCCL backend of torch 2.14; {_DEADLINE}"
        device = next((k.value for k in call.keywords if k.arg == "device_id"), None)
        if device is None or (isinstance(device, ast.Constant) and device.value is None):
            return self.report(node, f"{message}; the group may use several GPUs, for no device_id is given")
        needs = sorted({*_needs(module), *_project(module, _NEEDS)})
        if needs:
            return self.report(node, f"{message}; adapt first what was written for it: {', '.join(needs)}")
        new = "nccl"
        if _sends(module) or _project(module, _TRAFFIC):
            if not (_sends(module) == "default" and _makes_default(module, call)):
                return self.report(node, f"{message}; groups with point-to-point traffic want nccl-lazy, others nccl")
            new = "nccl-lazy"
        found = [match.span() for match in _backend().finditer(module.source(node))]
        if len(found) != 1:
            return self.report(node, message)
        start = module.extent(node)[0]
        return self.change(
            call,
            ReplaceText(start + found[0][0], start + found[0][1], new),
            message=f"{message}; nothing seen in the project needs it",
            safety=Safety.UNSAFE,
            needs_torch="2.14",
        )


_NAME = f"{BACKEND} is the NCCL backend of torch 2.14; {_DEADLINE}: move to nccl, or nccl-lazy for pipelines, before"


def _created(module: Module) -> Iterator[tuple[ast.expr, ast.Call]]:
    """The backends that calls of init_process_group and new_group are given, with the calls."""
    for site in module.calls(*_CREATORS):
        call = site.node
        first = call.args[:1] if _makes_default(module, call) else []
        given = [*first, *(k.value for k in call.keywords if k.arg == "backend")]
        if site.certain and len(given) == 1:
            yield given[0], call


def _makes_default(module: Module, call: ast.Call) -> bool:
    return any(name.endswith(".init_process_group") for name in module.resolve(call.func).names)


def _project(module: Module, fact: str) -> Sequence[str]:
    values = module.project.facts.get(fact, ())
    return [str(value) for value in values] if isinstance(values, tuple) else []


def _needs(module: Module) -> list[str]:
    return [need for pattern, need in _patterns() if pattern.search(module.text)]


def _sends(module: Module) -> str:
    """Whether a file sends point to point: "default" on the default group only, "other", or "" for not at all."""
    if "pipelining" in module.text and re.search(
        r"torch\.distributed\.pipelining|distributed import pipelining", module.text
    ):
        return "other"
    calls = [site.node for site in module.calls(*_POINT_TO_POINT)]
    if not calls:
        return ""
    plain = all(len(c.args) < 3 and not any(k.arg in ("group", None) for k in c.keywords) for c in calls)
    return "default" if plain else "other"
