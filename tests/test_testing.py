"""The fixture harness finds what it is there to find."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from pathlib import Path

import pytest

from torchmigrate.codemod import Codemod, Plan
from torchmigrate.edits import ReplaceText, SetArgument
from torchmigrate.model import Safety
from torchmigrate.module import Module
from torchmigrate.testing import Case, cases, written


class AddDevice(Codemod):
    """Give calls of target a device."""

    code, name = "XX901", "add-device"
    triggers = (b"target",)

    def check(self, module: Module) -> Iterable[Plan]:
        for call in module.names.calls:
            if isinstance(call.func, ast.Name) and call.func.id == "target":
                if any(k.arg is None for k in call.keywords):
                    yield self.report(call, "cannot see the device")
                elif not call.keywords:
                    yield self.change(call, SetArgument(call, "device", "0"), message="adds the device")


class NeverDone(AddDevice):
    """Adds one more each time."""

    code, name = "XX902", "never-done"

    def check(self, module: Module) -> Iterable[Plan]:
        for call in module.names.calls:
            if isinstance(call.func, ast.Name) and call.func.id == "target":
                start, end = module.extent(call)
                edit = ReplaceText(start, end, f"[{module.text[start:end]}]")
                yield self.change(call, edit, message="wraps", safety=Safety.UNSAFE)


class Nosy(Codemod):
    """Reports every call."""

    code, name = "XX903", "nosy"
    triggers = (b"(",)

    def check(self, module: Module) -> Iterable[Plan]:
        return [self.report(call, "a call") for call in module.names.calls]


def fixtures(folder: Path, files: dict[str, str]) -> Path:
    for name, content in files.items():
        path = folder / "add_device" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return folder


def failing(found: list[Case]) -> dict[str, str]:
    failed = {}
    for case in found:
        try:
            case.run()
        except AssertionError as error:
            failed[case.id] = str(error)
    return failed


GOOD = {
    "rewrite/one.in.py": "target()\ntarget(1)\n",
    "rewrite/one.out.py": "target(device=0)\ntarget(1, device=0)\n",
    "noop/given.py": "target(device=1)\n",
    "manual/unpacked.py": "target(**x)\n",
    "manual/unpacked.toml": '[[findings]]\nline = 1\nmessage = "cannot see"\n',
}


def test_good_fixtures_pass_every_check(tmp_path: Path) -> None:
    found = cases(fixtures(tmp_path, GOOD), (AddDevice,))
    assert failing(found) == {}
    ids = {case.id for case in found}
    assert {"XX901/one/exact", "XX901/one/idempotent", "XX901/given/silent", "XX901/unpacked/findings"} <= ids
    assert len(ids) == len(found) == 11 + 3 + 6


@pytest.mark.parametrize(
    ("change", "failed", "message"),
    [
        pytest.param({"rewrite/one.out.py": "target(device=0)\ntarget(1)\n"}, "one/exact", "-target(1)", id="output"),
        pytest.param({"noop/given.py": "target()\n"}, "given/silent", "XX901 rewrite safe", id="a no-op that is none"),
        pytest.param(
            {"manual/unpacked.toml": "[[findings]]\nline = 2\n"}, "unpacked/findings", "no finding", id="other line"
        ),
        pytest.param(
            {"manual/unpacked.toml": '[[findings]]\nline = 1\nmessage = "else"\n'},
            "unpacked/findings",
            "no finding",
            id="other message",
        ),
        pytest.param(
            {"manual/unpacked.py": "target(**x)\ntarget(**x)\n"}, "unpacked/findings", "not expect", id="one too many"
        ),
        pytest.param(
            {"manual/unpacked.py": "target(**x)\ntarget()\n"}, "unpacked/findings", "not expect", id="rewrite"
        ),
        pytest.param({"manual/unpacked.py": "other(**x)\n"}, "unpacked/trigger", "no trigger", id="trigger"),
        pytest.param(
            {"rewrite/one.toml": "[[findings]]\nline = 1\n"}, "one/findings", "not expect", id="findings of a rewrite"
        ),
    ],
)
def test_what_is_wrong_fails(tmp_path: Path, change: dict[str, str], failed: str, message: str) -> None:
    found = failing(cases(fixtures(tmp_path, GOOD | change), (AddDevice,)))
    assert f"XX901/{failed}" in found
    assert message in found[f"XX901/{failed}"]


def test_a_rule_that_is_never_done_fails(tmp_path: Path) -> None:
    path = fixtures(tmp_path, {"rewrite/one.in.py": "target()\n", "rewrite/one.out.py": "[target()]\n"})
    (path / "add_device").rename(path / "never_done")
    assert {"XX902/one/idempotent"} == set(failing(cases(path, (NeverDone,))))


def test_another_rule_that_finds_something_has_to_be_listed(tmp_path: Path) -> None:
    found = failing(cases(fixtures(tmp_path, GOOD), (AddDevice, Nosy)))
    assert set(found) == {"XX901/one/others", "XX901/given/others", "XX901/unpacked/others"}
    listed = {"rewrite/one.toml": 'others = ["XX903"]\n', "noop/given.toml": 'others = ["XX903"]\n'}
    again = failing(cases(fixtures(tmp_path, GOOD | listed), (AddDevice, Nosy)))
    assert set(again) == {"XX901/unpacked/others"}


@pytest.mark.parametrize(
    ("files", "message"),
    [
        pytest.param({"rewrite/one.in.py": ""}, "has no one.out.py beside it", id="no output"),
        pytest.param({"rewrite/one.out.py": ""}, "belongs to no fixture", id="no input"),
        pytest.param({"rewrite/one.py": ""}, "belongs to no fixture", id="neither"),
        pytest.param({"noop/one.toml": ""}, "belongs to no fixture", id="settings of nothing"),
        pytest.param({"manual/one.py": ""}, "says no expected findings", id="manual without findings"),
        pytest.param({"noop/one.py": "", "noop/one.toml": "mintorch = 1"}, "unknown mintorch", id="misspelt"),
        pytest.param(
            {"noop/a.py": "", "manual/a.py": "", "manual/a.toml": "[[findings]]\nline=1"}, "are called a", id="twice"
        ),
        pytest.param({"noop/a.unknown": "target"}, "no name of a file", id="suffix"),
    ],
)
def test_incomplete_fixtures_are_refused(tmp_path: Path, files: dict[str, str], message: str) -> None:
    found = failing(cases(fixtures(tmp_path, files), (AddDevice,)))
    assert [message in said for name, said in found.items() if name.endswith("/complete")] == [True]


def test_a_folder_that_no_rule_answers_to_is_refused(tmp_path: Path) -> None:
    found = failing(cases(fixtures(tmp_path, GOOD), (Nosy,)))
    assert list(found) == ["add_device/complete"]
    assert "no codemod is called add-device" in found["add_device/complete"]


def test_what_was_written() -> None:
    before = b"import torch.distributed as dist\ndist.init_process_group('nccl')\nx.y(device_id=1)\n"
    after = b"import torch\nimport torch.distributed as dist\nfrom torch.nn import functional\n"
    after += b"dist.init_process_group('nccl', device_id=torch.device('cuda'))\nx.y(device_id=2)\n"
    assert written(before, after) == {
        ("torch.distributed.init_process_group", "device_id"),
        ("torch.device", None),
        ("torch.nn.functional", None),
    }
