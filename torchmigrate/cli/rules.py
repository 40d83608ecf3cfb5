"""`list`: the rules that exist."""

from __future__ import annotations

import json

import click

from torchmigrate import registry
from torchmigrate.cli import options, terminal
from torchmigrate.codemod import Codemod, title
from torchmigrate.report import text


@click.command("list")
@click.option(
    "--format", "form", type=click.Choice(["text", "json", "markdown"]), default="text", help="What to print."
)
@click.option("--select", type=options.WORDS, multiple=True, help="Rules to list: codes, prefixes, names or areas.")
@click.option("--load", multiple=True, metavar="FILE", help="A file with more rules.")
def list_rules(form: str, select: tuple[tuple[str, ...], ...], load: tuple[str, ...]) -> int:
    """List the rules: code, name, area and what each is for."""
    found = registry.load(load)
    terminal.say(text.error_line(error) for error in found.errors)
    words = [word for group in select for word in group]
    picked = found.select(words) if words else list(found.codemods) or found.select()
    terminal.print_lines({"text": _text, "json": _json, "markdown": _markdown}[form](picked))
    return 3 if found.errors else 0


def _text(rules: list[type[Codemod]]) -> list[str]:
    widths = [max(len(getattr(rule, field)) for rule in rules) for field in ("code", "name", "area")]
    rows = []
    for rule in rules:
        cells = (rule.code, rule.name, rule.area)
        padded = "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
        rows.append(f"{padded}  {_title(rule)}")
    return rows


def _title(rule: type[Codemod]) -> str:
    return title(rule) if rule.default else f"{title(rule)} (only when selected)"


def _json(rules: list[type[Codemod]]) -> list[str]:
    listed = [
        {
            "code": rule.code,
            "name": rule.name,
            "area": rule.area,
            "release": rule.release,
            "title": title(rule),
            "formats": sorted(rule.formats),
            "default": rule.default,
            "options": {
                name: {"default": option.default, "values": list(option.values), "help": option.help}
                for name, option in rule.options.items()
            },
        }
        for rule in rules
    ]
    return [json.dumps(listed, indent=2)]


def _markdown(rules: list[type[Codemod]]) -> list[str]:
    return ["| code | name | area | what it does |", "|---|---|---|---|"] + [
        f"| {rule.code} | {rule.name} | {rule.area} | {_title(rule).replace('|', chr(92) + '|')} |" for rule in rules
    ]
