"""Fixtures for rules: files before and after, and the checks that follow from each.

    fixtures/torch_2_15/init_device_id/
      rewrite/spawn_worker.in.py  spawn_worker.out.py  [spawn_worker.toml]
      noop/gloo_only.py           zero findings
      manual/from_env.py          from_env.toml (the expected findings)

The folder is a rule's name with underscores. In a test module:

    @pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in cases(Path("fixtures"), CODEMODS)])
    def test_fixture(case):
        case.run()

The optional TOML file beside a fixture (`NAME.toml`; `NAME.sh.toml` where inputs of several formats are called NAME)
may say: `options` (a table), `min_torch`, `max_torch`, `torch_role` (else "required"), `min_python`, `facts` (a table
of project facts), `path` (the name under which the engine sees the file), `accept` ("all" or "safe"), `others` (codes
of rules that find something here as well), `errors` (engine codes expected), and `[[findings]]`: `line`, and any of
`code`, `message` (a part of it), `safety`, `outcome`, `after` (a part of it) and `choice` (which answer is taken).
`since` is the oldest torch on which the input itself can run. What `defaults.toml` in the rule's folder says holds for
all of its fixtures.
An input that is TOML itself is called `NAME.in.toml`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from torchmigrate.codemod import Codemod
from torchmigrate.testing.checks import CHECKS, PYTHON_ONLY
from torchmigrate.testing.examples import Example, Expected, Incomplete, examples, format_of
from torchmigrate.testing.signatures import names_written, recorded, written

__all__ = [
    "Case",
    "Example",
    "Expected",
    "Incomplete",
    "cases",
    "examples",
    "format_of",
    "names_written",
    "recorded",
    "written",
]


@dataclass(frozen=True, eq=False, slots=True)
class Case:
    """One check of one fixture; `id` reads `TM101/spawn_worker/idempotent`.

    `run` raises AssertionError with what was expected and what came.
    """

    id: str
    run: Callable[[], None]


def cases(root: Path, codemods: Sequence[type[Codemod]]) -> list[Case]:
    """Every check of every fixture below `root` (a folder of release folders, or of rule folders).

    A fixture that is not complete, or that no rule answers to, is a case that fails, so that it hides no other.
    """
    found: list[Case] = []
    names: set[str] = set()
    for one in examples(root, codemods):
        if isinstance(one, Incomplete):
            found.append(Case(f"{one.path.relative_to(root)}/complete", functools.partial(_fail, str(one))))
            continue
        name = f"{one.rule.code}/{one.name}"
        if name in names:
            said = f"two fixtures of {one.rule.code} are called {one.name}"
            found.append(Case(f"{one.source.relative_to(root)}/complete", functools.partial(_fail, said)))
            continue
        names.add(name)
        found += (
            Case(f"{name}/{check.__name__.strip('_')}", functools.partial(check, one))
            for check in CHECKS[one.kind]
            if one.format == "python" or check not in PYTHON_ONLY
        )
    return found


def _fail(message: str) -> None:
    raise AssertionError(message)
