"""Rules as commands of LibCST's own codemod runner, for teams whose pipelines are built on that.

    # codemods/torch.py
    from torchmigrate.libcst_runner import command
    from torchmigrate_codemods.torch_2_15.fsdp_reduce_dtype import FsdpReduceDtype

    StateReduceDtype = command(FsdpReduceDtype)

    python -m libcst.tool codemod codemods.torch.StateReduceDtype [--unsafe] [--min-torch 2.14] src/

The runner sees one file at a time, so facts of the project are missing: rules that need them report more and rewrite
less than `torchmigrate apply`. Reports become warnings of the runner.
"""

from __future__ import annotations

import argparse

import libcst as cst
from libcst.codemod import CodemodContext, SkipFile, VisitorBasedCodemodCommand

from torchmigrate.codemod import Codemod, title
from torchmigrate.engine import process
from torchmigrate.model import DEFAULT_TORCH, EVERYTHING, SAFE_ONLY, Outcome, Project


def command(rule: type[Codemod]) -> type[VisitorBasedCodemodCommand]:
    """A command class for one rule; give it a module-level name so that the runner finds it."""

    class RuleCommand(VisitorBasedCodemodCommand):
        DESCRIPTION = f"{rule.code} {rule.name}: {title(rule)}"

        @staticmethod
        def add_args(arg_parser: argparse.ArgumentParser) -> None:
            arg_parser.add_argument("--unsafe", action="store_true", help="also take unsafe changes")
            arg_parser.add_argument("--min-torch", default=DEFAULT_TORCH, help="the oldest torch the code must run on")

        def __init__(self, context: CodemodContext, unsafe: bool = False, min_torch: str = DEFAULT_TORCH) -> None:
            super().__init__(context)
            self._policy = EVERYTHING if unsafe else SAFE_ONLY
            self._project = Project(torch_min=min_torch, torch_min_source="--min-torch")

        def transform_module_impl(self, tree: cst.Module) -> cst.Module:
            """Carry out the rule; SkipFile where the file cannot be read."""
            path = self.context.filename or "module.py"
            result = process(path, tree.bytes, [rule()], self._project, self._policy)
            for error in result.errors:
                raise SkipFile(f"{error.code} {error.message}")
            for finding in result.pending:
                manual = "" if finding.outcome is Outcome.REPORT else " (unsafe: pass --unsafe to take it)"
                self.warn(f"{path}:{finding.span.line}: {finding.code} {finding.message}{manual}")
            return tree if result.after is None else cst.parse_module(result.after)

    RuleCommand.__name__ = RuleCommand.__qualname__ = rule.__name__
    RuleCommand.__doc__ = rule.__doc__
    return RuleCommand
