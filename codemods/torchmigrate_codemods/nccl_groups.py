"""NCCL groups of a whole project: who starts them, what traffic they carry, and what nccl-lazy would hinder.

Facts are plain tuples while they travel; `Facts` reads them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, cast

from torchmigrate.calls import bind
from torchmigrate.module import Module
from torchmigrate_codemods.nccl_inits import LAZY, backend, bound, imported, inits, is_lazy, names_lazy
from torchmigrate_codemods.point_to_point import NEW_GROUP, Traffic, traffic
from torchmigrate_codemods.spellings import c10d

TRAFFIC, INIT, MADE, NAMED, HINDRANCE = (f"{LAZY}.{what}" for what in ("traffic", "init", "made", "named", "hindrance"))
UNSERVED = ("register_mem_pool", "shrink_group", "_enable_collectives_timing", "_get_sequence_number_for_group")
"""What groups on nccl-lazy cannot do."""
_NN = "torch.distributed.nn"


@dataclass(frozen=True, slots=True)
class Sent:
    """The first point-to-point call of a file on one kind of group.

    `group` says of a group that `new_group` made: "nccl" when the file shows that it is, "inherits" when the default
    group of another file decides, else "".
    """

    path: str
    line: int
    name: str
    where: str
    group: str = ""

    @property
    def place(self) -> str:
        """What and where, for messages."""
        return f"{self.name} ({self.path}:{self.line})"


@dataclass(frozen=True, slots=True)
class Init:
    """One init call: where, whether it binds a device, its backend ("nccl", "either", "maybe", "other").

    `literal` says that the backend's text stands in the call itself. `imports` are the modules that its file imports.
    """

    path: str
    line: int
    bound: bool
    backend: str
    literal: bool
    imports: tuple[str, ...]

    @property
    def open(self) -> bool:
        """Whether it may start an NCCL group without a device."""
        return not self.bound and self.backend != "other"


def gathered(module: Module) -> Iterator[tuple[str, object]]:
    """The facts of one file."""
    first: dict[tuple[str, str], Traffic] = {}
    for one in traffic(module):
        groups = {subgroup(module, call).kind for call in one.made}
        first.setdefault((one.where, min(groups, default="")), one)
    for (where, kind), one in sorted(first.items()):
        yield (
            TRAFFIC,
            (module.path, module.line(one.node), one.name, where, kind if kind in ("nccl", "inherits") else ""),
        )
    started = inits(module)
    imports = imported(module) if started else ()
    for call, binding in started:
        kind, leaves = backend(module, call, binding.get("backend"))
        yield INIT, (module.path, module.line(call), bound(binding), kind, leaves is not None, imports)
    for site in module.calls(*c10d("new_group")):
        given = bind(site.node, NEW_GROUP).get("backend")
        if given is not None and backend(module, site.node, given)[0] in ("nccl", "either"):
            yield MADE, (module.path, module.line(site.node))
    if LAZY in module.text and any(is_lazy(at.value) for at in module.names.texts):
        yield NAMED, module.path
    yield from _hindrances(module)


def _hindrances(module: Module) -> Iterator[tuple[str, object]]:
    for node in module.names.attributes:
        if node.attr in UNSERVED:
            yield HINDRANCE, (module.path, module.line(node), node.attr)
            break
    for at in module.names.imports:
        if _imports_nn(at):
            yield HINDRANCE, (module.path, module.line(at), f"working {_NN}")
            break


def _imports_nn(node: ast.Import | ast.ImportFrom) -> bool:
    if isinstance(node, ast.Import):
        return any(alias.name in (_NN, f"{_NN}.functional") for alias in node.names)
    own = node.module in (_NN, f"{_NN}.functional")
    return own or (node.module == "torch.distributed" and any(alias.name == "nn" for alias in node.names))


@dataclass(frozen=True, eq=False, slots=True)
class Subgroup:
    """A `new_group` call: its backend as `nccl_inits.backend` says it, or "inherits", and the texts to change."""

    kind: str
    leaves: tuple[ast.expr, ...] = ()
    inherits: bool = False


def subgroup(module: Module, call: ast.Call) -> Subgroup:
    """What a `new_group` call makes, as far as its file shows."""
    binding = bind(call, NEW_GROUP)
    given = binding.get("backend")
    started = inits(module)
    if bound(binding) or names_lazy(module, given) or (started and all(bound(other) for _, other in started)):
        return Subgroup("other")
    if binding.doubles or binding.stars:
        return Subgroup("maybe")
    if given is not None and not (isinstance(given, ast.Constant) and given.value is None):
        kind, leaves = backend(module, call, given)
        return Subgroup(kind if leaves or kind == "other" else "maybe", tuple(leaves or ()))
    kinds = {backend(module, init, other.get("backend"))[0] for init, other in started}
    if not kinds:
        return Subgroup("inherits", inherits=True)
    return Subgroup(kinds.pop() if len(kinds) == 1 else "maybe", inherits=True)


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts of all files of a project."""

    sent: tuple[Sent, ...] = ()
    inits: tuple[Init, ...] = ()
    made: tuple[tuple[str, int], ...] = ()
    named: tuple[str, ...] = ()
    hindrances: tuple[tuple[str, int, str], ...] = ()

    @classmethod
    def of(cls, module: Module) -> Facts:
        """A project's facts, with those of one file as it is now."""
        return cls.read(module.project.facts, module.path, gathered(module))

    @classmethod
    def read(cls, facts: Mapping[str, object], path: str = "", own: Iterable[tuple[str, object]] = ()) -> Facts:
        """Facts from plain values, with other ones in place of those of one file."""
        kept: dict[str, list[tuple]] = {name: [] for name in (TRAFFIC, INIT, MADE, NAMED, HINDRANCE)}  # type: ignore[type-arg]
        given: list[tuple[str, Any]] = [(name, v) for name in kept for v in cast("Iterable[Any]", facts.get(name, ()))]
        mine: list[tuple[str, Any]] = list(own)
        for name, value in (*((n, v) for n, v in given if _path(v) != path), *mine):
            one = (value,) if isinstance(value, str) else tuple(value)
            if one not in kept[name]:
                kept[name].append(one)
        return cls(
            tuple(Sent(*one) for one in kept[TRAFFIC]),
            tuple(Init(a, b, c, d, e, tuple(f)) for a, b, c, d, e, f in kept[INIT]),
            tuple((a, b) for a, b in kept[MADE]),
            tuple(one[0] for one in kept[NAMED]),
            tuple((a, b, c) for a, b, c in kept[HINDRANCE]),
        )

    def on(self, where: str) -> list[Sent]:
        """The traffic on one kind of group, in order."""
        return sorted((one for one in self.sent if one.where == where), key=lambda one: (one.path, one.line))

    @property
    def inherited(self) -> str:
        """The backend of a group without one of its own, as far as all init calls agree."""
        known = {init.backend for init in self.inits}
        return known.pop() if len(known) == 1 else "maybe"

    @property
    def hindrance(self) -> str | None:
        """What the project uses that nccl-lazy does not serve."""
        return next((f"{what} ({path}:{line})" for path, line, what in sorted(self.hindrances)), None)

    @property
    def quiet(self) -> bool:
        """Whether nothing changes for the project: its NCCL groups bind a device already, or it has none."""
        if not self.inits or any(init.open for init in self.inits):
            return False
        return any(init.bound for init in self.inits) or not self.made

    def sent_elsewhere(self, path: str, line: int) -> str | None:
        """The traffic of other files on the default group that runs under the init call at a place."""
        mine = [init for init in self.inits if (init.path, init.line) == (path, line)]
        for one in self.on("default"):
            if not self.starts(one.path) and any(self._reaches(init, one.path) for init in mine):
                return one.place
        return None

    def starts(self, path: str) -> bool:
        """Whether a file has an init call of its own, of whatever kind."""
        return any(init.path == path for init in self.inits)

    def reached(self, path: str) -> bool:
        """Whether some init call is taken for the one under which a file's traffic runs."""
        return self.starts(path) or any(self._reaches(init, path) for init in self.inits)

    @property
    def written(self) -> bool:
        """Whether a group of the project is nccl-lazy, or becomes it through TM102."""
        if self.named:
            return True
        if self.quiet:
            return False
        if new := self.on("new"):
            return any(one.group == "nccl" or (one.group == "inherits" and self.inherited == "nccl") for one in new)
        if self.hindrances:
            return False
        literal = [init for init in self.inits if init.open and init.literal]
        own = any(init.path == one.path for init in literal for one in self.on("default"))
        return own or any(self.sent_elsewhere(init.path, init.line) for init in literal)

    def _reaches(self, init: Init, path: str) -> bool:
        """Whether an init call is the project's only one that is open, or in a file that imports another file."""
        candidates = [one for one in self.inits if one.open]
        return init in candidates and (len(candidates) == 1 or _is_imported(init.imports, path))


def _path(value: Any) -> object:
    return value if isinstance(value, str) else value[0]


def _is_imported(imports: tuple[str, ...], path: str) -> bool:
    """Whether a file answers to one of the modules that another file imports."""
    parts = PurePath(path).with_suffix("").parts
    dotted = "." + ".".join(parts[:-1] if parts[-1:] == ("__init__",) else parts)
    return any(dotted.endswith(f".{name}") for name in imports)
