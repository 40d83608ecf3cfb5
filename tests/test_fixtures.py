"""Every check that follows from a fixture (see `torchmigrate.testing`)."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchmigrate.testing import Case, Example, cases, examples
from torchmigrate_codemods.torch_2_15 import CODEMODS

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures" / "torch_2_15"


@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in cases(FIXTURES, CODEMODS)])
def test_fixture(case: Case) -> None:
    case.run()


@pytest.mark.parametrize("codemod", CODEMODS, ids=lambda codemod: codemod.code)
def test_every_codemod_has_fixtures_that_do_something_and_some_that_do_not(codemod: type) -> None:
    kinds = {one.kind for one in examples(FIXTURES, CODEMODS) if isinstance(one, Example) and one.rule is codemod}
    assert "noop" in kinds
    assert kinds & {"rewrite", "manual"}
