"""Calls that start NCCL groups, in one file: which backend they name, and where its text stands."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchmigrate.calls import Binding, Signature, bind
from torchmigrate.module import Module
from torchmigrate.possible import Known
from torchmigrate.values import Values
from torchmigrate_codemods.spellings import c10d

LAZY = "nccl-lazy"
_INIT = Signature(
    ("backend", "init_method", "timeout", "world_size", "rank", "store", "group_name", "pg_options", "device_id"),
    ("_ranks", "enable_reconfigure"),
)
_PLAIN = frozenset({"nccl", "nccl2"})


def inits(module: Module) -> list[tuple[ast.Call, Binding]]:
    """The calls of `init_process_group`, with their arguments."""
    return [(site.node, bind(site.node, _INIT)) for site in module.calls(*c10d("init_process_group"))]


def bound(binding: Binding) -> bool:
    """Whether a call gives a device."""
    given = binding.get("device_id")
    return given is not None and not (isinstance(given, ast.Constant) and given.value is None)


def backend(module: Module, call: ast.Call, given: ast.expr | None) -> tuple[str, list[ast.expr] | None]:
    """What a backend argument can be, and its nccl texts if all of them stand in the call.

    "nccl" and "other" for sure, "either" of both for sure, else "maybe".
    """
    if given is None:
        return "maybe", None
    values = Values(module)
    kinds: set[bool | None] = set()  # of each possibility: is it nccl
    inside: list[ast.expr] = []
    complete = True
    for leaf in values.leaves(given, values.facts(call)):
        for option in leaf.options:
            nccl = _is_nccl(option.value) if isinstance(option, Known) else None
            kinds.add(nccl)
            if nccl is False:
                continue
            node = leaf.node
            if node is None or not _is_text(module, node) or call not in module.ancestors(node):
                complete = False
            elif node not in inside:
                inside.append(node)
    if kinds and kinds <= {False}:
        return "other", None
    kind = "nccl" if kinds == {True} else "maybe" if None in kinds else "either"
    return kind, inside if inside and complete and None not in kinds else None


def lazy_code(module: Module, leaf: ast.expr) -> str:
    """The text of a backend with nccl made nccl-lazy, in the quotes that it has."""
    if not isinstance(leaf, ast.Constant):
        return f'"{LAZY}"'
    quote = module.source(leaf)[-1]
    parts = [part.rpartition(":") for part in str(leaf.value).split(",")]
    text = ",".join(f"{head}{colon}{LAZY if last.lower() in _PLAIN else last}" for head, colon, last in parts)
    return f"{quote}{text}{quote}"


def is_lazy(value: object) -> bool:
    """Whether a backend text names nccl-lazy, alone or for one device."""
    return isinstance(value, str) and LAZY in {part.rpartition(":")[2] for part in value.split(",")}


def names_lazy(module: Module, given: ast.expr | None) -> bool:
    """Whether a backend argument can be nccl-lazy."""
    return given is not None and any(is_lazy(one) for one in Values(module).of(given).constants)


def imported(module: Module) -> tuple[str, ...]:
    """The modules that a file may import, by dotted name without leading dots."""
    return tuple(sorted({name for name in _imported(module) if name and name.partition(".")[0] not in _STRANGERS}))


_STRANGERS = frozenset({"torch", "os", "sys", "typing", "numpy", "__future__", "math", "json", "time", "logging"})


def _imported(module: Module) -> Iterator[str]:
    for node in module.names.imports:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        else:
            base = node.module or ""
            yield base
            yield from (f"{base}.{alias.name}".strip(".") for alias in node.names)


def _is_nccl(value: object) -> bool | None:
    """Whether a backend is nccl; None for no backend, which is whatever the machine has."""
    if not isinstance(value, str):
        return None if value is None else False
    return bool({part.rpartition(":")[2] for part in value.lower().split(",")} & _PLAIN)


def _is_text(module: Module, node: ast.expr) -> bool:
    text = isinstance(node, ast.Constant) and isinstance(node.value, str)
    return text or module.refers_to(node, *c10d("Backend.NCCL"))
