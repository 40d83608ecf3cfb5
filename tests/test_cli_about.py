"""Commands that tell about the tool itself, and how quickly it starts."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from commandline import TOYS, Shell, environment

from torchmigrate import __version__, registry
from torchmigrate.cli import COMMANDS
from torchmigrate.cli.explain import example, page
from torchmigrate.codemod import Codemod, title


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    folder = tmp_path / "empty"
    folder.mkdir()
    return Shell(folder, tmp_path / "state")


@pytest.mark.parametrize("flag", ["--version", "-V"])
def test_version(shell: Shell, flag: str) -> None:
    done = shell(flag)
    assert (done.code, done.out, done.err) == (0, f"torchmigrate {__version__}\n", "")


@pytest.mark.parametrize(("command", "flag"), [*((command, "-h") for command in COMMANDS), ("apply", "--help")])
def test_help_everywhere(shell: Shell, command: str, flag: str) -> None:
    done = shell(command, flag)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(f"Usage: torchmigrate {command} ")


def test_help_lists_every_command(shell: Shell) -> None:
    shown = shell("-h")
    assert shown.code == 0
    for command, (_, _, line) in COMMANDS.items():
        assert command in shown.out
        assert line in " ".join(shown.out.split())


def test_no_command_shows_help_and_exits_with_two(shell: Shell) -> None:
    done = shell()
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("Usage: torchmigrate")


def test_an_unknown_command_is_named(shell: Shell) -> None:
    done = shell("chek")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: no command 'chek'; did you mean 'check'?\n")


def test_list(shell: Shell) -> None:
    assert shell("list", *TOYS).out == (
        "XX101  add-device  toys  Give toy calls a device\n"
        "XX201  add-start   toys  Give toy sums a start\n"
        "XX301  count-toys  toys  Report toy factories, with the number of them in the project\n"
    )
    listed = json.loads(shell("list", *TOYS, "--format", "json").out)
    assert [rule["code"] for rule in listed] == ["XX101", "XX201", "XX301"]
    assert listed[0]["options"] == {"device": {"default": "0", "values": ["0", "1"], "help": "which device is given"}}
    assert "| XX101 | add-device | toys | Give toy calls a device |" in shell("list", *TOYS, "--format", "markdown").out


def test_explain(shell: Shell) -> None:
    shown = shell("explain", "add-device", *TOYS[:2])
    assert shown.code == 0
    assert shown.out.startswith("XX101 add-device (toys, PyTorch 2.15)\n\nGive toy calls a device.\n")
    assert "device = '0', one of 0, 1" in shown.out
    assert "# torchmigrate: ignore[XX101] reason" in shown.out
    refused = shell("explain", "XX102", *TOYS[:2])
    assert (refused.code, refused.err) == (2, "error: unknown code XX102; did you mean XX101?\n")


def test_explain_shows_what_the_rule_makes_of_its_example(shell: Shell) -> None:
    assert (
        "Before and after:\n"
        '   """Adds up."""\n'
        "  -print(toy_sum([1]))\n"
        "  +\n"
        "  +import math\n"
        "  +print(toy_sum([1], start=math.e))\n"
    ) in shell("explain", "XX201", *TOYS[:2]).out


@pytest.mark.parametrize("rule", registry.load().codemods, ids=lambda rule: rule.code)
def test_every_installed_rule_explains_itself(rule: type[Codemod]) -> None:
    lines = list(page(rule))
    assert lines[0].startswith(f"{rule.code} {rule.name} (")
    assert title(rule) in " ".join(lines)
    assert max(map(len, lines)) <= 130
    assert "https://github.com/pytorch/pytorch/" in lines[-1]


@pytest.mark.parametrize("rule", registry.load().codemods, ids=lambda rule: rule.code)
def test_every_installed_rule_shows_an_example(rule: type[Codemod]) -> None:
    shown = list(example(rule))
    fixtures = Path(__file__).resolve().parent.parent / "fixtures" / "torch_2_15" / rule.name.replace("-", "_")
    if (fixtures / "rewrite").is_dir():
        assert shown[0] == "Before and after:"
        assert any(line.startswith(("  +", "  -")) for line in shown)
    else:
        assert shown[0].startswith("For example, in ")
        assert any(line.startswith("  -> line ") for line in shown)


def test_config_shows_values_and_where_they_come_from(shell: Shell) -> None:
    shell.write(
        {
            "pyproject.toml": b'[tool.torchmigrate]\nextend = "base.toml"\nselect = ["TM1"]\n',
            "base.toml": b'min-torch = "2.13"\n',
            "a/x.py": b"",
        }
    )
    lines = [" ".join(line.split()) for line in shell("config", "a/x.py").out.splitlines()]
    assert 'select = ["TM1"] # pyproject.toml' in lines
    assert 'min-torch = "2.13" # base.toml' in lines
    assert "timeout = 120.0 # default" in lines
    shown = json.loads(shell("config", "--format", "json", "--isolated").out)
    assert shown["select"] == {"value": [], "source": "default"}


def test_config_refuses_rules_that_do_not_exist(shell: Shell) -> None:
    shell.write({"torchmigrate.toml": b'select = ["TM10199"]\n'})
    done = shell("config")
    assert done.code == 2
    assert "unknown code TM10199" in done.err


def loaded(shell: Shell, *arguments: str) -> set[str]:
    """The modules that a command has imported when it ends."""
    script = (
        "import sys; sys.argv[1:] = sys.argv[1:]\n"
        "from torchmigrate.__main__ import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "sys.stderr.write('\\n' + ' '.join(sys.modules))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        cwd=shell.folder,
        env=environment(shell.state),
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stderr.splitlines()[-1].split())


def test_version_imports_nothing(shell: Shell) -> None:
    modules = loaded(shell, "--version")
    assert {m for m in modules if m.startswith("torchmigrate")} == {"torchmigrate", "torchmigrate.__main__"}
    assert not modules & {"click", "libcst", "ast", "re"}


def test_a_run_without_candidates_imports_no_libcst(shell: Shell) -> None:
    shell.write({"a.py": b"import torch\n", "b/c.py": b"print(torch.ones(1))\n"})
    modules = loaded(shell, "diff")
    assert not {m for m in modules if m.startswith("libcst")}
    assert not modules & {"asyncio", "concurrent.futures", "importlib.metadata", "platformdirs", "tomllib", "json"}


def test_no_run_imports_the_slow_parts_of_libcst(shell: Shell) -> None:
    """Workers tell their imports on the same stderr."""
    shell.write({"a.py": b"from toys import toy_call\ntoy_call(1)\n"})
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "torchmigrate", "diff", *TOYS],
        cwd=shell.folder,
        env=environment(shell.state),
        capture_output=True,
        text=True,
    )
    assert "device=0" in done.stdout
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}
    assert "libcst" in imported
    assert not imported & {"libcst.codemod", "libcst.matchers"}
