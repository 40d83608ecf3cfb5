"""Every check that follows from a fixture (see `torchmigrate.testing`)."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchmigrate.codemod import Codemod
from torchmigrate.testing import Case, Example, cases, examples
from torchmigrate_codemods.torch_2_15 import CODEMODS

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures" / "torch_2_15"


@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in cases(FIXTURES, CODEMODS)])
def test_fixture(case: Case) -> None:
    case.run()


@pytest.fixture(scope="module")
def kinds() -> dict[str, set[str]]:
    """The kinds of fixtures that each rule has."""
    found: dict[str, set[str]] = {}
    for one in examples(FIXTURES, CODEMODS):
        if isinstance(one, Example):
            found.setdefault(one.rule.code, set()).add(one.kind)
    return found


@pytest.mark.parametrize("codemod", CODEMODS, ids=lambda codemod: codemod.code)
def test_each_rule_has_fixtures_that_do_something_and_some_that_do_not(
    codemod: type[Codemod], kinds: dict[str, set[str]]
) -> None:
    assert "noop" in kinds[codemod.code]
    assert kinds[codemod.code] & {"rewrite", "manual"}
