"""CODEOWNERS: the last match wins, patterns are gitignore's, sections lend their owners."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchmigrate import owners

FILE = """\
# everything
*                @org/everyone
*.py             @org/python   # the language team
/train/          @org/training
docs/            docs@example.com
/train/legacy/   # nobody
path\\ with/blank @blank
"""


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("README.md", ("@org/everyone",)),
        ("tools/run.py", ("@org/python",)),
        ("train/run.py", ("@org/training",)),
        ("sub/train/run.py", ("@org/python",)),
        ("a/docs/conf.py", ("docs@example.com",)),
        ("train/legacy/old.py", ()),
        ("path with/blank", ("@blank",)),
    ],
)
def test_last_match_wins(path: str, expected: tuple[str, ...]) -> None:
    assert owners.parse(FILE.splitlines()).of(path) == expected


def test_sections_lend_their_owners() -> None:
    found = owners.parse(["[Models][2] @models", "/models/", "/models/vision/ @vision", "^[Docs]", "/docs/"])
    assert found.of("models/a.py") == ("@models",)
    assert found.of("models/vision/a.py") == ("@vision",)
    assert found.of("docs/a.md") == ()


def test_the_first_place_counts(tmp_path: Path) -> None:
    (tmp_path / ".github").mkdir()
    (tmp_path / "CODEOWNERS").write_text("* @root\n")
    assert owners.read(str(tmp_path)).of("a.py") == ("@root",)
    (tmp_path / ".github" / "CODEOWNERS").write_text("* @github\n")
    assert owners.read(str(tmp_path)).of("a.py") == ("@github",)


def test_nobody_owns_anything_without_a_file(tmp_path: Path) -> None:
    assert owners.read(str(tmp_path)).of("a.py") == ()
