"""What a run looks for where flags narrow it, so that a baseline can keep the findings of the rest."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping

from torchmigrate import registry
from torchmigrate.baseline import Entry, code_of, read
from torchmigrate.discover import Discovery, below
from torchmigrate.kinds import KINDS
from torchmigrate.model import Override, Selection, Settings, UsageError
from torchmigrate.narrow import Narrow
from torchmigrate.roots import Projects

_REMEDY = "run torchmigrate baseline over everything, or write another file with -o"
_OF_DISCOVERY = frozenset({"include", "exclude", "files_from", "changed_since"})


class Part:
    """What a run looks for by its settings, of which `sources` says where they come from."""

    def __init__(self, settings: Settings, sources: Mapping[str, str]) -> None:
        self._settings = settings
        self._flags = frozenset(name for name, source in sources.items() if source.startswith("-"))
        self._homes = tuple(os.path.realpath(path) for path in settings.paths)

    def old(self, file: str) -> frozenset[Entry]:
        """What the file to write holds already, as far as a run must know it. Raises UsageError."""
        if not os.path.isfile(file):
            return frozenset()
        try:
            held = read(file)
        except UsageError as error:
            if self._is_whole(file):
                return frozenset()
            raise UsageError(f"{error}, and this run looks at a part only: {_REMEDY}") from None
        listed = self._settings.files_from
        if held and listed is not None and not os.path.isfile(listed):
            raise UsageError(
                f"which findings of {file} to keep cannot be told with --files-from {listed}, which is read only once: "
                "name a file that lists the paths, or write another file with -o"
            )
        return held

    def rest(self, held: frozenset[Entry], folder: str) -> Iterator[Entry]:
        """Those findings of a baseline in a folder that the run does not look for; of files that are gone, none.

        Raises UsageError.
        """
        if not held:
            return
        codes = self._codes()
        asked = list(self._files())
        files: dict[str, bool] = {}
        for entry in held:
            path = os.path.realpath(os.path.join(folder, entry[0]))
            if path not in files:
                files[path] = all(holds(path) for holds in asked)
            if (not files[path] or (codes is not None and code_of(entry) not in codes)) and os.path.lexists(path):
                yield entry

    def _is_whole(self, file: str) -> bool:
        """Whether nothing narrows the run, in all of the folder of the configuration, without one in that of a file."""
        home = os.path.dirname(os.path.realpath(self._settings.config_file or file))
        narrowing = {"select", "ignore", "only_projects", "only_owners", *_OF_DISCOVERY}
        return not narrowing & self._flags and self._is_below(home)

    def _is_below(self, path: str) -> bool:
        return any(path == home or below(path, home) for home in self._homes)

    def _codes(self) -> frozenset[str] | None:
        """The rules that the flags leave, None where there is no such flag."""
        if not {"select", "ignore"} & self._flags:
            return None
        settings = self._settings
        known = registry.rules(settings.load, settings.cache)
        select = settings.select if "select" in self._flags else ()
        ignore = settings.ignore if "ignore" in self._flags else ()
        everything = Selection(tuple(rule.code for rule in known.codemods))
        return frozenset(registry.overridden(known, everything, Override(os.curdir, (), select, ignore)).codes)

    def _files(self) -> Iterator[Callable[[str], bool]]:
        """What has to hold for a file, by its resolved path, to be one that the run looks at."""
        settings = self._settings
        if settings.files_from is None:
            yield self._is_below
        if _OF_DISCOVERY & self._flags:
            batches = Discovery(settings, frozenset(KINDS)).batches()
            yield frozenset(os.path.realpath(path) for batch in batches for path in batch.paths()).__contains__
        if settings.only_projects or settings.only_owners:
            roots = Projects.of(settings)
            narrow = Narrow(settings, roots)
            yield lambda path: narrow.allows(path, roots.root_of(path))
