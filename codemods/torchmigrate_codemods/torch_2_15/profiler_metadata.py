"""TM802: FunctionEvent.metadata_json is gone, event_metadata is on its way out."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchmigrate.codemod import Codemod, Plan
from torchmigrate.module import Module
from torchmigrate.reaching import key_of
from torchmigrate_codemods.spellings import pull

_PROFILERS = ("torch.profiler", "torch.autograd.profiler", "torch.autograd.profiler_util", "torch.autograd")
_GONE = (
    "FunctionEvent.metadata_json is gone in torch 2.15 (AttributeError); read the dict `metadata` instead: its keys "
    "differ, and it is None unless the profiler ran with _ExperimentalConfig(expose_kineto_event_metadata=True)"
)
_GOING = (
    "FunctionEvent.event_metadata warns in torch 2.15 (FutureWarning) and will go; read the dict `metadata` instead: "
    "keys for attributes, and None unless the profiler ran with _ExperimentalConfig(expose_kineto_event_metadata=True)"
)
_MESSAGES = {"metadata_json": _GONE, "event_metadata": _GOING}


class ProfilerMetadata(Codemod):
    """Find reads of FunctionEvent.metadata_json and event_metadata of the profiler.

    Events of `torch.profiler` carried the extra fields of a trace in three forms. torch 2.15 removes the oldest,
    `metadata_json` (reading it raises AttributeError; 2.14 warned), and deprecates `event_metadata`. What stays is
    `metadata`, a dict that 2.14 has as well.

    This is a report: the three are not exchangeable. `metadata_json` was a piece of JSON text, `event_metadata` is a
    named tuple with every field, `metadata` is a dict with the fields of the exported trace, and None unless the
    profiler was made with `experimental_config=_ExperimentalConfig(expose_kineto_event_metadata=True)`.

    Only reads in files that import torch's profiler, or on what `profiler.events()` gave, are reported. A call,
    `event.metadata_json()`, is a method of the raw Kineto events and still there.
    """

    code, name, area = "TM802", "profiler-metadata", "profiler"
    triggers = (b"metadata_json", b"event_metadata")
    reference = pull(178901)
    example = """
    import torch

    with torch.profiler.profile() as prof:
        step()
    for event in prof.events():
        print(event.metadata_json)
    """

    def check(self, module: Module) -> Iterator[Plan]:
        """Report reads of the two attributes."""
        near = _imports_profiler(module)
        for node in module.names.attributes:
            if node.attr not in _MESSAGES or not isinstance(node.ctx, ast.Load):
                continue
            parent = module.parents.get(node)
            called = isinstance(parent, ast.Call) and parent.func is node
            own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
            if called or own or module.resolve(node).names:
                continue
            if near or _is_event(module, node.value):
                yield self.report(node, _MESSAGES[node.attr])
        for call in module.names.calls:
            match call:
                case ast.Call(func=ast.Name(id="getattr"), args=[owner, ast.Constant(value=str() as name), *_]):
                    if name in _MESSAGES and (near or _is_event(module, owner)):
                        yield self.report(call, _MESSAGES[name])


def _imports_profiler(module: Module) -> bool:
    """Whether the file imports something of torch's profiler, or reaches into it."""
    for node in module.parents:
        if isinstance(node, ast.Import) and any(alias.name in _PROFILERS for alias in node.names):
            return True
        if isinstance(node, ast.ImportFrom) and not node.level:
            names = {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
            if names & set(_PROFILERS):
                return True
    attributes = [node for node in module.names.attributes if node.attr in ("profiler", "profile")]
    return any(name.startswith(_PROFILERS[:2]) for node in attributes for name in module.resolve(node).names)


def _is_event(module: Module, node: ast.expr, depth: int = 0) -> bool:
    """Whether a value is one of the things that a call of `.events()` gave."""
    if depth > 4:
        return False
    if isinstance(node, ast.Subscript):
        return _is_events(module, node.value, depth + 1)
    if isinstance(node, ast.Name):
        for definition in module.flow(node).definitions(node.id, node):
            if definition.how == "loop" and definition.value is not None:
                return _is_events(module, definition.value, depth + 1)
            if definition.how == "assign" and definition.value is not None:
                return _is_event(module, definition.value, depth + 1)
        return any(
            isinstance(at, ast.comprehension)
            and key_of(at.target) == node.id
            and _is_events(module, at.iter, depth + 1)
            for owner in module.ancestors(node)
            for at in getattr(owner, "generators", ())
        )
    return False


def _is_events(module: Module, node: ast.expr, depth: int) -> bool:
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Attribute) and node.func.attr == "events"
    if isinstance(node, ast.Name) and depth < 4:
        found = module.flow(node).definitions(node.id, node)
        return any(d.how == "assign" and d.value and _is_events(module, d.value, depth + 1) for d in found)
    return False
