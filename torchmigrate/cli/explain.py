"""`explain`: everything about one rule, from the rule itself."""

from __future__ import annotations

import inspect
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


def example(rule: type[Codemod]) -> list[str]:
    """What becomes of a rule's example, as the lines of a diff; made by the rule itself."""
    from torchmigrate import diff, engine
    from torchmigrate.model import EVERYTHING, Project

    before = (inspect.cleandoc(rule.example) + "\n").encode()
    result = engine.process("example.py", before, [rule()], Project(), EVERYTHING)
    hunks = diff.hunks(before, result.after or before, context=len(before))
    return [line.decode().rstrip("\n") for hunk in hunks for line in hunk.lines]


def page(rule: type[Codemod]) -> Iterator[str]:
    """The lines of a rule's page."""
    yield f"{rule.code} {rule.name} ({rule.area}, PyTorch {rule.release})"
    yield ""
    yield from inspect.cleandoc(rule.__doc__ or "").splitlines()
    if rule.example:
        yield ""
        yield "Before and after:"
        yield from (f"  {line}".rstrip() for line in example(rule))
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
