"""TM808: _set_pg_timeout is called set_timeout."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchmigrate.codemod import Change, Codemod, Place, Plan
from torchmigrate.edits import ReplaceText
from torchmigrate.module import Module
from torchmigrate.scopes import Kind
from torchmigrate_codemods.spellings import RELEASE_NOTES
from torchmigrate_codemods.uses import guarded

_OLD, _NEW = "_set_pg_timeout", "set_timeout"
_HOME = "torch.distributed.distributed_c10d"
_WARNS = "torch.distributed.distributed_c10d._set_pg_timeout is deprecated (FutureWarning); set_timeout does the same"


class SetTimeout(Codemod):
    """Call torch.distributed.set_timeout instead of the private _set_pg_timeout.

    `torch.distributed.distributed_c10d._set_pg_timeout` has a public name since torch 2.14, `set_timeout`, in the same
    module and in `torch.distributed`. The old one warns (FutureWarning) and only hands on; both take
    `(timeout, group=None)`.

    The name is replaced where it is called or imported: `distributed_c10d._set_pg_timeout(t, g)` becomes
    `distributed_c10d.set_timeout(t, g)`. Code that asks for either name, with `hasattr` or `getattr`, is left alone.
    """

    code, name, area = "TM808", "set-timeout", "distributed"
    triggers = (_OLD.encode(),)
    reference = RELEASE_NOTES
    example = """
    from datetime import timedelta
    from torch.distributed import distributed_c10d

    distributed_c10d._set_pg_timeout(timedelta(minutes=5), group)
    """

    def check(self, module: Module) -> Iterator[Plan]:
        """Plan for every use by attribute, and for every import by name."""
        for node in module.names.attributes:
            if node.attr == _OLD and isinstance(node.ctx, ast.Load):
                reference = module.resolve(node)
                if not reference.perhaps(frozenset({f"{_HOME}.{_OLD}"})) or _ready(module, node):
                    continue
                if reference.certain:
                    yield self.change(node, _renaming(module, node), message=_WARNS, needs_torch="2.14")
                else:
                    yield self.report(node, f"{_WARNS}, if this is torch's own")
        for at in module.parents:
            if isinstance(at, ast.ImportFrom) and at.module == _HOME and not at.level and not _ready(module, at):
                for alias in at.names:
                    if alias.name == _OLD:
                        yield self._imported(module, at, alias)

    def _imported(self, module: Module, node: ast.ImportFrom, alias: ast.alias) -> Plan:
        start, _ = module.extent(alias)
        edit = ReplaceText(start, start + len(_OLD), _NEW)
        if alias.asname:
            return self.change(alias, edit, message=_WARNS, needs_torch="2.14")
        scope = module.names.scope_of(node)
        reads = [name for name in module.names.loads if name.id == _OLD]
        mine = [name for name in reads if module.refers_to(name, f"{_HOME}.{_OLD}")]
        taken = any(_binds_other(module, name) for name in (*mine, node)) or _NEW in scope.bindings
        if taken or len(mine) != len(reads) or scope.is_class:
            return self.change(
                alias, ReplaceText(start, start + len(_OLD), f"{_NEW} as {_OLD}"), message=_WARNS, needs_torch="2.14"
            )
        places = [Place(alias, (edit,)), *(Place(name, (_renaming(module, name),)) for name in mine)]
        return Change(tuple(places), _WARNS, needs_torch="2.14")


def _renaming(module: Module, node: ast.expr) -> ReplaceText:
    _, end = module.extent(node)
    return ReplaceText(end - len(_OLD), end, _NEW)


def _ready(module: Module, node: ast.AST) -> bool:
    return guarded(module, node, _OLD) or guarded(module, node, _NEW)


def _binds_other(module: Module, at: ast.AST) -> bool:
    """Whether the new name already means something at a place."""
    found = module.names.lookup(_NEW, module.names.scope_of(at))
    return found is not None and any(
        b.kind is not Kind.IMPORT or b.qualified not in (f"{_HOME}.{_NEW}", f"torch.distributed.{_NEW}")
        for b in found[1]
    )
