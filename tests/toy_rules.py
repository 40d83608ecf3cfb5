"""Rules for tests of the command line: simple enough that no release of torch ever changes them."""

from __future__ import annotations

import ast
import ctypes
import time
from collections.abc import Iterator, Mapping
from typing import ClassVar

from torchmigrate.codemod import Codemod, Option, Plan
from torchmigrate.edits import SetArgument
from torchmigrate.imports import Import
from torchmigrate.model import Safety
from torchmigrate.module import Module


class AddDevice(Codemod):
    """Give toy calls a device.

    Calls that say "manual" are left to a person, those that say "unsafe" are unsafe.
    """

    code, name, area = "XX101", "add-device", "toys"
    triggers = (b"toy_call",)
    options: ClassVar[Mapping[str, Option]] = {"device": Option("0", ("0", "1"), "which device is given")}

    def check(self, module: Module) -> Iterator[Plan]:
        for node in ast.walk(module.tree):
            if not (isinstance(node, ast.Call) and module.source(node.func).endswith("toy_call")):
                continue
            text = module.source(node)
            if "crash" in text:
                ctypes.string_at(0)
            if "slow" in text:
                time.sleep(60)
            if "nap" in text:
                time.sleep(0.1)
            if "device=" in text:
                continue
            if "manual" in text:
                yield self.report(node, "choose a device yourself")
                continue
            safety = Safety.UNSAFE if "unsafe" in text else Safety.SAFE
            edit = SetArgument(node, "device", str(self.settings["device"]))
            yield self.change(node, edit, message="the call gets a device", safety=safety)


class AddMath(Codemod):
    """Give toy sums a start.

    The start comes from an import.
    """

    code, name, area = "XX201", "add-start", "toys"
    example = """
        \"\"\"Adds up.\"\"\"
        print(toy_sum([1]))
    """
    triggers = (b"toy_sum",)

    def check(self, module: Module) -> Iterator[Plan]:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Call) and module.source(node.func) == "toy_sum" and not node.keywords:
                edit = SetArgument(node, "start", "math.e")
                yield self.change(node, edit, message="the sum gets a start", imports=[Import("math")])


class CountToys(Codemod):
    """Report toy factories, with the number of them in the project."""

    code, name, area = "XX301", "count-toys", "toys"
    triggers = (b"toy_factory",)
    gathers = True

    def facts(self, module: Module) -> Iterator[tuple[str, object]]:
        yield "toys", module.text.count("toy_factory(")

    def check(self, module: Module) -> Iterator[Plan]:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Call) and module.source(node.func) == "toy_factory":
                yield self.report(node, f"one of {sum(module.project.facts['toys'])} toy factories")


CODEMODS = (AddDevice, AddMath, CountToys)
