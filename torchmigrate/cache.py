"""What earlier runs found out, kept by content, so that an unchanged file is not looked at twice.

One file in the user's cache folder holds the entries of one kind of run (its paths, rules and options). It is read as a
whole and replaced as a whole, so a run that is killed, or another one beside it, can cost entries but never spoil them;
a checksum tells a damaged file. Without a usable folder there is no cache, and nothing is said about it.
"""

from __future__ import annotations

import contextlib
import hashlib
import marshal
import os
import sys
from collections.abc import Iterable, Iterator

VERSION = b"torchmigrate cache 1\n"
MOST_FILES = 100
MOST_BYTES = 64 << 20
GENERATIONS = 16
"""For how many saving runs an entry is kept that none of them asked for."""
_SUM = 16


class Store:
    """Entries of one scope: bytes by bytes. What many runs neither ask for nor add is forgotten."""

    def __init__(self, scope: bytes, where: str | None = None, apart_from: Iterable[str] = ()) -> None:
        """Opens what is kept for `scope`. Nothing is ever kept in a folder below those in `apart_from`."""
        self._path: str | None = None
        self._entries: dict[bytes, tuple[int, bytes]] = {}
        self._generation = 0
        self._is_new = False
        base = where or folder()
        if base is None or any(_is_below(base, other) for other in apart_from):
            return
        self._path = os.path.join(base, hashlib.blake2b(scope, digest_size=16).hexdigest())
        self._entries = _load(self._path)
        self._generation = 1 + max((last for last, _ in self._entries.values()), default=0)

    def get(self, key: bytes) -> bytes | None:
        """What is kept under a key."""
        found = self._entries.get(key)
        if found is None:
            return None
        self.put(key, found[1], is_new=False)
        return found[1]

    def put(self, key: bytes, value: bytes, is_new: bool = True) -> None:
        """Keep a value under a key once the run saves."""
        self._entries[key] = self._generation, value
        self._is_new = self._is_new or is_new

    def save(self) -> None:
        """Write what this run and those before it used, if this one added anything."""
        if self._path is None or not self._is_new:
            return
        for generations in (GENERATIONS, 1):
            oldest = self._generation - generations
            body = marshal.dumps({key: entry for key, entry in self._entries.items() if entry[0] > oldest})
            if len(body) <= MOST_BYTES:
                break
        else:
            return
        temporary = f"{self._path}.{os.getpid()}"
        with contextlib.suppress(OSError):
            os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)
            try:
                with open(temporary, "wb") as file:
                    file.write(VERSION + _checksum(body) + body)
                os.replace(temporary, self._path)
            except OSError:
                os.unlink(temporary)
                raise
            _forget_oldest(os.path.dirname(self._path))


def key(*parts: bytes | str) -> bytes:
    """A key from parts that cannot run into one another."""
    summed = hashlib.blake2b(digest_size=16)
    for part in parts:
        data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        summed.update(b"%d:" % len(data))
        summed.update(data)
    return summed.digest()


def folder() -> str | None:
    """The user's cache folder, None where there is no home."""
    if sys.platform in {"win32", "darwin"}:
        import platformdirs

        return platformdirs.user_cache_dir("torchmigrate", appauthor=False)
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):
        base = os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "torchmigrate") if os.path.isabs(base) else None


def sources(files: Iterable[str]) -> bytes:
    """A fingerprint of the code that a run depends on: the given files, and for an `__init__.py` its whole package."""
    summed = hashlib.blake2b(digest_size=16)
    for file in sorted(set(files)):
        top, name = os.path.split(os.path.realpath(file))
        for path in sorted(_package(top)) if name == "__init__.py" else (os.path.join(top, name),):
            found = os.stat(path)
            summed.update(f"{path} {found.st_size} {found.st_mtime_ns}\n".encode("utf-8", "surrogatepass"))
    return summed.digest()


def _package(top: str) -> Iterator[str]:
    for here, folders, names in os.walk(top):
        folders[:] = [name for name in folders if name != "__pycache__"]
        yield from (os.path.join(here, name) for name in names if name.endswith((".py", ".json", ".toml")))


def _checksum(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=_SUM).digest()


def _load(path: str) -> dict[bytes, tuple[int, bytes]]:
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError:
        return {}
    start = len(VERSION) + _SUM
    body = data[start:]
    if not data.startswith(VERSION) or data[len(VERSION) : start] != _checksum(body):
        return {}
    loaded: dict[bytes, tuple[int, bytes]] = marshal.loads(body)
    return loaded


def _is_below(path: str, other: str) -> bool:
    inside, outer = os.path.realpath(path) + os.sep, os.path.realpath(other).rstrip(os.sep) + os.sep
    return inside.startswith(outer) and outer != os.sep


def _forget_oldest(where: str) -> None:
    names = os.listdir(where)
    if len(names) <= MOST_FILES:
        return
    paths = sorted((os.path.join(where, name) for name in names), key=lambda path: os.stat(path).st_mtime)
    for path in paths[: len(paths) - MOST_FILES]:
        os.unlink(path)
