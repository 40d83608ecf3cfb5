"""TM704: compiled extensions and the new class of the NCCL backend."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchmigrate.codemod import Codemod, Extent, Plan
from torchmigrate.module import Module
from torchmigrate_codemods.spellings import RELEASE_NOTES

if TYPE_CHECKING:
    from torchmigrate.documents import Document

_HOME = "torch.utils.cpp_extension"
_BUILT = ("CppExtension", "CUDAExtension", "SyclExtension")
_LOADED = ("load", "load_inline")


@functools.cache
def _cast() -> re.Pattern[str]:
    return re.compile(
        r"\b(?:std::|c10::)?(?:dynamic|static)(?:_pointer|_intrusive_pointer)?_cast\s*<\s*(?:const\s+)?"
        r"(?:[\w:]+\s*<\s*)?(?:::)?(?:\w+::)*ProcessGroupNCCL\b(?!::)[^;(]*?>"
    )


class CppExtension(Codemod):
    """Find compiled extensions that torch 2.15 needs built anew.

    Extensions are built against one release of torch: each `CppExtension`, `CUDAExtension` or `SyclExtension` has to be
    compiled again with torch 2.15, and wheels that were built before must not be served from a cache. What
    `torch.utils.cpp_extension.load` and `load_inline` compile at run time is rebuilt by itself, if its build folder
    (`TORCH_EXTENSIONS_DIR`) is not shared between releases.

    In C++ sources a `dynamic_cast` to `c10d::ProcessGroupNCCL` gives null for groups of the backend `nccl`: they are of
    another class in torch 2.15 (`ProcessGroupNCCL` is `nccl-legacy`). A `static_cast` is undefined behaviour.

    Reports only.
    """

    code, name, area = "TM704", "cpp-extension", "packaging"
    triggers = (b"cpp_extension",)
    text_triggers = (b"ProcessGroupNCCL",)
    formats = frozenset({"python", "cpp"})
    reference = RELEASE_NOTES
    example_path = "setup.py"
    example = """
    from setuptools import setup
    from torch.utils.cpp_extension import CUDAExtension

    setup(ext_modules=[CUDAExtension("ops", ["ops.cu"])])
    """

    def check(self, module: Module) -> Iterator[Plan]:
        """Calls that build or load an extension."""
        for site in module.calls(*(f"{_HOME}.{name}" for name in _BUILT)):
            yield self.report(
                site.node, "this extension has to be rebuilt with torch 2.15; drop wheels that are cached"
            )
        for site in module.calls(*(f"{_HOME}.{name}" for name in _LOADED)):
            text = "this extension is compiled at run time: do not share its build folder with an older torch"
            yield self.report(site.node, text)

    def check_text(self, document: Document) -> Iterator[Plan]:
        """Casts to the old class."""
        for match in document.matches(_cast()):
            text = "groups of the backend nccl are not of class ProcessGroupNCCL in torch 2.15: "
            text += "this cast gives null" if "dynamic" in match[0] else "this cast is undefined behaviour"
            yield self.report(Extent(*match.span(), " ".join(match[0].split())), text)
