"""Patches are judged by git itself: what we print must apply and revert byte for byte."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from torchmigrate import diff

LINE_BODY = st.sampled_from(
    [
        b"",
        b"a",
        b"b",
        b"x = 1",
        b"caf\xe9",
        b"\xff\xfe",
        b"\x0c",
        b"tail\r",
        b"\r\r",
        "line\u2028sep".encode(),
        b"\\",
        b"-",
        b"+ x",
    ]
)
NAMES = [
    "a.py",
    "with blank.py",
    'quote".py',
    "tab\there.py",
    "back\\slash.py",
    "caf\u00e9.py",
    "deep/er/x.py",
    "-dash.py",
]


@st.composite
def contents(draw: st.DrawFn) -> bytes:
    lines = draw(st.lists(LINE_BODY, max_size=40))
    text = b"".join(line + b"\n" for line in lines)
    return text + draw(st.sampled_from([b"", b"no newline", b"\r"]))


@st.composite
def edits(draw: st.DrawFn) -> tuple[bytes, bytes]:
    """A content, and the same with a few lines replaced, added or removed: what a migration looks like."""
    before = draw(contents())
    lines = diff.split_lines(before)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(lines)))
        end = draw(st.integers(at, min(len(lines), at + 3)))
        lines[at:end] = [line + b"\n" for line in draw(st.lists(LINE_BODY, max_size=3))]
    after = b"".join(
        line if line.endswith(b"\n") or i == len(lines) - 1 else line + b"\n" for i, line in enumerate(lines)
    )
    if draw(st.booleans()):
        after = after.removesuffix(b"\n")
    return before, after


def git(*args: str, cwd: Path) -> None:
    done = subprocess.run(["git", *args], cwd=cwd, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    git("init", "-q", cwd=tmp_path)
    return tmp_path


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    files=st.dictionaries(st.sampled_from(NAMES), st.one_of(edits(), st.tuples(contents(), contents())), min_size=1),
    context=st.sampled_from([0, 1, 3, 10]),
)
def test_git_applies_and_reverts_every_byte(
    repository: Path, files: dict[str, tuple[bytes, bytes]], context: int
) -> None:
    # An empty side means creation or deletion to git, which a migration never does.
    files = {name: pair for name, pair in files.items() if all(pair) and pair[0] != pair[1]}
    for name, (before, _) in files.items():
        (repository / name).parent.mkdir(parents=True, exist_ok=True)
        (repository / name).write_bytes(before)
    text = b"".join(diff.patch(name, a, b, context=context) for name, (a, b) in sorted(files.items()))
    if not text:
        assert not files
        return
    (repository / ".git" / "p.patch").write_bytes(text)
    zero = ["--unidiff-zero"] if context == 0 else []
    git("apply", *zero, ".git/p.patch", cwd=repository)
    assert {n: (repository / n).read_bytes() for n in files} == {n: b for n, (_, b) in files.items()}
    git("apply", "-R", *zero, ".git/p.patch", cwd=repository)
    assert {n: (repository / n).read_bytes() for n in files} == {n: a for n, (a, _) in files.items()}


@pytest.mark.parametrize(
    ("before", "after"),
    [(b"\n\na\n", b"\n\n\na\na"), (b"x\na\nb", b"x\na\n"), (b"x\n", b"x\ny"), (b"x\ny", b"x\n")],
    ids=["line and end added", "end removed", "end added", "one line left"],
)
def test_a_last_line_without_its_end_goes_both_ways_without_context(
    repository: Path, before: bytes, after: bytes
) -> None:
    (repository / "a.py").write_bytes(before)
    (repository / ".git" / "p.patch").write_bytes(diff.patch("a.py", before, after, context=0))
    git("apply", "--unidiff-zero", ".git/p.patch", cwd=repository)
    assert (repository / "a.py").read_bytes() == after
    git("apply", "-R", "--unidiff-zero", ".git/p.patch", cwd=repository)
    assert (repository / "a.py").read_bytes() == before


@given(st.one_of(edits(), st.tuples(contents(), contents())), st.integers(0, 4))
def test_hunks_hold_both_sides(pair: tuple[bytes, bytes], context: int) -> None:
    before, after = pair
    old, new = diff.split_lines(before), diff.split_lines(after)
    rebuilt, at = list[bytes](), 0
    for hunk in diff.hunks(before, after, context):
        rebuilt += old[at : hunk.old_start]
        assert len(rebuilt) == hunk.new_start
        assert [line[1:] for line in hunk.lines if line[:1] in b" -"] == old[
            hunk.old_start : hunk.old_start + hunk.old_count
        ]
        shown = [line[1:] for line in hunk.lines if line[:1] in b" +"]
        assert len(shown) == hunk.new_count
        rebuilt += shown
        at = hunk.old_start + hunk.old_count
    assert rebuilt + old[at:] == new


def test_split_lines_ends_lines_at_lf_only() -> None:
    assert diff.split_lines("a\rb\x0cc\u2028d\r\ne".encode()) == ["a\rb\x0cc\u2028d\r\n".encode(), b"e"]
    assert diff.split_lines(b"") == []
    assert diff.split_lines(b"\n") == [b"\n"]


def test_hunk_header_is_git_style_with_label() -> None:
    before = b"".join(b"line %d\n" % n for n in range(1, 21))
    after = before.replace(b"line 10\n", b"line ten\nline 10b\n")
    text = diff.patch("pkg/x.py", before, after, label=lambda hunk: "TM101 init-device-id")
    assert text.decode().splitlines()[:5] == [
        "diff --git a/pkg/x.py b/pkg/x.py",
        "--- a/pkg/x.py",
        "+++ b/pkg/x.py",
        "@@ -7,7 +7,8 @@ TM101 init-device-id",
        " line 7",
    ]


def test_missing_final_newline_is_marked() -> None:
    assert diff.patch("x", b"a", b"b").endswith(
        b"@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n\\ No newline at end of file\n"
    )


@pytest.mark.parametrize(
    ("name", "header"),
    [
        ("a b.py", b"--- a/a b.py\t\n"),
        ('q".py', b'--- "a/q\\".py"\n'),
        ("caf\u00e9.py", b'--- "a/caf\\303\\251.py"\n'),
        ("t\tn\n.py", b'--- "a/t\\tn\\n.py"\n'),
    ],
    ids=["blank", "quote", "non-ascii", "control"],
)
def test_names_are_quoted_as_git_does(name: str, header: bytes) -> None:
    assert header in diff.file_header(name)


def test_distant_changes_in_a_large_file_stay_two_small_hunks() -> None:
    before = b"import torch\n" + b"\n".join(b"    x%d = [\n\n    ]" % n for n in range(9000)) + b"\nend\n"
    after = before.replace(b"import torch\n", b"import torch\nimport os\n").replace(b"\nend\n", b"\nend()\n")
    found = diff.hunks(before, after)
    assert [(h.old_start, h.old_count, h.new_count) for h in found] == [(0, 4, 5), (26998, 4, 4)]
    assert diff.changed_lines(before, after) == (2, 1)


def test_a_hunk_covers_the_lines_that_it_shows() -> None:
    before = b"".join(b"%d\n" % n for n in range(1, 21))
    (hunk,) = diff.hunks(before, before.replace(b"10\n", b"ten\n"))
    assert [n for n in range(1, 21) if hunk.covers(n, n)] == [7, 8, 9, 10, 11, 12, 13]


def test_stat_reads_like_git() -> None:
    assert diff.stat([("a.py", 2, 1), ("longer/name.py", 10, 0)]) == (
        " a.py           |  3 ++-\n longer/name.py | 10 ++++++++++\n"
    )
