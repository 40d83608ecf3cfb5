"""What users install: the wheel made from the sdist, alone in a fresh environment."""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def run(*command: object, cwd: Path) -> str:
    done = subprocess.run([str(part) for part in command], cwd=cwd, capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source distribution."""
    folder = tmp_path_factory.mktemp("sdist")
    run(sys.executable, "-m", "build", "--no-isolation", "--sdist", "--outdir", folder, ROOT, cwd=folder)
    (found,) = folder.glob("*.tar.gz")
    return found


@pytest.fixture(scope="module")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from nothing but the source distribution."""
    folder = tmp_path_factory.mktemp("wheel")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    (source,) = folder.iterdir()
    run(sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", folder, source, cwd=folder)
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a fresh environment with the wheel; libraries come from the environment of the tests."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False, symlinks=True)
    interpreter = folder / "bin" / "python"
    site = Path(run(interpreter, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=folder).strip())
    run(
        *(sys.executable, "-m", "pip", "--python", interpreter, "install", "--no-deps", "--no-index", "-q", wheel),
        cwd=folder,
    )
    names = {path.name for path in site.iterdir() if not path.name.endswith(".dist-info")}
    assert names == {"torchmigrate", "torchmigrate_codemods"}
    (site / "libraries.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return interpreter


def test_the_wheel_holds_our_two_packages_and_the_license(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (metadata,) = (archive.read(name).decode() for name in names if name.endswith("dist-info/METADATA"))
    assert {name.partition("/")[0] for name in names if ".dist-info/" not in name} == {
        "torchmigrate",
        "torchmigrate_codemods",
    }
    assert {"torchmigrate/py.typed", "torchmigrate_codemods/py.typed"} <= set(names)
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert "Requires-Dist: bowler==0.9.0; extra == 'bowler'" in metadata
    assert "License-Expression: MIT" in metadata


def test_the_wheel_has_every_file_of_the_checkout(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        inside = {name for name in archive.namelist() if ".dist-info/" not in name}
    outside = {
        str(path.relative_to(source))
        for source in (ROOT, ROOT / "codemods")
        for package in ("torchmigrate", "torchmigrate_codemods")
        for path in (source / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert inside == outside


def test_every_module_can_be_imported(python: Path, tmp_path: Path) -> None:
    script = (
        "import importlib, json, pkgutil, torchmigrate, torchmigrate_codemods\n"
        "names = []\n"
        "for package in (torchmigrate, torchmigrate_codemods):\n"
        "    for found in pkgutil.walk_packages(package.__path__, package.__name__ + '.'):\n"
        "        names.append(importlib.import_module(found.name).__file__)\n"
        "print(json.dumps(names))\n"
    )
    files = json.loads(run(python, "-c", script, cwd=tmp_path))
    assert len(files) > 40
    assert all(str(python.parent.parent) in file for file in files)


def test_the_installed_command_migrates(python: Path, tmp_path: Path) -> None:
    command = python.parent / "torchmigrate"
    assert run(command, "--version", cwd=tmp_path).startswith("torchmigrate ")
    assert "TM101" in run(command, "list", cwd=tmp_path)
    shown = run(command, "diff", ROOT / "fixtures" / "demo", "--no-cache", cwd=tmp_path)
    assert "reduce_dtype=torch.bfloat16" in shown


def test_a_bare_checkout_says_that_no_rules_are_installed(tmp_path: Path) -> None:
    """Without an installation there is no entry point: that is an error, never "nothing to migrate"."""
    libraries = tmp_path / "libraries"
    libraries.mkdir()
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        if not path.name.startswith(("torchmigrate", "_torchmigrate", "__editable__")):
            (libraries / path.name).symlink_to(path)
    script = (
        f"import sys; sys.path[:0] = [{str(ROOT)!r}, {str(libraries)!r}]\n"
        "from torchmigrate.cli import run; sys.exit(run(['check']))"
    )
    done = subprocess.run([sys.executable, "-S", "-c", script], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith("error: no codemods are installed")
