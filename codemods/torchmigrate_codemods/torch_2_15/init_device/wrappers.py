"""Functions that start a group for other modules: where these call them, only they may know the GPU."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from torchmigrate.calls import Signature, bind, default_of
from torchmigrate.codemod import Plan, Report
from torchmigrate.reaching import Definition, settled
from torchmigrate_codemods.torch_2_15.init_device.backends import backend_of, is_nccl
from torchmigrate_codemods.torch_2_15.init_device.site import RULE
from torchmigrate_codemods.torch_2_15.init_device.spread import mentions

if TYPE_CHECKING:
    from torchmigrate.codemod import Codemod
    from torchmigrate.module import Module
    from torchmigrate_codemods.torch_2_15.init_device.search import GpuSearch
    from torchmigrate_codemods.torch_2_15.init_device.site import InitSite

WRAPPER, CALLED = "init.wrapper", "init.called"
NAMES = (
    *(b"init_dist", b"setup_dist", b"initialize_dist", b"dist_init", b"dist_setup", b"distributed_init"),
    *(b"distributed_setup", b"ddp_setup", b"setup_ddp", b"init_ddp", b"ddp_init"),
)
"""What the usual names of such functions hold: files that only call one are found by them."""
_NAME = b"(?:" + b"|".join(NAMES) + b")"
CALLS = {one: (rb"%b(?<!def %b)\w*(?:[ \t]*[(#\r\n]|\s+as\b|\Z)" % (one, one), b"import") for one in NAMES}
"""What a file that calls one holds beside, as far as its text shows: a call or another name for it, and an import."""
_USUAL = re.compile(_NAME.decode())
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Wrapper:
    """A function that starts a group whose device it does not know.

    `backend` is the parameter that it hands on as the backend, "" for none; `defaults` are the texts that this is when
    it is not given.
    """

    path: str
    line: int
    name: str
    positional: tuple[str, ...]
    keyword_only: tuple[str, ...]
    backend: str
    defaults: tuple[str, ...]

    @classmethod
    def all(cls, module: Module) -> list[Wrapper]:
        """Those of the other files of the project."""
        known = cast("Iterable[tuple[Any, ...]]", module.project.facts.get(WRAPPER, ()))
        return [one for one in (cls(*values) for values in known) if one.path != module.path]

    def is_meant(self, path: str, target: str) -> bool:
        """Whether a name that the file of a path imports can be this function, perhaps by way of its package."""
        owner, _, name = target.rpartition(".")
        home = _parts(self.path.removesuffix(".py"))
        home = home[:-1] if home[-1:] == ["__init__"] else home
        level = len(target) - len(target.lstrip("."))
        asked = [part for part in owner.split(".") if part]
        if name != self.name:
            return False
        if level:
            around = _parts(os.path.dirname(path))
            asked = around[: len(around) - level + 1] + asked
            return home[: len(asked)] == asked and len(home) - len(asked) <= 1
        found = [at for at in range(len(home)) if home[at : at + len(asked)] == asked]
        return bool(asked) and any(len(home) - at - len(asked) <= 1 for at in found)


def wrapper_of(site: InitSite) -> Wrapper | None:
    """The function around a call, if other modules may call it and it hands on what they give."""
    module, call = site.module, site.call
    function = module.function(call)
    if not isinstance(function, ast.FunctionDef) or not _USUAL.search(function.name):
        return None
    if module.function(function) is not None or module.enclosing_class(function) is not None:
        return None
    signature = Signature.of(function)
    parameters = {*signature.positional, *signature.keyword_only}
    flow = module.flow(call)
    handed: dict[str, str] = {}
    for role in ("backend", "rank"):
        node = site.binding.get(role)
        if isinstance(node, ast.Name) and node.id in parameters:
            version = settled(flow.version(node.id, call))
            if isinstance(version, Definition) and version.how == "parameter":
                handed[role] = node.id
    if not handed:
        return None
    name = handed.get("backend", "")
    default = default_of(function, name) if name else None
    texts = site.values.of(default).constants if default is not None else ()
    defaults = tuple(one for one in texts if isinstance(one, str))
    line = module.line(call)
    return Wrapper(module.path, line, function.name, signature.positional, signature.keyword_only, name, defaults)


def facts(module: Module, sites: Iterable[InitSite]) -> Iterator[tuple[str, object]]:
    """The functions of a file that start a group and do not know the GPU, and its calls of others' functions."""
    for site in sites:
        wrapper = wrapper_of(site)
        if wrapper is not None and isinstance(site.plan(), Report) and not _shows_gpu(site):
            yield WRAPPER, tuple(getattr(wrapper, name) for name in Wrapper.__slots__)
    for call, target in _calls(module):
        yield CALLED, (module.path, module.line(call), target)


def with_callers(plan: Plan, site: InitSite) -> Plan:
    """The report of a call inside such a function, with the places of other files that call the function."""
    wrapper = wrapper_of(site) if isinstance(plan, Report) else None
    if wrapper is None or not isinstance(plan, Report) or _shows_gpu(site):
        return plan
    known = cast("Iterable[tuple[str, int, str]]", site.module.project.facts.get(CALLED, ()))
    places = [
        f"{path}:{line}" for path, line, target in known if path != wrapper.path and wrapper.is_meant(path, target)
    ]
    if not places:
        return plan
    shown = ", ".join(places[:_SHOWN]) + (", ..." if len(places) > _SHOWN else "")
    return replace(
        plan, message=f"{plan.message} ({wrapper.name} is called in {shown}: these calls are looked at, too)"
    )


def _shows_gpu(site: InitSite) -> bool:
    """Whether anything around a call says which GPU its process uses, right or not."""
    found = site.search.find(site.call, (site.facts,), single=False)
    return found.device is not None or bool(found.candidates or found.reason)


def calls_of_wrappers(rule: Codemod, module: Module, search: GpuSearch) -> Iterator[Plan]:
    """The calls of other files' functions that start an NCCL group without knowing the GPU."""
    calls = list(_calls(module))
    wrappers = Wrapper.all(module) if calls else []
    for call, target in calls:
        meant = [one for one in wrappers if one.is_meant(module.path, target)]
        if len(meant) != 1 or not _needs_device(meant[0], call, search):
            continue
        wrapper = meant[0]
        found = search.find(call, (search.values.facts(call),), single=False)
        device = found.device or next(iter(found.candidates), None)
        shown = f" ({device.text}: {device.evidence})" if device is not None else ""
        message = f"{wrapper.name} ({wrapper.path}:{wrapper.line}) starts the group and does not know the GPU of this"
        yield rule.report(call, f"{message} process{shown}: where it is NCCL, hand it over for device_id, since {RULE}")


def _needs_device(wrapper: Wrapper, call: ast.Call, search: GpuSearch) -> bool:
    binding = bind(call, Signature(wrapper.positional, wrapper.keyword_only))
    given_in = (mentions(search.values, one, "device_id", call) for one in binding.doubles)
    if "device_id" in binding.unknown or any(given_in):
        return False
    if not wrapper.backend:
        return True
    given = binding.get(wrapper.backend)
    if given is not None:
        return not backend_of(search.values, given, search.values.facts(call)).never
    if binding.surely_absent(wrapper.backend) and wrapper.defaults:
        return any(is_nccl(text) for text in wrapper.defaults)
    return True


def _calls(module: Module) -> Iterator[tuple[ast.Call, str]]:
    if not _USUAL.search(module.text):
        return
    for call in module.names.calls:
        reference = module.resolve(call.func)
        if len(reference.names) == 1 and reference.certain:
            target = next(iter(reference.names))
            if _USUAL.search(target.rpartition(".")[2]) and target.partition(".")[0] != "torch":
                yield call, target


def _parts(path: str) -> list[str]:
    return [part for part in path.replace(os.sep, "/").split("/") if part and part != "."]
