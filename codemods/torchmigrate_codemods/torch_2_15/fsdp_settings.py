"""Mixed precision of FSDP2 as configuration files state it: policies that they name, and a reduce_dtype of null."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torchmigrate.documents import Document
    from torchmigrate.texts.tokens import Entry

_PARAM, _REDUCE = "param_dtype", "reduce_dtype"
_NOTHING = frozenset({"", "~", "null", "none"})
_ARGUMENTS = ("init_args",)
"""The keys under which files that name a class keep its arguments, where these are not beside the name."""
_MERGE = "<<"


def unstated(document: Document, policies: frozenset[str], *, used: bool) -> Iterator[tuple[Entry, str]]:
    """The entries that leave a reduce_dtype to torch, each with the param_dtype beside it.

    Classes are found by their qualified names, `policies`. A reduce_dtype of null by itself counts only where the
    project makes such policies: `used`.
    """
    found: dict[int, tuple[Entry, str]] = {}
    for entry in document.entries:
        if entry.value in policies:
            unset = _of_policy(document, entry)
            if unset is not None:
                found[unset[0].start] = unset
        elif used and entry.key.endswith(_REDUCE) and _is_nothing(entry):
            param = _beside(document, _around(entry), entry.key.removesuffix(_REDUCE) + _PARAM, entry)
            if param is not None and not _is_nothing(param):
                found[entry.start] = (entry, param.value)
    yield from (found[start] for start in sorted(found))


def _of_policy(document: Document, name: Entry) -> tuple[Entry, str] | None:
    """Where the reduce_dtype of a policy that a file names by its class is missing, and its param_dtype."""
    for inside in ((), _ARGUMENTS):
        around = (*_around(name), *inside)
        param = _beside(document, around, _PARAM, name)
        if param is None or _is_nothing(param):
            continue
        reduce = _beside(document, around, _REDUCE, name)
        if reduce is not None:
            return (reduce, param.value) if _is_nothing(reduce) else None
        return None if _MERGE in document.text else (name, param.value)
    return None


def _around(entry: Entry) -> tuple[str, ...]:
    """The path of the mapping that holds an entry."""
    return tuple(key for key in entry.path[:-1] if key != _MERGE)


def _beside(document: Document, around: tuple[str, ...], key: str, entry: Entry) -> Entry | None:
    """The nearest entry of a mapping with a key: mappings in one list have the same path."""
    found = [one for one in document.entries if one.key == key and one.item is None and _around(one) == around]
    return min(found, key=lambda one: abs(one.start - entry.start), default=None)


def _is_nothing(entry: Entry) -> bool:
    return entry.value.strip().lower() in _NOTHING
