"""The torch and Python bounds of a project, and where they were read."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchmigrate.project import Bounds, bounds, read


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        (">=2.10.0,<2.14", "2.10.0", "2.14"),
        ("~=2.13.0", "2.13.0", "2.14"),
        ("~=3.10", "3.10", "4"),
        ("==2.14.1", "2.14.1", "2.14.2"),
        ("==2.14.*", "2.14", "2.15"),
        ("==2.14.0+cu126", "2.14.0", "2.14.1"),
        ("^2.1", "2.1", "3"),
        ("~2.1", "2.1", "2.2"),
        ("^2.1 || ^3", "2.1", "4"),
        ("=3.10", "3.10", "3.11"),
        ("<2.15", None, "2.15"),
        ("<=2.14.1", None, "2.14.2"),
        (">=2.1,!=2.5.0,<3", "2.1", "3"),
        ("*", None, None),
        ("", None, None),
        ("whatever", None, None),
    ],
)
def test_bounds(text: str, low: str | None, high: str | None) -> None:
    assert bounds(text) == Bounds(low, high)


def write(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_nothing_known_means_2_15(tmp_path: Path) -> None:
    project = read(str(tmp_path), None)
    assert (project.torch_min, project.torch_min_source, project.torch_max) == ("2.15", "default", None)
    assert (project.python_min, project.python_min_source, project.notes) == (None, None, ())


def test_a_missing_folder_is_no_error(tmp_path: Path) -> None:
    assert read(str(tmp_path / "gone"), None).torch_min_source == "default"


def test_flag_wins_but_the_rest_is_still_read(tmp_path: Path) -> None:
    write(tmp_path, "pyproject.toml", '[project]\nrequires-python = ">=3.10"\ndependencies = ["torch>=2.4,<2.15"]\n')
    project = read(str(tmp_path), "2.14")
    assert (project.torch_min, project.torch_min_source, project.torch_max) == ("2.14", "--min-torch", "2.15")
    assert (project.python_min, project.python_min_source) == ("3.10", "pyproject.toml:2")


def test_pep621_before_groups_and_requirements(tmp_path: Path) -> None:
    write(
        tmp_path,
        "pyproject.toml",
        '[project]\nname = "x"\ndependencies = [\n    "numpy",\n    "torch [opt] >= 2.6 ; os_name == \'nt\'",\n]\n'
        '[project.optional-dependencies]\nold = ["torch<2.3"]\n[dependency-groups]\n'
        'dev = ["torch==2.1", {include-group = "a"}]\n',
    )
    write(tmp_path, "requirements.txt", "torch==1.13\n")
    project = read(str(tmp_path), None)
    assert (project.torch_min, project.torch_min_source, project.torch_max) == ("2.6", "pyproject.toml:5", None)


def test_groups_when_the_project_itself_says_nothing(tmp_path: Path) -> None:
    write(
        tmp_path,
        "pyproject.toml",
        '[project]\ndependencies = ["torch"]\n[project.optional-dependencies]\n'
        'a = ["torch>=2.7"]\nb = ["torch>=2.5,<2.9"]\n',
    )
    project = read(str(tmp_path), None)
    assert (project.torch_min, project.torch_min_source, project.torch_max) == ("2.5", "pyproject.toml:5", None)


def test_poetry(tmp_path: Path) -> None:
    write(
        tmp_path,
        "pyproject.toml",
        '[tool.poetry.dependencies]\npython = "^3.10"\ntorch = {version = "^2.4", source = "pytorch"}\n',
    )
    project = read(str(tmp_path), None)
    assert (project.torch_min, project.torch_min_source, project.torch_max) == ("2.4", "pyproject.toml:3", "3")
    assert (project.python_min, project.python_min_source) == ("3.10", "pyproject.toml:2")


def test_setup_cfg(tmp_path: Path) -> None:
    write(
        tmp_path,
        "setup.cfg",
        "[options]\npython_requires = >=3.9\ninstall_requires =\n    numpy\n    torch>=2.2\n    torchvision>=0.1\n",
    )
    project = read(str(tmp_path), None)
    assert (project.torch_min, project.torch_min_source) == ("2.2", "setup.cfg:5")
    assert (project.python_min, project.python_min_source) == ("3.9", "setup.cfg:2")


def test_setup_py_is_read_and_never_run(tmp_path: Path) -> None:
    write(
        tmp_path,
        "setup.py",
        "raise SystemExit('executed')\nPYTHON = '>=3.10'\nDEPS = ['torch>=2.3', 'torch-geometric>=1']\n"
        "TESTS = ['torch==1.4']\n"
        "setup(install_requires=['numpy'] + DEPS, tests_require=TESTS, python_requires=PYTHON)\n",
    )
    project = read(str(tmp_path), None)
    assert (project.torch_min, project.torch_min_source, project.torch_max) == ("2.3", "setup.py:3", None)
    assert (project.python_min, project.python_min_source) == ("3.10", "setup.py:2")


def test_requirements_and_conda(tmp_path: Path) -> None:
    write(
        tmp_path, "requirements/base.txt", "# torch==1\n-r other.txt\ntorch==2.14.1  # pinned\npytorch-lightning==1.0\n"
    )
    write(
        tmp_path,
        "environment.yml",
        "dependencies:\n  - python=3.10\n  - pytorch::pytorch>=2.14\n  - pip:\n    - torch-x==1\n",
    )
    project = read(str(tmp_path), None)
    assert (project.torch_min, project.torch_min_source) == ("2.14", "environment.yml:3")
    assert (project.python_min, project.python_min_source) == ("3.10", "environment.yml:2")


def test_only_an_upper_bound_below_the_release(tmp_path: Path) -> None:
    write(tmp_path, "requirements.txt", "torch<2.15\n")
    project = read(str(tmp_path), None)
    assert (project.torch_min, project.torch_min_source, project.torch_max) == ("2.14", "requirements.txt:1", "2.15")


def test_only_an_upper_bound_above_the_release(tmp_path: Path) -> None:
    write(tmp_path, "requirements.txt", "torch<3\n")
    project = read(str(tmp_path), None)
    assert (project.torch_min, project.torch_min_source, project.torch_max) == ("2.15", "default", "3")


def test_a_wheel_url(tmp_path: Path) -> None:
    url = "https://download.pytorch.org/whl/cu126/torch-2.8.0%2Bcu126-cp311-cp311-linux_x86_64.whl"
    write(tmp_path, "requirements.txt", f"torch @ {url}\n")
    assert read(str(tmp_path), None).torch_min == "2.8.0"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pyproject.toml", "[project\n"),
        ("setup.cfg", "no section\n"),
        ("setup.py", "def (:\n"),
        ("requirements.txt", b"\xff\xfetorch>=1\n"),
        ("pyproject.toml", 'project = "no table"\n[tool]\npoetry = 3\n'),
        ("pyproject.toml", "[project]\ndependencies = 3\n[tool.poetry]\ngroup = {a = 1}\n"),
    ],
)
def test_broken_metadata_is_noted(tmp_path: Path, name: str, text: str | bytes) -> None:
    (tmp_path / name).write_bytes(text.encode() if isinstance(text, str) else text)
    (tmp_path / "requirements-extra.txt").write_text("torch>=2.9\n")
    project = read(str(tmp_path), None)
    assert project.torch_min == "2.9"
    assert all(note.startswith(name) and "\n" not in note for note in project.notes)
    valid = "no table" in str(text) or "dependencies = 3" in str(text)
    assert bool(project.notes) != valid
