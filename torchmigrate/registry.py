"""Finds the codemods that are installed or loaded from a file, and picks those that a run asks for.

Each entry point that `entries` finds names a tuple of `Codemod` classes.
"""

from __future__ import annotations

import functools
import importlib
import os
import pickle
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from torchmigrate import cache
from torchmigrate.entries import entry_points
from torchmigrate.model import FileError, Override, Selection, Settings, UsageError

if TYPE_CHECKING:
    from torchmigrate.codemod import Codemod

NONE_INSTALLED = (
    "no codemods are installed; install the torchmigrate package (pip install torchmigrate, or pip install -e . in a "
    "checkout), or name a file of codemods with --load"
)
PROVIDERS = {"bowler": "torchmigrate.bowler:codemods"}
"""Makers of codemods: `bowler:FILE` among the files to load stands for what the maker gives for FILE."""
_CODE = re.compile(r"[A-Z]+\d+")


@dataclass(frozen=True, slots=True)
class Rule:
    """What a run has to know of a codemod as long as no file calls for it; the fields are those of `Codemod`.

    `module` is where the class is defined, `options` holds what each option may be.
    """

    code: str
    name: str
    area: str
    default: bool
    triggers: tuple[bytes, ...]
    text_triggers: tuple[bytes, ...]
    requires: Mapping[bytes, tuple[bytes | tuple[bytes, ...], ...]]
    text_requires: Mapping[bytes, tuple[bytes | tuple[bytes, ...], ...]]
    awaits: Mapping[bytes, str]
    formats: frozenset[str]
    gathers: bool
    options: Mapping[str, tuple[str, ...]]
    module: str

    @classmethod
    def of(cls, codemod: type[Codemod]) -> Rule:
        return cls(
            codemod.code,
            codemod.name,
            codemod.area,
            codemod.default,
            tuple(codemod.triggers),
            tuple(codemod.text_triggers),
            dict(codemod.requires),
            dict(codemod.text_requires),
            dict(codemod.awaits),
            frozenset(codemod.formats),
            codemod.gathers,
            {name: option.values for name, option in codemod.options.items()},
            codemod.__module__,
        )


R = TypeVar("R", "type[Codemod]", Rule)


@dataclass(frozen=True, slots=True)
class Registry(Generic[R]):
    """Every codemod that could be loaded, in a fixed order, and an error for each source that could not."""

    codemods: tuple[R, ...]
    errors: tuple[FileError, ...] = ()

    def select(
        self,
        select: Iterable[str] = (),
        ignore: Iterable[str] = (),
        *,
        select_from: str | None = None,
        ignore_from: str | None = None,
    ) -> list[R]:
        """The codemods that the words of --select and --ignore leave, in the registry's order.

        `select_from` and `ignore_from` are the configuration files that say them, where no flag does.

        A word is a code, the beginning of codes, a name, an area, or ALL. Without any selected word the codemods that
        are on by default run; one that is off by default runs only when its whole code or name is selected. Raises
        UsageError for an unknown word, and when no codemod is installed.
        """
        if not self.codemods:
            raise UsageError(self._none())
        wanted, unwanted = _words(select), _words(ignore)
        for key, words, file in (("select", wanted, select_from), ("ignore", unwanted, ignore_from)):
            for word in words:
                if not any(_matches(codemod, word) for codemod in self.codemods):
                    said = self._unknown(word, f"--{key}" if file is None else None)
                    raise UsageError(said if file is None else f"{file}: {key}: {said}")
        return [
            codemod
            for codemod in self.codemods
            if (codemod.default if not wanted else any(_picks(codemod, word) for word in wanted))
            and not any(_matches(codemod, word) for word in unwanted)
        ]

    def of(self, codes: Iterable[str]) -> list[R]:
        """The codemods of exactly these codes, in the registry's order."""
        kept = frozenset(codes)
        return [codemod for codemod in self.codemods if codemod.code in kept]

    def get(self, word: str) -> R:
        """The codemod of one code or name. Raises UsageError."""
        for codemod in self.codemods:
            if word.casefold() in {codemod.code.casefold(), codemod.name.casefold()}:
                return codemod
        raise UsageError(self._unknown(word, None) if self.codemods else self._none())

    def _none(self) -> str:
        return NONE_INSTALLED + "".join(f"\n{error.path}: {error.code} {error.message}" for error in self.errors)

    def _unknown(self, word: str, option: str | None) -> str:
        import difflib

        codes = [codemod.code for codemod in self.codemods]
        names = [*(codemod.name for codemod in self.codemods), *dict.fromkeys(c.area for c in self.codemods)]
        looks_like_code = re.fullmatch(r"[A-Za-z]{1,3}\d*", word) is not None
        known = codes if looks_like_code else names
        close = difflib.get_close_matches(word.upper() if looks_like_code else word, known, n=1, cutoff=0.5)
        hint = f"; did you mean {close[0]}?" if close else "; torchmigrate list shows all"
        return f"unknown {'code' if looks_like_code else 'rule'} {word}{f' in {option}' if option else ''}{hint}"


def rules(files: Sequence[str] = (), save: bool = True) -> Registry[Rule]:
    """What `load` finds, as data; kept from run to run, so that a run without candidates need not import the rules.

    Only what is installed is kept, and only when all of it loads and its code can be located. With `save` off nothing
    is written.
    """
    installed = _installed(save)
    if not files:
        return installed
    loaded = load(files, path=[])
    more = [Rule.of(codemod) for codemod in loaded.codemods]
    codes = {rule.code for rule in installed.codemods}
    if any(rule.code in codes for rule in more):
        whole = load(files)
        return Registry(tuple(Rule.of(codemod) for codemod in whole.codemods), whole.errors)
    return Registry(_in_order([*installed.codemods, *more]), (*installed.errors, *loaded.errors))


def _installed(save: bool) -> Registry[Rule]:
    entries = entry_points()
    code = fingerprint({entry.value.partition(":")[0] for entry in entries})
    store = None
    if code is not None:
        store = cache.Store(cache.key(b"rules", sys.version, code, *map(repr, entries)))
        kept = store.get(b"rules")
        if kept is not None:
            return Registry(pickle.loads(kept))
    loaded = load()
    found = Registry(tuple(Rule.of(codemod) for codemod in loaded.codemods), loaded.errors)
    if save and store is not None and not found.errors:
        store.put(b"rules", pickle.dumps(found.codemods))
        store.save()
    return found


def fingerprint(modules: Iterable[str]) -> bytes | None:
    """A digest of the code that outcomes of these modules depend on: their packages, this package, and libcst.

    None where some of it cannot be located without importing it.
    """
    return _fingerprint(frozenset(module.partition(".")[0] for module in modules), tuple(sys.path))


@functools.lru_cache(1)
def _fingerprint(packages: frozenset[str], path: tuple[str, ...]) -> bytes | None:
    """Taken once: what a process has imported stays what it is."""
    import importlib.util

    files = {os.path.join(os.path.dirname(__file__), "__init__.py")}
    for name in packages:
        loaded = sys.modules.get(name)
        spec = importlib.util.find_spec(name) if loaded is None else None
        origin = getattr(loaded, "__file__", None) if loaded is not None else spec and spec.origin
        if not origin or not os.path.isfile(origin):
            return None
        files.add(origin)
    libcst = importlib.util.find_spec("libcst")
    if libcst is not None and libcst.origin:
        files.add(os.path.join(os.path.dirname(libcst.origin), "_version.py"))
    return cache.sources(files)


def load(files: Sequence[str] = (), path: Sequence[str] | None = None) -> Registry[type[Codemod]]:
    """All codemods: installed ones by distribution and name, then those of the given files.

    What fails to load is an error (TM003) in the result, never an exception; a file that does not exist is a
    UsageError.
    """
    found: list[type[Codemod]] = []
    errors: list[FileError] = []
    sources: list[tuple[str, Callable[[], object]]] = [
        (str(entry), partial(_resolve, entry.value)) for entry in entry_points(path)
    ]
    for file in files:
        provider, _, argument = file.partition(":")
        if provider in PROVIDERS:
            sources.append((argument, partial(_made, PROVIDERS[provider], argument)))
            continue
        if not os.path.isfile(file):
            raise UsageError(f"no such file: {file} (given to --load)")
        sources.append((file, partial(_from_file, file)))
    for name, read in sources:
        try:
            found.extend(_checked(read(), found))
        except Exception as error:
            said = f"{type(error).__name__}: {error}" if not isinstance(error, _Refused) else str(error)
            errors.append(FileError(name, None, None, "TM003", f"these codemods failed to load: {said}"))
    return Registry(_in_order(found), tuple(errors))


def select(select: Iterable[str] = (), ignore: Iterable[str] = (), files: Sequence[str] = ()) -> list[type[Codemod]]:
    """Load everything and pick; see `Registry.select`. Errors of plugins are dropped: use `load` to see them."""
    return load(files).select(select, ignore)


def selection(registry: Registry[Any], settings: Settings) -> Selection:
    """What the settings pick from a registry, as data. Raises UsageError."""
    picked = registry.select(
        settings.select, settings.ignore, select_from=settings.select_from, ignore_from=settings.ignore_from
    )
    for override in settings.overrides:
        place = f"the configuration in {override.folder}: overrides of {', '.join(override.paths)}"
        registry.select(override.select, override.ignore, select_from=place, ignore_from=place)
    return Selection(tuple(codemod.code for codemod in picked), settings.options, settings.load)


def overridden(registry: Registry[Any], chosen: Selection, override: Override) -> Selection:
    """A selection as an override narrows it: its words pick among the chosen codes, its options win."""
    kept = {codemod.code for codemod in registry.select(override.select, override.ignore)}
    if not override.select:
        ignored = {c.code for c in registry.codemods if any(_matches(c, word) for word in _words(override.ignore))}
        kept = set(chosen.codes) - ignored
    options = {code: dict(table) for code, table in chosen.options.items()}
    for code, table in override.options.items():
        options[code] = {**options.get(code, {}), **table}
    return replace(chosen, codes=tuple(code for code in chosen.codes if code in kept), options=options)


class _Refused(Exception):
    """A plugin offers something that is not a tuple of codemods."""


def _words(given: Iterable[str]) -> list[str]:
    return [word for text in given for word in re.split(r"[,\s]+", text) if word]


def _matches(codemod: type[Codemod] | Rule, word: str) -> bool:
    folded = word.casefold()
    return (
        folded == "all"
        or (re.fullmatch(r"[a-z]+\d*", folded) is not None and codemod.code.casefold().startswith(folded))
        or folded in {codemod.name.casefold(), codemod.area.casefold()}
    )


def _picks(codemod: type[Codemod] | Rule, word: str) -> bool:
    named = word.casefold() in {codemod.code.casefold(), codemod.name.casefold()}
    return _matches(codemod, word) and (codemod.default or named)


def _in_order(found: Iterable[R]) -> tuple[R, ...]:
    """By the letters of their codes, then by number."""

    def order(one: R) -> tuple[str, int]:
        letters = one.code.rstrip("0123456789")
        return letters, int(one.code[len(letters) :] or 0)

    return tuple(sorted(found, key=order))


def _resolve(value: str) -> object:
    module, _, attribute = value.partition(":")
    found: object = importlib.import_module(module.strip())
    for name in filter(None, attribute.partition("[")[0].strip().split(".")):
        found = getattr(found, name)
    return found


def _made(maker: str, argument: str) -> object:
    made = _resolve(maker)
    assert callable(made)
    return made(argument)


def _from_file(path: str) -> object:
    """The codemods of a file: its `CODEMODS`, else every codemod class that it defines."""
    import hashlib
    import importlib.util

    from torchmigrate.codemod import Codemod

    digest = hashlib.blake2b(os.fsencode(os.path.realpath(path)), digest_size=8).hexdigest()
    name = f"torchmigrate_loaded_{digest}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise _Refused("not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    listed = getattr(module, "CODEMODS", None)
    if listed is not None:
        return listed
    return tuple(
        value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Codemod) and value.__module__ == name
    )


def _checked(offered: object, earlier: Iterable[type[Codemod]]) -> list[type[Codemod]]:
    from torchmigrate.codemod import Codemod

    if not isinstance(offered, (tuple, list)):
        raise _Refused(f"expected a tuple of Codemod classes, found {type(offered).__name__}")
    if not offered:
        raise _Refused("no codemod in it")
    taken = {codemod.code: codemod for codemod in earlier}
    for codemod in offered:
        if not (isinstance(codemod, type) and issubclass(codemod, Codemod)):
            raise _Refused(f"{codemod!r} is not a subclass of torchmigrate.codemod.Codemod")
        code, name = getattr(codemod, "code", None), getattr(codemod, "name", None)
        if not isinstance(code, str) or not _CODE.fullmatch(code) or not isinstance(name, str):
            raise _Refused(f"{codemod.__name__} needs a code such as TM101 and a name")
        if not codemod.triggers or not all(isinstance(one, bytes) and one for one in codemod.triggers):
            raise _Refused(f"{code} needs triggers: the bytes without which a file is not even read")
        if code in taken and taken[code] is not codemod:
            raise _Refused(f"{code} is already the code of {taken[code].__module__}.{taken[code].__qualname__}")
        taken[code] = codemod
    return list(dict.fromkeys(offered))


def options_of(codemods: Iterable[type[Codemod]]) -> Mapping[str, frozenset[str]]:
    """Which options each rule knows, by code."""
    return {codemod.code: frozenset(codemod.options) for codemod in codemods}
