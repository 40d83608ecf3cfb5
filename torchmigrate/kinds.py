"""The kinds of files that rules may name, told by the files' names alone."""

from __future__ import annotations

from collections.abc import Iterable

KINDS: dict[str, tuple[str, ...]] = {
    "python": ("*.py", "*.pyi"),
    "notebook": ("*.ipynb",),
    "requirements": ("requirements*.txt", "*requirements.txt", "requirements*.in", "constraints*.txt"),
    "toml": ("*.toml", "Pipfile"),
    "cfg": ("*.cfg", "*.ini"),
    "shell": ("*.sh", "*.bash", "*.zsh", "*.ksh", "*.sbatch", "*.slurm", "*.pbs", "*.lsf"),
    "yaml": ("*.yaml", "*.yml"),
    "json": ("*.json",),
    "dockerfile": ("Dockerfile*", "*.dockerfile", "Containerfile*"),
    "env": (".env*", "*.env"),
    "makefile": ("Makefile*", "makefile", "GNUmakefile", "*.mk"),
    "version": (".python-version",),
    "cpp": ("*.cpp", "*.cc", "*.cxx", "*.cu", "*.cuh", "*.h", "*.hpp"),
}
"""Every kind of file that a rule may name, by its files' names; `*` stands for anything. The first match counts."""

_NONE: tuple[int, str | None] = (1 << 30, None)
_BY_SUFFIX: dict[str, tuple[int, str | None]] = {}
_BY_SHAPE: list[tuple[int, str, str, str, bool]] = []
for _order, (_kind, _pattern) in enumerate((kind, pattern) for kind, patterns in KINDS.items() for pattern in patterns):
    _before, _star, _behind = _pattern.partition("*")
    if not _before and _behind.count(".") == 1 and _behind.startswith("."):
        _BY_SUFFIX[_behind] = _order, _kind
    else:
        _BY_SHAPE.append((_order, _kind, _before, _behind, not _star))
_BEGINNINGS = tuple(before for _, _, before, _, _ in _BY_SHAPE if before)
_ENDS = tuple(behind for _, _, before, behind, _ in _BY_SHAPE if not before)


def kind_of(name: str) -> str | None:
    """The kind of a file by its name alone, None for one that no rule can name."""
    if name.endswith(".py"):
        return "python"
    name = name.rpartition("/")[2]
    dot = name.rfind(".")
    first, found = _BY_SUFFIX.get(name[dot:], _NONE) if dot >= 0 else _NONE
    if name.startswith(_BEGINNINGS) or name.endswith(_ENDS):
        for order, kind, before, behind, exact in _BY_SHAPE:
            if order > first:
                break
            if exact:
                if name == before:
                    return kind
            elif name.startswith(before) and name.endswith(behind) and len(name) >= len(before) + len(behind):
                return kind
    return found


def kinds_of(formats: Iterable[str]) -> frozenset[str]:
    """The kinds of files for the formats that codemods name: notebooks hold Python."""
    kinds = frozenset(formats)
    return kinds | {"notebook"} if "python" in kinds else kinds
