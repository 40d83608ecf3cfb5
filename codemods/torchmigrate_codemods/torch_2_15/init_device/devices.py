"""How a GPU that some code shows is written at a call: a device variable, an index, or the current device."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace

from torchmigrate.carry import Carried, Refused, carry
from torchmigrate.imports import Import
from torchmigrate.module import Module
from torchmigrate.possible import Known, Option, Unknown
from torchmigrate.reaching import Definition, key_of, settled
from torchmigrate.values import Facts, Leaf, Values
from torchmigrate_codemods.torch_2_15.init_device.evidence import (
    CUDA_TEXT,
    CURRENT,
    Evidence,
    Evidences,
    index_of,
    names_index,
    says_index,
)
from torchmigrate_codemods.torch_2_15.init_device.lives import Lives

_BAD = {
    "negative": "may get -1",
    "none": "may get None",
    "bare": "has no index",
    "other": "may be another device than a GPU",
    "unbound": "uses a name that may have no value",
    "raw": "gets text, not a number",
    "current": "only repeats the current device",
}


@dataclass(frozen=True, slots=True)
class Device:
    """A device expression for the call, with its evidence; `sure` when nothing about it is guessed.

    `index` is the text of its index at the call, where it is written out; `source` the node that it comes from;
    `only_if` the condition under which it is the GPU, where that is not always so.
    """

    text: str
    evidence: str
    imports: tuple[Import, ...] = ()
    sure: bool = True
    doubt: str = ""
    index: str = ""
    source: ast.expr | None = None
    only_if: str = ""


class Writer:
    """Writes the device of one evidence at a call."""

    def __init__(self, values: Values, evidences: Evidences) -> None:
        self.values = values
        self.module: Module = values.module
        self.evidences = evidences
        self.lives = Lives(values)

    def device(self, one: Evidence, call: ast.Call, facts: Facts, *, before: bool) -> Device:
        """The device of one evidence as an expression for the call. Raises Refused with the reason.

        `before` says that the evidence has run when the call runs.
        """
        shape = self.shape(one.device, facts, before=before)
        try:
            if shape != "unknown":
                return self._known(one, shape, call, facts)
            why = Refused("may be given something else than an index")
        except Refused as refused:
            why = refused
        current = self.module.spell("torch.cuda.current_device", call)
        if one.kind != "set" or not before or current is None:
            raise why
        device = self.indexed(Carried(f"{current.text}()"), one, call)
        return replace(device, imports=(*device.imports, *current.imports), index="", source=None)

    def _known(self, one: Evidence, shape: str, call: ast.Call, facts: Facts) -> Device:
        node = one.device
        if shape == "device" and key_of(node) is not None:
            made = [leaf.node for leaf in self.values.leaves(node, facts)]
            try:
                carried = carry(self.values, node, call, facts)
                if not carried.inlined or len(made) != 1 or made[0] is None:
                    return self._written(carried.text, carried, one, ())
            except Refused:
                if len(made) != 1 or made[0] is None:
                    raise
            node = made[0]
        if shape == "device":
            index = index_of(self.module, node)
            if index is None or self._is_text(index, facts):
                return self._from_text(node if index is None else index, one, call, facts)
            return self.indexed(self._index(index, call, facts), one, call)
        if shape == "text":
            return self._from_text(node, one, call, facts)
        return self.indexed(self._index(node, call, facts), one, call)

    def indexed(self, index: Carried, one: Evidence, call: ast.Call) -> Device:
        """`torch.device("cuda", index)`."""
        text, imports = self.cuda(index.text, call)
        source = index_of(self.module, one.device) or one.device
        written = self._written(text, index, one, imports)
        return replace(written, index=index.text, source=None if self._is_text(source, Facts()) else source)

    def cuda(self, index: str, call: ast.Call) -> tuple[str, tuple[Import, ...]]:
        """The text of a device with an index. Raises Refused where torch cannot be named."""
        spelling = self.module.spell("torch.device", call)
        if spelling is None:
            raise Refused("cannot be written here: torch is not in scope")
        quote = quote_of(self.module, call)
        return f"{spelling.text}({quote}cuda{quote}, {index})", spelling.imports

    def _index(self, node: ast.expr, call: ast.Call, facts: Facts) -> Carried:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "int" and node.args:
            inner = self.values.of(node.args[0], facts)
            if inner.options and all(option.kind == "int" for option in inner.options):
                node = node.args[0]
        carried = carry(self.values, node, call, facts)
        options = self.values.of(node, facts)
        if carried.inlined and options.certain and len(options.constants) == 1:
            return Carried(str(options.constants[0]))
        return carried

    def _from_text(self, text: ast.expr, one: Evidence, call: ast.Call, facts: Facts) -> Device:
        """A device from "cuda:1" or f"cuda:{index}"."""
        leaves = self.values.leaves(text, facts)
        options = {option for leaf in leaves for option in leaf.options}
        if len(options) == 1 and isinstance(known := next(iter(options)), Known) and isinstance(known.value, str):
            match = CUDA_TEXT.fullmatch(known.value)
            if match is not None:
                return self.indexed(Carried(match[1]), one, call)
        value = _formatted(leaves[0].node) if len(leaves) == 1 else None
        if value is not None and self._is_index(value, facts):
            return self.indexed(self._index(value, call, facts), one, call)
        carried = carry(self.values, text, call, facts)
        spelling = self.module.spell("torch.device", call)
        if spelling is None:
            raise Refused("cannot be written here: torch is not in scope")
        return self._written(f"{spelling.text}({carried.text})", carried, one, spelling.imports)

    def _is_text(self, node: ast.expr, facts: Facts) -> bool:
        """Whether an argument of torch.device or set_device is, or may be, "cuda:1" and not 1."""
        return any(option.kind == "str" for option in self.values.of(node, facts).options)

    def _is_index(self, node: ast.expr, facts: Facts) -> bool:
        try:
            return self.shape(node, facts, before=True) == "index"
        except Refused as why:
            if str(why) == _BAD["raw"]:
                return False
            raise

    def _written(self, text: str, carried: Carried, one: Evidence, imports: tuple[Import, ...]) -> Device:
        doubt = "" if one.firm else "nothing makes that GPU the current one"
        doubt = self.lives.of(one).doubt or doubt
        if carried.touched:
            touched = carried.touched[0]
            doubt = f"{ast.unparse(touched.func)}() on line {self.module.line(touched)} could change it"
        evidence = f"{one.shown} on line {self.module.line(one.node)}"
        return Device(text, evidence, imports, sure=not doubt, doubt=doubt)

    def preferred(self, device: Device, one: Evidence, call: ast.Call, facts: Facts) -> Device:
        """The variable that holds the very device, where there is one, else the device as it is."""
        if one.kind == "used" or key_of(one.device) == device.text:
            return device
        flow = self.module.flow(call)
        for built in self.evidences.around(call):
            statement = self.module.parents.get(built.node)
            if built.kind != "built" or not isinstance(statement, ast.Assign) or statement.value is not built.node:
                continue
            key = key_of(statement.targets[0])
            if key is None or len(statement.targets) != 1 or not before(built.node, call):
                continue
            version = flow.version(key, call)
            alive = [settled(version)] if one.kind == "set" else self.values.sources(version, facts)
            if len(alive) != 1 or not isinstance(alive[0], Definition) or alive[0].node is not statement:
                continue
            try:
                same = self.device(built, call, facts, before=True)
            except Refused:
                continue
            if same.text == device.text and self.values.clear(version, alive[0]):
                return replace(device, text=self.module.source(statement.targets[0]), imports=())
        return device

    # -- shapes ------------------------------------------------------------------------------------------------

    def shape(self, node: ast.expr, facts: Facts, *, before: bool) -> str:
        """What an expression is: "device" (with an index), "index", "text" ("cuda:1") or "unknown".

        Raises Refused for what can be no GPU: None, a negative number, a device without an index, the CPU.
        """
        shapes: set[str] = set()
        for leaf in self.values.leaves(node, facts):
            shapes |= self._of_leaf(leaf, before=before)
        if not shapes:
            raise Refused("has no value that names a GPU")
        for bad, reason in _BAD.items():
            if bad in shapes:
                raise Refused(reason)
        if shapes <= {"unknown", "index"} and "unknown" in shapes:
            return "index" if names_index(node) else "unknown"
        return shapes.pop() if len(shapes) == 1 else "unknown"

    def constant(self, node: ast.expr, facts: Facts) -> bool:
        """Whether a device or an index is one number in sight, and so the same in every process."""
        known: set[Option] = set()
        for leaf in self.values.leaves(node, facts):
            inner = index_of(self.module, leaf.node)
            leaves = [leaf] if inner is None else self.values.leaves(inner, leaf.facts)
            for one in leaves:
                if one.node is None or not all(isinstance(option, Known) for option in one.options):
                    return False
                known |= one.options
        return len(known) == 1

    def _of_leaf(self, leaf: Leaf, *, before: bool) -> set[str]:
        if isinstance(leaf.node, ast.Call):
            names = self.module.resolve(leaf.node.func).names
            if names == {"torch.device"}:
                return self._of_device(leaf.node, leaf.facts)
            if names & CURRENT:
                return {"current"}
        shapes: set[str] = set()
        for option in leaf.options:
            if isinstance(option, Known):
                shapes.add(_of_constant(option, before))
            elif option.kind == "int":
                shapes.add("index")
            elif option.kind == "str":
                shapes.add("text" if "cuda:" in option.contains else "raw")
            elif option.kind in ("NoneType", "list", "tuple", "dict", "bool"):
                shapes.add("other")
            elif option.origin == "no value":
                shapes.add("unbound")
            else:
                named = leaf.definition is not None and says_index(leaf.definition.key)
                shapes.add("index" if named and option.kind == "" and leaf.node is None else "unknown")
        return shapes - {""}

    def _of_device(self, node: ast.Call, facts: Facts) -> set[str]:
        given = {k.arg: k.value for k in node.keywords}
        kind = node.args[0] if node.args else given.get("type", given.get("device"))
        index = node.args[1] if len(node.args) > 1 else given.get("index")
        if kind is None:
            return {"unknown"}
        shapes: set[str] = set()
        for option in self.values.of(kind, facts).options:
            if isinstance(option, Known) and option.value == "cuda":
                shapes.add("bare" if index is None else self._of_index(index, facts))
            elif isinstance(option, Known) and isinstance(option.value, str):
                shapes.add("device" if CUDA_TEXT.fullmatch(option.value) else "other")
            elif isinstance(option, Known) and isinstance(option.value, int):
                shapes.add("device" if option.value >= 0 else "negative")
            elif option.kind == "int" or (isinstance(option, Unknown) and "cuda:" in option.contains):
                shapes.add("device")
            else:
                shapes.add("unknown")
        return shapes

    def _of_index(self, index: ast.expr, facts: Facts) -> str:
        options = self.values.of(index, facts).options
        known = [option.value for option in options if isinstance(option, Known)]
        if any(option.kind == "str" for option in options):
            return "raw"
        if any(value is None for value in known):
            return "bare"
        return "negative" if any(isinstance(value, int) and value < 0 for value in known) else "device"


def before(node: ast.expr, call: ast.Call) -> bool:
    """Whether an expression stands before a call."""
    return (node.lineno, node.col_offset) < (call.lineno, call.col_offset)


def quote_of(module: Module, call: ast.Call) -> str:
    """The quote that a call's own strings are written in, else the file's more common one."""
    for node in ast.walk(call):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = module.source(node).lstrip("rbufRBUF")
            if text[:1] in ("'", '"'):
                return text[0]
    return "'" if module.text.count("'") > 2 * module.text.count('"') else '"'


def _of_constant(option: Known, before: bool) -> str:
    value = option.value
    if value is None:
        return "" if before else "none"
    if isinstance(value, bool):
        return "unknown"
    if isinstance(value, int):
        return "index" if value >= 0 else "negative"
    if isinstance(value, str):
        return "text" if CUDA_TEXT.fullmatch(value) else "bare" if value == "cuda" else "other"
    return "unknown"


def _formatted(node: ast.expr | None) -> ast.expr | None:
    """The index in f"cuda:{index}", "cuda:%d" % index, "cuda:{}".format(index) and "cuda:" + str(index)."""
    match node:
        case ast.JoinedStr(
            values=[
                ast.Constant(value="cuda:"),
                ast.FormattedValue(value=value, format_spec=None | ast.JoinedStr(values=[ast.Constant(value="d")])),
            ]
        ):
            return value
        case ast.BinOp(left=ast.Constant(value="cuda:%d" | "cuda:%s" | "cuda:%i"), op=ast.Mod(), right=right):
            return right if not isinstance(right, ast.Tuple) else right.elts[0] if len(right.elts) == 1 else None
        case ast.Call(
            func=ast.Attribute(
                value=ast.Constant(value="cuda:{}" | "cuda:{0}" | "cuda:{:d}" | "cuda:{0:d}"), attr="format"
            ),
            args=[value],
            keywords=[],
        ):
            return value
        case ast.BinOp(
            left=ast.Constant(value="cuda:"),
            op=ast.Add(),
            right=ast.Call(func=ast.Name(id="str"), args=[value], keywords=[]),
        ):
            return value
    return None
