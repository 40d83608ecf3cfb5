"""TM104: the object behind backend "nccl" is of another class, with fewer methods."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchmigrate.codemod import Alternative, Change, Codemod, Place, Plan
from torchmigrate.edits import Replace
from torchmigrate.imports import Import
from torchmigrate.model import Safety
from torchmigrate.module import Module
from torchmigrate.reaching import key_of
from torchmigrate.versions import older
from torchmigrate_codemods.backends import NCCL_CLASS, Backend, backend, group_at
from torchmigrate_codemods.origins import origins
from torchmigrate_codemods.spellings import pull
from torchmigrate_codemods.uses import guarded

_CLASSES = ("ProcessGroupNCCL2", "ProcessGroupNCCLLazy")
_IS_OTHER = 'the backend of a "nccl" group is a ProcessGroupNCCL2 in torch 2.15, not a ProcessGroupNCCL'
_CONSTRUCTS = (
    "builds the legacy NCCL class directly; torch 2.15 still has it, but announces its end in 2.16: let "
    'new_group(backend="nccl") make the backend'
)
_MEMBERS = {
    "comm_split_count": "nothing takes its place",
    "uid": "nothing takes its place",
    "_is_initialized": "its communicator exists from the start, so it is practically always true",
    "_group_start": "use dist.batch_isend_irecv, or dist._coalescing_manager",
    "_group_end": "use dist.batch_isend_irecv, or dist._coalescing_manager",
    "_set_enable_nan_check": "set TORCH_DIST_NAN_CHECK=1 in the environment (torch 2.14 or newer)",
    "_set_default_timeout": "call dist.set_timeout(timeout, group) (torch 2.14 or newer)",
    "get_build_nccl_version": "call torch.cuda.nccl.version()",
    "get_runtime_nccl_version": "call torch.cuda.nccl.version()",
    "NCCLConfig": "take it from the class: dist.ProcessGroupNCCL.NCCLConfig",
}
_TELLING = frozenset(
    {"comm_split_count", "_set_enable_nan_check", "_set_default_timeout", "get_build_nccl_version"}
    | {"get_runtime_nccl_version"}
)
_PENDING = "_wait_for_pending_works"
_HARMLESS = frozenset("isinstance print repr str type len id hasattr getattr format".split())  # noqa: SIM905


class NcclBackendClass(Codemod):
    """Let type checks and calls on NCCL backend objects fit the new class.

    `backend="nccl"` is a new implementation in torch 2.15. `group._get_backend(torch.device("cuda"))` and
    `dist.get_backend_impl(...)` hand out `ProcessGroupNCCL2` (for `nccl-lazy`: `ProcessGroupNCCLLazy`), which are no
    subclasses of `ProcessGroupNCCL`: `isinstance` is False, silently. The object calls itself "nccl2", and methods of
    the old class are missing: `comm_split_count`, `uid`, `_is_initialized`, `_group_start`, `_group_end`,
    `_set_default_timeout`, `_set_enable_nan_check`, `get_build_nccl_version`, `get_runtime_nccl_version`, `NCCLConfig`.

    Rewritten: `isinstance` and `type(...) is` tests (three classes, which needs torch 2.14; a test of the group's
    configuration where an older torch is supported and the group is in sight), `backend.name() == "nccl"`
    (`startswith`), `backend._set_default_timeout(t)` (`dist.set_timeout(t, group)`, torch 2.14) and the two version
    getters (`torch.cuda.nccl.version()`).

    Reported: a type test whose branch needs methods that only the old class has (a wider test would let the new
    objects in and fail there), calls of such methods, `ProcessGroupNCCL(...)` built directly, subclasses, `match`.

    Left alone: annotations, `ProcessGroupNCCL.Options` (still the options class of every NCCL backend), methods called
    on the class itself, and tests in a function that builds objects of the old class. `dist.get_backend()` still
    returns "nccl" for "nccl", so comparisons with it need nothing here.
    """

    code, name, area = "TM104", "nccl-backend-class", "distributed"
    triggers = (
        *(b"ProcessGroupNCCL", b"_get_backend(", b"get_backend_impl", _PENDING.encode()),
        *(one.encode() for one in sorted(_TELLING)),
    )
    reference = pull(192281)
    example = """
    import torch
    import torch.distributed as dist

    def is_nccl(group):
        backend = group._get_backend(torch.device("cuda"))
        return isinstance(backend, dist.ProcessGroupNCCL)
    """

    def check(self, module: Module) -> Iterator[Plan]:
        """Plan for uses of the class, then for members of backend objects."""
        if "ProcessGroupNCCL" in module.text:
            for node, certain in module.references(*NCCL_CLASS):
                yield from self._class(module, node, certain)
        yield from self._members(module)
        yield from self._own_names(module)

    # -- the class ---------------------------------------------------------------------------------------------

    def _class(self, module: Module, node: ast.expr, certain: bool) -> Iterator[Plan]:
        parent = module.parents.get(node)
        match parent:
            case ast.Attribute():
                return
            case ast.Call(func=function) if function is node:
                yield self.report(parent, _CONSTRUCTS)
            case ast.ClassDef(bases=bases) if node in bases:
                yield self.report(node, f"{parent.name} extends the legacy NCCL class, which ends with torch 2.16")
            case ast.MatchClass():
                yield self.report(node, f"{_IS_OTHER}: this case no longer matches it")
            case ast.Compare():
                yield from self._compared(module, parent, node, certain)
            case _:
                test = _type_test(module, node)
                if test is not None:
                    yield from self._tested(module, test, node, certain)

    def _compared(self, module: Module, compare: ast.Compare, node: ast.expr, certain: bool) -> Iterator[Plan]:
        """Plan for `type(x) is ProcessGroupNCCL` and its kin."""
        other = compare.left if node in compare.comparators else compare.comparators[0]
        match other:
            case ast.Call(func=ast.Name(id="type"), args=[subject]) | ast.Attribute(attr="__class__", value=subject):
                pass
            case _:
                return
        if _is_constructed(module, subject):
            return
        used = _legacy_behind(module, compare, subject)
        names, imports = _three(module, node)
        if len(compare.ops) != 1 or not certain or names is None or used:
            yield self.report(compare, f"{_IS_OTHER}{_needing(used)}")
            return
        word = "in" if isinstance(compare.ops[0], (ast.Is, ast.Eq)) else "not in"
        safety, note = self._handed_on(module, compare, subject)
        yield self.change(
            compare,
            Replace(compare, f"$other {word} ({', '.join(names)})", (("other", other),)),
            message=f"{_IS_OTHER}{note}",
            safety=safety,
            imports=imports,
            needs_torch="2.14",
        )

    def _tested(self, module: Module, test: ast.Call, node: ast.expr, certain: bool) -> Iterator[Plan]:
        """Plan for `isinstance(x, ProcessGroupNCCL)`, alone or among other classes."""
        subject = test.args[0]
        if _is_constructed(module, subject) or _names_new_class(module, test.args[1]):
            return
        if _builds_legacy(module, test):
            return  # reported where it is built; what this tests goes with it
        used = _legacy_behind(module, test, subject)
        names, imports = _three(module, node)
        if names is None or not certain:
            yield self.report(test, f"{_IS_OTHER}; ask for ProcessGroupNCCL2 and ProcessGroupNCCLLazy as well")
            return
        followers = [self._member(module, one, backend(module, one.value)) for one in used]
        if not all(isinstance(one, Change) and one.safety is Safety.SAFE for one in followers):
            yield self.report(test, f"{_IS_OTHER}{_needing(used)}")
            return
        parent = module.parents.get(node)
        code = (" | " if isinstance(parent, ast.BinOp) else ", ").join(names)
        if parent is test:
            code = f"({code})"
        safety, note = self._handed_on(module, test, subject)
        message = f"{_IS_OTHER}{note}"
        changes = [one for one in followers if isinstance(one, Change)]
        places = (
            Place(test, (Replace(node, code),), message),
            *(Place(place.anchor, place.edits, one.message) for one in changes for place in one.places),
        )
        imports = (*imports, *(one for change in changes for one in change.imports))
        by_name = _by_configuration(module, test, subject) if parent is test and not changes else None
        if by_name is not None and older(module.project.torch_min, "2.14"):
            expression, more = by_name
            yield self.change(test, Replace(test, expression), message=message, safety=safety, imports=more)
            return
        alternatives: tuple[Alternative, ...] = ()
        if by_name is not None:
            expression, more = by_name
            place = Place(test, (Replace(test, expression),))
            alternatives = (Alternative(expression, "asks the group's configuration; any torch", (place,), more),)
        yield Change(
            places,
            message,
            safety,
            imports,
            "2.14",
            label=f"isinstance with {', '.join(_CLASSES)} as well" if alternatives else "",
            evidence="keeps the style; torch 2.14 or newer" if alternatives else "",
            alternatives=alternatives,
        )

    def _handed_on(self, module: Module, test: ast.expr, subject: ast.expr) -> tuple[Safety, str]:
        """Whether the function hands the object to code out of sight, which may need the old class."""
        key = key_of(subject)
        for call in module.names.calls:
            if module.function(call) is not module.function(test) or not _behind(module, test, call):
                continue
            name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
            given = (*call.args, *(k.value for k in call.keywords))
            if key is not None and name not in _HARMLESS and any(key_of(one) == key for one in given):
                return Safety.UNSAFE, f" (if what {name} does with it needs no method of the old class)"
        return Safety.SAFE, ""

    # -- members of backend objects ----------------------------------------------------------------------------

    def _members(self, module: Module) -> Iterator[Plan]:
        own = {at.name for at in module.parents if isinstance(at, (ast.FunctionDef, ast.AsyncFunctionDef))}
        for node in module.names.attributes:
            if node.attr == _PENDING and _PENDING not in own:
                yield self.report(
                    node, f"{_PENDING} raises RuntimeError for the nccl of torch 2.15; wait for each work"
                )
            if node.attr not in _MEMBERS or node.attr in own or not isinstance(node.ctx, ast.Load):
                continue
            if module.resolve(node).names or _is_tested(module, node):
                continue
            made = backend(module, node.value)
            if made is not None and not made.constructed:
                yield self._member(module, node, made)
            elif made is None and node.attr in _TELLING and _is_near(module):
                yield self._member(module, node, None)

    def _member(self, module: Module, node: ast.Attribute, made: Backend | None) -> Plan:
        note = " (the code around it then takes its other way)" if guarded(module, node, node.attr) else ""
        message = f"{node.attr} is a member of the legacy NCCL class only; {_MEMBERS[node.attr]}{note}"
        call = module.parents.get(node)
        if not isinstance(call, ast.Call) or call.func is not node:
            return self.report(node, message)
        if node.attr in ("get_build_nccl_version", "get_runtime_nccl_version") and not call.args and not call.keywords:
            spelling = module.spell("torch.cuda.nccl.version", call)
            loaded = node.attr == "get_runtime_nccl_version"
            if spelling is not None:
                return self.change(
                    call,
                    Replace(call, f"{spelling.text}()"),
                    message=message if loaded else f"{message}, the version that is loaded",
                    safety=Safety.SAFE if loaded and made is not None else Safety.UNSAFE,
                    imports=spelling.imports,
                )
        if node.attr == "_set_default_timeout" and made is not None and len(call.args) + len(call.keywords) == 1:
            return self._timeout(module, call, made, message)
        return self.report(call, message)

    def _timeout(self, module: Module, call: ast.Call, made: Backend, message: str) -> Plan:
        given = call.args[0] if call.args else call.keywords[0].value
        spelling = module.spell("torch.distributed.set_timeout", call, Import("torch.distributed", None, "dist"))
        group = group_at(module, made, call)
        if spelling is None or isinstance(given, ast.Starred) or (made.group is not None and group is None):
            return self.report(call, message)
        holes: tuple[tuple[str, ast.expr], ...] = (("timeout", given),)
        code = f"{spelling.text}($timeout)"
        if group is not None:
            code = f"{spelling.text}($timeout, {module.normal(group)})"
        return self.change(
            call, Replace(call, code, holes), message=message, imports=spelling.imports, needs_torch="2.14"
        )

    # -- the backend's own name --------------------------------------------------------------------------------

    def _own_names(self, module: Module) -> Iterator[Plan]:
        """Plan for comparisons of `backend.name()` with "nccl"."""
        for node in [one for one in module.parents if one.__class__ is ast.Compare]:
            if not isinstance(node, ast.Compare) or len(node.ops) != 1:
                continue
            sides = (node.left, node.comparators[0])
            for side, other in (sides, sides[::-1]):
                if _is_own_name(module, side):
                    yield from self._named(module, node, side, other)

    def _named(self, module: Module, node: ast.Compare, side: ast.expr, other: ast.expr) -> Iterator[Plan]:
        message = 'a backend object of a "nccl" group calls itself "nccl2" in torch 2.15'
        operator = node.ops[0]
        if isinstance(other, ast.Constant) and other.value == "nccl" and isinstance(operator, (ast.Eq, ast.NotEq)):
            quoted = module.source(other)
            negated = "not " if isinstance(operator, ast.NotEq) else ""
            code = f"{negated}$name.startswith({quoted})"
            yield self.change(node, Replace(node, code, (("name", side),)), message=message)
        elif side is node.left and isinstance(operator, (ast.In, ast.NotIn)) and _holds_nccl(other):
            yield self.report(node, f'{message}; list "nccl2" and "nccl-lazy" as well')


def _legacy_behind(module: Module, test: ast.expr, subject: ast.expr) -> list[ast.Attribute]:
    """The members of the old class that are used on an object where a test of it came out true."""
    key = key_of(subject)
    here = module.function(test)
    return [
        node
        for node in module.names.attributes
        if key is not None
        and node.attr in _MEMBERS
        and key_of(node.value) == key
        and module.function(node) is here
        and _behind(module, test, node)
    ]


def _needing(used: list[ast.Attribute]) -> str:
    """What stands against a wider test, for messages."""
    if not used:
        return ""
    listed = "; ".join(f"{name} ({_MEMBERS[name]})" for name in sorted({node.attr for node in used}))
    return f", and the code behind the test needs what only the old class has: {listed}"


def _behind(module: Module, test: ast.expr, node: ast.AST) -> bool:
    """Whether a node runs only after a test that may have come out true."""
    for one in module.flow(node).conditions(node):
        if one.test is test:
            return one.truth
        if any(at is test for at in ast.walk(one.test)):
            return True
    return False


def _type_test(module: Module, node: ast.expr) -> ast.Call | None:
    """The isinstance or issubclass call whose second argument a class stands in."""
    at: ast.AST = node
    while isinstance(parent := module.parents.get(at), (ast.Tuple, ast.BinOp)):
        at = parent
    match parent:
        case ast.Call(func=ast.Name(id="isinstance" | "issubclass"), args=[_, second]) if second is at:
            return parent
    return None


def _three(module: Module, node: ast.expr) -> tuple[tuple[str, ...] | None, tuple[Import, ...]]:
    """How to write the old and the two new classes where the old one is written."""
    if isinstance(node, ast.Attribute):
        home = module.source(node.value)
        return (module.source(node), *(f"{home}.{name}" for name in _CLASSES)), ()
    names = [module.source(node)]
    imports: list[Import] = []
    for name in _CLASSES:
        spelling = module.spell(f"torch.distributed.{name}", node)
        if spelling is None:
            return None, ()
        names.append(spelling.text)
        imports += spelling.imports
    return tuple(names), tuple(imports)


def _by_configuration(module: Module, test: ast.Call, subject: ast.expr) -> tuple[str, tuple[Import, ...]] | None:
    """A test of the group's configuration that says the same on any torch, where the group is in sight."""
    made = backend(module, subject)
    if made is None or made.constructed or not isinstance(test.func, ast.Name) or test.func.id != "isinstance":
        return None
    if made.asks_device and "cuda" not in module.source(made.call):
        return None
    group = group_at(module, made, test)
    if made.group is not None and group is None:
        return None
    spelling = module.spell("torch.distributed.get_backend_config", test, Import("torch.distributed", None, "dist"))
    if spelling is None:
        return None
    asked = module.normal(group) if group is not None else ""
    listed = f'str({spelling.text}({asked})).split(",")'
    return f'any(part.rpartition(":")[2].startswith("nccl") for part in {listed})', spelling.imports


def _is_constructed(module: Module, subject: ast.expr) -> bool:
    """Whether an object was built from the old class by the same code, on some way at least."""
    key = key_of(subject)
    if key is None:
        return False
    for definition in module.flow(subject).definitions(key, subject):
        if isinstance(definition.value, ast.Call) and module.resolve(definition.value.func).perhaps(
            frozenset(NCCL_CLASS)
        ):
            return True
    found = origins(module, subject)
    return bool(found) and any(
        isinstance(one, ast.Call) and module.resolve(one.func).perhaps(frozenset(NCCL_CLASS)) for one in found or ()
    )


def _builds_legacy(module: Module, test: ast.Call) -> bool:
    """Whether the function of a test builds an object of the old class itself."""
    function = module.function(test)
    built = module.calls(*NCCL_CLASS)
    return function is not None and any(module.function(site.node) is function for site in built)


def _names_new_class(module: Module, classes: ast.expr) -> bool:
    return any(isinstance(at, (ast.Name, ast.Attribute)) and _last(at) in _CLASSES for at in ast.walk(classes))


def _last(node: ast.Name | ast.Attribute) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id


def _is_tested(module: Module, node: ast.Attribute) -> bool:
    """Whether a member is read where a type test has let only the old class in."""
    key = key_of(node.value)
    for condition in module.flow(node).conditions(node):
        for at in ast.walk(condition.test):
            match at:
                case ast.Call(func=ast.Name(id="isinstance"), args=[subject, classes]):
                    classy = [c for c in ast.walk(classes) if isinstance(c, (ast.Name, ast.Attribute))]
                    if key_of(subject) == key and any(module.refers_to(c, *NCCL_CLASS) for c in classy):
                        return True
    return False


def _is_near(module: Module) -> bool:
    """Whether a file deals with backend objects at all, for members of objects of unknown origin."""
    return any(word in module.text for word in ("_get_backend", "ProcessGroup", "process_group", "torch.distributed"))


def _is_own_name(module: Module, node: ast.expr) -> bool:
    """Whether an expression is the `name()` of a backend object, directly or through a variable."""
    match node:
        case ast.Call(func=ast.Attribute(value=inner, attr="lower" | "casefold"), args=[], keywords=[]):
            return _is_own_name(module, inner)
        case ast.Call(func=ast.Attribute(value=receiver, attr="name"), args=[], keywords=[]):
            made = backend(module, receiver)
            return made is not None and not made.constructed
        case ast.Name():
            found = origins(module, node) or []
            return bool(found) and all(not isinstance(one, ast.Name) and _is_own_name(module, one) for one in found)
    return False


def _holds_nccl(node: ast.expr) -> bool:
    elements = node.elts if isinstance(node, (ast.Tuple, ast.List, ast.Set)) else []
    return any(isinstance(one, ast.Constant) and one.value == "nccl" for one in elements)
