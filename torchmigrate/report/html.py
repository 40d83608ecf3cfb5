"""One page for people, complete in itself: no network, no fonts, no script but its own, readable without any.

Paths and code come from the repositories that were looked at and may be hostile: the template engine escapes whatever
it is given, characters that hide or reorder text are spelled out, and the page's own policy lets nothing run or load
but the one script and the one style sheet that it was made with.
"""

from __future__ import annotations

import base64
import hashlib
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from itertools import groupby
from typing import TYPE_CHECKING

from torchmigrate import __version__
from torchmigrate.model import DEFAULT_TORCH, FileError, Hunk, UsageError
from torchmigrate.report.text import one_line, plural
from torchmigrate.report.view import Item, Level, RuleText, Unit, View

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

NEEDS = "the HTML report needs Jinja2: pip install 'torchmigrate[html]'"
_LINES = 120
"""Lines of one change that are shown."""
_OPEN = 12
"""Up to this many places are shown unfolded at first."""
_SHOWN = 10
"""Rows of a chart that are shown unfolded at first."""
_FULL = 1000


def environment() -> Environment:
    """The template engine. Raises UsageError where it is not installed."""
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ImportError:
        raise UsageError(NEEDS) from None
    made = Environment(
        loader=PackageLoader("torchmigrate.report", "page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(line=one_line, prose=_prose, number=lambda value: f"{value:,}", plural=plural)
    return made


def render(view: View) -> str:
    """The page."""
    made = environment()
    rows = _rows(view)
    style, script = (_asset(name) for name in ("style.css", "script.js"))
    return made.get_template("page.html").render(
        version=__version__,
        torch=DEFAULT_TORCH,
        view=view,
        style=_trusted(style),
        script=_trusted(script),
        policy=f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; base-uri 'none'; "
        "form-action 'none'",
        levels=[level for level in Level if view.levels[level]],
        all_levels=[level for level in Level if view.levels[level] and level is not Level.IGNORED],
        rows=rows,
        failed=[row for row in rows if row.unit.status == "failed"],
        charts=list(_charts(view)),
        outcomes=_bar(list(view.levels.items()), max(sum(view.levels.values()), 1)),
        people=_people(view),
        rules=_rules(view),
        owners=[name for name, _ in view.by_owner],
        owned=view.is_owned,
        unfolded=sum(unit.places for unit in view.units) <= _OPEN,
        noun={"project": "project", "repository": "repository", "file": "file"}[view.kind],
        nouns={"project": "projects", "repository": "repositories", "file": "files"}[view.kind],
        statuses=any(unit.status for unit in view.units),
    )


def _asset(name: str) -> str:
    return resources.files("torchmigrate.report").joinpath("page", name).read_text(encoding="utf-8")


def _trusted(text: str) -> Markup:
    from markupsafe import Markup

    return Markup(text)


def _prose(text: str) -> Markup:
    """A line of documentation, with what stands between backticks as code."""
    from markupsafe import Markup, escape

    parts = one_line(text).split("`")
    if len(parts) % 2 == 0:
        return escape(one_line(text))
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if number % 2 else escape(part) for number, part in enumerate(parts)
    )


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


# -- charts ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a bar, in thousandths of its full length."""

    level: Level
    count: int
    start: int
    length: int


@dataclass(frozen=True, slots=True)
class Bar:
    """A row of a chart."""

    name: str
    title: str
    count: int
    pieces: Sequence[Piece]


@dataclass(frozen=True, slots=True)
class Chart:
    """Rows, the longest first; `filter` is the filter that choosing a row sets."""

    title: str
    filter: str
    first: Sequence[Bar]
    rest: Sequence[Bar]


def _bar(counts: Iterable[tuple[Level, int]], most: int) -> list[Piece]:
    pieces: list[Piece] = []
    passed = 0
    for level, count in counts:
        if count:
            start = round(passed * _FULL / most)
            passed += count
            pieces.append(Piece(level, count, start, max(round(passed * _FULL / most) - start, 2)))
    return pieces


def _charts(view: View) -> Iterator[Chart]:
    titles = {f.code: view.rule(f).title for item in view.items for f in item.findings}
    kinds = [("By rule", "rule", view.by_rule)] + ([("By owner", "owner", view.by_owner)] if view.is_owned else [])
    for title, name, tally in kinds:
        if not tally:
            continue
        most = max((sum(counts.values()) for _, counts in tally), default=1)
        bars = [
            Bar(key, titles.get(key, "") if name == "rule" else "", sum(counts.values()), _bar(counts.items(), most))
            for key, counts in tally
        ]
        yield Chart(title, name, bars[:_SHOWN], bars[_SHOWN:])


# -- what needs a person ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Task:
    """The places of one rule that need a person, with the identifiers of their articles."""

    rule: RuleText
    places: Sequence[tuple[str, Unit, Item]]


def _people(view: View) -> list[Task]:
    found: dict[str, list[tuple[str, Unit, Item]]] = {}
    for name, unit, item in _numbered(view):
        if item.level is Level.MANUAL:
            found.setdefault(item.first.code, []).append((name, unit, item))
    return [
        Task(view.rule(places[0][2].first), places)
        for _, places in sorted(found.items(), key=lambda pair: (-len(pair[1]), pair[0]))
    ]


def _numbered(view: View) -> Iterator[tuple[str, Unit, Item]]:
    for row, unit in enumerate(_ordered(view)):
        for number, item in enumerate(unit.items):
            yield f"i{row}-{number}", unit, item


def _ordered(view: View) -> list[Unit]:
    """Most to do first."""
    return sorted(view.units, key=lambda unit: (-unit.places - len(unit.errors), unit.name))


def _rules(view: View) -> list[RuleText]:
    codes = {f.code: view.rule(f) for item in view.items for f in item.findings}
    return [codes[code] for code in sorted(codes)]


# -- rows ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Shown:
    """A change as the page shows it. `where` is its place as seen from its row, `hunk` its lines."""

    name: str
    item: Item
    where: str
    hunk: Markup
    others: Sequence[tuple[str, str, Markup]]


@dataclass(frozen=True, slots=True)
class Group:
    """The changes of one rule in one row."""

    rule: RuleText
    shown: Sequence[Shown]


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the table with all that it unfolds to."""

    name: str
    unit: Unit
    counts: dict[Level, int]
    bar: Sequence[Piece]
    groups: Iterable[Group]
    files: int

    @property
    def errors(self) -> Sequence[FileError]:
        """What could not be processed."""
        return self.unit.errors


def _rows(view: View) -> list[Row]:
    ordered = _ordered(view)
    most = max((unit.places for unit in ordered), default=1) or 1
    rows = []
    for number, unit in enumerate(ordered):
        counts = {level: unit.count(level) for level in Level}
        bar = _bar([pair for pair in counts.items() if pair[0] is not Level.IGNORED], most)
        files = len({item.first.path for item in unit.items})
        rows.append(Row(f"u{number}", unit, counts, bar, _groups(view, unit, number), files))
    return rows


def _groups(view: View, unit: Unit, row: int) -> Iterator[Group]:
    numbered = sorted(enumerate(unit.items), key=lambda pair: pair[1].first.code)
    for _, pairs in groupby(numbered, key=lambda pair: pair[1].first.code):
        shown = [_shown(view, item, f"i{row}-{number}", unit.name) for number, item in pairs]
        yield Group(view.rule(shown[0].item.first), shown)


def _shown(view: View, item: Item, name: str, unit: str) -> Shown:
    first = item.first
    cell = f"cell {first.cell}, line " if first.cell is not None else ""
    path = first.path.removeprefix(f"{unit}/") if view.kind == "project" else first.path
    line = f"{cell or 'line '}{first.span.line}"
    at = line if view.kind == "file" else f"{path}, {line}" if cell else f"{path}:{first.span.line}"
    others = [(choice.label, choice.evidence, hunks_html(hunks)) for choice, hunks in item.others]
    return Shown(name, item, one_line(at), hunks_html(item.hunks) if item.hunks else _source(item), others)


def _source(item: Item) -> Markup:
    """The code of a place without hunks: what is there, and what would be where a rewrite is known."""
    lines: list[tuple[str, str]] = []
    for finding in item.findings:
        if finding.after is None:
            shown = textwrap.dedent(" " * (finding.span.column - 1) + finding.before)
            lines += ((" ", line) for line in shown.splitlines())
        else:
            lines += (("-", line) for line in finding.before.splitlines())
            lines += (("+", line) for line in finding.after.splitlines())
    return _markup(_cut(lines))


def hunks_html(hunks: Sequence[Hunk]) -> Markup:
    """Hunks as lines, added and removed ones marked, and in pairs of them what differs."""
    lines: list[tuple[str, str]] = []
    for hunk in hunks:
        lines.append(("@", hunk.header().decode("utf-8", "replace").rstrip("\n")))
        for line in hunk.lines:
            text = line.decode("utf-8", "replace").rstrip("\r\n")
            lines.append((text[:1] or " ", text[1:]))
    return _markup(_cut(lines))


def _cut(lines: list[tuple[str, str]]) -> list[tuple[str, str]]:
    more = len(lines) - _LINES
    return [*lines[:_LINES], ("@", f"{plural(more, 'more line')}")] if more > 0 else lines


_TAGS = {"-": "del", "+": "ins", "@": "i"}


def _markup(lines: Sequence[tuple[str, str]]) -> Markup:
    from markupsafe import Markup, escape

    parts: list[str] = []
    for mark, run in groupby(_paired(lines), key=lambda line: line[0]):
        if mark == " ":
            parts += (f" {escape(visible(''.join(text)))}\n" for _, text in run)
            continue
        tag = _TAGS[mark]
        sign = "" if mark == "@" else mark
        for _, (head, middle, tail) in run:
            inner = f"<b>{escape(visible(middle))}</b>" if middle else ""
            parts.append(f"<{tag}>{sign}{escape(visible(head))}{inner}{escape(visible(tail))}\n</{tag}>")
    return Markup("".join(parts))


def _paired(lines: Sequence[tuple[str, str]]) -> Iterator[tuple[str, tuple[str, str, str]]]:
    """Each line in three: in a run of removed lines with as many added ones behind it, the middle is what differs."""
    runs = [(mark, [text for _, text in run]) for mark, run in groupby(lines, key=lambda line: line[0])]
    for number, (mark, texts) in enumerate(runs):
        partner: list[str] = []
        if mark == "-" and number + 1 < len(runs) and runs[number + 1][0] == "+":
            partner = runs[number + 1][1]
        elif mark == "+" and number and runs[number - 1][0] == "-":
            partner = runs[number - 1][1]
        if len(partner) != len(texts):
            yield from ((mark, (text, "", "")) for text in texts)
            continue
        yield from ((mark, _split(text, other)) for text, other in zip(texts, partner, strict=True))


def _split(text: str, other: str) -> tuple[str, str, str]:
    """A line's beginning and end that another line has too, and what is between; all in one where little is shared."""
    most = min(len(text), len(other))
    head = next((i for i in range(most) if text[i] != other[i]), most)
    tail = next((i for i in range(most - head) if text[-1 - i] != other[-1 - i]), most - head)
    if head + tail < most // 3:
        return text, "", ""
    end = len(text) - tail
    return text[:head], text[head:end], text[end:]


def visible(text: str) -> str:
    """The text with characters that hide, reorder or break it spelled out; tabs stay."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\t" else repr(c)[1:-1] for c in text)


def check() -> None:
    """Raises UsageError where pages cannot be made, before any work is done for one."""
    environment()


def encoded(page: str) -> bytes:
    """The page as it is written."""
    return page.encode("utf-8", "backslashreplace")
