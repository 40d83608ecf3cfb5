"""`--split`: patches that people review apart apply in order, and end where `--yes` ends."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from commandline import Shell
from reviewing import RULES

from torchmigrate import split

FILES = {
    "a.py": b"x = one(two(1))\n",
    "src/deep/b.py": b"two(2)\n",
    "src/c d.py": b"one(3)\n",
    "lib/e.py": b"pick(4)\n",
    "CODEOWNERS": b"*.py @org/all\n/src/ @org/core @org/extra\n/lib/\n",
}


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    found = Shell(tmp_path / "repo", tmp_path / "state")
    found.write(FILES)
    found.commit()
    return found


def patches(shell: Shell, *arguments: str) -> list[Path]:
    done = shell("apply", "--patch-out", str(shell.state.parent / "out"), *arguments)
    assert done.code == 1, done.err
    return sorted((shell.state.parent / "out").iterdir())


def applied(shell: Shell, found: list[Path]) -> dict[str, bytes]:
    for path in found:
        shell.git("apply", str(path))
    contents = shell.contents()
    shell.git("checkout", "-q", ".")
    return contents


def written(shell: Shell, *arguments: str) -> dict[str, bytes]:
    shell("apply", "--yes", *arguments)
    contents = shell.contents()
    shell.git("checkout", "-q", ".")
    return contents


def test_a_patch_for_each_rule(shell: Shell) -> None:
    found = patches(shell, "--split", "codemod", *RULES, ".")
    assert [path.name for path in found] == ["0001-RV101-one.patch", "0002-RV102-two.patch", "0003-RV301-pick.patch"]
    assert b"@@ RV102 two" in found[1].read_bytes()
    assert b"end=9" not in found[0].read_bytes()
    assert applied(shell, found) == written(shell, *RULES, ".") != FILES


def test_a_patch_for_each_owner(shell: Shell) -> None:
    found = patches(shell, "--split", "owner", *RULES, ".")
    assert [path.name for path in found] == ["owner-org-all.patch", "owner-org-core.patch", "unowned.patch"]
    assert b"b/lib/e.py" in found[2].read_bytes()
    assert applied(shell, found[::-1]) == written(shell, *RULES, ".")


def test_files_of_several_owners_are_told(shell: Shell) -> None:
    done = shell("apply", "--patch-out", str(shell.state), "--split", "owner", *RULES, ".")
    assert "src/c d.py belongs to @org/core @org/extra: in the patch of @org/core" in done.err


@pytest.mark.parametrize(
    ("depth", "names"),
    [
        ("1", ["dir-lib.patch", "dir-src.patch", "top.patch"]),
        ("2", ["dir-lib.patch", "dir-src-deep.patch", "dir-src.patch", "top.patch"]),
    ],
)
def test_a_patch_for_each_folder(shell: Shell, depth: str, names: list[str]) -> None:
    found = patches(shell, "--split", f"dir:{depth}", *RULES, ".")
    assert [path.name for path in found] == names
    assert applied(shell, found) == written(shell, *RULES, ".")


def test_the_demo_in_patches(tmp_path: Path, root: Path) -> None:
    shell = Shell(tmp_path / "demo", tmp_path / "state")
    shutil.copytree(root / "fixtures" / "demo", shell.folder)
    shell.commit()
    found = patches(shell, "--split", "codemod", "--unsafe", ".")
    assert len(found) >= 5
    assert applied(shell, found) == written(shell, "--unsafe", ".")


def test_patches_of_another_run_are_not_mixed_in(shell: Shell) -> None:
    patches(shell, "--split", "codemod", *RULES, ".")
    done = shell("apply", "--patch-out", str(shell.state.parent / "out"), "--split", "dir:1", *RULES, ".")
    assert done.code == 2
    assert "holds other patches, such as 0001-RV101-one.patch" in done.err


@pytest.mark.parametrize("kind", ["dir:0", "dir", "dir:x", "team"])
def test_other_kinds_are_refused(shell: Shell, kind: str) -> None:
    done = shell("apply", "--patch-out", "x", "--split", kind, ".")
    assert done.code == 2
    assert "is not codemod, owner or dir:N" in done.err


def test_a_folder_is_needed(shell: Shell) -> None:
    assert "--split needs --patch-out" in shell("diff", "--split", "owner", ".").err


def test_names_that_differ_only_in_what_files_cannot_hold_stay_apart() -> None:
    owners = {"a": ("@x/y",), "b": ("@X-Y",), "c": ("",)}
    from torchmigrate.model import FileResult

    results = [FileResult(path, before=b"1", after=b"2") for path in owners]
    found = split.parts("owner", results, {}, lambda path: owners[path], str)
    assert len({part.file.lower() for part in found}) == 3
