"""`explain`: everything about one rule, from the rule itself."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Iterator

import click

from torchmigrate import registry
from torchmigrate.cli import terminal
from torchmigrate.codemod import Codemod


@click.command()
@click.argument("code")
@click.option("--load", multiple=True, metavar="FILE", help="A file with more rules.")
def explain(code: str, load: tuple[str, ...]) -> int:
    """Explain a rule, by code or name: why it exists, what it writes, and what it leaves to you."""
    rule = registry.load(load).get(code)
    terminal.print_lines(page(rule))
    return 0


def example(rule: type[Codemod]) -> Iterator[str]:
    """What becomes of a rule's example: a diff, or the code and what is reported there; made by the rule itself."""
    from torchmigrate import diff, engine, kinds
    from torchmigrate.model import EVERYTHING, Outcome, Project

    text = inspect.cleandoc(rule.example) + "\n"
    before, kind = text.encode(), kinds.kind_of(rule.example_path) or "python"
    result = engine.process(rule.example_path, before, [rule()], Project(), EVERYTHING, kind)
    if result.after is None:
        yield f"For example, in {rule.example_path}:"
        yield from (f"   {line}" for line in text.splitlines())
    else:
        yield "Before and after:"
        for hunk in diff.hunks(before, result.after, context=len(before)):
            yield from (f"  {line.decode()}".rstrip() for line in hunk.lines)
    for found in result.findings:
        if found.outcome is Outcome.REPORT:
            said = f"line {found.span.line}: {found.message}"
            yield from textwrap.wrap(
                said, 110, initial_indent="  -> ", subsequent_indent="     ", break_on_hyphens=False
            )


def page(rule: type[Codemod]) -> Iterator[str]:
    """The lines of a rule's page."""
    yield f"{rule.code} {rule.name} ({rule.area}, PyTorch {rule.release})"
    yield ""
    yield from inspect.cleandoc(rule.__doc__ or "").splitlines()
    if rule.example:
        yield ""
        yield from example(rule)
    if rule.options:
        yield ""
        yield f"Options, in [tool.torchmigrate.{rule.code}]:"
        for name, option in rule.options.items():
            values = f", one of {', '.join(option.values)}" if option.values else ""
            yield f"  {name} = {option.default!r}{values}"
            if option.help:
                yield f"      {option.help}"
    yield ""
    yield f"Silence one place with: # torchmigrate: ignore[{rule.code}] reason"
    if rule.reference:
        yield f"Read more: {rule.reference}"
