"""Files are wholly old or wholly new, and keep everything but their content."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from unprivileged import permissions_count

from torchmigrate import write

OLD, NEW = b"old = 1\r\n", b"new = 2\r\n\xff"


def replace(path: Path, content: bytes = NEW, expected: bytes = OLD) -> None:
    write.replace(write.target(str(path)), content, write.digest(expected))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "a.py"
    path.write_bytes(OLD)
    return path


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def test_replaces_and_leaves_nothing_beside(file: Path) -> None:
    replace(file)
    assert file.read_bytes() == NEW
    assert names(file.parent) == ["a.py"]


def test_keeps_mode_and_owner(file: Path) -> None:
    file.chmod(0o751)
    if os.geteuid() == 0:
        os.chown(file, 1234, 2345)
    before = file.stat()
    replace(file)
    after = file.stat()
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)
    assert after.st_mode & 0o7777 == 0o751


@pytest.mark.skipif(not hasattr(os, "setxattr"), reason="no extended attributes here")
def test_keeps_extended_attributes(file: Path) -> None:
    try:
        os.setxattr(file, "user.note", b"kept")
    except OSError as error:
        pytest.skip(f"this file system has none: {error}")
    replace(file)
    assert os.getxattr(file, "user.note") == b"kept"


def test_writes_through_a_symbolic_link(file: Path) -> None:
    inner = file.parent / "inner"
    inner.mkdir()
    link = inner / "link.py"
    link.symlink_to("../a.py")
    replace(link)
    assert link.is_symlink()
    assert file.read_bytes() == NEW
    assert names(inner) == ["link.py"]


def test_hard_links_stay_one_file(file: Path) -> None:
    twin = file.with_name("twin.py")
    os.link(file, twin)
    assert write.target(str(file)).temporary is None
    replace(file)
    assert twin.read_bytes() == NEW
    assert file.samefile(twin)
    replace(file, b"x", NEW)
    assert twin.read_bytes() == b"x"


def test_a_file_that_changed_meanwhile_is_left(file: Path) -> None:
    to = write.target(str(file))
    file.write_bytes(b"somebody else")
    with pytest.raises(write.ChangedMeanwhile):
        write.replace(to, NEW, write.digest(OLD))
    assert file.read_bytes() == b"somebody else"
    assert names(file.parent) == ["a.py"]


def test_hard_linked_file_that_changed_meanwhile_is_left(file: Path) -> None:
    os.link(file, file.with_name("twin.py"))
    to = write.target(str(file))
    file.write_bytes(b"somebody else")
    with pytest.raises(write.ChangedMeanwhile):
        write.replace(to, NEW, write.digest(OLD))
    assert file.read_bytes() == b"somebody else"


def test_a_full_disk_leaves_the_old_content(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        replace(file)
    assert file.read_bytes() == OLD
    assert names(file.parent) == ["a.py"]


def test_a_really_full_disk(tmp_path: Path) -> None:
    """On a file system with room for less than the new content: the error is ENOSPC and the file is as it was."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", disk], capture_output=True)
    if mounted.returncode:
        pytest.skip("needs the right to mount")
    try:
        path = disk / "a.py"
        path.write_bytes(OLD)
        with pytest.raises(OSError) as caught:
            replace(path, b"x" * 200_000)
        assert caught.value.errno == errno.ENOSPC
        assert path.read_bytes() == OLD
        os.link(path, disk / "twin.py")
        with pytest.raises(OSError) as caught:
            replace(path, b"x" * 200_000)
        assert caught.value.errno == errno.ENOSPC
        assert path.read_bytes() == OLD
        assert names(disk) == ["a.py", "twin.py"]
    finally:
        subprocess.run(["umount", disk], check=True)


@pytest.mark.parametrize("locked", ["file", "folder"])
def test_without_permission_nothing_changes(tmp_path: Path, locked: str) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    file = folder / "a.py"
    file.write_bytes(OLD)
    script = textwrap.dedent(
        f"""
        from torchmigrate import write
        try:
            write.replace(write.target({str(file)!r}), b"new", write.digest({OLD!r}))
        except PermissionError as error:
            print("refused", error)
        """
    )
    (folder if locked == "folder" else file).chmod(0o555 if locked == "folder" else 0o444)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, preexec_fn=permissions_count()
    )
    folder.chmod(0o755)
    assert done.stdout.startswith("refused"), done.stderr
    assert file.read_bytes() == OLD
    assert names(folder) == ["a.py"]


def test_folders_and_gone_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="not a regular file"):
        write.target(str(tmp_path))
    with pytest.raises(FileNotFoundError):
        write.target(str(tmp_path / "gone.py"))


def test_killed_at_any_moment_a_file_is_old_or_new(tmp_path: Path) -> None:
    """A process that goes on replacing one large file is killed again and again; no read ever sees a mixture."""
    file = tmp_path / "a.py"
    old, new = b"a" * 300_000, b"b" * 300_000
    file.write_bytes(old)
    script = textwrap.dedent(
        f"""
        from torchmigrate import write
        print("ready", flush=True)
        a, b = b"a" * 300_000, b"b" * 300_000
        while True:
            now = write.read({str(file)!r})
            write.replace(write.target({str(file)!r}), b if now == a else a, write.digest(now))
        """
    )
    seen = set()
    for moment in range(12):
        process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.readline()
        for _ in range(moment * 40):
            content = file.read_bytes()
            assert content in (old, new)
            seen.add(content)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        assert file.read_bytes() in (old, new)
    assert seen == {old, new}


def test_create_replaces_our_own_files_and_follows_links(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    write.create(report, b"one")
    link = tmp_path / "link.json"
    link.symlink_to(report)
    write.create(link, b"two")
    assert report.read_bytes() == b"two"
    assert link.is_symlink()
    assert names(tmp_path) == ["link.json", "report.json"]
