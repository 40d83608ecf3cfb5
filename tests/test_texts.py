"""Formats that are not Python: where their tokens stand, and that a change leaves all else as it was."""

from __future__ import annotations

import json
import tomllib
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from torchmigrate.codemod import Extent
from torchmigrate.documents import Document, open_document
from torchmigrate.engine import process
from torchmigrate.model import EVERYTHING, Decision, FileResult, Policy, Project, Verdict
from torchmigrate.source import SourceError, Splice, splice
from torchmigrate.texts import comments, dockerfile, shell
from torchmigrate.texts.json import parse as parse_json
from torchmigrate.texts.tokens import Use
from torchmigrate_codemods.torch_2_15.flight_recorder_env import FlightRecorderEnv
from torchmigrate_codemods.torch_2_15.nccl_env_dead import NcclEnvDead

OLD, NEW = "TORCH_NCCL_DUMP_ON_TIMEOUT", "TORCH_FR_DUMP_ON_TIMEOUT"


def document(text: str, kind: str) -> Document:
    found = Document("file", text, kind, Project())
    found.check()
    return found


def uses(text: str, kind: str, name: str = "X") -> list[Use]:
    return document(text, kind).uses([name])


def roles(text: str, kind: str) -> list[tuple[str, str | None]]:
    return [(use.role.value, use.value) for use in uses(text, kind)]


def doubled(text: str, kind: str) -> str:
    """The text with every setting of X doubled under the name Y."""
    edits = [use.copy.edit("Y") for use in uses(text, kind) if use.copy]
    return splice(text, [Splice(edit.start, edit.end, edit.text) for edit in edits])


def removed(text: str, kind: str) -> str:
    """The text without what sets X."""
    edits = [edit for use in uses(text, kind) for edit in use.removal or ()]
    return splice(text, [Splice(e.start, e.end, e.text) for e in edits])  # type: ignore[union-attr]


# -- shell -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("X=1 run", [("set", "1")]),
        ("export X=1", [("set", "1")]),
        ("export A=b X='a b'  # X=2", [("set", "a b")]),
        ('X="$(date) b" run', [("set", "$(date) b")]),
        ("run -e X=1", [("set", "1")]),
        ("run --env=X=1", [("set", "1")]),
        ("srun --export=ALL,X=1,Y=2 job", [("set", "1")]),
        ("#SBATCH --export=X=1", [("set", "1")]),
        ("# X=1", []),
        ("echo a#X", [("mention", None)]),
        ("echo $X ${X:-1}", [("read", None), ("read", None)]),
        ("unset X", [("unset", None)]),
        ("export X", [("mention", None)]),
        ("if true; then X=1 run; fi", [("set", "1")]),
        ("bash -c 'export X=1; run'", [("set", "1")]),
        ("cat > f <<EOF\nX=1\n# X=2\nEOF\nX=3 run", [("set", "1"), ("set", "3")]),
        ("nice env A=1 X=2 run", [("set", "2")]),
        ("run --flag X=1", [("mention", "1")]),
        ("a && X=1 b || X=2 c", [("set", "1"), ("set", "2")]),
        ("MY_X=1 X_Y=2 run", []),
    ],
)
def test_what_a_script_does_with_a_variable(text: str, expected: list[tuple[str, str | None]]) -> None:
    assert roles(text, "shell") == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("export X=1\n", "export Y=1 X=1\n"),
        ("X='a b' \\\n  run\n", "Y='a b' X='a b' \\\n  run\n"),
        ("run -e X=1 -e A=2\n", "run -e Y=1 -e X=1 -e A=2\n"),
        ("run --export=ALL,X=1\n", "run --export=ALL,Y=1,X=1\n"),
        ("X=$(date) run\n", "X=$(date) run\n"),
        ("declare -A X=( [a]=1 )\n", "declare -A X=( [a]=1 )\n"),
    ],
)
def test_a_setting_is_doubled_in_place(text: str, expected: str) -> None:
    assert doubled(text, "shell") == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\nexport X=1\nb\n", "a\nb\n"),
        ("export X=1 A=2\n", "export A=2\n"),
        ("export A=2 X=1\n", "export A=2\n"),
        ("X=1 run\r\nX=2\r\n", "run\r\n"),
        ("if a; then\n  export X=1\nfi\n", "if a; then\n  export X=1\nfi\n"),
        ("if a; then\n  export X=1\n  b\nfi\n", "if a; then\n  b\nfi\n"),
        ("a && export X=1\n", "a && export X=1\n"),
    ],
)
def test_a_setting_is_removed_only_where_that_is_clean(text: str, expected: str) -> None:
    assert removed(text, "shell") == expected


def test_words_keep_their_extents() -> None:
    text = "a 'b c'\\\n \"d$E\" f\\ g;h"
    words = [[(w.text, text[w.start : w.end]) for w in command.words] for command in shell.commands(text)]
    assert words == [[("a", "a"), ("b c", "'b c'"), ("d$E", '"d$E"'), ("f g", "f\\ g")], [("h", "h")]]


@given(st.text(alphabet="ab=X$'\"\\`(){}<>|&;# \n\r\t-", max_size=60))
@settings(max_examples=300, deadline=None)
def test_any_script_can_be_read(text: str) -> None:
    at = 0
    for command in shell.commands(text):
        for word in command.words:
            assert 0 <= word.start < word.end <= len(text)
        at = command.words[-1].end
    assert at <= len(text)
    for use in uses(text, "shell"):
        assert text[use.start : use.end] == "X"


# -- trees -----------------------------------------------------------------------------------------------------

YAML = """\
# X: 0
env:
  X: "1"  # one
  A: 2
list:
- X=1
- A=2
pods:
  - name: X
    value: 'v'
  - {name: A, value: b}
flow: {X: 1, A: [X=2, B=3]}
script: |
  # X=0
  export X=1
text: &anchor some words
again: *anchor
"""


def test_yaml_settings() -> None:
    assert roles(YAML, "yaml") == [("set", v) for v in ("1", "1", "v", "1", "2", "1")]


def test_yaml_doubling_changes_nothing_else() -> None:
    before, after = yaml.safe_load(YAML), yaml.safe_load(doubled(YAML, "yaml"))
    before["env"]["Y"] = "1"
    before["list"].insert(0, "Y=1")
    before["pods"].insert(0, {"name": "Y", "value": "v"})
    before["flow"] = {"Y": 1, "X": 1, "A": ["Y=2", "X=2", "B=3"]}
    before["script"] = "# X=0\nexport Y=1 X=1\n"
    assert after == before


def test_yaml_removal_changes_nothing_else() -> None:
    before, after = yaml.safe_load(YAML), yaml.safe_load(removed(YAML, "yaml"))
    del before["env"]["X"], before["list"][0], before["pods"][0]
    before["flow"] = {"A": ["B=3"]}
    before["script"] = "# X=0\n"
    assert after == before


def test_a_yaml_template_is_read_by_its_lines() -> None:
    text = "env:\n{{- range .Values.env }}\n  X: {{ .value }}\n  - name: X\n    value: '1'\n  - X=2\n{{ end }}\n"
    assert roles(text, "yaml") == [("set", "{{ .value }}"), ("set", "1"), ("set", "2")]


def test_broken_yaml_is_an_error_with_its_place() -> None:
    with pytest.raises(SourceError) as caught:
        document("a: [1, 2\nb: c\n", "yaml")
    assert (caught.value.code, caught.value.line) == ("TM001", 2)


TOML = """\
# X = "0"
[env]
X = "1"  # one
'A' = "2"
inline = { X = "1", A = 2 }
list = [
    "X=1",  # first
    "A=2",
]
[tool."a.b"]
c.d = 1.5
[[array]]
text = \"\"\"
two lines\"\"\"
when = 1979-05-27 07:32:00
"""


def test_toml_entries() -> None:
    found = {("/".join(e.path), e.item): (e.value, TOML[e.start : e.end]) for e in document(TOML, "toml").entries}
    assert found["env/X", None] == ("1", "1")
    assert found["env/list", 1] == ("A=2", "A=2")
    assert found["tool/a.b/c/d", None] == ("1.5", "1.5")
    assert found["array/text", None] == ("two lines", "\ntwo lines")
    assert found["array/when", None] == ("1979-05-27 07:32:00", "1979-05-27 07:32:00")


def test_toml_doubling_and_removal_change_nothing_else() -> None:
    before, after = tomllib.loads(TOML), tomllib.loads(doubled(TOML, "toml"))
    before["env"] |= {"Y": "1", "inline": {"Y": "1", "X": "1", "A": 2}, "list": ["Y=1", "X=1", "A=2"]}
    assert after == before
    before, after = tomllib.loads(TOML), tomllib.loads(removed(TOML, "toml"))
    del before["env"]["X"]
    before["env"] |= {"inline": {"A": 2}}
    before["env"]["list"] = ["X=1", "A=2"]  # a comment stands between them
    assert after == before


def test_broken_toml_is_an_error_with_its_place() -> None:
    with pytest.raises(SourceError) as caught:
        document("[a]\nb = \n", "toml")
    assert (caught.value.code, caught.value.line) == ("TM001", 2)


JSON = """\
{
  // a comment
  "env": {
    "A": "2",
    "X": "1"
  },
  "args": ["X=1", "A"], /* X */
  "list": [{"name": "X", "value": "v"}, {"name": "A", "value": "w"},],
  "odd\\u00e9\\n": [1, true, null, -1.5e3]
}
"""


def test_json_settings() -> None:
    assert roles(JSON, "json") == [("set", "1"), ("set", "1"), ("set", "v")]
    assert '"Y": "1",\n    "X": "1"' in doubled(JSON, "json")
    assert '"A": "2"\n  }' in removed(JSON, "json")


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
        max_leaves=20,
    ),
    st.sampled_from([None, 1, 4]),
    st.booleans(),
)
@settings(max_examples=200, deadline=None)
def test_json_positions(data: Any, indent: int | None, ascii_only: bool) -> None:
    text = json.dumps(data, indent=indent, ensure_ascii=ascii_only)
    pending = [(parse_json(text), data)]
    while pending:
        node, value = pending.pop()
        assert json.loads(text[node.start : node.end]) == value
        if isinstance(value, dict):
            assert [key.value for key, _ in node.members] == list(value)
            pending += zip((v for _, v in node.members), value.values(), strict=True)
        elif isinstance(value, list):
            pending += zip(node.items, value, strict=True)
        elif isinstance(value, str):
            assert node.value == value


@pytest.mark.parametrize("text", ["{", "[1 2]", '{"a" 1}', '"a', "{} {}", '{"a": }', "", '"\\q"'])
def test_broken_json_is_an_error(text: str) -> None:
    with pytest.raises(SourceError, match="cannot parse"):
        document(text, "json")


# -- lines -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "text", "twice", "gone"),
    [
        ("env", "A=1\nX='2'\n", "A=1\nY='2'\nX='2'\n", "A=1\n"),
        ("env", "export X=2", "export Y=2\nexport X=2", ""),
        (
            "makefile",
            "export X := 1\nall:\n\tX=2 run\n",
            "export Y := 1\nexport X := 1\nall:\n\tY=2 X=2 run\n",
            "all:\n\trun\n",
        ),
        ("makefile", "# X = 1\nall: X = 1\n", "# X = 1\nall: Y = 1\nall: X = 1\n", "# X = 1\n"),
        (
            "cfg",
            "[a]\nsetenv =\n  X = 1\n  B = 2\n",
            "[a]\nsetenv =\n  Y = 1\n  X = 1\n  B = 2\n",
            "[a]\nsetenv =\n  B = 2\n",
        ),
        ("dockerfile", "ENV X=1 A=2\n", "ENV Y=1 X=1 A=2\n", "ENV A=2\n"),
        ("dockerfile", "ENV A=2 \\\n  X=1\n", "ENV A=2 \\\n  Y=1 X=1\n", "ENV A=2\n"),
        ("dockerfile", "ENV X a b\nRUN X=1 b\n", "ENV Y a b\nENV X a b\nRUN Y=1 X=1 b\n", "RUN b\n"),
    ],
)
def test_settings_in_lines(kind: str, text: str, twice: str, gone: str) -> None:
    assert doubled(text, kind) == twice
    assert removed(text, kind) == gone


def test_dockerfile_instructions_span_their_lines() -> None:
    text = "# c\nFROM a AS b\nRUN x && \\\n  # c\n\n  y\nRUN <<EOF\nz\nEOF\nCMD q\n"
    found = [(one.name, text[one.start : one.end]) for one in dockerfile.instructions(text)]
    assert found[0] == ("FROM", "a AS b\n")
    assert found[-2] == ("RUN", "<<EOF\nz\nEOF\n")
    assert found[-1] == ("CMD", "q\n")


def test_requirements_everywhere() -> None:
    def named(text: str, kind: str) -> list[tuple[str, str]]:
        return [(one.name, one.specifier) for one in document(text, kind).requirements]

    assert named("-r a\n# b\nTorch_X[y]>=1 ; os_name == 'nt'  # c\nz @ https://e/z-1.whl\n", "requirements") == [
        ("torch-x", ">=1"),
        ("z", "@ https://e/z-1.whl"),
    ]
    assert named('[project]\ndependencies = ["a<2"]\n[tool.poetry.dependencies]\nb = {version = "^1"}\n', "toml") == [
        ("a", "<2"),
        ("b", "^1"),
    ]
    assert named("dependencies:\n  - a=1\n  - pip:\n    - b==2\n", "yaml") == [("a", "=1"), ("b", "==2")]
    assert named("pip install -r x -i y a==1 'b<2'\nconda install c=3\necho d==4\n", "shell") == [
        ("a", "==1"),
        ("b", "<2"),
        ("c", "=3"),
    ]
    assert named("[options]\ninstall_requires =\n  a>1  # c\n", "cfg") == [("a", ">1")]


SCRIPTS = [
    ("yaml", "- run: 'pip install torch==1'\n", "torch==1"),
    ("yaml", "- run: 'cd x && pip install torch==1 && y'\n", "torch==1"),
    ("yaml", "- run: 'pip install \"torch==1\"'\n", '"torch==1"'),
    ("yaml", "- run: 'é ''q'' && pip install ''torch==1'''\n", "''torch==1''"),
    ("yaml", '- run: "pip install \\"torch==1\\""\n', '\\"torch==1\\"'),
    ("yaml", '- run: "cd a\\npip install \\x74orch==1"\n', "\\x74orch==1"),
    ("yaml", '- run: "pip install\\\n    \\ torch==1"\n', "torch==1"),
    ("yaml", "- run: pip install\r\n    torch==1\r\n", "torch==1"),
    ("yaml", "- run: 'pip install\n\n\n    y; pip install\n    torch==1'\n", "torch==1"),
    ("yaml", "- run: >-  # c\n    pip install\n    torch==1\n- b\n", "torch==1"),
    ("yaml", "- run: >\r\n    cd x\r\n\r\n    pip install\r\n    torch==1\r\n\r\n- b\r\n", "torch==1"),
    ("yaml", "- run: >+\n    cd x\n\n      pip install torch==1\n    y\n\n", "torch==1"),
    ("yaml", "command: [pip, install, 'torch==1']\n", "'torch==1'"),
    ("yaml", "command: [bash, -lc, 'pip install torch==1']\n", "torch==1"),
    ("yaml", '{{ if x }}\n- run: "pip install \\"torch==1\\""\n', '\\"torch==1\\"'),
    ("yaml", "{{ if x }}\n- 'pip install ''torch==1'''\n", "''torch==1''"),
    ("json", '{"a": "pip install \\"torch==1\\""}', '\\"torch==1\\"'),
    ("json", '{"args": ["install", "x"], "cmd": ["pip", "install", "torch==1"]}', '"torch==1"'),
    ("toml", "a = 'pip install \"torch==1\"'\n", '"torch==1"'),
    ("toml", 'a = """\ncd \\"x\\"\npip install torch==1"""\n', "torch==1"),
    ("shell", "bash -lc 'cd x && pip install torch==1'\n", "torch==1"),
    ("dockerfile", 'RUN ["pip", "install", "torch==1"]\n', '"torch==1"'),
    (
        "dockerfile",
        'RUN --mount=type=cache \\\n  ["bash", "-c", \\\n  # c\n  "cd x && pip install torch==1"]\n',
        "torch==1",
    ),
    ("dockerfile", 'HEALTHCHECK --interval=5m CMD ["pip", "install", "torch==1"]', '"torch==1"'),
]


@pytest.mark.parametrize(("kind", "text", "written"), SCRIPTS)
def test_quotes_and_lists_hide_no_command(kind: str, text: str, written: str) -> None:
    found = [one for one in document(text, kind).requirements if one.name == "torch"]
    assert [(one.specifier, text[one.start : one.end]) for one in found] == [("==1", written)]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("yaml", "- 'Then run pip install torch==1 by hand.'\n"),
        ("yaml", "description: 'pip install torch==1 first'\n"),
        ("yaml", "- 'say `pip install torch==1`'\n"),
        ("yaml", "words: [pip, install, torch==1]\n"),
        ("dockerfile", 'LABEL a=["pip", "install", "torch==1"]\n'),
        ("shell", "grep -c 'pip install torch==1' x\n"),
    ],
)
def test_prose_is_no_command(kind: str, text: str) -> None:
    assert document(text, kind).requirements == ()


@given(st.text(alphabet="ab'\"\\\t\n é\x07;", max_size=30), st.sampled_from(["'", '"', "json"]), st.integers(5, 40))
@settings(max_examples=300, deadline=None)
def test_words_of_a_quoted_scalar_are_those_of_its_value(script: str, style: str, width: int) -> None:
    value = f"x y {script}"
    text = json.dumps([value]) if style == "json" else yaml.dump([value], default_style=style, width=width)
    commands = document(text, "json" if style == "json" else "yaml").commands
    assert [[w.text for w in one.words] for one in commands] == [
        [w.text for w in one.words] for one in shell.commands(value)
    ]
    extents = [(w.start, w.end) for one in commands for w in one.words]
    assert all(low < high for low, high in extents)
    assert extents == sorted(extents)


# -- in the engine ---------------------------------------------------------------------------------------------

SAMPLES = {
    "shell": f"#!/bin/sh\r\nexport {OLD}=1\n{OLD}=1 run",
    "yaml": f"a:\n  {OLD}: 1\r\n  b: 2\n# é\n",
    "toml": f"[a]\n{OLD} = '1'\n",
    "json": f'{{"{OLD}": "1", "é": 1}}',
    "dockerfile": f"ENV {OLD}=1 b=2\n",
    "env": f"{OLD}=1",
    "makefile": f"export {OLD} = 1\n",
    "cfg": f"[a]\nsetenv =\n\t{OLD} = 1\n",
}


def run(kind: str, data: bytes, policy: Policy, torch: str = "2.15") -> FileResult:
    return process("file", data, [FlightRecorderEnv()], Project(torch_min=torch), policy, kind)


@pytest.mark.parametrize("kind", SAMPLES)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1"])
def test_only_the_name_changes(kind: str, encoding: str) -> None:
    data = SAMPLES[kind].encode(encoding)
    result = run(kind, data, EVERYTHING)
    assert not result.errors
    assert result.after == data.replace(OLD.encode(), NEW.encode())
    assert run(kind, result.after, EVERYTHING).findings == ()


@pytest.mark.parametrize("kind", SAMPLES)
def test_both_names_are_offered_once(kind: str) -> None:
    result = run(kind, SAMPLES[kind].encode(), EVERYTHING, "2.14")
    assert result.after is not None
    assert result.after.count(NEW.encode()) == result.after.count(OLD.encode()) == SAMPLES[kind].count(OLD)
    assert run(kind, result.after, EVERYTHING, "2.14").findings == ()


@pytest.mark.parametrize("kind", sorted(set(SAMPLES) - {"json"}))
def test_a_comment_silences(kind: str) -> None:
    data = SAMPLES[kind].encode()
    first = run(kind, data, EVERYTHING).findings[0]
    silenced = run(kind, data, Policy(decisions={first.decision_key: Decision(Verdict.SUPPRESS)}))
    assert silenced.after is not None
    again = run(kind, silenced.after, EVERYTHING)
    assert next(f.suppressed for f in again.findings) == ""


MARK = "# torchmigrate: ignore[TM601] why"
IN_COMMENTS = {
    "shell": [
        f"export {OLD}=1  {MARK}\n",
        f"{MARK}\nexport {OLD}=1\n",
        f"echo 'a # b' \"c # d\" \\# ${{x#y}}; export {OLD}=1 {MARK}\n",
        f"cat <<'EOF'\nexport {OLD}=1 {MARK}\nEOF\n",
        f"x=$'it\\'s'; export {OLD}=1 {MARK} isn't it\n",
        f"# don't\nexport {OLD}=1\t{MARK}\r\n",
    ],
    "yaml": [
        f"{OLD}: 1  {MARK}\n",
        f"a: don't\n{MARK}\n{OLD}: 'x # y'\n",
        f"a:\n- 'it''s' # b\n- {OLD}=1 {MARK}\n",
        f"run: |\n  export {OLD}=1  {MARK}\n",
        f"run: |  {MARK.replace('ignore', 'ignore-file')}\n  export {OLD}=1\n",
        f"a: |\n  x\n{MARK}\n{OLD}: 1\n",
        f"{{% if a %}}\n{OLD}: 1  {MARK}\n{{% endif %}}\n",
    ],
    "toml": [f"{OLD} = 'a # b'  {MARK}\n", f"{MARK}\n{OLD} = 1\n", f'a = """#"""\n{OLD} = "\\"#" {MARK}\n'],
    "json": [
        f'{{"{OLD}": 1}} // torchmigrate: ignore[TM601] why\n',
        f'{{\n  // torchmigrate: ignore[TM601] why\n  "{OLD}": "//"}}\n',
    ],
    "dockerfile": [
        f"{MARK}\nENV {OLD}=1\n",
        f"RUN export {OLD}=1 {MARK}\n",
        f"ENV A=1 \\\n  {MARK}\n  {OLD}=1\n",
        f"RUN <<EOF\nexport {OLD}=1 {MARK}\nEOF\n",
    ],
    "env": [f"{MARK}\n{OLD}=1\n", f"{OLD}='a # b' {MARK}\n", f"A=don't\n{OLD}=1 {MARK}"],
    "makefile": [
        f"export {OLD} = 1 {MARK}\n",
        f"a:\n\texport {OLD}=1 {MARK}\n",
        f'{MARK}\n{OLD} := \\# "\n',
    ],
    "cfg": [f"[a]\nsetenv =\n\t{OLD} = it's {MARK}\n", f"[a]\n{MARK}\n{OLD} = 1\n"],
}
IN_TEXT = {
    "shell": [
        f'echo "{MARK}"; export {OLD}=1\n',
        f"echo '{MARK}'; export {OLD}=1\n",
        f"echo \\{MARK}; export {OLD}=1\n",
        f"echo a{MARK}; export {OLD}=1\n",
        f"echo 'a\n{MARK}\n'; export {OLD}=1\n",
        f"x=$(cat '{MARK}'); export {OLD}=1\n",
    ],
    "yaml": [
        f'a: ["{MARK}", {OLD}=1]\n',
        f"a: ['{MARK}', {OLD}=1]\n",
        f"a:\n- x{MARK}\n- {OLD}=1\n",
        f"run: >\n  {MARK}\n  export {OLD}=1\n",
        f"run: |\n  echo '{MARK}'; export {OLD}=1\n",
        f"{{% if a %}}\n{OLD}: 'a {MARK}'\n{{% endif %}}\n",
    ],
    "toml": [f"{OLD} = '{MARK}'\n", f'a = """\n{MARK}\n"""\n{OLD} = 1\n', f'a = ["\\"{MARK}", "{OLD}=1"]\n'],
    "json": [
        f'{{"// torchmigrate: ignore[TM601] why": 1, "{OLD}": 1}}\n',
        f'{{"{MARK}": "",\n"{OLD}": 1}}\n',
        f'{{"a": "\\"// torchmigrate: ignore[TM601]", "{OLD}": 1}}',
    ],
    "dockerfile": [
        f"ENV {OLD}=1 A=1 {MARK}\n",
        f'RUN echo "{MARK}" && export {OLD}=1\n',
        f'CMD ["sh", "-c", "{MARK}\\n {OLD}=1 a"]\n',
    ],
    "env": [f'{OLD}="{MARK}"\n', f"{OLD}=a{MARK}\n", f"A='\n{MARK}\n'\n{OLD}=1\n"],
    "makefile": [f"export {OLD} = \\{MARK}\n", f"a:\n\techo '{MARK}'; export {OLD}=1\n"],
    "cfg": [f"[a]\nsetenv =\n\t{OLD} = '{MARK}'\n"],
}


def of_each(samples: dict[str, list[str]]) -> list[Any]:
    return [pytest.param(kind, text, id=f"{kind} {text!r}") for kind in samples for text in samples[kind]]


@pytest.mark.parametrize(("kind", "text"), of_each(IN_COMMENTS))
def test_words_in_a_comment_silence(kind: str, text: str) -> None:
    result = run(kind, text.encode(), EVERYTHING)
    assert {f.suppressed[:3] if f.suppressed is not None else None for f in result.findings} == {"why"}
    assert (result.after, result.errors) == (None, ())


@pytest.mark.parametrize(("kind", "text"), of_each(IN_TEXT))
def test_words_in_a_string_silence_nothing(kind: str, text: str) -> None:
    result = run(kind, text.encode(), EVERYTHING)
    assert result.findings
    assert {f.suppressed for f in result.findings} == {None}
    assert result.errors == ()


def test_comments_of_c() -> None:
    text = 'a("// x"); // one\nb(R"y(// )" z)y"); /* two\nthree */ c(\'"\'); // four'
    found = [text[start:end] for start, end in comments.extents(text, "cpp")]
    assert found == ["// one", "/* two\nthree */", "// four"]


def test_comments_of_requirements() -> None:
    text = "# one\na @ https://x/#egg=a  # two\nb#c\n"
    assert [text[start:end] for start, end in comments.extents(text, "requirements")] == ["# one", "# two"]


@given(st.sampled_from(sorted(SAMPLES)), st.text(alphabet="ab'\"#\\ \n\t=:-|>[]{}$()<E", max_size=40))
def test_comments_begin_with_their_mark_and_end_with_the_line(kind: str, text: str) -> None:
    for start, end in comments.extents(text, kind):
        assert 0 <= start < end <= len(text)
        assert text[start] in "#/"
        assert kind in ("json", "makefile") or "\n" not in text[start:end]


def test_no_comment_in_lines_that_are_folded() -> None:
    data = f"run: >\n  export {OLD}=1;\n  job\n".encode()
    first = run("yaml", data, EVERYTHING).findings[0]
    assert run("yaml", data, Policy(decisions={first.decision_key: Decision(Verdict.SUPPRESS)})).after is None


def test_no_comment_inside_a_continued_command() -> None:
    data = f"run \\\n  -e {OLD}=1 \\\n  job\n".encode()
    first = run("shell", data, EVERYTHING).findings[0]
    assert run("shell", data, Policy(decisions={first.decision_key: Decision(Verdict.SUPPRESS)})).after is None


def test_changes_of_two_rules_in_one_line_come_together() -> None:
    rules = [FlightRecorderEnv(), NcclEnvDead()]
    data = f"export {OLD}=1 TORCH_NCCL_AVOID_RECORD_STREAMS=1 A=2\n".encode()
    for order in (rules, rules[::-1]):
        result = process("file", data, order, Project(), EVERYTHING, "shell")
        assert result.after == f"export {NEW}=1 A=2\n".encode()


def test_an_unreadable_file_is_an_error() -> None:
    result = run("yaml", b"a: [\n" + OLD.encode(), EVERYTHING)
    assert [error.code for error in result.errors] == ["TM001"]
    assert result.findings == ()


def test_positions_count_characters() -> None:
    source, found = open_document("f", f"é: 1\nü: {{{OLD}: 1}}\n".encode(), Project(), "yaml")
    assert isinstance(found, Document)
    (use,) = found.uses([OLD])
    span, cell = found.span(use.start, use.end)
    assert (span.line, span.column, span.end_column, cell) == (2, 5, 5 + len(OLD), None)
    assert Extent(use.start, use.end, OLD).normal == OLD
    assert source.encode(found.text) == f"é: 1\nü: {{{OLD}: 1}}\n".encode()
