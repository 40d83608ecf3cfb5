"""Spelling names of torch.nn.functional at a place, short where that adds no risk."""

from __future__ import annotations

import ast

from torchmigrate.imports import Import, Spelling
from torchmigrate.module import Module
from torchmigrate.scopes import Kind
from torchmigrate_codemods.fresh_names import FreshNames

_HOME = "torch.nn.functional"
_SHORT = Import(_HOME, None, "F")


class Functional:
    """Names of torch.nn.functional as one call may write them."""

    def __init__(self, module: Module, at: ast.expr) -> None:
        self.module = module
        self.at = at
        self.imports: tuple[Import, ...] = ()

    def spelling(self, name: str) -> Spelling | None:
        """How to write a name; None where nothing leads to it.

        `F` is imported where only `torch` is there, unless torch itself is imported under a condition.
        """
        found = self.module.spell(f"{_HOME}.{name}", self.at, prefer=_SHORT)
        if found is None or found.imports or not found.text.startswith(f"{_HOME}."):
            return found
        names = self.module.names
        torch = names.module.bindings.get("torch", [])
        plain = len(torch) == 1 and torch[0].kind is Kind.IMPORT and not torch[0].conditional
        if plain and names.lookup("F", names.scope_of(self.at)) is None:
            return Spelling(f"F.{name}", (_SHORT,))
        return found

    def name(self, name: str) -> str:
        """The text of a name; what it needs is added to `imports`. Raises ValueError where `spelling` is None."""
        found = self.spelling(name)
        if found is None:
            raise ValueError(name)
        self.imports = tuple(dict.fromkeys((*self.imports, *found.imports)))
        return found.text

    def fresh(self, wanted: str) -> str:
        """A name for a new local variable."""
        return FreshNames(self.module).take(wanted, self.at)
