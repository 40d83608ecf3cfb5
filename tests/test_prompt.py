"""How lines are brought to a terminal: widths, blanks for tabs, colour that changes no character."""

from __future__ import annotations

import re

from hypothesis import example, given
from hypothesis import strategies as st

from torchmigrate import highlight, prompt

TEXT = st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=60)


@given(TEXT)
def test_colour_changes_no_character(line: str) -> None:
    for around in ("", "32"):
        assert re.sub(r"\x1b\[[\d;]*m", "", highlight.python(line, around)) == line


def test_colour_knows_words_from_strings() -> None:
    shown = highlight.python("for x in f(r'for', \"it's\"):  # for", "")
    assert shown.count("\x1b[34;1m") == 2
    assert "\x1b[33mr'for'\x1b" in shown
    assert '\x1b[33m"it\'s"\x1b' in shown
    assert "\x1b[2m# for\x1b" in shown


@given(TEXT)
def test_nothing_reaches_the_terminal_that_is_no_print(line: str) -> None:
    assert prompt.visible(line + "\x1b\x07\u202e\u200b").isprintable()


@given(st.lists(TEXT, max_size=6), st.integers(20, 80))
@example(["000000\u0e5c", "0\xa0", "000000000"], 20)
def test_wrapped_lines_fit_and_lose_nothing(words: list[str], width: int) -> None:
    text = " ".join(words)
    lines = prompt.wrapped(text, width, "  ")
    assert all(prompt.columns(line) <= width for line in lines[1:])
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")


def test_tabs_reach_the_next_stop_whatever_stands_before() -> None:
    assert prompt.expanded("\ta") == " " * 8 + "a"
    assert prompt.expanded("ab\tc\td") == "ab      c       d"
    assert prompt.expanded("宽\tx") == "宽      x"
    assert prompt.columns("宽e\u0301") == 3
