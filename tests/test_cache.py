"""The store of outcomes: what it keeps, and what cannot spoil it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from unprivileged import permissions_count

from torchmigrate import cache


def store(where: Path, scope: bytes = b"scope") -> cache.Store:
    return cache.Store(scope, str(where))


def test_keeps_what_was_put_and_used(tmp_path: Path) -> None:
    first = store(tmp_path)
    for key in (b"a", b"b", b"c"):
        first.put(key, key * 2)
    first.save()
    second = store(tmp_path)
    assert (second.get(b"a"), second.get(b"b"), second.get(b"x")) == (b"aa", b"bb", None)
    second.put(b"d", b"dd")
    second.save()
    third = store(tmp_path)
    assert [third.get(key) for key in (b"a", b"b", b"c", b"d")] == [b"aa", b"bb", b"cc", b"dd"]


def test_forgets_what_no_run_asks_for_any_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "GENERATIONS", 3)
    for n in range(6):
        one = store(tmp_path)
        one.put(b"%d" % n, b"")
        assert one.get(b"0") == b""
        one.save()
    last = store(tmp_path)
    assert [last.get(b"%d" % n) for n in range(6)] == [b"", None, None, b"", b"", b""]


def test_keeps_no_more_than_its_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "MOST_BYTES", 1000)
    for key in (b"a", b"b", b"c"):
        one = store(tmp_path)
        one.put(key, b"x" * 600)
        one.save()
    assert [store(tmp_path).get(key) is not None for key in (b"a", b"b", b"c")] == [False, False, True]
    one = store(tmp_path)
    one.put(b"d", b"x" * 2000)
    one.save()
    assert store(tmp_path).get(b"d") is None


def test_nothing_is_kept_without_save(tmp_path: Path) -> None:
    store(tmp_path).put(b"a", b"b")
    assert store(tmp_path).get(b"a") is None
    assert list(tmp_path.iterdir()) == []


def test_scopes_are_apart(tmp_path: Path) -> None:
    first = store(tmp_path, b"one")
    first.put(b"a", b"b")
    first.save()
    assert store(tmp_path, b"two").get(b"a") is None


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda data: data[:-1], id="cut"),
        pytest.param(lambda data: data[:40], id="cut in the middle"),
        pytest.param(lambda data: b"", id="empty"),
        pytest.param(lambda data: data[:-1] + bytes([data[-1] ^ 1]), id="bit flipped"),
        pytest.param(lambda data: b"torchmigrate cache 0\n" + data[21:], id="other version"),
    ],
)
def test_damaged_file_is_no_file(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    first = store(tmp_path)
    first.put(b"a", b"b" * 100)
    first.save()
    (file,) = tmp_path.iterdir()
    file.write_bytes(damage(file.read_bytes()))
    second = store(tmp_path)
    assert second.get(b"a") is None
    second.put(b"a", b"again")
    second.save()
    assert store(tmp_path).get(b"a") == b"again"


def test_writers_at_the_same_time_leave_one_whole_file(tmp_path: Path) -> None:
    program = (
        "import sys; from torchmigrate import cache\n"
        "for n in range(60):\n"
        "    one = cache.Store(b'scope', sys.argv[1]); one.put(b'who', sys.argv[2].encode() * 50_000); one.save()\n"
        "    kept = cache.Store(b'scope', sys.argv[1]).get(b'who')\n"
        "    assert kept in (b'1' * 50_000, b'2' * 50_000, b'3' * 50_000), kept and len(kept)\n"
    )
    running = [subprocess.Popen([sys.executable, "-c", program, str(tmp_path), who]) for who in "123"]
    assert [one.wait(60) for one in running] == [0, 0, 0]
    assert len(list(tmp_path.iterdir())) == 1


def test_folder_without_permission_means_no_cache(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0o500)
    program = (
        "import sys; from torchmigrate import cache\n"
        "one = cache.Store(b'scope', sys.argv[1]); one.put(b'a', b'b'); one.save(); print('fine')\n"
    )
    where = str(tmp_path / "closed" / "cache")
    done = subprocess.run(
        [sys.executable, "-c", program, where], capture_output=True, text=True, preexec_fn=permissions_count()
    )
    assert (done.stdout, done.stderr) == ("fine\n", "")
    assert list((tmp_path / "closed").iterdir()) == []


def test_never_inside_what_is_migrated(tmp_path: Path) -> None:
    inside = tmp_path / "project" / ".cache"
    one = cache.Store(b"scope", str(inside), apart_from=[str(tmp_path / "project")])
    one.put(b"a", b"b")
    one.save()
    assert not inside.exists()


def test_oldest_files_are_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "MOST_FILES", 3)
    for n in range(5):
        one = store(tmp_path, b"%d" % n)
        one.put(b"n", b"%d" % n)
        one.save()
        for file in tmp_path.iterdir():
            os.utime(file, (file.stat().st_mtime - 10,) * 2)
    assert [store(tmp_path, b"%d" % n).get(b"n") for n in range(5)] == [None, None, b"2", b"3", b"4"]


def test_folder_follows_the_desktop_convention(monkeypatch: pytest.MonkeyPatch) -> None:
    if sys.platform in {"win32", "darwin"}:
        pytest.skip("another convention")
    monkeypatch.setenv("XDG_CACHE_HOME", "/some/where")
    assert cache.folder() == "/some/where/torchmigrate"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", "/home/somebody")
    assert cache.folder() == "/home/somebody/.cache/torchmigrate"


def test_keys_do_not_run_into_one_another() -> None:
    assert cache.key("ab", "c") != cache.key("a", "bc") != cache.key("abc")
    assert cache.key("a", b"b") == cache.key(b"a", "b")


def test_fingerprint_of_sources_changes_with_any_of_them(tmp_path: Path) -> None:
    package = tmp_path / "package"
    (package / "deep").mkdir(parents=True)
    for name in ("__init__.py", "a.py", "deep/b.py", "signatures.json"):
        (package / name).write_text("1")
    top = str(package / "__init__.py")
    before = cache.sources([top])
    assert cache.sources([top]) == before
    (tmp_path / "beside.py").write_text("1")
    assert cache.sources([top]) == before
    for name in ("deep/b.py", "signatures.json", "new.py"):
        (package / name).write_text("12")
        after = cache.sources([top])
        assert after != before
        before = after
