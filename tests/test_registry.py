"""Finding codemods and picking among them."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from torchmigrate import registry
from torchmigrate.codemod import Codemod
from torchmigrate.entries import GROUP, entry_points
from torchmigrate.model import Override, Selection, UsageError

RULES = '''
from torchmigrate.codemod import Codemod

class {name}(Codemod):
    """A rule."""
    code, name, area = "{code}", "{rule}", "{area}"
    triggers = (b"trigger",)
    default = {default}
'''


def write_rule(path: Path, code: str, *, area: str = "toys", default: bool = True) -> Path:
    path.write_text(
        RULES.format(name=f"Rule{code}", code=code, rule=f"rule-{code.lower()}", area=area, default=default)
    )
    return path


@pytest.fixture
def known(tmp_path: Path) -> registry.Registry[type[Codemod]]:
    files = [
        write_rule(tmp_path / "a.py", "XX201"),
        write_rule(tmp_path / "b.py", "XX101", area="other"),
        write_rule(tmp_path / "c.py", "XX202", default=False),
        write_rule(tmp_path / "d.py", "XX1001", area="other"),
    ]
    return registry.load([str(file) for file in files], path=[])


def codes(found: list[type[Codemod]]) -> list[str]:
    return [codemod.code for codemod in found]


def distribution(folder: Path, name: str, entry_points: str, ending: str = "dist-info") -> None:
    inside = folder / (f"{name}-1.0.{ending}" if ending != "egg" else f"{name}-1.0-py3.11.egg/EGG-INFO")
    inside.mkdir(parents=True)
    (inside / "entry_points.txt").write_text(entry_points)


class TestEntryPoints:
    def test_are_those_that_importlib_finds(self) -> None:
        expected = {(e.name, e.value) for e in importlib.metadata.entry_points(group=GROUP)}
        assert expected
        assert {(e.name, e.value) for e in entry_points()} == expected

    def test_come_from_every_kind_of_metadata_folder(self, tmp_path: Path) -> None:
        for ending in ("dist-info", "egg-info", "egg"):
            text = f"[console_scripts]\nx = y:z\n\n[{GROUP}]\n# note\n{ending}=m.{ending}:C\n[other]\na = b\n"
            distribution(tmp_path, ending, text, ending)
        found = entry_points([str(tmp_path), str(tmp_path / "missing")])
        assert {e.name: e.value for e in found} == {e: f"m.{e}:C" for e in ("dist-info", "egg-info", "egg")}

    def test_first_folder_wins_for_a_distribution(self, tmp_path: Path) -> None:
        for folder, value in (("one", "first:C"), ("two", "second:C")):
            distribution(tmp_path / folder, "My_Rules", f"[{GROUP}]\nrules = {value}\n")
        distribution(tmp_path / "two", "more", f"[{GROUP}]\nrules = third:C\n")
        found = entry_points([str(tmp_path / "one"), str(tmp_path / "two")])
        assert [(e.distribution, e.value) for e in found] == [("more", "third:C"), ("my-rules", "first:C")]

    def test_come_from_an_archive_on_the_path(self, tmp_path: Path) -> None:
        archive = tmp_path / "rules.whl"
        with zipfile.ZipFile(archive, "w") as wheel:
            wheel.writestr("rules-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: rules\nVersion: 1.0\n")
            wheel.writestr("rules-1.0.dist-info/entry_points.txt", f"[{GROUP}]\nzipped = rules:C\n")
        assert [(e.name, e.value) for e in entry_points([str(archive)])] == [("zipped", "rules:C")]


class TestSelect:
    def test_nothing_selected_takes_what_is_on_by_default(self, known: registry.Registry[type[Codemod]]) -> None:
        assert codes(known.select()) == ["XX101", "XX201", "XX1001"]

    @pytest.mark.parametrize(
        ("words", "expected"),
        [
            pytest.param(["XX201"], ["XX201"], id="code"),
            pytest.param(["xx201"], ["XX201"], id="code in lower case"),
            pytest.param(["XX2"], ["XX201"], id="prefix leaves out what is off"),
            pytest.param(["XX202"], ["XX202"], id="code of one that is off"),
            pytest.param(["rule-xx202"], ["XX202"], id="name of one that is off"),
            pytest.param(["other"], ["XX101", "XX1001"], id="area"),
            pytest.param(["ALL"], ["XX101", "XX201", "XX1001"], id="all"),
            pytest.param(["XX201,rule-xx101"], ["XX101", "XX201"], id="list"),
        ],
    )
    def test_words(self, known: registry.Registry[type[Codemod]], words: list[str], expected: list[str]) -> None:
        assert codes(known.select(words)) == expected

    def test_ignore_wins(self, known: registry.Registry[type[Codemod]]) -> None:
        assert codes(known.select(["XX"], ["XX10"])) == ["XX201"]
        assert codes(known.select(ignore=["other"])) == ["XX201"]

    @pytest.mark.parametrize(
        ("word", "said"),
        [
            pytest.param("XX11", "unknown code XX11 in --select; did you mean XX101?", id="code"),
            pytest.param("rule-xx20", "unknown rule rule-xx20 in --select; did you mean rule-xx20[12]?", id="name"),
            pytest.param("othr", "unknown rule othr in --select; did you mean other?", id="area"),
            pytest.param("nonsense", "unknown rule nonsense in --select; torchmigrate list shows all", id="neither"),
        ],
    )
    def test_unknown_word_gets_a_hint(self, known: registry.Registry[type[Codemod]], word: str, said: str) -> None:
        with pytest.raises(UsageError, match=f"^{said.replace('?', '[?]')}$"):
            known.select([word])
        with pytest.raises(UsageError, match="in --ignore"):
            known.select(ignore=[word])

    def test_no_codemods_is_never_clean(self) -> None:
        with pytest.raises(UsageError, match="no codemods are installed"):
            registry.load(path=[]).select()

    def test_override_narrows_and_sets_options(self, known: registry.Registry[type[Codemod]]) -> None:
        chosen = Selection(("XX101", "XX201"), {"XX101": {"a": "1", "b": "2"}})
        override = Override(".", ("tests",), ignore=("XX2",), options={"XX101": {"b": "3"}})
        assert registry.overridden(known, chosen, override) == Selection(("XX101",), {"XX101": {"a": "1", "b": "3"}})
        assert registry.overridden(known, chosen, Override(".", ("t",), select=("XX20",))).codes == ("XX201",)


class TestLoad:
    def test_file_with_a_tuple_offers_only_that(self, tmp_path: Path) -> None:
        file = write_rule(tmp_path / "rules.py", "XX101")
        file.write_text(file.read_text() + "class Hidden(RuleXX101):\n    code = 'XX102'\nCODEMODS = (RuleXX101,)\n")
        assert codes(list(registry.load([str(file)], path=[]).codemods)) == ["XX101"]

    def test_missing_file_is_a_usage_error(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match=r"no such file: .*gone\.py"):
            registry.load([str(tmp_path / "gone.py")], path=[])

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            pytest.param("1 / 0", "ZeroDivisionError", id="raises"),
            pytest.param("import no_such_module", "ModuleNotFoundError", id="import fails"),
            pytest.param("def (", "SyntaxError", id="no Python"),
            pytest.param("CODEMODS = 3", "expected a tuple of Codemod classes, found int", id="no tuple"),
            pytest.param("", "no codemod in it", id="empty"),
            pytest.param("CODEMODS = (int,)", "is not a subclass of", id="other class"),
            pytest.param(
                "from torchmigrate.codemod import Codemod\nclass A(Codemod):\n    code, name = 'XX9', 'a'",
                "XX9 needs triggers",
                id="no triggers",
            ),
            pytest.param(
                "from torchmigrate.codemod import Codemod\nclass A(Codemod):\n    triggers = (b'x',)",
                "A needs a code such as TM101",
                id="no code",
            ),
        ],
    )
    def test_broken_plugin_is_an_error_and_the_rest_loads(self, tmp_path: Path, text: str, said: str) -> None:
        broken = tmp_path / "broken.py"
        broken.write_text(text)
        good = write_rule(tmp_path / "good.py", "XX101")
        loaded = registry.load([str(broken), str(good)], path=[])
        assert codes(list(loaded.codemods)) == ["XX101"]
        (error,) = loaded.errors
        assert (error.path, error.code) == (str(broken), "TM003")
        assert said in error.message

    def test_broken_plugin_is_named_when_nothing_else_is_there(self, tmp_path: Path) -> None:
        broken = tmp_path / "broken.py"
        broken.write_text("1 / 0")
        with pytest.raises(UsageError, match=r"TM003 .*ZeroDivisionError"):
            registry.load([str(broken)], path=[]).select()

    def test_second_rule_of_a_code_is_refused(self, tmp_path: Path) -> None:
        files = [str(write_rule(tmp_path / f"{name}.py", "XX101")) for name in ("a", "b")]
        loaded = registry.load(files, path=[])
        assert len(loaded.codemods) == 1
        assert "XX101 is already the code of" in loaded.errors[0].message

    def test_plugin_of_another_distribution(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        write_rule(tmp_path / "stranger_rules.py", "YY1")
        (tmp_path / "stranger_rules.py").open("a").write("CODEMODS = (RuleYY1,)\n")
        distribution(tmp_path, "stranger", f"[{GROUP}]\nrules = stranger_rules:CODEMODS\n")
        monkeypatch.syspath_prepend(str(tmp_path))
        found = registry.load()
        assert "YY1" in codes(list(found.codemods))
        assert len(found.codemods) > 1
        del sys.modules["stranger_rules"]


class TestRules:
    PROGRAM = (
        "import sys; from torchmigrate import registry\n"
        "found = registry.rules()\n"
        "codes = [rule.code for rule in found.codemods if rule.code in ('YY1', 'TM401')]\n"
        "print(codes, [error.code for error in found.errors])\n"
        "print(sorted(name for name in sys.modules if name in ('torchmigrate_codemods', 'stranger')))\n"
        "assert [registry.Rule.of(one) for one in registry.load().codemods] == list(found.codemods)\n"
    )

    @pytest.fixture
    def run(self, tmp_path: Path) -> Callable[[], list[str]]:
        (tmp_path / "stranger").mkdir()
        distribution(tmp_path, "stranger", f"[{GROUP}]\nrules = stranger:CODEMODS\n")
        environment = {**os.environ, "PYTHONPATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}

        def run() -> list[str]:
            command = [sys.executable, "-B", "-c", self.PROGRAM]
            done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
            return done.stdout.splitlines()

        return run

    def write(self, tmp_path: Path, code: str) -> None:
        file = write_rule(tmp_path / "stranger" / "__init__.py", code)
        file.open("a").write(f"CODEMODS = (Rule{code},)\n")

    def test_second_time_no_rule_is_imported(self, tmp_path: Path, run: Callable[[], list[str]]) -> None:
        self.write(tmp_path, "YY1")
        assert run() == ["['TM401', 'YY1'] []", "['stranger', 'torchmigrate_codemods']"]
        assert run() == ["['TM401', 'YY1'] []", "[]"]

    def test_changed_rules_are_seen(self, tmp_path: Path, run: Callable[[], list[str]]) -> None:
        self.write(tmp_path, "YY22")
        assert run()[0] == "['TM401'] []"
        self.write(tmp_path, "YY1")
        assert run()[0] == "['TM401', 'YY1'] []"

    def test_rules_beside_a_broken_plugin_are_not_kept(self, tmp_path: Path, run: Callable[[], list[str]]) -> None:
        (tmp_path / "stranger" / "__init__.py").write_text("1 / 0")
        for _ in range(2):
            assert run() == ["['TM401'] ['TM003']", "['torchmigrate_codemods']"]
