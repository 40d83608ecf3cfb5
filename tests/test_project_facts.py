"""What rules know from other files of a project: constants of its modules, functions that start groups for others."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from commandline import Shell

PROJECT = {
    "pyproject.toml": b'[project]\nname = "p"\ndependencies = ["torch>=2.15"]\n',
    "mypkg/__init__.py": b"",
    "mypkg/config.py": b'BACKEND = "nccl"\n',
}
MAIN = """\
import torch
import torch.distributed as dist
{imports}


def main(local_rank):
    torch.cuda.set_device(local_rank)
    dist.init_process_group({backend})
"""
DEVICE = 'device_id=torch.device("cuda", local_rank)'


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    folder = tmp_path / "repo"
    folder.mkdir()
    found = Shell(folder, tmp_path / "state")
    found.write(PROJECT)
    return found


def main(imports: str, backend: str = "BACKEND") -> bytes:
    return MAIN.format(imports=imports, backend=backend).encode()


def found(shell: Shell, files: Mapping[str, bytes], *flags: str) -> list[tuple[str, str, str]]:
    """Path, outcome and new code of what TM101 finds."""
    shell.write(files)
    done = shell("check", "--select", "TM101", "--format", "json", *flags)
    assert done.code in (0, 1), done.err
    return [(f["path"], f["outcome"], f["after"] or "") for f in json.loads(done.out)["findings"]]


def outcome(shell: Shell, files: Mapping[str, bytes], path: str = "mypkg/main.py") -> str:
    """The device that is written into the one init call of a file, "report", or "" for nothing."""
    mine = [(kind, after) for at, kind, after in found(shell, files) if at == path]
    if not mine:
        return ""
    [(kind, after)] = mine
    return after if kind == "rewrite" else kind


@pytest.mark.parametrize(
    ("imports", "backend"),
    [
        ("from mypkg.config import BACKEND", "BACKEND"),
        ("from mypkg.config import BACKEND as B", "backend=B"),
        ("from .config import BACKEND", "BACKEND"),
        ("from . import config", "config.BACKEND"),
        ("import mypkg.config", "mypkg.config.BACKEND"),
        ("import mypkg.config as settings", "settings.BACKEND"),
        ("from mypkg import config as c", "c.BACKEND"),
    ],
)
def test_a_constant_of_another_module_is_followed(shell: Shell, imports: str, backend: str) -> None:
    given = outcome(shell, {"mypkg/main.py": main(imports, backend)})
    assert given == f"dist.init_process_group({backend}, {DEVICE})"
    assert outcome(shell, {"mypkg/config.py": b'BACKEND = "gloo"\n'}) == ""


@pytest.mark.parametrize(
    ("path", "imports", "files"),
    [
        ("main.py", "from mypkg.config import BACKEND", {}),
        ("tools/main.py", "from mypkg.config import BACKEND", {}),
        ("tools/main.py", "from config import BACKEND", {"tools/config.py": b"BACKEND = 'nccl'\n"}),
        ("mypkg/sub/main.py", "from ..config import BACKEND", {}),
        ("mypkg/main.py", "from mypkg import BACKEND", {"mypkg/__init__.py": b"from .config import BACKEND\n"}),
        ("mypkg/main.py", "from . import BACKEND", {"mypkg/__init__.py": b"from mypkg.config import BACKEND\n"}),
        ("run.py", "from lib.c import BACKEND", {"src/lib/c.py": b"_NCCL = 'nccl'\nBACKEND: str = _NCCL\n"}),
    ],
)
def test_modules_are_found_by_path(shell: Shell, path: str, imports: str, files: dict[str, bytes]) -> None:
    assert DEVICE in outcome(shell, {**files, path: main(imports)}, path)


def test_one_of_a_few_values_decides_at_run_time(shell: Shell) -> None:
    chosen = b'import torch\nBACKEND = "nccl" if torch.cuda.is_available() else "gloo"\n'
    given = outcome(shell, {"mypkg/config.py": chosen, "mypkg/main.py": main("from .config import BACKEND")})
    assert given == f'dist.init_process_group(BACKEND, {DEVICE} if BACKEND == "nccl" else None)'


@pytest.mark.parametrize(
    "config",
    [
        'import os\nBACKEND = os.environ.get("BACKEND", "nccl")\n',
        'BACKEND = "nccl"\nfrom local_settings import *\n',
        'try:\n    from local_settings import BACKEND\nexcept ImportError:\n    BACKEND = "nccl"\n',
        'BACKEND = "nccl"\n\ndef choose(name):\n    global BACKEND\n    BACKEND = name\n',
        'BACKEND = "nccl"\n\ndef load(values):\n    globals().update(values)\n',
        'BACKEND = "nccl"\nimport sys\nsetattr(sys.modules[__name__], "BACKEND", "gloo")\n',
        'import sys\nif len(sys.argv) > 1:\n    BACKEND = sys.argv[1]\nelse:\n    BACKEND = "nccl"\n',
        'BACKEND = choose("nccl")\n',
        "BACKEND = \n",
        'BACKEND = "nccl"\ndel BACKEND\n',
    ],
)
def test_what_the_module_does_not_surely_say_is_reported(shell: Shell, config: str) -> None:
    files = {"mypkg/config.py": config.encode(), "mypkg/main.py": main("from .config import BACKEND")}
    assert outcome(shell, files) == "report"


@pytest.mark.parametrize(
    "text",
    [
        "from mypkg import config\n\n\ndef start(args):\n    config.BACKEND = args.backend\n",
        'import mypkg.config\nmypkg.config.BACKEND: str = "gloo"\n',
        "import mypkg.config as c\nc.RANK, c.BACKEND = 0, 'gloo'\n",
        "import mypkg.config as c\nc.BACKEND, c.RANK = 'gloo', 0\n",
        'from mypkg import config\nsetattr(config, "BACKEND", "gloo")\n',
        'def test_it(monkeypatch):\n    monkeypatch.setattr("mypkg.config.BACKEND", "gloo")\n',
        'from unittest import mock\n\n\n@mock.patch.object(config, "BACKEND", "gloo")\ndef test_it(): ...\n',
    ],
)
def test_a_constant_that_any_file_of_the_project_sets_is_none(shell: Shell, text: str) -> None:
    files = {"mypkg/main.py": main("from .config import BACKEND")}
    assert DEVICE in outcome(shell, files)
    assert outcome(shell, {"tests/other.py": text.encode()}) == "report"
    assert DEVICE in outcome(shell, {"tests/other.py": b'x = config.BACKEND == "gloo"\nf(BACKEND="gloo")\n'})


@pytest.mark.parametrize(
    ("imports", "backend", "files"),
    [
        ("from config import BACKEND", "BACKEND", {"config.py": b"BACKEND = 'nccl'\n"}),
        ("from .config import BACKEND", "BACKEND", {"mypkg/config/__init__.py": b"BACKEND = 'gloo'\n"}),
        ("from . import config", "config.BACKEND", {"mypkg/__init__.py": b"from .settings import config\n"}),
        ("from . import config", "config.BACKEND", {"mypkg/__init__.py": b"from .settings import *\n"}),
        ("from .config import *", "BACKEND", {}),
        ("from .config import backend", "backend", {"mypkg/config.py": b"backend = 'nccl'\n"}),
        ("from elsewhere.config import BACKEND", "BACKEND", {}),
        ("from ...config import BACKEND", "BACKEND", {}),
    ],
)
def test_what_cannot_be_told_apart_is_reported(
    shell: Shell, imports: str, backend: str, files: dict[str, bytes]
) -> None:
    assert outcome(shell, {**files, "mypkg/main.py": main(imports, backend)}) == "report"


def test_modules_that_import_each_other_end_the_search(shell: Shell) -> None:
    files = {"mypkg/config.py": b"from .other import BACKEND\n", "mypkg/other.py": b"from .config import BACKEND\n"}
    assert outcome(shell, {**files, "mypkg/main.py": main("from .config import BACKEND")}) == "report"


def test_what_was_remembered_of_a_file_ends_when_the_constant_changes(shell: Shell) -> None:
    files = {"mypkg/main.py": main("from .config import BACKEND")}
    assert DEVICE in outcome(shell, files)
    assert DEVICE in outcome(shell, {})
    assert outcome(shell, {"mypkg/config.py": b'BACKEND = "gloo"\n'}) == ""
    assert outcome(shell, {}) == ""
    assert outcome(shell, {"mypkg/config/__init__.py": b""}) == "report"
    (shell.folder / "mypkg/config/__init__.py").unlink()
    (shell.folder / "mypkg/config/").rmdir()
    assert outcome(shell, {"mypkg/config.py": b'BACKEND = "nccl"\n'}).endswith(f"{DEVICE})")
    assert outcome(shell, {"launch.py": b"config.BACKEND = x\n"}) == "report"


def test_apply_writes_what_check_said(shell: Shell) -> None:
    shell.write({"mypkg/main.py": main("from .config import BACKEND")})
    shell.commit()
    done = shell("apply", "--select", "TM101", "--yes")
    assert done.code == 0, done.err
    assert f"dist.init_process_group(BACKEND, {DEVICE})" in (shell.folder / "mypkg/main.py").read_text()


WRAPPER = b"""\
import torch.distributed as dist


def setup_distributed(rank, backend="nccl"):
    dist.init_process_group(backend, rank=rank)
"""
CALLER = """\
import torch
{imports}


def main(local_rank):
    torch.cuda.set_device(local_rank)
    {call}
"""


def messages(shell: Shell, files: Mapping[str, bytes]) -> dict[str, list[tuple[int, str]]]:
    """Line and message of what TM101 reports, by path."""
    shell.write(files)
    done = shell("check", "--select", "TM101", "--format", "json")
    assert done.code in (0, 1), done.err
    found: dict[str, list[tuple[int, str]]] = {}
    for one in json.loads(done.out)["findings"]:
        assert one["outcome"] == "report"
        found.setdefault(one["path"], []).append((one["line"], one["message"]))
    return found


def caller(imports: str, call: str) -> bytes:
    return CALLER.format(imports=imports, call=call).encode()


@pytest.mark.parametrize(
    ("path", "imports", "call"),
    [
        ("train.py", "from mypkg.comm import setup_distributed", "setup_distributed(local_rank)"),
        ("train.py", "from mypkg.comm import setup_distributed as start", "start(local_rank)"),
        ("train.py", "from mypkg import setup_distributed", 'setup_distributed(local_rank, backend="nccl")'),
        ("train.py", "import mypkg.comm", "mypkg.comm.setup_distributed(local_rank, args.backend)"),
        ("mypkg/train.py", "from .comm import setup_distributed", "setup_distributed(*both)"),
        ("mypkg/sub/train.py", "from ..comm import setup_distributed", "setup_distributed(local_rank)"),
        ("mypkg/train.py", "from . import comm", "comm.setup_distributed(local_rank)"),
    ],
)
def test_a_wrapper_without_a_device_is_reported_where_it_is_called(
    shell: Shell, path: str, imports: str, call: str
) -> None:
    given = messages(shell, {"mypkg/comm.py": WRAPPER, path: caller(imports, call)})
    [(line, message)] = given[path]
    assert line == 7
    assert message.startswith("setup_distributed (mypkg/comm.py:5) starts the group and does not know the GPU of this")
    assert 'torch.device("cuda", local_rank)' in message
    [(_, own)] = given["mypkg/comm.py"]
    assert f"setup_distributed is called in {path}:7" in own
    assert messages(shell, {}) == given


@pytest.mark.parametrize(
    ("imports", "call"),
    [
        ("from mypkg.comm import setup_distributed", 'setup_distributed(local_rank, "gloo")'),
        ("from mypkg.comm import setup_distributed", 'setup_distributed(local_rank, backend="gloo")'),
        ("from other.comm import setup_distributed", "setup_distributed(local_rank)"),
        ("from deepspeed.comm import setup_distributed", "setup_distributed(local_rank)"),
        ("from .comm import setup_distributed", "setup_distributed(local_rank)"),
        ("def setup_distributed(rank): ...", "setup_distributed(local_rank)"),
    ],
)
def test_calls_that_start_no_nccl_group_of_a_wrapper_are_left_alone(shell: Shell, imports: str, call: str) -> None:
    assert list(messages(shell, {"mypkg/comm.py": WRAPPER, "train.py": caller(imports, call)})) == ["mypkg/comm.py"]


def test_a_wrapper_that_knows_its_device_is_all_there_is_to_say(shell: Shell) -> None:
    knows = WRAPPER.replace(b"    dist.", b"    torch.cuda.set_device(rank)\n    dist.").replace(
        b"import", b"import torch\nimport", 1
    )
    train = caller("from mypkg.comm import setup_distributed", "setup_distributed(local_rank)")
    assert [path for path, *_ in found(shell, {"mypkg/comm.py": knows, "train.py": train})] == ["mypkg/comm.py"]


def test_a_constant_that_a_caller_hands_over_is_followed(shell: Shell) -> None:
    train = caller(
        "from mypkg.comm import setup_distributed\nfrom mypkg.config import BACKEND", "setup_distributed(0, BACKEND)"
    )
    files = {"mypkg/comm.py": WRAPPER, "train.py": train}
    assert list(messages(shell, {**files, "mypkg/config.py": b"BACKEND = 'gloo'\n"})) == ["mypkg/comm.py"]
    assert list(messages(shell, {"mypkg/config.py": b"BACKEND = 'nccl'\n"})) == ["mypkg/comm.py", "train.py"]
