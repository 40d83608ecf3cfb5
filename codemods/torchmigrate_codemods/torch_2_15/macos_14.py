"""TM702: the MPS backend needs macOS 15."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from torchmigrate.codemod import Codemod, Extent, Plan
from torchmigrate.module import Module
from torchmigrate.versions import older
from torchmigrate_codemods.spellings import pull

if TYPE_CHECKING:
    from torchmigrate.documents import Document

_TARGET = "MACOSX_DEPLOYMENT_TARGET"
_FACT, _ASKED = "mps-used", "macos-named"
_USES = (b"backends.mps", b"torch.mps", b'"mps"', b"'mps'")
_RUNS = "torch 2.15 needs macOS 15 for MPS: on this one torch.backends.mps.is_available() is False"


@functools.cache
def _runner() -> re.Pattern[str]:
    return re.compile(
        r"(?<![\w-])macos-?(?:1[0-4])(?:\.\d+)?(?:-(?:large|xlarge|arm64|intel))?(?![\w.])", re.IGNORECASE
    )


@functools.cache
def _uses_mps() -> re.Pattern[str]:
    return re.compile(
        r"""backends\.mps|torch\.mps\b|["']mps(?::\d)?["']|PYTORCH_ENABLE_MPS|\bMPS\b|--device[= ]mps\b"""
    )


class MacOs14(Codemod):
    """Find macOS runners and targets on which MPS is gone.

    From torch 2.15 on the MPS backend needs macOS 15. On macOS 14 `torch.backends.mps.is_available()` is False, tests
    that skip themselves without MPS no longer run, and moving a tensor there raises "The MPS backend is supported on
    macOS 15.0+". The CPU works as before.

    Reported where the project uses MPS anywhere: CI runners up to `macos-14` and a `MACOSX_DEPLOYMENT_TARGET` below 15.
    Reports only: which systems a project supports is its decision.
    """

    code, name, area = "TM702", "macos-14", "packaging"
    triggers = (*_USES, _TARGET.encode())
    text_triggers = (b"macos-1", b"macOS-1", b"macos1", b"macOS1")
    formats = frozenset({"python", "shell", "yaml", "toml", "dockerfile", "env", "makefile", "cfg"})
    awaits: ClassVar = dict.fromkeys(_USES, _ASKED)
    gathers = True
    reference = pull(188365)
    example = """
    import os
    import torch

    os.environ["MACOSX_DEPLOYMENT_TARGET"] = "13.3"
    device = "mps" if torch.backends.mps.is_available() else "cpu"
    """

    def facts(self, module: Module) -> Iterator[tuple[str, object]]:
        """Whether a file uses MPS, and whether it may name a system that has none."""
        if _TARGET in module.text or re.search("macos-?1", module.text, re.IGNORECASE):
            yield _ASKED, module.path
        if _uses_mps().search(module.text):
            yield _FACT, module.path

    def check(self, module: Module) -> Iterator[Plan]:
        """Deployment targets."""
        if _TARGET not in module.text or not _is_concerned(module):
            return
        from torchmigrate_codemods.environment import found

        for one in found(module, [_TARGET]):
            value = one.use.value or ""
            if one.use.role == "set" and re.match(r"\d", value) and older(value, "15"):
                yield self.report(
                    one.anchor, f"{_TARGET} allows macOS {value}, where torch 2.15 has no MPS (it needs 15)"
                )

    def check_text(self, document: Document) -> Iterator[Plan]:
        """Runners, and deployment targets."""
        yield from self.check(document)
        if document.kind != "yaml" or not _is_concerned(document):
            return
        for entry in document.entries:
            if any(re.search("run|os|image|pool|platform|host", key, re.IGNORECASE) for key in entry.path[-2:]):
                match = _runner().fullmatch(entry.value.strip())
                if match is not None:
                    yield self.report(Extent(entry.start, entry.end, entry.value), _RUNS)


def _is_concerned(module: Module) -> bool:
    """Whether the project uses MPS anywhere."""
    return _uses_mps().search(module.text) is not None or bool(module.project.facts.get(_FACT))
