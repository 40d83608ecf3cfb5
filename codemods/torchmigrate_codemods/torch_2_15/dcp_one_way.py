"""TM501: torch 2.14 cannot read distributed checkpoints that torch 2.15 saves."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import ClassVar

from torchmigrate.codemod import Codemod, Plan
from torchmigrate.module import Module
from torchmigrate.versions import older
from torchmigrate_codemods.spellings import pull

_DCP = "torch.distributed.checkpoint"
_SAVERS = tuple(
    f"{_DCP}.{home}{name}"
    for home in ("", "state_dict_saver.")
    for name in ("save", "async_save", "save_state_dict", "_save_state_dict", "_async_save")
) + tuple(f"{_DCP}.{home}torch_save_to_dcp" for home in ("", "format_utils."))
_WRITERS = tuple(
    f"{_DCP}.{name}"
    for name in (
        "FileSystemWriter",
        "filesystem.FileSystemWriter",
        "FsspecWriter",
        "fsspec_filesystem.FsspecWriter",
        "_fsspec_filesystem.FsspecWriter",
    )
)
_SAFETENSORS = frozenset(
    f"{_DCP}.{name}"
    for name in (
        "HuggingFaceStorageWriter",
        "hf_storage.HuggingFaceStorageWriter",
        "_hf_storage._HuggingFaceStorageWriter",
    )
)
_AS_SAFETENSORS = (
    "this writes safetensors, which torch < 2.15 reads as well; checkpoints that torch 2.15 saves with any other "
    "storage writer are for torch 2.15 and newer only"
)
_PLANNERS = tuple(f"{_DCP}.{home}DefaultSavePlanner" for home in ("", "default_planner."))


class DcpOneWay(Codemod):
    """Find saves of distributed checkpoints, which torch 2.14 cannot read.

    torch 2.15 stores the strides of each tensor in a checkpoint's metadata. It reads older checkpoints; torch 2.14 and
    older fail on new ones with `CheckpointException`, which is a BaseException, so that `except Exception` does not
    catch it. There is no switch for the old form. Plain `torch.save` files are not concerned.

    A report, at every saving site: whether somebody still reads with an older torch (a serving image, another team, a
    rollback) cannot be seen in the code. Before the first run with 2.15 keep a copy of the checkpoints, do not
    overwrite them in place, and upgrade the readers first. For readers that stay behind, export with
    `torch.distributed.checkpoint.format_utils.dcp_to_torch_save(source, target)`: both releases read that file.

    Saves through `HuggingFaceStorageWriter` write safetensors, which torch 2.14 reads as well; the text says so.
    """

    code, name, area = "TM501", "dcp-one-way", "checkpoint"
    triggers = (
        *(b"distributed.checkpoint", b"distributed import checkpoint", b"state_dict_saver", b"dist.checkpoint"),
        b"torch.distributed import (",
    )
    requires: ClassVar = {
        b"torch.distributed import (": (rb"torch\.distributed import \([^)]*\bcheckpoint\b",),
        b"": ((rb"save(?:_state_dict)?\b", rb"torch_save_to_dcp|FileSystemWriter|FsspecWriter|DefaultSavePlanner"),),
    }
    reference = pull(175011)
    example = """
    import torch.distributed.checkpoint as dcp

    dcp.save(state, checkpoint_id="step-100")
    """

    def check(self, module: Module) -> Iterator[Plan]:
        """Report saves; where a file has none, the writers and planners that it makes."""
        message = _message(module)
        found = False
        for node, _ in module.references(*_SAVERS):
            parent = module.parents.get(node)
            call = parent if isinstance(parent, ast.Call) and parent.func is node else None
            if not _is_annotation(parent):
                found = True
                safetensors = call is not None and _writes_safetensors(module, call)
                yield self.report(call or node, _AS_SAFETENSORS if safetensors else message)
        if found:
            return
        for node, _ in module.references(*_WRITERS):
            parent = module.parents.get(node)
            if isinstance(parent, ast.Call) and parent.func is node:
                yield self.report(parent, message)
            elif isinstance(parent, ast.ClassDef) and node in parent.bases:
                yield self.report(node, message)
        for node, _ in module.references(*_PLANNERS):
            parent = module.parents.get(node)
            if isinstance(parent, ast.ClassDef) and node in parent.bases:
                yield self.report(node, message)


def _message(module: Module) -> str:
    project = module.project
    base = "checkpoints that torch 2.15 saves cannot be read by torch < 2.15"
    if project.torch_max is not None and not older("2.15", project.torch_max):
        return (
            f"{base}, which this project still pins (torch < {project.torch_max}): once anything writes with 2.15, "
            "export with dcp_to_torch_save for it, and keep a copy from before"
        )
    if older(project.torch_min, "2.15"):
        return (
            f"{base}, and the project still allows {project.torch_min} ({project.torch_min_source}): upgrade readers "
            "first, keep a copy from before, and export with dcp_to_torch_save for those that stay behind"
        )
    return (
        f"{base}: upgrade every reader first, keep a copy from before, and export with dcp_to_torch_save for readers "
        "that stay behind"
    )


def _is_annotation(parent: ast.AST | None) -> bool:
    return isinstance(parent, (ast.arg, ast.AnnAssign))


def _writes_safetensors(module: Module, call: ast.Call) -> bool:
    """Whether the storage writer of a save is the one for safetensors, made in sight."""
    given = next((k.value for k in call.keywords if k.arg == "storage_writer"), None)
    if given is None:
        return False
    made = [given]
    if isinstance(given, ast.Name):
        made = [d.value for d in module.flow(given).definitions(given.id, given) if d.value is not None]
    return bool(made) and all(
        isinstance(one, ast.Call) and module.resolve(one.func).perhaps(_SAFETENSORS) for one in made
    )
