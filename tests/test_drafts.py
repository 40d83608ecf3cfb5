"""What a reviewer writes comes together with other changes, and survives editors, line ends and encodings."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchmigrate import diff, drafts
from torchmigrate.drafts import Draft, Overlap

LINES = st.lists(st.sampled_from([b"a\n", b"b\n", b"c\r\n", b"\n", b"d\n"]), max_size=12).map(b"".join)


@given(LINES, LINES)
def test_one_side_alone_is_taken_as_it_is(base: bytes, changed: bytes) -> None:
    assert drafts.merge(base, changed, base) == changed
    assert drafts.merge(base, base, changed) == changed
    assert drafts.merge(base, changed, changed) == changed


@given(LINES, st.binary(max_size=8), st.binary(max_size=8))
def test_changes_apart_are_both_there(middle: bytes, above: bytes, below: bytes) -> None:
    above, below = (one.replace(b"\n", b"") + b"x\n" for one in (above, below))
    base = b"first\nsecond\n" + middle + b"last\n"
    ours, theirs = base.replace(b"first\n", above, 1), base[: -len(b"last\n")] + below
    if b"first" in middle or b"last" in middle:
        return
    assert drafts.merge(base, ours, theirs) == above + b"second\n" + middle + below


def test_changes_of_one_line_clash() -> None:
    with pytest.raises(Overlap, match="line 2"):
        drafts.merge(b"a\nb\nc\n", b"a\nx\nc\n", b"a\ny\nc\n")


@given(LINES, LINES)
def test_pieces_say_what_hunks_say(before: bytes, after: bytes) -> None:
    assert drafts.placed(before, drafts.pieces(diff.hunks(before, after))) == after


@pytest.mark.parametrize(
    ("before", "typed", "after"),
    [
        (b"a\r\nb\r\n", "x\n", b"a\r\nx\r\n"),
        (b"a\r\nb\r\n", "x", b"a\r\nx\r\n"),
        (b"a\nb", "x\n", b"a\nx"),
        (b"a\nb\n", "x\ny", b"a\nx\ny\n"),
        (b"a\nb", "x\n\n", b"a\nx\n"),
    ],
)
def test_an_editor_may_change_the_end_of_a_text(before: bytes, typed: str, after: bytes) -> None:
    asked = [drafts.piece(before, 2, 2)]
    made = drafts.edited(before, asked, typed, "utf-8")
    assert made is not None
    assert drafts.placed(before, made) == after


def test_text_is_edited_in_the_encoding_of_the_file() -> None:
    before = "# coding: latin-1\nx = 'é'\n".encode("latin-1")
    asked = [drafts.piece(before, 2, 2)]
    assert drafts.to_edit(asked, "latin-1") == "x = 'é'\n"
    made = drafts.edited(before, asked, "x = 'ü'\n", "latin-1")
    assert made is not None
    assert drafts.placed(before, made) == "# coding: latin-1\nx = 'ü'\n".encode("latin-1")
    with pytest.raises(UnicodeEncodeError):
        drafts.edited(before, asked, "x = '字'\n", "latin-1")


def test_several_pieces_are_told_apart_by_their_marks() -> None:
    before = b"a\nb\nc\nd\n"
    asked = [Draft(0, 0, "import math\n"), Draft(2, 1, "C\n")]
    text = drafts.to_edit(asked, "utf-8")
    assert text == "#% lines after 0\nimport math\n#% lines 3 to 3\nC\n"
    made = drafts.edited(before, asked, text.replace("C\n", "C1\nC2"), "utf-8")
    assert made is not None
    assert drafts.placed(before, made) == b"import math\na\nb\nC1\nC2\nd\n"
    emptied = drafts.edited(before, asked, text.replace("import math\n", ""), "utf-8")
    assert emptied is not None
    assert drafts.placed(before, emptied) == b"a\nb\nC\nd\n"
    for broken in ("C\n", text.replace("#% lines 3", "#% lines 4"), "x\n" + text, text + text):
        assert drafts.edited(before, asked, broken, "utf-8") is None
