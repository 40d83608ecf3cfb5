"""TM703: pins and package indexes that torch 2.15 cannot satisfy."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, ClassVar

from torchmigrate.codemod import Codemod, Extent, Plan
from torchmigrate.module import Module
from torchmigrate.versions import older
from torchmigrate_codemods.spellings import RELEASE_NOTES

if TYPE_CHECKING:
    from torchmigrate.documents import Document

_PYTHONS = ("3.11", "3.12", "3.13", "3.14", "3.15")
_WANTED = {
    "torch": ("2.15.0", "2.15.1", "2.15.2"),
    "pytorch": ("2.15.0", "2.15.1", "2.15.2"),
    "triton": ("3.9.0", "3.9.1"),
    "typing-extensions": ("4.13.0", "4.13.2", "4.14.0", "4.15.0", "4.99"),
    "torchvision": ("0.30.0", "0.30.1"),
    "torchaudio": ("2.15.0", "2.15.1"),
    "nvidia-cudnn-cu13": ("9.26.0.51",),
    "nvidia-nccl-cu13": ("2.30.7",),
    "nvidia-nvshmem-cu13": ("3.7.2",),
    "cuda-toolkit": ("13.2.2",),
}
"""Versions of which one must be allowed for torch 2.15.0's own requirements (or for its companions) to be met."""
_NEEDS = {
    "triton": "triton 3.9",
    "typing-extensions": "typing-extensions 4.13 or later",
    "torchvision": "the torchvision that is built for it",
    "torchaudio": "the torchaudio that is built for it",
    "nvidia-cudnn-cu13": "cuDNN 9.26.0.51",
    "nvidia-nccl-cu13": "NCCL 2.30.7",
    "nvidia-nvshmem-cu13": "NVSHMEM 3.7.2",
    "cuda-toolkit": "the CUDA toolkit wheels 13.2.2",
}
_LAST_GONE, _DEFAULT = 126, 132
"""The newest CUDA build (12.6) that ended, and the default one (13.2)."""
_VARIABLE = re.compile(r"(?:PY)?TORCH_VERSION", re.IGNORECASE)


@functools.cache
def _index() -> re.Pattern[str]:
    return re.compile(r"download\.pytorch\.org/whl/(?:test/|nightly/)?(?P<build>cu\d+|rocm\d+(?:\.\d+)*)")


class TorchPins(Codemod):
    """Find pins and indexes that keep torch 2.15 out.

    Reported: requirements on torch that no 2.15 release meets, in package metadata, requirements, conda environments,
    install commands, images and version variables; requirements on what torch 2.15.0 itself needs in other versions
    (triton 3.9, typing-extensions 4.13, and the CUDA wheels 13.2.2, cuDNN 9.26.0.51, NVSHMEM 3.7.2, NCCL 2.30.7) and on
    its companions torchvision and torchaudio; and package indexes. There are no CUDA 12.6 wheels any more, and with
    them none for Maxwell, Pascal and Volta; the default is CUDA 13.2 (`cu132`). ROCm wheels are for ROCm 10.

    Nothing is rewritten: which releases a project allows is its decision. Requirements whose marker excludes every
    Python that torch 2.15 runs on are left alone.
    """

    code, name, area = "TM703", "torch-pins", "packaging"
    triggers = tuple(
        name + sign
        for name in (b"torch", b"torchvision", b"torchaudio", b"triton")
        for sign in (b"=", b"<", b"~", b"[")
    )
    requires: ClassVar = {b"": (rb"[\"']\s*(?:torch|triton|pytorch|typing|nvidia|cuda)[\w.-]*\s*[\[<>=!~(]",)}
    text_triggers = (
        *(b"torch ", b"torch>", b"torch!", b"torch@", b"torch(", b"triton ", b"torchvision ", b"torchaudio "),
        *(b"TORCH_VERSION", b"torch_version", b"pytorch/pytorch:", b"pytorch.org/whl", b"pytorch-cuda"),
        *(b"typing-extensions", b"typing_extensions", b"cuda-toolkit", b"-cu11", b"-cu12", b"-cu13"),
    )
    formats = frozenset(
        {"python", "requirements", "toml", "cfg", "yaml", "json", "shell", "dockerfile", "makefile", "env"}
    )
    reference = RELEASE_NOTES
    example_path = "requirements.txt"
    example = """
    torch==2.14.1
    """

    def check(self, module: Module) -> Iterator[Plan]:
        """Requirements as strings in setup.py and in tables of dependencies."""
        from torchmigrate.texts.requirements import parse

        for node in module.names.texts:
            text = str(node.value)
            if len(text) > 200 or not re.match(r"\s*[\w-]+\s*(?:\[|[<>=!~(])", text) or not _listed(module, node):
                continue
            found = parse(text, 0, 0)
            if found is not None and found.name in _WANTED and found.name != "pytorch":
                fault = _fault(found.name, found.specifier, text)
                if fault is not None:
                    yield self.report(node, fault)

    def check_text(self, document: Document) -> Iterator[Plan]:
        """Requirements, images, variables and indexes."""
        seen: set[int] = set()
        for one in document.requirements:
            written = document.written[one.start : one.end]
            text = _fault(one.name, one.specifier, written)
            if text is not None and one.start not in seen:
                seen.add(one.start)
                yield self.report(Extent(one.start, one.end, f"{one.name}{one.specifier}"), text)
        for entry in document.entries:
            if entry.start in seen:
                continue
            fault = _image(entry.value) or (_VARIABLE.fullmatch(entry.key) and _version(entry.value))
            if fault:
                seen.add(entry.start)
                yield self.report(Extent(entry.start, entry.end, f"{entry.key}={entry.value}"), fault)
        for match in document.matches(_index()):
            fault = _no_index(match["build"])
            if fault is not None:
                yield self.report(Extent(*match.span(), match[0]), fault)


def _listed(module: Module, node: ast.Constant) -> bool:
    """Whether a string is a part of a list or of a table of extras, or is given to something that installs."""
    parent = module.parents.get(node)
    if isinstance(parent, ast.Call):
        return "install" in ast.unparse(parent.func) or ast.unparse(parent.func).endswith("require")
    return isinstance(parent, (ast.List, ast.Tuple, ast.Set)) or (
        isinstance(parent, ast.Dict) and node in parent.values
    )


def _fault(name: str, specifier: str, written: str) -> str | None:
    """Why a requirement keeps torch 2.15 out; None where it does not."""
    if name == "pytorch-cuda" or re.fullmatch(r"nvidia-\w+-cu1[12]", name):
        return f"{name} belongs to builds of torch for an older CUDA; those of 2.15 bring CUDA 13.2"
    if name not in _WANTED or not specifier or _allows(name, specifier) or not _applies(written):
        return None
    if name in ("torch", "pytorch"):
        return f"no torch 2.15 release meets {name}{_shown(specifier)}"
    return f"torch 2.15 needs {_NEEDS[name]}, which {name}{_shown(specifier)} does not allow"


def _shown(specifier: str) -> str:
    if specifier.startswith("@"):
        return f" from {specifier.rpartition('/')[2]}"
    return specifier if specifier[:1] in "<>=!~@" else f" {specifier}"


def _allows(name: str, specifier: str) -> bool:
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    from torchmigrate.project import bounds

    if specifier.startswith("@"):
        wheel = re.search(rf"/{name}-(\d+(?:\.\d+)+)", specifier)
        return wheel is None or not older(wheel[1], _WANTED[name][0])
    try:
        allowed = SpecifierSet(specifier)
        return any(allowed.contains(version, prereleases=True) for version in _WANTED[name])
    except InvalidSpecifier:
        found = bounds(specifier)
        low, high = _WANTED[name][0], _WANTED[name][-1]
        return (found.high is None or older(low, found.high)) and (found.low is None or not older(high, found.low))


def _applies(written: str) -> bool:
    """Whether a requirement's marker holds on some Python that torch 2.15 runs on."""
    from packaging.markers import InvalidMarker, Marker

    marker = written.partition(";")[2].strip()
    if "python_" not in marker:
        return True
    try:
        parsed = Marker(marker)
    except InvalidMarker:
        return True
    platforms: Iterable[dict[str, str]] = (
        {"sys_platform": system, "platform_system": name, "os_name": kind, "platform_machine": machine}
        for system, name, kind in (
            ("linux", "Linux", "posix"),
            ("darwin", "Darwin", "posix"),
            ("win32", "Windows", "nt"),
        )
        for machine in ("x86_64", "aarch64", "arm64")
    )
    return any(
        parsed.evaluate({**where, "python_version": python, "python_full_version": f"{python}.0", "extra": ""})
        for where in platforms
        for python in _PYTHONS
    )


def _image(value: str) -> str | None:
    match = re.fullmatch(
        r"(?:[\w.-]+/)*pytorch/(?:pytorch|torchserve|manylinux\w*):(?P<version>\d+\.\d+(?:\.\d+)*)\S*", value
    )
    return _version(match["version"]) if match else None


def _version(value: str) -> str | None:
    found = re.fullmatch(r"v?(\d+\.\d+(?:\.\d+)?)(?:\+\w+)?", value)
    return f"this is torch {found[1]}, not 2.15" if found and older(found[1], "2.15") else None


def _no_index(build: str) -> str | None:
    if build.startswith("rocm"):
        old = older(build.removeprefix("rocm"), "10")
        return f"torch 2.15 wheels are built for ROCm 10; {build} has none" if old else None
    number = int(build.removeprefix("cu"))
    if number <= _LAST_GONE:
        return f"there are no wheels of torch 2.15 at {build}: CUDA 12.6 ended, and with it Maxwell, Pascal and Volta"
    if number < _DEFAULT:
        return f"torch 2.15 is built for CUDA 13.2 by default (cu132); look whether {build} has it, else use cu132"
    return None
