"""Reads the list of a fleet: a TOML file, or a plain list with one folder or URL a line.

[[repository]]
source = "https://git.example.org/team/trainer.git"
ref = "main"                    # a branch, tag or commit; default: what HEAD names there
name = "trainer"                # default: the last part of the source
verify = "pytest -q tests"      # default: --verify
verify-timeout = 900            # seconds; default: --verify-timeout
timeout = 1200                  # seconds for everything; default: --repository-timeout
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from torchmigrate.config import near
from torchmigrate.fleet import Repository, masked
from torchmigrate.model import UsageError

_KEYS = ("name", "source", "ref", "verify", "verify-timeout", "timeout")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://|[\w.-]+@[\w.-]+:")


def read(path: str) -> list[Repository]:
    """The repositories of a fleet, in order. Relative folders are relative to the file. Raises UsageError."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from None
    tables = _tables(path, data) if path.endswith(".toml") else _lines(data)
    home = os.path.dirname(os.path.abspath(path))
    found = [_repository(path, number, table, home) for number, table in enumerate(tables, 1)]
    if not found:
        raise UsageError(f"{path}: names no repository")
    return _named(path, found)


def _lines(data: bytes) -> list[Mapping[str, Any]]:
    lines = (os.fsdecode(line).strip() for line in data.splitlines())
    return [{"source": line} for line in lines if line and not line.startswith("#")]


def _tables(path: str, data: bytes) -> Sequence[Mapping[str, Any]]:
    import tomllib

    try:
        document = tomllib.loads(data.decode("utf-8"))
    except ValueError as error:
        raise UsageError(f"{path}: not valid TOML: {error}") from None
    for key in document:
        if key != "repository":
            raise UsageError(f"{path}: unknown key {key!r}{near(key, ['repository'])}")
    tables = document.get("repository", [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise UsageError(f"{path}: repositories must be written as [[repository]] tables")
    return tables


def _repository(path: str, number: int, table: Mapping[str, Any], home: str) -> Repository:
    where = f"{path}: repository number {number}"
    for key, value in table.items():
        if key not in _KEYS:
            raise UsageError(f"{where}: unknown key {key!r}{near(key, _KEYS)}")
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0
        if key in ("verify-timeout", "timeout"):
            if not is_number:
                raise UsageError(f"{where}: {key} must be a number of seconds above 0")
        elif not isinstance(value, str) or not value or "\0" in value:
            raise UsageError(f"{where}: {key} must be a text in quotes")
    source, ref = table.get("source", ""), table.get("ref")
    if not source:
        raise UsageError(f"{where}: has no source")
    if source.startswith("-") or (ref or "").startswith("-"):
        raise UsageError(f"{where}: {source if source.startswith('-') else ref} looks like an option of git")
    is_local = not _URL.match(source)
    if is_local:
        source = os.path.join(home, os.path.expanduser(source))
        source = os.path.normpath(source)
    return Repository(
        table.get("name", ""),
        source,
        is_local,
        ref,
        table.get("verify"),
        table.get("verify-timeout"),
        table.get("timeout"),
    )


def _named(path: str, found: Sequence[Repository]) -> list[Repository]:
    """The repositories with a name each: as given, else as many last parts of the source as tell them apart."""
    from dataclasses import replace

    given = [one.name for one in found if one.name]
    twice = [name for name, times in Counter(given).items() if times > 1]
    if twice:
        raise UsageError(f"{path}: two repositories are called {twice[0]!r}")
    parts = {one: _parts(one) for one in found if not one.name}
    if len(parts) < sum(not one.name for one in found):
        source = next(s for s, times in Counter(one.shown for one in found if not one.name).items() if times > 1)
        raise UsageError(f"{path}: {source} is named twice; give each a name of its own")
    names: dict[Repository, str] = {}
    taken = set(given)
    depth = 1
    waiting = list(parts)
    while waiting:
        proposed = {one: "/".join(parts[one][-depth:]) for one in waiting}
        times = Counter(proposed.values())
        for one, name in proposed.items():
            deepest = depth >= len(parts[one])
            if (times[name] == 1 and name not in taken) or deepest:
                names[one] = _free(name, taken)
                taken.add(names[one])
        waiting = [one for one in waiting if one not in names]
        depth += 1
    return [replace(one, name=one.name or names[one]) for one in found]


def _parts(repository: Repository) -> list[str]:
    text = masked(repository.source).rstrip("/").removesuffix(".git").rstrip("/")
    return [part for part in re.split(r"[/:]" if not repository.is_local else "/", text) if part] or ["repository"]


def _free(name: str, taken: set[str]) -> str:
    free, number = name, 1
    while free in taken:
        number += 1
        free = f"{name} ({number})"
    return free
