"""Rules for tests of the review: choices, several places, several changes of one line, reports with and without."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchmigrate.codemod import Alternative, Change, Codemod, Place, Plan
from torchmigrate.edits import SetArgument
from torchmigrate.imports import Import
from torchmigrate.model import Safety
from torchmigrate.module import Module


def calls(module: Module, name: str) -> Iterator[ast.Call]:
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Call) and module.source(node.func) == name:
            yield node


class One(Codemod):
    """Give calls of one() a start.

    Why: nobody knows.
    """

    code, name = "RV101", "one"
    triggers = (b"one(",)

    def check(self, module: Module) -> Iterator[Plan]:
        for node in calls(module, "one"):
            if not node.keywords:
                safety = Safety.UNSAFE if "'unsafe'" in module.source(node) else Safety.SAFE
                edit = SetArgument(node, "start", "math.e")
                yield self.change(node, edit, message="one gets a start", safety=safety, imports=[Import("math")])


class Two(Codemod):
    """Give calls of two() an end."""

    code, name = "RV102", "two"
    triggers = (b"two(",)

    def check(self, module: Module) -> Iterator[Plan]:
        for node in calls(module, "two"):
            if not node.keywords:
                yield self.change(node, SetArgument(node, "end", "9"), message="two gets an end")


class Several(Codemod):
    """Change all calls of several() in a file together."""

    code, name = "RV201", "several"
    triggers = (b"several(",)

    def check(self, module: Module) -> Iterator[Plan]:
        found = [node for node in calls(module, "several") if not node.keywords]
        if found:
            places = tuple(Place(node, (SetArgument(node, "together", "True"),)) for node in found)
            yield Change(places, "all are changed together")


class Pick(Codemod):
    """Give calls of pick() one of three."""

    code, name = "RV301", "pick"
    triggers = (b"pick(", b"choose(")

    def check(self, module: Module) -> Iterator[Plan]:
        for name in ("pick", "choose"):
            for node in calls(module, name):
                if node.keywords:
                    continue
                others = [
                    Alternative(label, f"because of {label}", (Place(node, (SetArgument(node, "way", label),)),))
                    for label in ("1", "2", "3")
                ]
                if name == "pick":
                    edit = SetArgument(node, "way", "1")
                    yield self.change(
                        node, edit, message="pick a way", label="1", evidence="it is first", alternatives=others[1:]
                    )
                else:
                    yield self.report(node, "choose a way yourself", others[:2])


class Look(Codemod):
    """Report calls of look()."""

    code, name = "RV401", "look"
    triggers = (b"look(",)

    def check(self, module: Module) -> Iterator[Plan]:
        yield from (self.report(node, "look at this") for node in calls(module, "look"))


CODEMODS = (One, Two, Several, Pick, Look)
