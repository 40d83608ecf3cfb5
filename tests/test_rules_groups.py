"""TM102 and its neighbours across files and on one call, and what the rules know of groups and values."""

from __future__ import annotations

import ast
import itertools
import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from commandline import Shell

from torchmigrate.engine import process
from torchmigrate.model import EVERYTHING, LOOK, Decision, Policy, Project, Verdict
from torchmigrate.module import Module
from torchmigrate_codemods.backends import backend, group_at
from torchmigrate_codemods.nccl_groups import Facts
from torchmigrate_codemods.origins import origins
from torchmigrate_codemods.point_to_point import traffic
from torchmigrate_codemods.torch_2_15.init_device_id import InitDeviceId
from torchmigrate_codemods.torch_2_15.nccl_backend_name import NcclBackendName
from torchmigrate_codemods.torch_2_15.nccl_lazy import NcclLazy
from torchmigrate_codemods.uses import uses

MAIN = b"""import torch
import torch.distributed as dist

from app.comm import forward


def main(rank, size):
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=size)
    forward(torch.ones(4, device="cuda"), rank + 1)
"""
COMM = b"""import torch.distributed as dist


def forward(x, peer):
    return dist.isend(x, peer)
"""
PLACE = b"""import torch.distributed as dist


def place():
    return "cuda" if dist.get_backend() == "nccl" else "cpu"
"""
FILES = {"pyproject.toml": b'[project]\nname = "app"\n', "main.py": MAIN, "app/comm.py": COMM, "app/place.py": PLACE}


def found(shell: Shell, *more: str) -> dict[str, list[tuple[str, int, str, str]]]:
    """The findings of `check`: code, line, outcome and safety by file."""
    done = shell("check", "--format", "json", "--exit-zero", "--select", "TM102", "--select", "TM105", *more)
    listed: dict[str, list[tuple[str, int, str, str]]] = {}
    for one in json.loads(done.out)["findings"]:
        listed.setdefault(one["path"], []).append((one["code"], one["line"], one["outcome"], one["safety"]))
    return listed


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path / "repo", tmp_path / "state")


def test_the_sender_and_the_start_lie_in_different_files(shell: Shell) -> None:
    shell.write(FILES)
    assert found(shell) == {
        "app/place.py": [("TM105", 5, "rewrite", "safe")],
        "main.py": [("TM102", 9, "rewrite", "unsafe")],
    }


def test_nothing_when_the_start_gives_a_device(shell: Shell) -> None:
    given = MAIN.replace(b"world_size=size)", b'world_size=size, device_id=torch.device("cuda", rank))')
    shell.write({**FILES, "main.py": given})
    assert found(shell) == {}


def test_the_sender_is_reported_when_no_start_is_in_sight(shell: Shell) -> None:
    shell.write({name: content for name, content in FILES.items() if name != "main.py"})
    assert found(shell) == {"app/comm.py": [("TM102", 5, "report", "manual")]}


def test_only_the_start_that_imports_the_sender(shell: Shell) -> None:
    other = MAIN.replace(b"from app.comm import forward\n", b"from app.metrics import forward\n")
    shell.write({**FILES, "evaluate.py": other})
    listed = found(shell)
    assert listed["main.py"] == [("TM102", 9, "rewrite", "unsafe")]
    assert "evaluate.py" not in listed


def test_facts_stay_within_a_project(shell: Shell) -> None:
    shell.write({f"one/{name}": content for name, content in FILES.items() if name != "app/comm.py"})
    shell.write({f"two/{name}": content for name, content in FILES.items() if name != "main.py"})
    assert found(shell) == {"two/app/comm.py": [("TM102", 5, "report", "manual")]}


def test_written_once_and_then_quiet(shell: Shell) -> None:
    shell.write(FILES)
    shell.commit()
    done = shell("apply", "--yes", "--unsafe", "--select", "TM102", "--select", "TM105")
    assert done.code in (0, 1), done.err
    after = shell.contents()
    assert b'init_process_group("nccl-lazy", rank=rank' in after["main.py"]
    assert b'dist.get_backend().startswith("nccl")' in after["app/place.py"]
    assert after["app/comm.py"] == COMM
    assert found(shell) == {}


# -- several rules on one file ---------------------------------------------------------------------------------

ALONE = b"""import torch
import torch.distributed as dist


def main(rank, size, peer):
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=size)
    x = torch.ones(4, device="cuda" if dist.get_backend() == "nccl" else "cpu")
    dist.isend(x, peer).wait()
"""
PARTS = {
    "TM101": (b"world_size=size)", b'world_size=size, device_id=torch.device("cuda", rank))'),
    "TM102": (b'"nccl", rank', b'"nccl-lazy", rank'),
    "TM105": (b'dist.get_backend() == "nccl"', b'dist.get_backend().startswith("nccl")'),
}


def rules() -> list:  # type: ignore[type-arg]
    return [InitDeviceId(), NcclLazy(), NcclBackendName()]


@pytest.mark.parametrize("taken", [c for n in range(4) for c in itertools.combinations(PARTS, n)], ids=" ".join)
def test_any_subset_of_three_rules_on_one_call(taken: tuple[str, ...]) -> None:
    seen = process("a.py", ALONE, rules(), Project(), LOOK).findings
    decisions = {f.decision_key: Decision(Verdict.ACCEPT) for f in seen if f.code in taken}
    expected = ALONE
    for code in taken:
        expected = expected.replace(*PARTS[code])
    result = process("a.py", ALONE, rules(), Project(), Policy(decisions=decisions))
    assert (result.after or ALONE) == expected
    assert not result.errors


def test_the_three_rules_leave_their_result_alone() -> None:
    after = process("a.py", ALONE, rules(), Project(), EVERYTHING).after
    assert after is not None
    again = process("a.py", after, rules(), Project(), EVERYTHING)
    assert again.findings == ()


# -- traffic, origins and uses ---------------------------------------------------------------------------------


def module_of(text: str, path: str = "a.py") -> Module:
    return Module(path, text, ast.parse(text))


TRAFFIC: Mapping[str, tuple[str, list[tuple[str, str]]]] = {
    "no group": ("dist.isend(x, peer)", [("isend", "default")]),
    "the world": ("dist.recv(x, peer, group=dist.group.WORLD)", [("recv", "default")]),
    "by position": ("g = dist.new_group([0])\ndist.send(x, peer, g)", [("send", "new")]),
    "of a mesh": ("dist.send(x, peer, group=mesh.get_group('pp'))", [("send", "mesh")]),
    "one of two": ("g = dist.new_group([0]) if a else None\ndist.send(x, peer, group=g)", [("send", "new")]),
    "from outside": ("def f(g):\n    dist.send(x, peer, group=g)", [("send", "unknown")]),
    "unpacked": ("dist.send(x, peer, **more)", [("send", "unknown")]),
    "two ranks": ("dist.send(x, 1)\ndist.recv(x, 0)", []),
    "two ranks and a collective": ("dist.send(x, 1)\ndist.all_reduce(x)", [("send", "default")]),
    "two ranks, a collective elsewhere": (
        "g = dist.new_group([0, 1])\ndist.send(x, 1, group=g)\ndist.all_reduce(x)",
        [],
    ),
    "batched": ("dist.batch_isend_irecv([dist.P2POp(dist.isend, x, peer)])", []),
    "another library": ("comm.isend(x, dest=1)\nsock.send(x)", []),
    "a tensordict": ("weights.irecv(src=rank)", [("irecv", "default")]),
}


@pytest.mark.parametrize(("text", "expected"), TRAFFIC.values(), ids=TRAFFIC)
def test_traffic(text: str, expected: list[tuple[str, str]]) -> None:
    module = module_of(f"import torch.distributed as dist\n{text}\n")
    assert [(one.name, one.where) for one in traffic(module)] == expected


def test_a_distributed_module_of_the_own_package_may_be_torch_s() -> None:
    text = "import nano.distributed as dist\ndist.isend(x, peer)\n"
    (one,) = traffic(module_of(text, "src/nano/p2p.py"))
    assert not one.certain
    assert traffic(module_of(text, "src/other/p2p.py")) == []


def asked(text: str) -> list[str] | None:
    """The origins of the argument of the last call of `ask`."""
    module = module_of(text)
    call = [node for node in module.names.calls if isinstance(node.func, ast.Name) and node.func.id == "ask"][-1]
    made = origins(module, call.args[0])
    return None if made is None else [module.source(one) for one in made]


ORIGINS: Mapping[str, tuple[str, list[str] | None]] = {
    "itself": ("ask(f(1))", ["f(1)"]),
    "a variable": ("x = f(1)\nask(x)", ["f(1)"]),
    "two ways": ("x = f(1) if a else g()\nask(x)", ["f(1)", "g()"]),
    "branches": ("if a:\n    x = f()\nelse:\n    x = g()\nask(x)", ["f()", "g()"]),
    "a parameter": ("def h(x):\n    ask(x)", None),
    "a global": ("X = f()\ndef h():\n    ask(X)", ["f()"]),
    "a closure": ("def o():\n    x = f()\n    def h():\n        ask(x)\n    return h", ["f()"]),
    "an attribute": (
        "class A:\n    def __init__(self):\n        self.x = f()\n    def h(self):\n        ask(self.x)",
        ["f()"],
    ),
    "an attribute from a parameter": (
        "class A:\n    def __init__(self, x):\n        self.x = x\n    def h(self):\n        ask(self.x)",
        None,
    ),
    "an attribute of something else": ("def h(a):\n    ask(a.x)", None),
    "unpacked": ("x, y = f()\nask(x)", None),
}


@pytest.mark.parametrize(("text", "expected"), ORIGINS.values(), ids=ORIGINS)
def test_origins(text: str, expected: list[str] | None) -> None:
    assert asked(text) == expected


def test_the_group_of_a_backend_is_known_while_its_name_stays() -> None:
    module = module_of("def f(g, h):\n    b = g._get_backend(d)\n    ask(b)\n    g = h\n    ask(b)\n")
    first, second = (n for n in module.names.calls if isinstance(n.func, ast.Name))
    made = backend(module, first.args[0])
    assert made is not None
    assert group_at(module, made, first) is made.group
    assert group_at(module, made, second) is None


def test_uses_are_imports_reads_and_texts() -> None:
    module = module_of(
        "from a.b import c\nimport a.b as ab\nc()\nab.c\npatch('a.b.c')\ngetattr(ab, 'c', None)\n"
        "try:\n    ab.c\nexcept AttributeError:\n    pass\n"
        "try:\n    new\nexcept ImportError:\n    from a.b import c\n"
    )
    assert [(getattr(u.node, "lineno", 0), u.guarded) for u in uses(module, "a.b.c")] == [
        (1, False),
        (4, False),
        (5, False),
        (6, True),
        (8, True),
    ]


def test_facts_travel_as_plain_values() -> None:
    module = Module("main.py", MAIN.decode(), ast.parse(MAIN), Project(facts={}))
    sent = Module("app/comm.py", COMM.decode(), ast.parse(COMM), Project(facts={}))
    gathered: dict[str, tuple[object, ...]] = {}
    for one in (module, sent):
        for name, value in NcclLazy().facts(one):
            gathered[name] = (*gathered.get(name, ()), value)
    facts = Facts.read(json.loads(json.dumps(gathered)))
    assert facts == Facts.read(gathered)
    assert facts.sent_elsewhere("main.py", 9) == "isend (app/comm.py:5)"
    assert facts.written
