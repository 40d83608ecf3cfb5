"""A summary that fits into a comment on a pull request, and says what it leaves out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from torchmigrate.model import FileError, Finding
from torchmigrate.report.text import one_line, place, plural
from torchmigrate.report.view import Item, Level, View

LIMIT = 65_000
"""Characters; GitHub takes a little more."""
_RESERVE = 200
_ROWS = 60
_SPECIAL = re.compile(r"[\\`*_\[\]#|<>&@~:$]")


def render(view: View) -> str:
    """The summary, at most `LIMIT` characters."""
    page = _Page(LIMIT - _RESERVE)
    page.add(_head(view))
    page.add(_rules(view))
    page.add(_progress(view))
    _people(view, page)
    _errors(view, page)
    page.add(_owners(view))
    page.add(_units(view))
    _changes(view, page)
    return page.text


class _Page:
    """Text that grows while there is room."""

    def __init__(self, room: int) -> None:
        self._parts: list[str] = []
        self._room = room

    def add(self, lines: Iterable[str]) -> bool:
        """Add all the lines, or nothing where they do not fit."""
        text = "".join(f"{line}\n" for line in lines)
        if len(text) > self._room:
            return False
        self._parts.append(text)
        self._room -= len(text)
        return True

    def listed(self, head: Sequence[str], rows: Sequence[Sequence[str]], tail: Sequence[str], noun: str) -> None:
        """Add a list under its head: as many of the rows as fit, then how many more there are."""
        closing = [*tail, ""]
        kept = sum(len(line) + 1 for line in closing) + 100
        if self._room < kept or not self.add(head):
            return
        self._room -= kept
        shown = next((number for number, row in enumerate(rows) if not self.add(row)), len(rows))
        self._room += kept
        more = len(rows) - shown
        if more:
            self.add([f"- … and {plural(more, f'more {noun}')}; `torchmigrate check` lists all"])
        self.add(closing)

    @property
    def text(self) -> str:
        return "".join(self._parts).rstrip("\n") + "\n"


def _head(view: View) -> Iterator[str]:
    levels = view.levels
    done = levels[Level.DONE]
    remaining = len([f for item in view.open for f in item.findings])
    yield "## torchmigrate"
    yield ""
    if not remaining and not done:
        yield "Nothing to migrate."
    else:
        parts = [f"**{levels[level]:,}** {level.label}" for level in Level if levels[level]]
        yield f"{plural(remaining + done, 'place')} in {plural(view.files, 'file')}: {', '.join(parts)}."
    unread = len({error.path for error in view.errors})
    if unread:
        yield f"{plural(unread, 'file')} with errors."
    if not view.complete:
        yield "**The run is not complete.**"
    yield ""


def _rules(view: View) -> Iterator[str]:
    rows = view.by_rule
    if not rows:
        return
    levels = [level for level in Level if level is not Level.IGNORED and any(counts[level] for _, counts in rows)]
    yield "| rule | | " + " | ".join(level.label for level in levels) + " |"
    yield "|---|---|" + "--:|" * len(levels)
    titles = {f.code: view.rule(f).title for item in view.items for f in item.findings}
    for code, counts in sorted(rows):
        numbers = " | ".join(f"{counts[level]:,}" if counts[level] else "" for level in levels)
        yield f"| {escape(code)} | {escape(titles[code])} | {numbers} |"
    yield ""


def _progress(view: View) -> Iterator[str]:
    if view.progress:
        yield escape(str(view.progress))
        yield ""


def _people(view: View, page: _Page) -> None:
    rows = [
        [f"- {_where(finding, unit.name, view)} **{escape(finding.code)}** {escape(finding.message)}"]
        for unit in view.units
        for item in unit.items
        if item.level is Level.MANUAL
        for finding in item.findings
    ]
    if rows:
        page.listed([f"### {plural(len(rows), 'place')} for a person", ""], rows, [], "place")


def _errors(view: View, page: _Page) -> None:
    rows = [
        [f"- {_at(error, unit.name, view)} **{escape(error.code)}** {escape(error.message)}"]
        for unit in view.units
        for error in unit.errors
    ]
    if rows:
        page.listed([f"### {plural(len(rows), 'error')}", ""], rows, [], "error")
    failed = [unit for unit in view.units if unit.status == "failed"]
    if failed:
        lines = [[f"- {code(unit.name)} {escape('; '.join(unit.notes[:1]))}"] for unit in failed]
        heading = f"### {plural(len(failed), 'repository', 'repositories')} not done"
        page.listed([heading, ""], lines, [], "repository")


def _owners(view: View) -> Iterator[str]:
    rows = view.by_owner
    if [name for name, _ in rows] in ([], ["unowned"]):
        return
    yield "| owner | places | of them for a person |"
    yield "|---|--:|--:|"
    for name, counts in rows[:_ROWS]:
        yield f"| {_cell(name)} | {sum(counts.values()):,} | {counts[Level.MANUAL]:,} |"
    if len(rows) > _ROWS:
        yield f"| … {len(rows) - _ROWS:,} more | | |"
    yield ""


def _units(view: View) -> Iterator[str]:
    if view.kind == "file":
        return
    rows = [unit for unit in view.units if unit.places]
    rows.sort(key=lambda unit: (-unit.places, unit.name))
    if not rows:
        return
    yield f"| {view.kind} | places | of them for a person |"
    yield "|---|--:|--:|"
    for unit in rows[:_ROWS]:
        yield f"| {_cell(unit.name)} | {unit.places:,} | {unit.count(Level.MANUAL):,} |"
    if len(rows) > _ROWS:
        yield f"| … {len(rows) - _ROWS:,} more | | |"
    yield ""


def _changes(view: View, page: _Page) -> None:
    rows = [
        _change(item, unit.name, view)
        for unit in view.units
        for item in unit.items
        if item.level in (Level.SAFE, Level.UNSAFE, Level.DONE)
    ]
    if rows:
        head = ["<details>", f"<summary>{plural(len(rows), 'change')}</summary>", ""]
        page.listed(head, rows, ["", "</details>"], "change")


def _change(item: Item, unit: str, view: View) -> list[str]:
    first = item.first
    lines = [f"- {_where(first, unit, view)} **{escape(first.code)}** {item.level.label}: {escape(first.message)}"]
    body = [
        "".join(
            c if c.isprintable() or c == "\t" else repr(c)[1:-1] for c in line.decode("utf-8", "replace").rstrip("\r\n")
        )
        for hunk in item.hunks
        for line in (hunk.header(), *hunk.lines)
    ]
    if body:
        fence = "`" * max(3, 1 + max(map(len, re.findall("`+", "\n".join(body))), default=0))
        lines += ["", f"  {fence}diff", *(f"  {line}" for line in body), f"  {fence}", ""]
    return lines


def _where(finding: Finding, unit: str, view: View) -> str:
    shown = place(finding)
    return code(f"{unit}: {shown}" if view.kind == "repository" else shown)


def _at(error: FileError, unit: str, view: View) -> str:
    at = "".join(f":{number}" for number in (error.line, error.column) if number is not None)
    return code(f"{unit}: {error.path}{at}" if view.kind == "repository" else f"{error.path}{at}")


def code(text: str) -> str:
    """A text as code: between more backticks than it holds in a row."""
    text = one_line(text)
    ticks = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    pad = " " if text.startswith("`") or text.endswith("`") or len(ticks) > 1 else ""
    return f"{ticks}{pad}{text}{pad}{ticks}"


def _cell(text: str) -> str:
    """A text as code in a table, where a bar needs a backslash in code too."""
    return code(text).replace("|", "\\|")


def escape(text: str) -> str:
    """A text as nothing but text: no markup, no HTML, no mention of people or issues."""
    return _SPECIAL.sub(
        lambda found: f"&#{ord(found[0])};" if found[0] in "<>&@#:|" else f"\\{found[0]}", one_line(text)
    )
