"""TM202 collective-aliases."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchmigrate.codemod import Change, Codemod, Place, Plan
from torchmigrate.edits import Replace, ReplaceText
from torchmigrate.imports import Import
from torchmigrate.module import Module
from torchmigrate.scopes import Kind
from torchmigrate.versions import older
from torchmigrate_codemods.fallbacks import is_fallback

_HOMES = ("torch.distributed", "torch.distributed.distributed_c10d")
_FUNCTIONAL = "torch.distributed._functional_collectives"
_PLAIN = {
    "all_gather_into_tensor": ("all_gather_single", "2.13"),
    "reduce_scatter_tensor": ("reduce_scatter_single", "2.13"),
    "gather_into_tensor": ("gather_single", "2.14"),
    "_all_gather_base": ("all_gather_single", "2.13"),
    "_reduce_scatter_base": ("reduce_scatter_single", "2.13"),
}
_FUNCTIONAL_NAMES = {
    "all_gather_tensor": ("all_gather_single", "2.13"),
    "all_gather_tensor_autograd": ("all_gather_single_autograd", "2.13"),
    "all_gather_into_tensor_coalesced": ("all_gather_single_coalesced", "2.13"),
    "reduce_scatter_tensor": ("reduce_scatter_single", "2.13"),
    "reduce_scatter_tensor_autograd": ("reduce_scatter_single_autograd", "2.13"),
    "reduce_scatter_tensor_coalesced": ("reduce_scatter_single_coalesced", "2.13"),
}
_NEW = {f"{home}.{old}": new for home in _HOMES for old, new in _PLAIN.items()} | {
    f"{_FUNCTIONAL}.{old}": new for old, new in _FUNCTIONAL_NAMES.items()
}
_BEFORE_2_13 = {
    "_all_gather_base": ("all_gather_into_tensor", "1.13"),
    "_reduce_scatter_base": ("reduce_scatter_tensor", "1.13"),
}


class CollectiveAliases(Codemod):
    """Call the collectives on single tensors by their new names.

    torch 2.13 renamed `all_gather_into_tensor` and `reduce_scatter_tensor` to `all_gather_single` and
    `reduce_scatter_single`, 2.14 `gather_into_tensor` to `gather_single`. The old names warned in 2.13 and 2.14 and
    are quiet aliases in 2.15, so this rule is off by default. The private `_all_gather_base` and
    `_reduce_scatter_base` and the functional collectives named after tensors still warn. The arguments are the same.

    The new names need torch 2.13 (`gather_single` 2.14). Where the project supports an older torch the quiet aliases
    stay, and the private names get the name that every release since 1.13 has. Only calls are renamed, since the old
    and the new function are two objects; calls that only run on releases without the new name are left alone.
    """

    code, name = "TM202", "collective-aliases"
    triggers = (*(old.encode() for old in _PLAIN), *(old.encode() for old in _FUNCTIONAL_NAMES))
    default = False
    reference = "https://github.com/pytorch/pytorch/pull/193874"
    example = """
    import torch.distributed as dist

    dist.all_gather_into_tensor(out, x)
    """

    def check(self, module: Module) -> Iterator[Plan]:
        """One change for each call by attribute, one for all calls of an imported name."""
        named: dict[ast.AST, list[tuple[ast.Name, str]]] = {}
        for site in module.calls(*_NEW):
            function = site.node.func
            (old, *others) = sorted(module.resolve(function).names & set(_NEW))
            if others or not site.certain or is_fallback(module, site.node, _NEW[old][0]) or _not_yet(module, old):
                continue
            if isinstance(function, ast.Attribute):
                new, needs = _target(module, old)
                _, end = module.extent(function)
                edit = ReplaceText(end - len(function.attr), end, new)
                yield self.change(function, edit, message=_message(old, new), needs_torch=needs)
            elif isinstance(function, ast.Name):
                found = module.names.reaching(function)
                if found is None:
                    yield self.report(function, f"{_message(old, _target(module, old)[0])} (imported by *)")
                elif len(found) == 1:
                    named.setdefault(found[0].node, []).append((function, old))
            else:
                yield self.report(function, f"{_message(old, _target(module, old)[0])} (named by text)")
        for statement, uses in named.items():
            if isinstance(statement, ast.ImportFrom):
                yield from self._imported(module, statement, uses)

    def _imported(self, module: Module, statement: ast.ImportFrom, uses: list[tuple[ast.Name, str]]) -> Iterator[Plan]:
        """The calls of names that one statement imports, with the import where nothing else uses it."""
        for bound in dict.fromkeys(use.id for use, _ in uses):
            calls = [(use, old) for use, old in uses if use.id == bound]
            new, needs = _target(module, calls[0][1])
            alias = next(a for a in statement.names if (a.asname or a.name) == bound)
            places: list[Place] = []
            imports: tuple[Import, ...] = ()
            text = new
            if _only_called(module, bound, calls) and not module.names.module.bindings.get(new):
                start, _ = module.extent(alias)
                places.append(Place(alias, (ReplaceText(start, start + len(alias.name), new),)))
            elif alias.asname is None:
                spelling = module.spell(f"{statement.module}.{new}", calls[0][0], Import(statement.module or "", new))
                if spelling is None:
                    yield self.report(calls[0][0], f"{_message(calls[0][1], new)} (that name is taken here)")
                    continue
                text, imports = spelling.text, spelling.imports
            if alias.asname is None:
                places += [Place(use, (Replace(use, text),)) for use, _ in calls]
            if places:
                yield Change(tuple(places), _message(calls[0][1], new), imports=imports, needs_torch=needs)


def _not_yet(module: Module, old: str) -> bool:
    """Whether the project supports a torch that has the old name alone; it is an alias without a warning in 2.15."""
    warns = old.rpartition(".")[2] in _BEFORE_2_13 or old.startswith(_FUNCTIONAL)
    return not warns and older(module.project.torch_min, _NEW[old][1])


def _target(module: Module, old: str) -> tuple[str, str]:
    """The new name and the torch that has it; for private names one that an old torch has, where it is needed."""
    new, needs = _NEW[old]
    tail = old.rpartition(".")[2]
    if tail in _BEFORE_2_13 and older(module.project.torch_min, needs):
        return _BEFORE_2_13[tail]
    return new, needs


def _message(old: str, new: str) -> str:
    tail = old.rpartition(".")[2]
    warns = tail.startswith("_") or old.startswith(_FUNCTIONAL)
    return f"{tail} {'warns, its name is' if warns else 'is an alias of'} {new}"


def _only_called(module: Module, bound: str, calls: list[tuple[ast.Name, str]]) -> bool:
    """Whether an imported name of the module is bound once, read by these calls alone, and not exported."""
    bindings = module.names.module.bindings.get(bound, [])
    loads = {load for load in module.names.loads if load.id == bound}
    exported = any(isinstance(n, ast.Constant) and n.value == bound for n in ast.walk(module.tree))
    once = len(bindings) == 1 and bindings[0].kind is Kind.IMPORT
    return once and not exported and loads == {use for use, _ in calls}
