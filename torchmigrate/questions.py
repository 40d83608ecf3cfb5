"""What a package of rules says for the readiness report: questions its rules answer, advice by kind of project."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

INIT_WITH, INIT_WITHOUT = "init-with-device-id", "init-without-device-id"
"""Counts that no rule of a release makes: calls that start a group, with and without the device that it binds."""


@dataclass(frozen=True, slots=True)
class Question:
    """One thing to know before an upgrade: how many places the named rules find. `key` is its name in JSON."""

    key: str
    label: str
    rules: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Advice:
    """A line for projects of one kind: those for which `holds` says so of the counts and frameworks."""

    kind: str
    text: str
    holds: Callable[[Mapping[str, int], Mapping[str, str]], bool]
