"""TM806: settings of torch._inductor.config that were renamed, do nothing, or are gone."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchmigrate.codemod import Codemod, Plan
from torchmigrate.edits import RemoveStatement
from torchmigrate.module import Module
from torchmigrate.versions import older
from torchmigrate_codemods.settings import Setting, renamed, settings
from torchmigrate_codemods.spellings import RELEASE_NOTES
from torchmigrate_codemods.uses import guarded, uses

_HOME = "torch._inductor.config"
_RENAMED = {
    "benchmark_epilogue_fusion": "benchmark_template_fusion",
    "max_epilogue_benchmarked_choices": "max_template_fusion_benchmarked_choices",
}
_DEAD = frozenset({"mixed_mm_choice", "use_mixed_mm"})
_GONE = tuple(
    f"{_HOME}.{name}"
    for name in ("autoheuristic_use.mixed_mm", "autoheuristic_collect.mixed_mm", "_cache_config_factory_keys")
)


class InductorConfig(Codemod):
    """Update renamed, dead and removed settings of torch._inductor.config.

    `benchmark_epilogue_fusion` and `max_epilogue_benchmarked_choices` are old names of `benchmark_template_fusion` and
    `max_template_fusion_benchmarked_choices`: they warn in torch 2.15 (FutureWarning) and will go. `use_mixed_mm` and
    `mixed_mm_choice` have done nothing for some releases and warn too. `autoheuristic_use.mixed_mm`,
    `autoheuristic_collect.mixed_mm` and `_cache_config_factory_keys` are gone.

    Attributes, `config.patch(...)`, `torch.compile(options={...})` and `setattr`/`getattr` are renamed when the project
    needs torch 2.15 (the new names are unknown to 2.14), and reported while it supports an older one. An assignment
    of a setting that does nothing is removed. The rest is reported.

    Two defaults changed without a warning: `combo_kernel_max_distance` is 64 (it was -1, no limit) and
    `triton.nested_reduction` is on. Set them yourself if you compare compiled kernels between releases.
    """

    code, name, area = "TM806", "inductor-config", "compile"
    triggers = tuple(name.encode() for name in (*_RENAMED, *sorted(_DEAD), "mixed_mm", "_cache_config_factory_keys"))
    reference = RELEASE_NOTES
    example = """
    from torch._inductor import config

    config.mixed_mm_choice = "heuristic"
    config.benchmark_epilogue_fusion = True
    """

    def check(self, module: Module) -> Iterator[Plan]:
        """Plan for every use of one of the settings."""
        for setting in settings(module, _HOME, {*_RENAMED, *_DEAD}, options=True):
            new = _RENAMED.get(setting.name)
            if guarded(module, setting.node, new or setting.name) or guarded(module, setting.node, setting.name):
                continue
            yield self._dead(module, setting) if new is None else self._old(module, setting, new)
        for use in uses(module, *_GONE):
            yield self.report(use.node, f"{use.name} is gone in torch 2.15{use.note}")

    def _dead(self, module: Module, setting: Setting) -> Plan:
        message = f"{setting.name} of torch._inductor.config does nothing, and warns in torch 2.15 (FutureWarning)"
        statement = module.statement(setting.node)
        alone = isinstance(statement, ast.Assign) and statement.targets == [setting.node]
        if alone and isinstance(statement.value, ast.Constant):  # type: ignore[attr-defined]
            return self.change(statement, RemoveStatement(statement), message=message, needs_torch="2.14")
        return self.report(setting.node, f"{message}; leave it out")

    def _old(self, module: Module, setting: Setting, new: str) -> Plan:
        message = f"{setting.name} of torch._inductor.config is {new}; the old name warns in torch 2.15 (FutureWarning)"
        if older(module.project.torch_min, "2.15"):
            floor = f"{module.project.torch_min} ({module.project.torch_min_source})"
            return self.report(
                setting.node, f"{message}; the new one is unknown to torch {floor}, which the project allows"
            )
        edit = renamed(module, setting, new)
        if edit is None:
            return self.report(setting.node, message)
        return self.change(setting.node, edit, message=message, needs_torch="2.15")
