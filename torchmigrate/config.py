"""Settings from TOML files and flags. Nothing in a configuration is ever executed.

The nearest `torchmigrate.toml`, or `pyproject.toml` with a `[tool.torchmigrate]` table, counts for a folder; files
farther up are read only when `extend` names them. Flags win over files, files over defaults.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from torchmigrate import plain
from torchmigrate.model import Override, Settings, UsageError

STANDALONE = "torchmigrate.toml"
SHARED = "pyproject.toml"
_TABLE = b"torchmigrate"
_CODE = r"[A-Z]+[0-9]+"
_SIZE = r"(\d+(?:\.\d+)?)\s*([kmg]?)i?b?"
_UNITS = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3}


class ConfigError(UsageError):
    """A configuration or a flag that cannot be used; the text names the file, the key and the remedy."""


@dataclass(frozen=True, slots=True)
class Config:
    """What one configuration file says: values by field of `Settings`, and for each the file that says so.

    `folder` is where the file lies; glob patterns are relative to it.
    """

    path: str | None = None
    folder: str = "."
    values: Mapping[str, Any] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)


def parse_size(text: str) -> int:
    """Bytes from "500 kB", "4MB" or plain digits; units are powers of 1024. Raises ValueError."""
    found = re.fullmatch(_SIZE, text.strip(), re.IGNORECASE)
    if not found:
        raise ValueError(f"{text!r} is not a size such as 500kB or 4MB")
    return int(float(found[1]) * _UNITS[found[2].lower()])


def parse_torch(text: str) -> str:
    """A torch version such as 2.15 or 2.14.1. Raises ValueError."""
    if not re.fullmatch(r"\d+\.\d+(\.\d+)?", text.strip()):
        raise ValueError(f"{text!r} is not a torch version such as 2.15")
    return text.strip()


def find(folder: str, top: str | None = None) -> str | None:
    """The configuration file that counts for a folder: the nearest one on the way up, to `top` at most."""
    here = os.path.realpath(folder)
    last = os.path.realpath(top) if top is not None else None
    while True:
        path = at(here)
        if path is not None:
            return path
        above = os.path.dirname(here)
        if above == here or here == last:
            return None
        here = above


def at(folder: str) -> str | None:
    """The configuration file that lies in a folder itself."""
    for name in (STANDALONE, SHARED):
        path = os.path.join(folder, name)
        try:
            text = plain.read(path)
        except OSError:
            continue
        if name == STANDALONE or (_TABLE in text and _table(path, text) is not None):
            return path
    return None


def load(path: str, seen: tuple[str, ...] = ()) -> Config:
    """Read a configuration file and those that it extends. Raises ConfigError."""
    path = os.path.realpath(path)
    if path in seen:
        raise ConfigError(f"{path}: extends itself through {' -> '.join(seen)}")
    try:
        text = plain.read(path)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from None
    table = _table(path, text)
    if table is None:
        raise ConfigError(f"{path}: has no [tool.torchmigrate] table")
    folder = os.path.dirname(path)
    base = Config()
    extends = table.pop("extend", None)
    if extends is not None:
        if not isinstance(extends, str):
            raise ConfigError(f"{path}: extend must be a path in quotes")
        base = load(os.path.join(folder, os.path.expanduser(extends)), (*seen, path))
    values, options = _read(path, table)
    if "baseline" in values:
        values["baseline"] = os.path.join(folder, os.path.expanduser(values["baseline"]))
    values |= {f"{name}_from": folder for name in ("include", "exclude", "projects") if name in values}
    values |= {f"{name}_from": path for name in ("select", "ignore") if name in values}
    if options:
        values["options"] = _merged(base.values.get("options", {}), options)
    if "overrides" in values:
        values["overrides"] = (*base.values.get("overrides", ()), *values["overrides"])
    sources = {**base.sources, **dict.fromkeys(values, path)}
    return Config(path, folder, {**base.values, **values}, sources)


def _table(path: str, text: bytes) -> dict[str, Any] | None:
    import tomllib

    try:
        document = tomllib.loads(text.decode("utf-8"))
    except ValueError as error:
        raise ConfigError(f"{path}: not valid TOML: {error}") from None
    if os.path.basename(path) != SHARED:
        return document
    tool = document.get("tool")
    table = tool.get("torchmigrate") if isinstance(tool, dict) else None
    if table is not None and not isinstance(table, dict):
        raise ConfigError(f"{path}: tool.torchmigrate must be a table")
    return table


Reader = Callable[[Any], Any]


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ValueError("must be a list of strings")
    return tuple(value)


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("must be true or false")
    return value


def _natural(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError("must be a whole number, 0 or more")
    return value


def _seconds(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value <= 0:
        raise ValueError("must be a number of seconds above 0")
    return float(value)


def _size(value: Any) -> int:
    return parse_size(value) if isinstance(value, str) else _natural(value)


def _path(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError("must be a path in quotes")
    return value


def _torch(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError('must be a version in quotes, such as "2.15"')
    return parse_torch(value)


KEYS: Mapping[str, tuple[str, Reader]] = {
    "select": ("select", _texts),
    "ignore": ("ignore", _texts),
    "include": ("include", _texts),
    "exclude": ("exclude", _texts),
    "projects": ("projects", _texts),
    "min-torch": ("min_torch", _torch),
    "baseline": ("baseline", _path),
    "jobs": ("jobs", _natural),
    "timeout": ("timeout", _seconds),
    "max-size": ("max_size", _size),
    "gitignore": ("gitignore", _boolean),
    "cache": ("cache", _boolean),
    "include-stubs": ("include_stubs", _boolean),
    "include-generated": ("include_generated", _boolean),
}
"""What a configuration file may say, with the field of `Settings` that it sets."""
_OVERRIDE_KEYS = ("paths", "select", "ignore")


def _read(path: str, table: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, dict[str, object]]]:
    values: dict[str, Any] = {}
    options: dict[str, dict[str, object]] = {}
    for key, value in table.items():
        if key in KEYS:
            name, reader = KEYS[key]
            try:
                values[name] = reader(value)
            except ValueError as error:
                raise ConfigError(f"{path}: {key} {error}") from None
        elif key == "overrides":
            values["overrides"] = _overrides(path, value)
        elif re.fullmatch(_CODE, key) and isinstance(value, dict):
            options[key] = _options(path, key, value)
        else:
            raise ConfigError(f"{path}: unknown key {key!r}{near(key, [*KEYS, 'extend', 'overrides'])}")
    return values, options


def _options(path: str, code: str, table: Mapping[str, Any]) -> dict[str, object]:
    for name, value in table.items():
        if isinstance(value, dict):
            raise ConfigError(f"{path}: {code}.{name} must be a plain value")
    return dict(table)


def _overrides(path: str, value: Any) -> tuple[Override, ...]:
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise ConfigError(f"{path}: overrides must be written as [[tool.torchmigrate.overrides]] tables")
    found = []
    for number, table in enumerate(value, 1):
        where = f"overrides number {number}"
        texts: dict[str, tuple[str, ...]] = {}
        options: dict[str, dict[str, object]] = {}
        for key, item in table.items():
            if key in _OVERRIDE_KEYS:
                try:
                    texts[key] = _texts(item)
                except ValueError as error:
                    raise ConfigError(f"{path}: {where}: {key} {error}") from None
            elif re.fullmatch(_CODE, key) and isinstance(item, dict):
                options[key] = _options(path, key, item)
            else:
                raise ConfigError(f"{path}: {where}: unknown key {key!r}{near(key, _OVERRIDE_KEYS)}")
        if not texts.get("paths"):
            raise ConfigError(f"{path}: {where}: names no paths")
        found.append(
            Override(os.path.dirname(path), texts["paths"], texts.get("select", ()), texts.get("ignore", ()), options)
        )
    return tuple(found)


def _merged(
    first: Mapping[str, Mapping[str, object]], second: Mapping[str, Mapping[str, object]]
) -> dict[str, dict[str, object]]:
    return {code: {**first.get(code, {}), **second.get(code, {})} for code in {**first, **second}}


def near(word: str, known: Iterable[str]) -> str:
    """`; did you mean X?` when a known word is close, else nothing."""
    import difflib

    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"; did you mean {close[0]!r}?" if close else ""


def settings(config: Config, flags: Mapping[str, Any], names: Mapping[str, str]) -> tuple[Settings, dict[str, str]]:
    """The effective settings, and for each field where its value comes from.

    `flags` holds the fields that the command line gave, `names` how each was spelled there.
    """
    given = {name: value for name, value in flags.items() if value is not None}
    given |= {f"{name}_from": None for name in ("select", "ignore", "include", "exclude") if name in given}
    merged = replace(Settings(), **{**config.values, **given})
    sources = {f.name: config.sources.get(f.name, "default") for f in fields(Settings)}
    sources |= {name: names.get(name, "--" + name.replace("_", "-")) for name in given}
    return merged, sources


def check_options(settings: Settings, known: Mapping[str, Mapping[str, Collection[str]]], source: str) -> None:
    """Refuse options that no rule knows. `known` gives by code each option's possible values, none for any.

    Raises ConfigError.
    """
    tables = [settings.options, *(override.options for override in settings.overrides)]
    for code, options in ((code, options) for table in tables for code, options in table.items()):
        if code not in known:
            raise ConfigError(f"{source}: unknown code {code}{near(code, known)}")
        for name, value in options.items():
            if name not in known[code]:
                raise ConfigError(f"{source}: {code} has no option {name!r}{near(name, known[code])}")
            allowed = known[code][name]
            if allowed and value not in allowed:
                raise ConfigError(f"{source}: {code}.{name} is {value!r}, but must be one of {', '.join(allowed)}")


def folder_of(path: str) -> str:
    """The folder from which the configuration of a path is looked for."""
    return path if os.path.isdir(path) else os.path.dirname(path) or os.curdir
