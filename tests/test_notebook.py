"""Notebooks: cells as one module, and changes that touch nothing but source lines."""

from __future__ import annotations

import json
from typing import Any

import pytest

from torchmigrate.codemod import Codemod
from torchmigrate.engine import process
from torchmigrate.model import EVERYTHING, LOOK, Decision, FileResult, Policy, Project, Verdict
from torchmigrate.notebook import NotebookModule
from torchmigrate.source import SourceError, Splice
from torchmigrate_codemods.torch_2_15.flight_recorder_env import FlightRecorderEnv
from torchmigrate_codemods.torch_2_15.fsdp_reduce_dtype import FsdpReduceDtype

OLD, NEW = "TORCH_NCCL_DUMP_ON_TIMEOUT", "TORCH_FR_DUMP_ON_TIMEOUT"


def notebook(*cells: str | list[str], language: str = "python", **layout: Any) -> str:
    """The JSON text of a notebook; a cell is one string, or a list of the strings that make its source."""
    made = [
        {"cell_type": "code", "metadata": {"tags": []}, "outputs": [{"text": ["ä\n"]}], "source": source}
        for source in cells
    ]
    made.insert(1, {"cell_type": "markdown", "metadata": {}, "source": [f"about {OLD}\n", "and more"]})
    data = {"cells": made, "metadata": {"language_info": {"name": language}}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(data, **({"indent": 1, "ensure_ascii": False} | layout)) + "\n"


def lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def sources(raw: str) -> list[str]:
    return ["".join(cell["source"]) for cell in json.loads(raw)["cells"] if cell["cell_type"] == "code"]


def module(raw: str) -> NotebookModule:
    return NotebookModule("n.ipynb", raw, Project())


def run(
    raw: str, policy: Policy = EVERYTHING, rule: type[Codemod] = FlightRecorderEnv, torch: str = "2.15"
) -> FileResult:
    return process("n.ipynb", raw.encode(), [rule()], Project(torch_min=torch), policy, "notebook")


LAYOUTS: list[dict[str, Any]] = [
    {"indent": 1},
    {"indent": 4, "ensure_ascii": True},
    {"indent": None},
    {"indent": None, "separators": (",", ":")},
]


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_nothing_changes_but_the_source(layout: dict[str, Any]) -> None:
    code = f'name = "é\\t\\\\"\nenv["{OLD}"] = "1"  # ü\nprint(name)'
    raw = notebook(lines(code), code, lines(f'x["{OLD}"] = "1"'), **layout)
    result = run(raw)
    assert result.after == raw.replace(f'env[\\"{OLD}', f'env[\\"{NEW}').replace(f'x[\\"{OLD}', f'x[\\"{NEW}').encode()
    assert [f.cell for f in result.findings] == [1, 2, 3]


def test_locations_are_those_of_the_file() -> None:
    raw = notebook(lines(f'import os\nos.environ["{OLD}"] = "1"'))
    (finding,) = run(raw, LOOK).findings
    line = raw.splitlines()[finding.span.line - 1]
    assert line[finding.span.column - 1 : finding.span.end_column - 1] == f'os.environ[\\"{OLD}\\"] = \\"1\\"'
    assert finding.before == f'os.environ["{OLD}"] = "1"'


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("as_list", [True, False])
@pytest.mark.parametrize("end", ["", "\n"])
def test_lines_are_added_and_removed_as_jupyter_would(layout: dict[str, Any], as_list: bool, end: str) -> None:
    cells = ["a = 1\nb = 2\nc = 3" + end, "d = 4" + end, "e = 5" + end]
    raw = notebook(*(lines(cell) if as_list else cell for cell in cells), **layout)
    found = module(raw)
    assert found.rebuild([]) == raw
    for number, node in enumerate(found.tree.body):
        start, stop = found.extent(node)
        first, last = found.lines.line_start(start), found.lines.line_end(stop)
        name = "abcde"[number]
        before = found.rebuild([Splice(first, first, "# é\n")])
        assert "".join(sources(before)) == "".join(cells).replace(f"{name} =", f"# é\n{name} =")
        after = found.rebuild([Splice(last, last, "z = 0\n")])
        mine = next(i for i, cell in enumerate(cells) if f"{name} =" in cell)
        kept = lines(cells[mine])
        at = next(i for i, line in enumerate(kept) if line.startswith(name))
        kept[at] = kept[at] if kept[at].endswith("\n") else kept[at] + "\n"
        expected = "".join([*kept[: at + 1], "z = 0\n", *kept[at + 1 :]])
        assert sources(after)[mine] == (expected if end else expected.removesuffix("\n"))
        gone = found.rebuild([Splice(first, last, "")])
        rest = [line for line in lines(cells[mine]) if not line.startswith(name)]
        assert sources(gone)[mine] == "".join(rest if end else [*rest[:-1], *(r.rstrip("\n") for r in rest[-1:])])
        for changed in (before, after, gone):
            strings = [
                s for c in json.loads(changed)["cells"] for s in (c["source"] if isinstance(c["source"], list) else [])
            ]
            assert all(s.count("\n") == s.endswith("\n") for s in strings)
            assert all(s for s in strings) or changed is gone


MAGIC = """\
%matplotlib inline
%env TORCH_NCCL_DUMP_ON_TIMEOUT=1
!TORCH_NCCL_DUMP_ON_TIMEOUT=1 torchrun \\
    train.py
files = !ls
value = %timeit -o f()
if True:
    !pip install x
    %time g()
text = '''
!not a command
%not a magic
'''
print?
?print
async with a as b:
    await b
remainder = (7
    % 2)
os.environ["TORCH_NCCL_DUMP_ON_TIMEOUT"] = "1"
"""


def raw_line(result: FileResult, number: int) -> str:
    """A source line of the notebook as it was."""
    assert result.before is not None
    return str(json.loads(result.before.decode().splitlines()[number - 1].strip().rstrip(",")))


def test_magics_are_kept_and_read() -> None:
    result = run(notebook(lines(MAGIC)))
    assert not result.errors
    assert {raw_line(result, f.span.line) for f in result.findings} == {line for line in lines(MAGIC) if OLD in line}
    assert result.after is not None
    assert sources(result.after.decode()) == [MAGIC.replace(OLD, NEW)]


def test_magics_are_doubled_by_lines() -> None:
    result = run(notebook(lines(MAGIC)), torch="2.14")
    assert result.after is not None
    (text,) = sources(result.after.decode())
    assert f"%env {NEW}=1\n%env {OLD}=1\n!{NEW}=1 {OLD}=1 torchrun \\\n" in text
    assert f'os.environ["{NEW}"] = "1"\nos.environ["{OLD}"] = "1"\n' in text


@pytest.mark.parametrize("magic", ["%%bash", "%%sh", "%%script bash", "%%bash --out x"])
def test_shell_cells_are_shell(magic: str) -> None:
    result = run(notebook(lines(f"{magic}\nexport {OLD}=1\nif true; then :; fi")))
    assert result.after is not None
    assert sources(result.after.decode()) == [f"{magic}\nexport {NEW}=1\nif true; then :; fi"]
    assert [(f.cell, f.outcome.value) for f in result.findings] == [(1, "rewrite")]


@pytest.mark.parametrize("magic", ["%%time", "%%capture out", "%%timeit -n 1"])
def test_cells_that_run_python_are_python(magic: str) -> None:
    result = run(notebook(lines(f'{magic}\nimport os\nos.environ["{OLD}"] = "1"')))
    assert [f.cell for f in result.findings] == [1]


@pytest.mark.parametrize("magic", ["%%html", "%%javascript", "%%latex", "%%cython"])
def test_cells_in_other_languages_are_left_alone(magic: str) -> None:
    result = run(notebook(lines(f"{magic}\n<b>{OLD}=1</b> (not [python")))
    assert (result.findings, result.errors) == ((), ())


def test_what_a_cell_writes_to_a_file_is_reported() -> None:
    code = f'%%writefile train.py\nimport os\n\n\ndef f():\n    os.environ["{OLD}"] = "1"'
    raw = notebook(lines("x = 1"), lines(code))
    result = run(raw)
    (finding,) = result.findings
    assert (finding.cell, finding.outcome.value, result.after) == (2, "report", None)
    assert "change it by hand" in finding.message
    assert OLD in raw.splitlines()[finding.span.line - 1]
    assert run(notebook(lines("%%writefile notes.txt\nnot [python"))).errors == ()
    assert [e.code for e in run(notebook(lines(f"%%writefile a.py\n{OLD} (["))).errors] == ["TM001"]


def test_a_broken_cell_is_an_error_and_the_others_are_read() -> None:
    raw = notebook(lines("import os\nprint 'x'"), lines(f'os.environ["{OLD}"] = "1"'))
    result = run(raw)
    (error,) = result.errors
    assert (error.code, raw.splitlines()[(error.line or 0) - 1].strip()) == ("TM001", "\"print 'x'\"")
    assert "cell 1" in error.message
    assert [f.cell for f in result.findings] == [2]


def test_names_reach_across_cells() -> None:
    raw = notebook(
        lines("import torch\nfrom torch.distributed.fsdp import MixedPrecisionPolicy"),
        lines("policy = MixedPrecisionPolicy(\n    param_dtype=torch.bfloat16,\n)"),
    )
    result = run(raw, rule=FsdpReduceDtype)
    assert result.after is not None
    changed = "policy = MixedPrecisionPolicy(\n    param_dtype=torch.bfloat16,\n    reduce_dtype=torch.bfloat16,\n)"
    assert sources(result.after.decode())[1] == changed
    assert run(result.after.decode(), rule=FsdpReduceDtype).after is None


def test_notebooks_in_other_languages_are_left_alone() -> None:
    result = run(notebook(lines(f'Sys.setenv({OLD}="1")\nx <- function(a) a'), language="R"))
    assert (result.findings, result.errors) == ((), ())


def test_comments_silence() -> None:
    raw = notebook(lines(f'import os\nos.environ["{OLD}"] = "1"  # torchmigrate: ignore[TM601] later'))
    (finding,) = run(raw).findings
    assert finding.suppressed == "later"
    raw = notebook(lines(f'import os\nos.environ["{OLD}"] = "1"'))
    (finding,) = run(raw).findings
    marked = run(raw, Policy(decisions={finding.decision_key: Decision(Verdict.SUPPRESS)}))
    assert marked.after is not None
    assert sources(marked.after.decode()) == [f'import os\n# torchmigrate: ignore[TM601]\nos.environ["{OLD}"] = "1"']
    assert [f.suppressed for f in run(marked.after.decode()).findings] == [""]


@pytest.mark.parametrize(
    ("code", "silenced"),
    [
        (f'import os\nos.environ["{OLD}"] = "# torchmigrate: ignore[TM601] later"', False),
        (f"!echo '# torchmigrate: ignore[TM601] later'; {OLD}=1 job", False),
        (f"!{OLD}=1 job  # torchmigrate: ignore[TM601] later", True),
        (f"%%bash\n# torchmigrate: ignore[TM601] later\nexport {OLD}=1", True),
        (f'%%writefile a.py\nimport os\nos.environ["{OLD}"] = "1"  # torchmigrate: ignore[TM601] later', True),
    ],
    ids=["string", "quoted in a command", "command", "script", "file"],
)
def test_what_silences_in_a_cell_is_a_comment(code: str, silenced: bool) -> None:
    result = run(notebook(lines("x = 1"), lines(code), lines("y = ")))
    assert [f.suppressed for f in result.findings] == ["later" if silenced else None]
    assert [e.code for e in result.errors] == ["TM001"]


def test_an_unused_comment_is_told_with_its_place() -> None:
    raw = notebook(lines("import os\nx = 1  # torchmigrate: ignore[TM601]"))
    (error,) = run(raw).errors
    assert error.code == "TM002"
    assert raw.splitlines()[(error.line or 0) - 1].index("#") + 1 == error.column


@pytest.mark.parametrize("raw", ["", "[]", "{", '{"cells": 3}', "nothing"])
def test_what_is_no_notebook_is_an_error(raw: str) -> None:
    with pytest.raises(SourceError, match="cannot parse"):
        module(raw)


def test_a_notebook_without_code() -> None:
    result = run('{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}')
    assert (result.findings, result.errors) == ((), ())
