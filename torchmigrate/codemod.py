"""What a rule is made of: the `Codemod` base class and the plans it yields.

A codemod looks at one file and plans; it never changes anything itself. The engine turns plans into findings, asks the
policy about each, and carries out the accepted ones together.

    class InitDeviceId(Codemod):
        \"\"\"Pass device_id to init_process_group. ...the text that `torchmigrate explain` prints...\"\"\"

        code, name, area = "TM101", "init-device-id", "distributed"
        triggers = (b"init_process_group",)

        def check(self, module: Module) -> Iterator[Plan]:
            for call in module.calls("torch.distributed.init_process_group"):
                yield self.change(call.node, SetArgument(call.node, "device_id", "..."), message="...")
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from torchmigrate.edits import Edit
from torchmigrate.imports import Import
from torchmigrate.model import Safety

if TYPE_CHECKING:
    from torchmigrate.documents import Document
    from torchmigrate.module import Module


@dataclass(frozen=True, slots=True)
class Extent:
    """An anchor for what has no syntax node: two offsets, a normal form for the key, and a dotted scope name."""

    start: int
    end: int
    normal: str
    scope: str = ""


Anchor = ast.AST | Extent


@dataclass(frozen=True, eq=False, slots=True)
class Place:
    """One place of a change: the node that a finding shows, and the edits made for it."""

    anchor: Anchor
    edits: tuple[Edit, ...]
    message: str | None = None


@dataclass(frozen=True, eq=False, slots=True)
class Alternative:
    """Another right answer: what to write instead, in short and with the evidence for it."""

    label: str
    evidence: str
    places: tuple[Place, ...]
    imports: tuple[Import, ...] = ()


@dataclass(frozen=True, eq=False, slots=True)
class Change:
    """An offered rewrite. All places are taken together or not at all.

    `needs_torch` is the oldest torch on which the new code works; where the project supports an older one the change
    becomes unsafe. `alternatives` are further right answers beside the proposed one; `label` and `evidence` describe
    the proposed one beside them.
    """

    places: tuple[Place, ...]
    message: str
    safety: Safety = Safety.SAFE
    imports: tuple[Import, ...] = ()
    needs_torch: str | None = None
    label: str = ""
    evidence: str = ""
    alternatives: tuple[Alternative, ...] = ()


@dataclass(frozen=True, eq=False, slots=True)
class Report:
    """A place that a person must look at; the message says what to do.

    `choices` are answers a reviewer can pick where the tool may not decide: picking one makes it a change.
    """

    anchor: Anchor
    message: str
    choices: tuple[Alternative, ...] = ()


Plan = Change | Report


@dataclass(frozen=True, slots=True)
class Option:
    """A rule's option: its default, what it may be (empty for any text), and what it means."""

    default: Any
    values: tuple[str, ...] = ()
    help: str = ""


class Codemod:
    """Base class of all rules. The class docstring's first line is the title, all of it the text of `explain`."""

    code: ClassVar[str]
    name: ClassVar[str]
    area: ClassVar[str] = "distributed"
    release: ClassVar[str] = "2.15"
    triggers: ClassVar[tuple[bytes, ...]] = ()
    text_triggers: ClassVar[tuple[bytes, ...]] = ()
    """Further triggers for files that are no Python, and for notebooks, which hold commands and files as well."""
    requires: ClassVar[Mapping[bytes, tuple[bytes | tuple[bytes, ...], ...]]] = {}
    """Regular expressions that must all be found in a Python file as well before a trigger counts, by trigger; those of
    b"" go for every trigger, and of a tuple one is enough. Parsing is what a run spends its time on, and most files
    with a wide trigger need none. Expressions that begin with a few plain bytes are found ten times as fast as others.
    """
    text_requires: ClassVar[Mapping[bytes, tuple[bytes | tuple[bytes, ...], ...]]] = {}
    """The same for files that are neither Python nor notebooks. In notebooks a rule that looks at other formats than
    Python requires nothing."""
    awaits: ClassVar[Mapping[bytes, str]] = {}
    """Facts by trigger: a file that holds only such triggers is not looked at before all others, and then only where
    its project has one of these facts. What the rules gather in it is known to all files as ever."""
    formats: ClassVar[frozenset[str]] = frozenset({"python"})
    default: ClassVar[bool] = True
    options: ClassVar[Mapping[str, Option]] = {}
    gathers: ClassVar[bool] = False
    reference: ClassVar[str] = ""
    example: ClassVar[str] = ""
    """Code that the rule changes or reports, a few lines; `explain` shows what becomes of it."""
    example_path: ClassVar[str] = "example.py"
    """What the file of the example is called, which says its format."""

    def __init__(self, options: Mapping[str, object] | None = None) -> None:
        self.settings = {name: option.default for name, option in self.options.items()} | dict(options or {})

    def check(self, module: Module) -> Iterable[Plan]:
        """Plan what to do in one Python file (or the code cells of a notebook)."""
        return ()

    def check_text(self, document: Document) -> Iterable[Plan]:
        """Plan what to do in one file of another format; called for the formats that the class names."""
        return ()

    def facts(self, module: Module) -> Iterable[tuple[str, object]]:
        """Facts of one file that other files of the same project need, as (name, plain value) pairs.

        Called before any `check` when `gathers` is set; all files' values end up in `module.project.facts[name]`, a
        tuple ordered by path.
        """
        return ()

    def change(
        self,
        anchor: Anchor,
        *edits: Edit,
        message: str,
        safety: Safety = Safety.SAFE,
        imports: Sequence[Import] = (),
        needs_torch: str | None = None,
        alternatives: Sequence[Alternative] = (),
        label: str = "",
        evidence: str = "",
    ) -> Change:
        """A change of one place."""
        return Change(
            (Place(anchor, edits),),
            message,
            safety,
            tuple(imports),
            needs_torch,
            label,
            evidence,
            tuple(alternatives),
        )

    def report(self, anchor: Anchor, message: str, choices: Sequence[Alternative] = ()) -> Report:
        """A place for a person."""
        return Report(anchor, message, tuple(choices))


def title(codemod: type[Codemod]) -> str:
    """The first line of a rule's documentation."""
    return (codemod.__doc__ or codemod.name).strip().splitlines()[0].rstrip(".")
