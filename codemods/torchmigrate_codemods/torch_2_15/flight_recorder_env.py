"""TM601: the flight recorder's environment variables have new names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from torchmigrate.codemod import Codemod, Plan
from torchmigrate.module import Module
from torchmigrate.versions import older
from torchmigrate_codemods.spellings import RELEASE_NOTES

if TYPE_CHECKING:
    from torchmigrate.documents import Document
    from torchmigrate_codemods.environment import Found

RENAMED = {
    "TORCH_NCCL_TRACE_BUFFER_SIZE": ("TORCH_FR_BUFFER_SIZE", "2.14"),
    "TORCH_NCCL_TRACE_CPP_STACK": ("TORCH_FR_CPP_STACK", "2.14"),
    "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": ("TORCH_FR_DUMP_TEMP_FILE", "2.14"),
    "TORCH_NCCL_DUMP_ON_TIMEOUT": ("TORCH_FR_DUMP_ON_TIMEOUT", "2.15"),
    "TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC": ("TORCH_FR_WAIT_TIMEOUT_DUMP_MILSEC", "2.15"),
    "TORCH_DISTRIBUTED_PIPELINE_PER_DIRECTION_P2P": ("TORCH_DISTRIBUTED_PIPELINE_PER_EDGE_P2P", "2.15"),
}
"""The new name of each variable, and the oldest torch of which is known that it reads that name."""
_NOT_READ = frozenset({"TORCH_DISTRIBUTED_PIPELINE_PER_DIRECTION_P2P"})
_FACT = "flight-recorder-env-named"


class FlightRecorderEnv(Codemod):
    """Set the flight recorder's variables under their new names.

    The flight recorder serves every backend now, and torch 2.15 calls its variables `TORCH_FR_...`:
    `TORCH_NCCL_TRACE_BUFFER_SIZE` is `TORCH_FR_BUFFER_SIZE`, `..._TRACE_CPP_STACK` is `TORCH_FR_CPP_STACK`,
    `..._DEBUG_INFO_TEMP_FILE` is `TORCH_FR_DUMP_TEMP_FILE`, `..._DUMP_ON_TIMEOUT` is `TORCH_FR_DUMP_ON_TIMEOUT` and
    `..._WAIT_TIMEOUT_DUMP_MILSEC` is `TORCH_FR_WAIT_TIMEOUT_DUMP_MILSEC`. The old names still work with a warning; a
    new name wins where both are set. The pipeline switch `TORCH_DISTRIBUTED_PIPELINE_PER_DIRECTION_P2P` became
    `..._PER_EDGE_P2P` in the same release, and its old name is no longer read.

    The rule renames a setting where every torch that the project supports reads the new name: the first three are
    read by torch 2.14, the others by 2.15 only. Else, and where other code of the project names the variable, it sets
    both. It reports code that reads a variable, for it has to look for both names, and places where it cannot be seen
    what is done with the name.

    Recording is on by default in torch 2.15, with 2000 entries; a size of 0 turns it off.
    """

    code, name, area = "TM601", "flight-recorder-env", "distributed"
    triggers = tuple(old.encode() for old in RENAMED)
    formats = frozenset(
        {
            "python",
            "shell",
            "yaml",
            "toml",
            "json",
            "dockerfile",
            "env",
            "makefile",
            "cfg",
        }  # wherever variables are set
    )
    gathers = True
    reference = RELEASE_NOTES
    example = """
    import os

    os.environ["TORCH_NCCL_TRACE_BUFFER_SIZE"] = "2000"
    """

    def facts(self, module: Module) -> Iterator[tuple[str, object]]:
        """The variables that a file names without setting them."""
        from torchmigrate_codemods.environment import found

        yield from ((_FACT, one.use.name) for one in found(module, RENAMED) if one.use.role != "set")

    def check(self, module: Module) -> Iterator[Plan]:
        """Rename or double what is set, report what is read."""
        from torchmigrate_codemods.environment import found

        known = found(module, [*RENAMED, *(new for new, _ in RENAMED.values())])
        doubled = _doubled(known)
        here = {one.use.name for one in known if one.use.role != "set"}
        elsewhere = module.project.facts.get(_FACT, ())
        named = here | set(elsewhere if isinstance(elsewhere, tuple) else ())
        for one in known:
            if one.use.name in RENAMED:
                yield from self._plan(module, one, id(one) in doubled, named)

    def check_text(self, document: Document) -> Iterator[Plan]:
        """The same for files that are not Python."""
        return self.check(document)

    def _plan(self, module: Module, one: Found, doubled: bool, named: set[str]) -> Iterator[Plan]:
        use, project = one.use, module.project
        new, since = RENAMED[use.name]
        if use.role != "set":
            yield self.report(one.anchor, _reading(use.name, new, use.role))
            return
        too_old = older(project.torch_min, since)
        both = too_old or use.name in named
        if doubled:
            if not both:
                text = f"{new} is set as well and wins; only torch below {since} needs {use.name}"
                yield self.report(one.anchor, text)
            return
        fate = ", which does not read the old name" if use.name in _NOT_READ else "; the old name is deprecated"
        message = f"{use.name} is called {new} in torch 2.15{fate}"
        if not both:
            yield self.change(one.anchor, use.renamed(new), message=message)
            return
        reason = "other code of the project names the old one"
        if too_old:
            reason = f"torch {project.torch_min} ({project.torch_min_source}) does not read the new one"
        if use.copy is None:
            yield self.report(one.anchor, f"{message}; set both: {reason}")
        else:
            yield self.change(one.anchor, use.copy.edit(new), message=f"{message}; sets both: {reason}")


def _doubled(known: Sequence[Found]) -> set[int]:
    """The settings of an old name that have one of the new name next to them (by `id`)."""
    pairs: set[int] = set()
    for old, (new, _) in RENAMED.items():
        both = [one for one in known if one.use.role == "set" and one.use.name in (old, new)]
        taken: set[int] = set()
        for index, one in enumerate(both):
            beside = [i for i in (index - 1, index + 1) if 0 <= i < len(both) and i not in taken]
            free = next((i for i in beside if both[i].use.name == new), None)
            if one.use.name == old and free is not None:
                taken.add(free)
                pairs.add(id(one))
    return pairs


def _reading(old: str, new: str, role: str) -> str:
    if role == "read":
        return f"{old} is called {new} in torch 2.15; look for both names"
    if role == "unset":
        return f"{old} is called {new} in torch 2.15; take both out of the environment"
    return f"{old} is called {new} in torch 2.15; use that name here, and both while older releases are supported"
