"""TM502: checkpoint._fsspec_filesystem is public and has no underscore any more."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchmigrate.codemod import Codemod, Plan
from torchmigrate.edits import ReplaceStatement, ReplaceText
from torchmigrate.module import Module
from torchmigrate.versions import older
from torchmigrate_codemods.spellings import pull
from torchmigrate_codemods.uses import guarded, uses

_DCP = "torch.distributed.checkpoint"
_OLD, _NEW = "_fsspec_filesystem", "fsspec_filesystem"
_PUBLIC = frozenset({"FsspecReader", "FsspecWriter"})
_SAYS = (
    "torch.distributed.checkpoint._fsspec_filesystem warns in torch 2.15 (DeprecationWarning): FsspecReader and "
    "FsspecWriter are public there"
)


class FsspecModule(Codemod):
    """Import FsspecReader and FsspecWriter from torch.distributed.checkpoint.

    The readers and writers of distributed checkpoints through fsspec became public in torch 2.15, as
    `torch.distributed.checkpoint.FsspecReader` and `FsspecWriter`. The private module `_fsspec_filesystem` still hands
    them on, with a DeprecationWarning. Its class `FileSystem` is `_FileSystem` of `fsspec_filesystem`.

    The public names are unknown to torch 2.14. So the import becomes a `try` with the old import as the way out, which
    is quiet on both releases; where the project is known to need torch 2.15 (its metadata or `--min-torch`), the plain
    new import is written. Imports that stand inside a `try` of their own are left alone when they have another way.

    Reads through the module (`_fsspec_filesystem.FsspecWriter`), and imports of `FileSystem` or of the module itself,
    are reported.
    """

    code, name, area = "TM502", "fsspec-module", "checkpoint"
    triggers = (_OLD.encode(),)
    reference = pull(188698)
    example = """
    from torch.distributed.checkpoint._fsspec_filesystem import FsspecWriter

    writer = FsspecWriter("s3://bucket/step-100")
    """

    def check(self, module: Module) -> Iterator[Plan]:
        """Plan for every import, report every other use."""
        planned: list[ast.AST] = []
        for node in module.parents:
            if isinstance(node, ast.ImportFrom) and node.module == f"{_DCP}.{_OLD}" and not node.level:
                planned += [node, *node.names]
                if not _has_way_out(module, node):
                    yield self._import(module, node)
        for use in uses(module, f"{_DCP}.{_OLD}", below=True):
            if use.node not in planned and not use.guarded:
                yield self.report(use.node, f"{_SAYS}; the module is called fsspec_filesystem{use.note}")

    def _import(self, module: Module, node: ast.ImportFrom) -> Plan:
        names = {alias.name for alias in node.names}
        if not names <= _PUBLIC:
            other = ", ".join(sorted(names - _PUBLIC))
            return self.report(
                node, f"{_SAYS}; {other} is private in the new module fsspec_filesystem (FileSystem is _FileSystem)"
            )
        project = module.project
        if not older(project.torch_min, "2.15") and project.torch_min_source != "default":
            start, end = module.extent(node)
            at = module.text.index(f".{_OLD}", start, end)
            return self.change(node, ReplaceText(at, at + len(_OLD) + 1, ""), message=_SAYS, needs_torch="2.15")
        start, end = module.extent(node)
        indent = module.text[module.lines.line_start(start) : start]
        tail = module.text[end : module.lines.line_end(end)].strip()
        if indent.strip() or (tail and not tail.startswith("#")):
            return self.report(node, _SAYS)
        newline = module.lines.newline_near(start) + indent
        old = module.source(node).replace("\n", "\n    ")
        new = old.replace(f"{_DCP}.{_OLD}", _DCP, 1) + (f"  {tail}" if tail else "")
        lines = ("try:", f"    {new}", "except ImportError:  # torch < 2.15", f"    {old}")
        return self.change(
            node, ReplaceStatement(node, newline.join(lines)), message=f"{_SAYS}; the old import stays for older torch"
        )


def _has_way_out(module: Module, node: ast.ImportFrom) -> bool:
    """Whether an import is the other way of a try whose first way is the new one, or is guarded itself."""
    for at in module.ancestors(node):
        if isinstance(at, ast.ExceptHandler) or (isinstance(at, ast.If) and _is_typing_only(at)):
            return True
        if isinstance(at, ast.If) and "version" in module.source(at.test):
            return True
    return guarded(module, node, _OLD) and _mentions_new(module, node)


def _is_typing_only(node: ast.If) -> bool:
    """Whether a test keeps a block from ever running; what is imported there warns nobody."""
    name = node.test.attr if isinstance(node.test, ast.Attribute) else getattr(node.test, "id", "")
    return name == "TYPE_CHECKING"


def _mentions_new(module: Module, node: ast.AST) -> bool:
    around = next((at for at in module.ancestors(node) if isinstance(at, ast.Try)), None)
    if around is None:
        return False
    return any(
        isinstance(other, ast.ImportFrom) and other.module in (_DCP, f"{_DCP}.{_NEW}")
        for handler in around.handlers
        for other in ast.walk(handler)
    )
