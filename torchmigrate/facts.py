"""What the files of a project tell each other: facts that codemods gather, and who reads which."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

CONSTANT = "constant:"
"""Begins the names of facts that say what a constant of another module can be: `constant:mypkg.config:BACKEND` for what
is imported from a module, `constant:mypkg.config.BACKEND` for an attribute of what is imported. They are no facts that
codemods gather: whoever runs the engine reads them from the modules."""

Facts = Mapping[str, tuple[object, ...]]
Gathered = tuple[tuple[str, object], ...]


def merged(pairs: Iterable[tuple[str, object]]) -> dict[str, tuple[object, ...]]:
    """All values of each name, in the order given."""
    found: dict[str, list[object]] = {}
    for name, value in pairs:
        found.setdefault(name, []).append(value)
    return {name: tuple(values) for name, values in found.items()}


class OwnFacts(Mapping[str, tuple[object, ...]]):
    """The facts of one file by itself, which notes the names that are asked for: `read`.

    Constants of other modules are in `beneath`; they are the same for all files and not noted.
    """

    ALL = ""
    """Stands in `read` for every name: the facts were counted or gone through."""

    def __init__(self, beneath: Mapping[str, object] | None = None) -> None:
        self.read: set[str] = set()
        self._beneath = {} if beneath is None else beneath
        self._known: dict[str, tuple[object, ...]] = {}

    def begin(self, gathered: Gathered) -> None:
        """Set what is known, and forget what was read before."""
        self._known = merged(gathered)
        self.read.clear()

    def __getitem__(self, name: str) -> tuple[object, ...]:
        if name.startswith(CONSTANT):
            found = self._beneath[name]
            return found if isinstance(found, tuple) else (found,)
        self.read.add(name)
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        self.read.add(self.ALL)
        return iter(self._known)

    def __len__(self) -> int:
        self.read.add(self.ALL)
        return len(self._known)


def hangs_on(read: frozenset[str], own: Gathered, all_of_them: Facts) -> bool:
    """Whether what was found with a file's own facts may be another thing with those of its project."""
    if not read:
        return False
    known = merged(own)
    if OwnFacts.ALL in read:
        return known != dict(all_of_them)
    return any(known.get(name) != all_of_them.get(name) for name in read)
