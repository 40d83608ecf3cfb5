"""One repository of many projects: each migrated by its own bounds and settings, narrowed by project and by owner."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from commandline import Shell

RULES = str(Path(__file__).with_name("toy_rules.py"))
ALL = ("--load", RULES, "--select", "XX")
FILES = {
    "CODEOWNERS": b"*.py @org/all\n/services/ @org/services\n/services/b/own.py @org/first @org/second\n/libs/\n",
    "services/a/pyproject.toml": b'[project]\nname = "a"\ndependencies = ["torch>=2.13"]\nrequires-python = ">=3.11"\n',
    "services/a/m.py": b"toy_call(1)\nx = toy_sum([1])\n",
    "services/b/setup.py": b"from setuptools import setup\nsetup(install_requires=['torch>=2.14'])\n",
    "services/b/own.py": b"toy_call(2)\n",
    "services/b/m.py": b"toy_call(3)\n",
    "libs/c.py": b"toy_call(4)\n",
    "top.py": b"toy_call(5)\n",
}


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    folder = tmp_path / "repo"
    folder.mkdir()
    found = Shell(folder, tmp_path / "state")
    found.write(FILES)
    found.commit()
    return found


def places(shell: Shell, *flags: str) -> list[str]:
    done = shell("check", *flags, "--format", "json")
    assert done.code in (0, 1), done.err
    return [f"{f['path']}:{f['code']}" for f in json.loads(done.out)["findings"]]


def refused(shell: Shell, *flags: str) -> str:
    done = shell("check", *ALL, *flags)
    assert done.code == 2
    return done.err


EVERYTHING = [
    "libs/c.py:XX101",
    "services/a/m.py:XX101",
    "services/a/m.py:XX201",
    "services/b/m.py:XX101",
    "services/b/own.py:XX101",
    "top.py:XX101",
]


def test_without_narrowing(shell: Shell) -> None:
    assert places(shell, *ALL) == EVERYTHING


@pytest.mark.parametrize(
    ("flags", "left"),
    [
        (["--project", "services/a"], [1, 2]),
        (["--project", "services/a/"], [1, 2]),
        (["--project", "services/*"], [1, 2, 3, 4]),
        (["--project", "."], [0, 5]),
        (["--project", "services/a", "--project", "."], [0, 1, 2, 5]),
        (["--owner", "@org/services"], [1, 2, 3]),
        (["--owner", "@ORG/Second"], [4]),
        (["--owner", "@org/all"], [5]),
        (["--owner", "unowned"], [0]),
        (["--owner", "@org/services", "--project", "services/b"], [3]),
        (["--owner", "@org/services", "services/a"], [1, 2]),
    ],
)
def test_narrowing(shell: Shell, flags: list[str], left: list[int]) -> None:
    assert places(shell, *ALL, *flags) == [EVERYTHING[i] for i in left]


def test_narrowing_by_what_changed(shell: Shell) -> None:
    shell.write({"services/a/m.py": b"toy_call(9)\n", "top.py": b"toy_call(9)\n"})
    assert places(shell, *ALL, "--changed-since", "HEAD") == ["services/a/m.py:XX101", "top.py:XX101"]
    assert places(shell, *ALL, "--changed-since", "HEAD", "--project", ".") == ["top.py:XX101"]
    shell.write({"list": b"top.py\nservices/b/m.py\n"})
    assert places(shell, *ALL, "--files-from", "list", "--owner", "@org/services") == ["services/b/m.py:XX101"]


def test_what_is_not_there_is_refused(shell: Shell) -> None:
    assert "no such folder" in refused(shell, "--project", "services/x")
    assert "not a project of its own; the project around it is ." in refused(shell, "--project", "libs")
    assert "--owner @org/al: nobody of that name owns anything here; did you mean '@org/all'?" in refused(
        shell, "--owner", "@org/al"
    )
    (shell.folder / "CODEOWNERS").unlink()
    assert "there is no CODEOWNERS file" in refused(shell, "--owner", "@org/all")


def test_apply_narrowed_writes_nothing_else(shell: Shell) -> None:
    assert shell("apply", "--yes", *ALL, "--owner", "@org/services", "--project", "services/a").code == 0
    changed = {name: data for name, data in shell.contents().items() if data != FILES[name]}
    assert changed == {"services/a/m.py": b"import math\ntoy_call(1, device=0)\nx = toy_sum([1], start=math.e)\n"}


# -- settings of each project ----------------------------------------------------------------------------------


LOADED = ("--load", RULES)


def test_the_nearest_configuration_counts(shell: Shell) -> None:
    shell.write(
        {
            "torchmigrate.toml": b'select = ["XX101"]\n',
            "services/a/torchmigrate.toml": b'select = ["XX201"]\n',
            "services/b/pyproject.toml": b'[tool.torchmigrate]\nselect = ["XX"]\nexclude = ["own.py"]\n'
            b'[tool.torchmigrate.XX101]\ndevice = "1"\n',
            "services/b/deep/x.py": b"toy_call(6)\n",
        }
    )
    done = shell("diff", *LOADED)
    added = [line for line in done.out.splitlines() if line.startswith(("+++", "+t", "+x"))]
    assert added == [
        *("+++ b/libs/c.py", "+toy_call(4, device=0)"),
        *("+++ b/services/a/m.py", "+x = toy_sum([1], start=math.e)"),
        *("+++ b/services/b/deep/x.py", "+toy_call(6, device=1)"),
        *("+++ b/services/b/m.py", "+toy_call(3, device=1)"),
        *("+++ b/top.py", "+toy_call(5, device=0)"),
    ]


def test_flags_win_over_every_configuration(shell: Shell) -> None:
    shell.write({"services/a/torchmigrate.toml": b'select = ["XX201"]\n'})
    assert places(shell, *LOADED, "--select", "XX101", "services/a") == ["services/a/m.py:XX101"]
    assert places(shell, *LOADED, "--isolated", "--select", "XX") == EVERYTHING
    shell.write({"other.toml": b'select = ["XX301"]\n', "conf/torchmigrate.toml": b'select = ["XX201"]\n'})
    assert places(shell, *LOADED, "--config", "conf/torchmigrate.toml") == ["services/a/m.py:XX201"]


def test_each_project_has_its_own_bounds(shell: Shell) -> None:
    shell.write({"libs/torchmigrate.toml": b'min-torch = "2.12"\n'})
    data = audited(shell)
    assert {p["root"]: (p["torch"]["min"], p["torch"]["source"], p["python"]["min"]) for p in data["projects"]} == {
        "services/a": ("2.13", "pyproject.toml:3", "3.11"),
        "services/b": ("2.14", "setup.py:2", None),
    }


INIT = b'import torch.distributed as dist\ndist.init_process_group("nccl")\n'


def audited(shell: Shell) -> dict[str, Any]:
    shell.write({"services/a/run.py": INIT, "services/b/run.py": INIT})
    done = shell("audit", "--format", "json")
    assert done.code == 0, done.err
    return dict(json.loads(done.out))


def test_overrides_of_a_configuration_below_hold_from_its_folder(shell: Shell) -> None:
    shell.write(
        {
            "services/b/torchmigrate.toml": b'select = ["XX"]\n[[overrides]]\npaths = ["own.py"]\nignore = ["XX101"]\n',
        }
    )
    assert places(shell, *LOADED, "services/b") == ["services/b/m.py:XX101"]


def test_a_broken_configuration_costs_its_own_files_alone(shell: Shell) -> None:
    shell.write({"torchmigrate.toml": b'select = ["XX"]\n', "services/a/torchmigrate.toml": b"selct = []\n"})
    done = shell("apply", "--yes", *LOADED)
    assert done.code == 3
    assert (
        "services/a/torchmigrate.toml: TM012 unknown key 'selct'; did you mean 'select'?; "
        "the files that it counts for were not looked at" in done.err
    )
    contents = shell.contents()
    assert contents["services/a/m.py"] == FILES["services/a/m.py"]
    assert contents["services/b/m.py"] == b"toy_call(3, device=0)\n"


def test_a_second_run_follows_a_changed_configuration(shell: Shell) -> None:
    shell.write({"torchmigrate.toml": b'select = ["XX"]\n', "services/a/torchmigrate.toml": b'select = ["XX201"]\n'})
    assert places(shell, *LOADED, "services/a", "libs") == ["libs/c.py:XX101", "services/a/m.py:XX201"]
    shell.write({"services/a/torchmigrate.toml": b'select = ["XX101"]\n'})
    assert places(shell, *LOADED, "services/a", "libs") == ["libs/c.py:XX101", "services/a/m.py:XX101"]


def test_folders_can_be_named_as_projects(shell: Shell) -> None:
    shell.write({"torchmigrate.toml": b'projects = ["libs", "services/*"]\n', "services/a/in/setup.py": b"setup()\n"})
    shell.write({"services/a/in/n.py": b"toy_call(7)\n"})
    assert places(shell, *ALL, "--project", "libs") == ["libs/c.py:XX101"]
    assert places(shell, *ALL, "--project", "services/a") == [
        *("services/a/in/n.py:XX101", "services/a/m.py:XX101", "services/a/m.py:XX201")
    ]
    assert "the project around it is services/a" in refused(shell, "--project", "services/a/in")


# -- who has what to do ----------------------------------------------------------------------------------------


def test_tables_by_project_and_by_owner(shell: Shell) -> None:
    done = shell("apply", "--yes", "--max-changes", "4", *ALL)
    rows = [line.split() for line in done.err.splitlines()]
    at = rows.index(["project", "changes", "left", "errors"])
    assert sorted(rows[at + 1 : at + 4]) == [
        [".", "1", "1", "0"],
        ["services/a", "2", "0", "0"],
        ["services/b", "1", "1", "0"],
    ]
    at = rows.index(["owner", "changes", "left", "errors"])
    assert sorted(rows[at + 1 : at + 5]) == [
        ["@org/all", "0", "1", "0"],
        ["@org/first", "0", "1", "0"],
        ["@org/services", "3", "0", "0"],
        ["unowned", "1", "0", "0"],
    ]


def test_one_project_of_one_owner_needs_no_table(shell: Shell) -> None:
    assert "errors\n" not in shell("check", *ALL, "services/a").err


def test_a_rule_that_is_off_by_default_has_to_be_selected_for_the_whole_run(shell: Shell) -> None:
    text = Path(RULES).read_text()
    off = text.replace(
        'code, name, area = "XX301", "count-toys", "toys"',
        'code, name, area = "XX301", "count-toys", "toys"\n    default = False',
    )
    shell.write({"rules.py": off.encode(), "torchmigrate.toml": b'ignore = ["TM"]\n'})
    shell.write(
        {"services/a/torchmigrate.toml": b'select = ["XX101", "XX301"]\n', "services/a/n.py": b"toy_factory()\n"}
    )
    done = shell("check", "--load", "rules.py", "services")
    assert done.code == 3
    assert "services/a/torchmigrate.toml: TM012 selects XX301, which are off by default" in done.err + done.out
    assert places(shell, "--load", "rules.py", "services/a") == ["services/a/m.py:XX101", "services/a/n.py:XX301"]
