"""What a device_id changes on torch 2.14 and older, beside the binding."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from torchmigrate.calls import bind
from torchmigrate.module import Module
from torchmigrate.values import Values
from torchmigrate_codemods.nccl_groups import TRAFFIC
from torchmigrate_codemods.point_to_point import NEW_GROUP, traffic
from torchmigrate_codemods.spellings import c10d
from torchmigrate_codemods.torch_2_15.init_device.backends import backend_of

_P2P = "messages such as {what} then go one after another on one communicator, and unbatched rings hang"
_GLOO = "the gloo group of {what} then hangs on the ranks that are not in it"
_EAGER = "it makes the communicator at once, which takes memory and time at the start"


def hazard(module: Module, values: Values) -> str:
    """The worst that a device_id does on older torch in this project, as half a sentence."""
    gloo = _gloo_subgroup(module, values)
    if gloo is not None:
        return _GLOO.format(what=gloo)
    sent = _unbatched(module)
    return _P2P.format(what=sent) if sent is not None else _EAGER


def _gloo_subgroup(module: Module, values: Values) -> str | None:
    """A `new_group` of some ranks with another backend than the default group's."""
    for site in module.calls(*c10d("new_group")):
        binding = bind(site.node, NEW_GROUP)
        backend = binding.get("backend")
        if backend is not None and backend_of(values, backend, values.facts(site.node)).other:
            return f"line {module.line(site.node)}"
    return None


def _unbatched(module: Module) -> str | None:
    """Unbatched point-to-point traffic in this file, or in another one of the project."""
    for one in traffic(module):
        if not one.is_stage:
            return f"{one.name} (line {module.line(one.node)})"
    for path, line, name, *_ in cast("Iterable[tuple[Any, ...]]", module.project.facts.get(TRAFFIC, ())):
        if path != module.path and name in ("send", "isend", "recv", "irecv"):
            return f"{name} ({path}:{line})"
    return None
