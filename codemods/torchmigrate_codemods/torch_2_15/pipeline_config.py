"""TM805: pipeline_per_direction_p2p is called pipeline_per_edge_p2p."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchmigrate.codemod import Codemod, Plan
from torchmigrate.edits import ReplaceStatement
from torchmigrate.module import Module
from torchmigrate.versions import older
from torchmigrate_codemods.settings import Setting, renamed, settings
from torchmigrate_codemods.spellings import RELEASE_NOTES
from torchmigrate_codemods.uses import guarded

_HOME = "torch.distributed.config"
_OLD, _NEW = "pipeline_per_direction_p2p", "pipeline_per_edge_p2p"
_GONE = f"{_HOME}.{_OLD} is {_NEW} in torch 2.15; reading or setting the old name raises AttributeError there"


class PipelineConfig(Codemod):
    """Rename torch.distributed.config.pipeline_per_direction_p2p to pipeline_per_edge_p2p.

    The switch that gives pipeline stages communicators of their own makes one for each directed pair of ranks in
    torch 2.15, not one for each direction, and is named for it. The old name raises AttributeError, on reading and on
    setting. The environment variable of the switch was renamed in the same way.

    Attributes, `config.patch(...)` and `setattr`/`getattr` with the name in sight are renamed when the project needs
    torch 2.15. While it supports an older torch, a plain assignment becomes an `if hasattr(...)` that sets whichever
    name there is; other uses are reported.
    """

    code, name, area = "TM805", "pipeline-config", "distributed"
    triggers = (_OLD.encode(),)
    reference = RELEASE_NOTES
    example = """
    import torch.distributed.config as config

    config.pipeline_per_direction_p2p = True
    """

    def check(self, module: Module) -> Iterator[Plan]:
        """Plan for every use of the old name."""
        both = older(module.project.torch_min, "2.15")
        for setting in settings(module, _HOME, {_OLD}):
            if guarded(module, setting.node, _OLD) or guarded(module, setting.node, _NEW):
                continue
            if both:
                yield self._both(module, setting)
            elif (edit := renamed(module, setting, _NEW)) is not None:
                yield self.change(setting.node, edit, message=_GONE, needs_torch="2.15")
            else:
                yield self.report(setting.node, _GONE)

    def _both(self, module: Module, setting: Setting) -> Plan:
        statement = module.statement(setting.node)
        match statement:
            case ast.Assign(targets=[ast.Attribute() as target]) if target is setting.node:
                start, end = module.extent(statement)
                line = module.lines.line_start(start)
                indent = module.text[line:start]
                tail = module.text[end : module.lines.line_end(end)].strip()
                source = module.source(statement)
                if not indent.strip() and (not tail or tail.startswith("#")) and "\n" not in source:
                    owner, cut = module.source(target.value), len(module.source(target))
                    newline = module.lines.newline_near(start) + indent
                    new = f"{owner}.{_NEW}{source[cut:]}"
                    lines = (f'if hasattr({owner}, "{_NEW}"):', f"    {new}", "else:", f"    {source}")
                    return self.change(
                        statement,
                        ReplaceStatement(statement, newline.join(lines)),
                        message=f"{_GONE}; sets whichever name the torch at hand has",
                        needs_torch="2.14",
                    )
        floor = f"{module.project.torch_min} ({module.project.torch_min_source})"
        return self.report(
            setting.node, f"{_GONE}; the project still allows torch {floor}: ask with hasattr which is there"
        )
