"""The places of a function that show which GPU its process uses."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from torchmigrate.calls import default_of
from torchmigrate.functions import FunctionNode
from torchmigrate.module import Module
from torchmigrate.possible import Known
from torchmigrate.reaching import Definition, key_of, settled
from torchmigrate.values import Facts, Values

Kind = Literal["set", "built", "used"]

SET_DEVICE = frozenset(
    {"torch.cuda.set_device", "torch.accelerator.set_device_index", "torch.accelerator.set_device_idx"}
)
CURRENT = frozenset({"torch.cuda.current_device", "torch.accelerator.current_device_index"})
_CONTEXT = frozenset({"torch.cuda.device", "torch.accelerator.device_index"})
_DDP = frozenset({"torch.nn.parallel.DistributedDataParallel", "torch.nn.parallel.distributed.DistributedDataParallel"})
_FSDP = frozenset(
    {
        "torch.distributed.fsdp.FullyShardedDataParallel",
        "torch.distributed.fsdp.fully_sharded_data_parallel.FullyShardedDataParallel",
    }
)
CUDA_TEXT = re.compile(r"cuda:(\d+)")
_INDEX_NAME = re.compile(
    r"(?:^|_)(?:rank|gpu|gpu_?id|gpu_?idx|gpu_?index|device_?(?:id|idx|index|num|number|ordinal)|dev_?id|idx|index"
    r"|ordinal|local|id)$",
    re.IGNORECASE,
)
_INDICES_NAME = re.compile(
    r"(?:^|[._])(?:gpus|ranks|indices|ordinals|\w*(?:_ids|ids|_idx|_indices|_map|_ranks|_gpus))$"
)
_ANOTHERS = frozenset(
    {"peer", "next", "prev", "previous", "neighbor", "neighbour", "other", "remote", "src", "source", "dst", "dest"}
    | {"left", "right", "teacher", "ref", "reference", "draft", "second", "secondary", "aux", "spare", "old", "tmp"}
)
"""What names of devices say that are not the process's own, or not only."""
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_SHORT = 40


@dataclass(frozen=True, eq=False, slots=True)
class Evidence:
    """One place that shows a GPU: the node, the device or index expression, and how to name it to people.

    "set" makes a GPU current, "built" makes a `torch.device` of it, "used" puts something there. `firm` evidence can
    hardly mean anything else (`set_device`, a device in a variable, `device_ids` of DDP). `shown` names it to people.
    """

    node: ast.expr
    device: ast.expr
    kind: Kind
    shown: str
    firm: bool = True


class Evidences:
    """The evidence in one module, function by function."""

    def __init__(self, values: Values) -> None:
        self.values = values
        self.module: Module = values.module
        self._found: dict[ast.AST, list[Evidence]] = {}
        self._active: set[ast.AST] = set()

    def around(self, node: ast.AST) -> list[Evidence]:
        """The evidence in the function that runs a node."""
        return self.within(self.module.function(node) or self.module.tree)

    def within(self, owner: ast.AST) -> list[Evidence]:
        """The evidence in a function, or at module level, in source order."""
        if owner not in self._found:
            found: list[Evidence] = []
            for node in walk(owner):
                if isinstance(node, ast.Call):
                    found += self._of_call(node)
            found.sort(key=lambda one: (one.node.lineno, one.node.col_offset))
            self._found[owner] = found
        return self._found[owner]

    def _of_call(self, node: ast.Call) -> Iterator[Evidence]:
        names = self.module.resolve(node.func).names
        first = node.args[0] if node.args and not isinstance(node.args[0], ast.Starred) else None
        given = {k.arg: k.value for k in node.keywords if k.arg}
        device = first if first is not None else given.get("device")
        if names & SET_DEVICE:
            if device is not None and not self._is_current(device):
                device = unwrapped(self.module, device)
                yield Evidence(node, device, "set", f"{_tail(node.func)}({self._short(device)})")
        elif names & _CONTEXT and device is not None and isinstance(self.module.parents.get(node), ast.withitem):
            yield Evidence(node, device, "set", f"with {self._short(node)}")
        elif names == {"torch.device"}:
            if index_of(self.module, node) is not None and self._on_cuda(node):
                yield Evidence(node, node, "built", self._short(node), self._kept(node))
        elif names & _DDP:
            ids = given.get("device_ids", node.args[1] if len(node.args) > 1 else None)
            if isinstance(ids, (ast.List, ast.Tuple)) and len(ids.elts) == 1 and not self._is_current(ids.elts[0]):
                yield Evidence(node, ids.elts[0], "used", f"device_ids=[{self._short(ids.elts[0])}]")
        elif names & _FSDP:
            bound = given.get("device_id")
            if bound is not None and not self._is_current(bound):
                yield Evidence(node, bound, "used", f"device_id={self._short(bound)}")
        elif isinstance(node.func, ast.Attribute) and node.func.attr in ("cuda", "to") and not names:
            if device is not None and self._is_gpu(device):
                yield Evidence(node, device, "used", f".{node.func.attr}({self._short(device)})", firm=False)
        elif (helper := self.values.functions.called(node)) is not None:
            yield from self._of_helper(node, helper)
        elif (placed := given.get("device")) is not None and self._is_gpu(placed):
            yield Evidence(node, placed, "used", f"device={self._short(placed)}", firm=False)

    def _of_helper(self, node: ast.Call, helper: FunctionNode) -> Iterator[Evidence]:
        """What a function of this module that is called here does to the current device, in the caller's words."""
        if helper in self._active or self.values.functions.is_generator(helper):
            return
        self._active.add(helper)
        try:
            inner = [one for one in self.within(helper) if one.kind == "set"]
        finally:
            self._active.discard(helper)
        if len(inner) != 1 or not self._always(inner[0], helper):
            return
        one = inner[0]
        shown = f"{helper.name}() with its {one.shown}"
        name = key_of(_without_int(one.device))
        version = settled(self.module.flow(one.node).version(name, one.node)) if name else None
        if isinstance(version, Definition) and version.how == "parameter":
            given = self.values.functions.bind(node, helper).get(version.key) or default_of(helper, version.key)
            if given is not None:
                yield Evidence(node, given, "set", shown)
        else:
            yield Evidence(node, one.device, "set", shown)

    def _always(self, one: Evidence, helper: FunctionNode) -> bool:
        """Whether a function of a process with a GPU always reaches some evidence in it."""
        conditions = self.module.flow(one.node).conditions(one.node)
        if any(self.values.truth_of(c, Facts(cuda=True)) is not c.truth for c in conditions if not c.fatal):
            return False
        loops = (ast.For, ast.AsyncFor, ast.While, ast.ExceptHandler, ast.match_case, ast.With)
        for around in self.module.ancestors(one.node):
            if around is helper:
                return True
            if isinstance(around, loops):
                return False
        return False

    def _is_current(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Call) and bool(self.module.resolve(node.func).names & CURRENT)

    def _on_cuda(self, node: ast.Call) -> bool:
        given = {k.arg: k.value for k in node.keywords}
        kind = node.args[0] if node.args else given.get("type", given.get("device"))
        if kind is None:
            return False
        return any(
            str(o.value).startswith("cuda") or isinstance(o.value, int)
            if isinstance(o, Known)
            else "cuda:" in o.contains or o.kind == "int"
            for o in self.values.of(kind).options
        )

    def _kept(self, node: ast.Call) -> bool:
        """Whether a device goes straight into a variable that is called one, and not one of somebody else."""
        statement = self.module.parents.get(node)
        if isinstance(statement, ast.IfExp):
            statement = self.module.parents.get(statement)
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        if isinstance(statement, ast.AnnAssign):
            targets = [statement.target]
        names = [(key_of(target) or "").lower() for target in targets]
        return any("dev" in name and not _ANOTHERS & set(re.split(r"[\W_]+", name)) for name in names)

    def _is_gpu(self, node: ast.expr) -> bool:
        """Whether what something is moved to is surely a GPU with an index."""
        if isinstance(node, ast.JoinedStr):
            first = node.values[0] if node.values else None
            return isinstance(first, ast.Constant) and str(first.value).startswith("cuda:")
        if isinstance(node, ast.Constant):
            return isinstance(node.value, str) and CUDA_TEXT.fullmatch(node.value) is not None
        if not isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)):
            return False
        return names_index(node) or self._holds_text(node)

    def _holds_text(self, node: ast.expr) -> bool:
        """Whether a variable for a device surely holds text like "cuda:1"."""
        if not isinstance(node, (ast.Name, ast.Attribute)) or "dev" not in (key_of(node) or "").lower():
            return False
        options = self.values.of(node).options
        known = [o.value if isinstance(o, Known) else o.contains for o in options]
        return bool(known) and all(isinstance(text, str) and text.startswith("cuda:") for text in known)

    def _short(self, node: ast.expr) -> str:
        text = self.module.source(node)
        text = ast.unparse(node) if "\n" in text else text
        return text if len(text) <= _SHORT else text[: _SHORT - 3] + "..."


def unwrapped(module: Module, node: ast.expr) -> ast.expr:
    """`set_device(torch.cuda.device(index))` sets `index`."""
    if isinstance(node, ast.Call) and len(node.args) == 1 and module.resolve(node.func).names & _CONTEXT:
        return node.args[0]
    return node


def index_of(module: Module, node: ast.expr | None) -> ast.expr | None:
    """The index of `torch.device("cuda", index)`, or the text of `torch.device(f"cuda:{index}")`."""
    if not isinstance(node, ast.Call) or module.resolve(node.func).names != {"torch.device"}:
        return None
    given = {k.arg: k.value for k in node.keywords}
    if len(node.args) > 1:
        return node.args[1]
    if "index" in given:
        return given["index"]
    only = node.args[0] if node.args else given.get("type", given.get("device"))
    return None if isinstance(only, ast.Constant) and only.value in ("cuda", "cpu") else only


def names_index(node: ast.expr) -> bool:
    """Whether a name says that it holds the index of a GPU or the number of a process."""
    if isinstance(node, ast.Subscript):
        if isinstance(node.slice, ast.Constant):
            return isinstance(node.slice.value, str) and says_index(node.slice.value)
        return bool(_INDICES_NAME.search(key_of(node.value) or ""))
    name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    return says_index(name)


def says_index(name: str) -> bool:
    """Whether a name is one for indices of GPUs or numbers of processes."""
    return bool(_INDEX_NAME.search(name))


def walk(owner: ast.AST) -> Iterator[ast.AST]:
    """The nodes that a function, or a module's top level, runs itself."""
    stack: list[ast.AST] = [owner.body] if isinstance(owner, ast.Lambda) else list(getattr(owner, "body", []))
    while stack:
        at = stack.pop()
        yield at
        if not isinstance(at, (*_DEFINITIONS, ast.Lambda, ast.ClassDef)):
            stack.extend(ast.iter_child_nodes(at))


def _without_int(node: ast.expr) -> ast.expr:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "int" and len(node.args) == 1:
        return node.args[0]
    return node


def _tail(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else ast.unparse(node)
