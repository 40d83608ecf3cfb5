"""Whole runs over real folders, with real worker processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from unprivileged import permissions_count

from torchmigrate import migration as migration_module
from torchmigrate import scan
from torchmigrate.discover import Batch
from torchmigrate.migration import Migration
from torchmigrate.model import (
    EVERYTHING,
    LOOK,
    Decision,
    FileResult,
    Override,
    Policy,
    Safety,
    Selection,
    Settings,
    UsageError,
    Verdict,
)
from torchmigrate.pool import ExecutorPool
from torchmigrate.sieve import Wanted

SETTLED = scan.SETTLED
RULES = '''
import ast
import ctypes
import faulthandler
import os
import time
from torchmigrate.codemod import Codemod, Option
from torchmigrate.edits import SetArgument


class Marker(Codemod):
    """Mark calls."""

    code, name, area = "XX101", "marker", "toys"
    triggers = (b"mark_me",)
    options = {"word": Option("1")}

    def check(self, module):
        with open(os.environ["LOOKS"], "a") as log:
            log.write(module.path + "\\n")
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Call) and module.source(node.func) == "mark_me":
                text = module.source(node)
                if "crash" in text:
                    faulthandler.disable()
                    ctypes.string_at(0)
                if "hang" in text:
                    time.sleep(600)
                if "marked" not in text:
                    torch = module.project.torch_min
                    edit = SetArgument(node, "marked", str(self.settings["word"]))
                    yield self.change(node, edit, message=f"marked for {torch}")


class Gatherer(Codemod):
    """Report how many files of the project tell something."""

    code, name, area, default = "XX201", "gatherer", "toys", False
    triggers = (b"tell_me", b"ask_me")
    gathers = True

    def facts(self, module):
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Call) and module.source(node.func) == "tell_me":
                yield "told", ast.literal_eval(node.args[0])

    def check(self, module):
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Call) and module.source(node.func) == "ask_me":
                yield self.report(node, repr(module.project.facts.get("told", ())))


class Follower(Codemod):
    """Report what follows, where the project tells something."""

    code, name, area, default = "XX202", "follower", "toys", False
    triggers = (b"follow_me", b"lead_me")
    awaits = {b"follow_me": "told"}

    def check(self, module):
        with open(os.environ["LOOKS"], "a") as log:
            log.write(module.path + "\\n")
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Call) and module.source(node.func) in ("follow_me", "lead_me"):
                yield self.report(node, repr(module.project.facts.get("told", ())))


class Noter(Codemod):
    """Report C++ headers: another format than Python."""

    code, name, area, default = "XX301", "noter", "toys", False
    triggers = (b"note_me",)
'''


class Place:
    """A folder with files, the toy rules, a log of what rules looked at, and a cache of its own."""

    def __init__(self, folder: Path, beside: Path) -> None:
        self.folder, self.rules, self.log = folder, beside / "rules.py", beside / "looks"
        self.rules.write_text(RULES)
        folder.mkdir()

    def write(self, **files: str) -> None:
        for name, text in files.items():
            self.put(name.replace("__", "/") + ".py", text)

    def put(self, name: str, text: str | bytes) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    def settings(self, *paths: str, **more: Any) -> Settings:
        given: dict[str, Any] = {"select": ("XX101",), "load": (str(self.rules),), "jobs": 2, "cache": False}
        return Settings(paths=paths or (".",), **{**given, **more})

    def run(self, *paths: str, policy: Policy = LOOK, **more: Any) -> tuple[dict[str, FileResult], Migration]:
        self.log.write_text("")
        with Migration(self.settings(*paths, **more), policy=policy) as migration:
            results = list(migration.run())
        by_path = {result.path: result for result in results}
        assert len(by_path) == len(results)
        return by_path, migration

    @property
    def looked_at(self) -> list[str]:
        return sorted(self.log.read_text().splitlines())


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    made = Place(tmp_path / "work", tmp_path)
    monkeypatch.chdir(made.folder)
    monkeypatch.setenv("LOOKS", str(made.log))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    yield made


class TestRun:
    def test_only_files_with_a_trigger_are_looked_at(self, place: Place) -> None:
        place.write(a="mark_me(1)\n", b="x = 1\n", c="mark_me(1, marked=1)\n", pkg__d="mark_me(2)\n")
        results, migration = place.run()
        assert sorted(results) == ["a.py", "pkg/d.py"]
        assert place.looked_at == ["a.py", "c.py", "pkg/d.py"]
        assert (migration.counts.seen, migration.counts.looked_at) == (4, 3)
        (finding,) = results["pkg/d.py"].findings
        assert (finding.path, finding.code, finding.span.line, finding.after) == (
            "pkg/d.py",
            "XX101",
            1,
            "mark_me(2, marked=1)",
        )
        assert results["a.py"].after is None

    def test_policy_decides_what_is_written(self, place: Place) -> None:
        place.write(a="mark_me(1)\n", b="mark_me(2)\n")
        results, _ = place.run(policy=EVERYTHING)
        assert {path: result.after for path, result in results.items()} == {
            "a.py": b"mark_me(1, marked=1)\n",
            "b.py": b"mark_me(2, marked=1)\n",
        }

    def test_one_file_again_with_decisions(self, place: Place) -> None:
        place.write(a="mark_me(1)\nmark_me(2)\n")
        with Migration(place.settings()) as migration:
            (result,) = migration.run()
            first, second = (finding.decision_key for finding in result.findings)
            policy = Policy(decisions={second: Decision(Verdict.ACCEPT)})
            again = migration.process_one("a.py", policy)
            assert again.after == b"mark_me(1)\nmark_me(2, marked=1)\n"
            policy = Policy(frozenset({Safety.SAFE}), {second: Decision(Verdict.DECLINE)})
            assert migration.process_one("./a.py", policy).after == b"mark_me(1, marked=1)\nmark_me(2)\n"
            assert first != second

    def test_results_stream_while_others_hang(self, place: Place) -> None:
        place.write(a="mark_me(1)\n", b="mark_me('hang')\n")
        with Migration(place.settings()) as migration:
            assert next(migration.run()).path == "a.py"

    def test_crash_and_hang_cost_their_own_file_only(self, place: Place) -> None:
        place.write(a="mark_me('crash')\n", b="mark_me('hang')\n", c="mark_me(1)\n", d="mark_me(2)\n", e="def (mark_me")
        results, _ = place.run(timeout=2.0)
        assert [path for path in sorted(results) if results[path].findings] == ["c.py", "d.py"]
        errors = {path: (e.code, e.message) for path in results for e in results[path].errors}
        assert errors["a.py"] == ("TM005", "the worker crashed on this file (signal 11); left as it was")
        assert errors["b.py"] == ("TM004", "gave up after 2 s (0.0 MB); raise --timeout or exclude it")
        assert errors["e.py"][0] == "TM001"

    def test_more_files_than_one_process_scans(self, place: Place) -> None:
        for n in range(3000):
            place.put(f"d{n % 10}/f{n}.py", "mark_me(1)\n" if n % 300 == 0 else "x = 1\n")
        for jobs in (1, 3):
            results, migration = place.run(jobs=jobs)
            assert len(results) == 10
            assert (migration.counts.seen, migration.counts.looked_at) == (3000, 10)

    def test_selection_is_data(self, place: Place) -> None:
        place.write(a="mark_me(1)\n")
        selection = Selection(("XX101",), {"XX101": {"word": "7"}}, (str(place.rules),))
        with Migration(place.settings(), selection, EVERYTHING) as migration:
            (result,) = migration.run()
        assert result.after == b"mark_me(1, marked=7)\n"

    def test_unknown_rule_is_a_usage_error(self, place: Place) -> None:
        with pytest.raises(UsageError, match="unknown code XX999"):
            place.run(select=("XX999",))

    def test_missing_path_is_a_usage_error(self, place: Place) -> None:
        with pytest.raises(UsageError, match="no such file or folder: gone"):
            place.run("gone")

    def test_broken_plugin_is_an_error_of_the_run(self, place: Place, tmp_path: Path) -> None:
        place.write(a="mark_me(1)\n")
        (tmp_path / "broken.py").write_text("1 / 0")
        results, migration = place.run(load=(str(place.rules), str(tmp_path / "broken.py")))
        assert list(results) == ["a.py"]
        assert [(error.path, error.code) for error in migration.errors] == [(str(tmp_path / "broken.py"), "TM003")]

    def test_any_executor_does_the_work(self, place: Place) -> None:
        from concurrent.futures import ThreadPoolExecutor

        place.write(a="mark_me(1)\n", b="x = 1\n", c="mark_me(2)\n")
        here, _ = place.run(policy=EVERYTHING)
        with (
            ThreadPoolExecutor(2) as executor,
            Migration(
                place.settings(),
                policy=EVERYTHING,
                engine=lambda prepare, given: ExecutorPool(executor, prepare, given),
            ) as there,
        ):
            assert {result.path: result for result in there.run()} == here

    def test_progress_is_told(self, place: Place) -> None:
        place.write(**{f"f{n}": "mark_me(1)\n" for n in range(20)})
        told: list[tuple[int, int]] = []
        with Migration(place.settings(), progress=lambda c, waiting: told.append((c.looked_at, waiting))) as migration:
            assert len(list(migration.run())) == 20
        assert told[-1] == (20, 0)
        assert len(told) == 20


class TestProjects:
    def test_each_file_has_the_bounds_of_its_project(self, place: Place) -> None:
        for name, bound in (("one", "2.6"), ("two", "2.9")):
            place.put(f"{name}/pyproject.toml", f"[project]\nname = 'p'\ndependencies = ['torch>={bound}']\n")
            place.put(f"{name}/a.py", "mark_me(1)\n")
        results, migration = place.run()
        assert {p: r.findings[0].message for p, r in results.items()} == {
            "one/a.py": "marked for 2.6",
            "two/a.py": "marked for 2.9",
        }
        assert {root: found.torch_min for root, found in migration.projects.items()} == {"one": "2.6", "two": "2.9"}
        results, _ = place.run(min_torch="2.15")
        assert {r.findings[0].message for r in results.values()} == {"marked for 2.15"}

    def test_facts_reach_every_file_of_the_project_in_order(self, place: Place) -> None:
        for project in ("one", "two"):
            place.put(f"{project}/setup.py", "")
        place.write(one__b="tell_me(2)\ntell_me(3)\n", one__a="tell_me(1)\nask_me()\n", one__c="ask_me()\n")
        place.write(two__a="ask_me()\n", two__z="tell_me('other')\n", two__c="x = 1\n")
        for _ in range(2):
            results, _ = place.run(select=("XX201",), cache=True)
            assert {p: r.findings[0].message for p, r in results.items()} == {
                "one/a.py": "(1, 2, 3)",
                "one/c.py": "(1, 2, 3)",
                "two/a.py": "('other',)",
            }
        place.write(one__b="tell_me(5)\n")
        results, migration = place.run(select=("XX201",), cache=True)
        assert results["one/c.py"].findings[0].message == "(1, 5)"
        assert migration.process_one("one/c.py", LOOK).findings[0].message == "(1, 5)"
        migration.close()

    def test_only_files_that_hang_on_facts_of_others_are_looked_at_again(self, place: Place) -> None:
        place.put("setup.py", "")
        place.write(a="tell_me(1)\n", b="tell_me(2)\nmark_me(1)\n", c="ask_me()\nmark_me(2)\n", d="mark_me(3)\n")
        results, _ = place.run(select=("XX201", "XX101"))
        assert sorted(results) == ["b.py", "c.py", "d.py"]
        assert [f.message for f in results["c.py"].findings if f.code == "XX201"] == ["(1, 2)"]
        assert sorted(place.log.read_text().split()) == ["b.py", "c.py", "c.py", "d.py"]

    def test_files_that_wait_for_a_fact_are_looked_at_only_in_projects_that_have_it(self, place: Place) -> None:
        for project in ("one", "two"):
            place.put(f"{project}/setup.py", "")
        place.write(one__a="follow_me()\n", one__b="tell_me(1)\n", one__c="x = 1\n")
        place.write(two__a="follow_me()\n", two__b="follow_me()\nlead_me()\n", two__c="ask_me()\n")
        os.symlink("a.py", place.folder / "one" / "z.py")
        for looked in (["one/a.py", "one/a.py", "two/b.py"], []):
            results, migration = place.run(select=("XX201", "XX202"), cache=True)
            assert {path: [f.message for f in result.findings] for path, result in results.items()} == {
                "one/a.py": ["(1,)"],
                "two/b.py": ["()", "()"],
                "two/c.py": ["()"],
            }
            assert migration.counts.looked_at == 4
            assert place.looked_at == looked
        place.write(two__c="tell_me(2)\n")
        results, _ = place.run(select=("XX201", "XX202"), cache=True)
        assert [f.message for f in results["two/a.py"].findings] == ["(2,)"]
        assert [f.message for f in results["one/a.py"].findings] == ["(1,)"]
        results, _ = place.run("two/a.py", select=("XX201", "XX202"))
        assert not results

    def test_overrides_hold_for_their_files(self, place: Place) -> None:
        place.write(a="mark_me(1)\n", tests__b="mark_me(1)\n", gen__c="mark_me(1)\n")
        folder = str(place.folder)
        overrides = (
            Override(folder, ("tests/",), options={"XX101": {"word": "9"}}),
            Override(folder, ("/gen/**",), ignore=("XX1",)),
        )
        results, _ = place.run(policy=EVERYTHING, overrides=overrides)
        assert {path: result.after for path, result in results.items()} == {
            "a.py": b"mark_me(1, marked=1)\n",
            "tests/b.py": b"mark_me(1, marked=9)\n",
        }


class TestFiles:
    def test_links_are_looked_at_once_and_never_lead_outside(self, place: Place, tmp_path: Path) -> None:
        place.write(real="mark_me(1)\n")
        place.put("target.txt", "mark_me(2)\n")
        (tmp_path / "outside.py").write_text("mark_me(3)\n")
        for name, target in (("again", "real.py"), ("only", "target.txt"), ("out", "../outside.py"), ("dead", "gone")):
            (place.folder / f"{name}.py").symlink_to(target)
        (place.folder / "loop.py").symlink_to("loop.py")
        results, migration = place.run()
        assert sorted(results) == ["only.py", "real.py"]
        assert migration.counts.notes == ("1 link out of the given folders not followed: out.py",)
        named, _ = place.run("out.py")
        assert list(named) == ["out.py"]

    def test_generated_files_are_left_out_and_said(self, place: Place) -> None:
        head = "# Code generated by a tool. DO NOT EDIT\n"
        place.write(a=head + "mark_me(1)\n", b="# @generated by x\nmark_me(1)\n", c="mark_me(1)\n" + "#" * 2000 + head)
        place.write(d="@generated_jit\ndef f(): mark_me(1)\n", e=head)
        results, migration = place.run()
        assert sorted(results) == ["c.py", "d.py"]
        assert migration.counts.notes == ("2 generated files left out: a.py, b.py (add --include-generated)",)
        results, migration = place.run(include_generated=True)
        assert sorted(results) == ["a.py", "b.py", "c.py", "d.py"]
        assert migration.counts.notes == ()
        assert sorted(place.run("a.py")[0]) == ["a.py"]

    @pytest.mark.parametrize("at", [0, 65_530, 65_536, 1_048_570, 1_114_100, 2_500_000])
    def test_large_file_with_a_trigger_is_an_error(self, place: Place, at: int) -> None:
        text = b"#" * at + b"\nmark_me(1)\n" + b"#" * 3_000_000
        place.put("large.py", text)
        place.put("plain.py", b"#" * 4_000_000)
        results, _ = place.run(max_size=1000)
        (error,) = results["large.py"].errors
        said = f"larger than the size limit ({len(text)} bytes, limit 1000); raise --max-size or exclude it"
        assert (list(results), error.code, error.message) == (["large.py"], "TM009", said)
        results, _ = place.run(max_size=10_000_000)
        assert [finding.code for finding in results["large.py"].findings] == ["XX101"]

    @pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
    def test_text_of_wide_characters_that_would_concern_a_rule_is_an_error(self, place: Place, encoding: str) -> None:
        place.put("wide.py", "\ufeffmark_me(1)\n".encode(encoding))
        place.put("other.py", "\ufeffx = 1\n".encode(encoding))
        place.put("bytes.py", b"\xff\xff\0\0")
        place.put("empty.py", b"")
        for _ in range(2):
            results, migration = place.run(cache=True)
            (error,) = results["wide.py"].errors
            said = f"cannot decode: the file is in {encoding[:6].upper()}; save it in UTF-8 (file not looked at)"
            assert (list(results), error.code, error.message) == (["wide.py"], "TM001", said)
            counts = migration.counts
            assert (counts.seen, counts.looked_at, counts.unread) == (4, 0, 1)

    def test_unreadable_file_is_an_error(self, place: Place) -> None:
        place.write(a="mark_me(1)\n", b="mark_me(2)\n", c="x = 1\n")
        for name in ("b.py", "c.py"):
            (place.folder / name).chmod(0)
        program = (
            "import sys; from torchmigrate.migration import *\n"
            "with Migration(Settings(select=('XX101',), load=(sys.argv[1],), cache=False)) as migration:\n"
            "    print(sorted((r.path, [(e.code, e.message) for e in r.errors]) for r in migration.run()))\n"
        )
        command = [sys.executable, "-c", program, str(place.rules)]
        done = subprocess.run(command, capture_output=True, text=True, preexec_fn=permissions_count(), check=True)
        said = [("TM010", "cannot read: Permission denied; not looked at")]
        assert done.stdout == f"{[('a.py', []), ('b.py', said), ('c.py', said)]}\n"

    def test_pipes_and_folders_with_a_file_name_do_no_harm(self, place: Place) -> None:
        os.mkfifo(place.folder / "pipe.py")
        place.put("folder.py/a.py", "mark_me(1)\n")
        assert list(place.run()[0]) == ["folder.py/a.py"]

    def test_file_that_vanishes_after_it_was_listed(self, place: Place) -> None:
        subprocess.run(["git", "init", "-q"], check=True)
        place.write(a="mark_me(1)\n", b="mark_me(2)\n")
        subprocess.run(["git", "add", "."], check=True)
        (place.folder / "a.py").unlink()
        results, _ = place.run()
        assert list(results) == ["b.py"]


class TestCache:
    @pytest.fixture(autouse=True)
    def many(self, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
        """Even a few files are scanned by workers, in batches that are remembered."""
        monkeypatch.setattr(migration_module, "SMALL", -512)
        monkeypatch.setattr(scan, "SETTLED", 0)
        place.write(a="mark_me(1)\n", b="x = 1\n", c="mark_me(1, marked=1)\n")

    def test_second_run_looks_at_nothing_and_gives_the_same(self, place: Place) -> None:
        first, before = place.run(cache=True, policy=EVERYTHING)
        assert place.looked_at == ["a.py", "c.py"]
        second, after = place.run(cache=True, policy=EVERYTHING)
        assert place.looked_at == []
        assert second == first
        assert first["a.py"].after == b"mark_me(1, marked=1)\n"
        assert after.projects == before.projects
        assert (after.counts.seen, after.counts.looked_at, after.counts.notes) == (3, 2, ())

    def test_without_cache_everything_is_looked_at(self, place: Place, tmp_path: Path) -> None:
        place.run(cache=False)
        assert not (tmp_path / "cache").exists()
        place.run(cache=True)
        place.run(cache=False)
        assert place.looked_at == ["a.py", "c.py"]

    @pytest.mark.parametrize("settled", [True, False])
    def test_changes_are_seen(self, place: Place, settled: bool) -> None:
        if settled:
            place.run(cache=True)
        before = (place.folder / "b.py").stat()
        place.write(b="mark_me(3)\n", a="mark_me(7)\n", new="mark_me(4)\n")
        os.utime(place.folder / "b.py", ns=(before.st_atime_ns, before.st_mtime_ns))
        (place.folder / "c.py").unlink()
        results, _ = place.run(cache=True)
        assert {path: result.findings[0].before for path, result in results.items()} == {
            "a.py": "mark_me(7)",
            "b.py": "mark_me(3)",
            "new.py": "mark_me(4)",
        }

    def test_edit_of_the_same_size_right_after_a_run_is_seen(
        self, place: Place, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(scan, "SETTLED", SETTLED)
        for n in range(30):
            place.write(b="x = 1234567\n")
            place.run(cache=True)
            place.write(b=f"mark_me({n:3})\n" if n % 2 else "mark_me(123)")
            results, _ = place.run(cache=True)
            assert "b.py" in results

    def test_batch_in_the_known_state_is_not_read(self, place: Place) -> None:
        scanner = scan.Scanner({"python": (Wanted("XX1", (b"mark_me",), {}),)}, 1000, False)
        batch = Batch("", (b"a.py", b"b.py"), watched=True)
        found = scanner.scan(batch)
        assert [hit.path for hit in found.hits] == ["a.py"]
        again = replace(batch, known=found.state)
        assert scanner.scan(again) == scan.Found(unchanged=True)
        os.utime(place.folder / "b.py")
        assert [hit.path for hit in scanner.scan(again).hits] == ["a.py"]
        assert scanner.scan(Batch("", (b"a.py", b"gone.py"), watched=True)).state == b""

    def test_moved_folders_are_seen(self, place: Place) -> None:
        place.write(one__x="mark_me(1)\n", two__x="y = 12345\n\n")
        assert sorted(place.run(cache=True)[0]) == ["a.py", "one/x.py"]
        for old, new in (("one", "tmp"), ("two", "one"), ("tmp", "two")):
            os.rename(place.folder / old, place.folder / new)
        assert sorted(place.run(cache=True)[0]) == ["a.py", "two/x.py"]

    def test_everything_that_an_outcome_rests_on_counts(self, place: Place) -> None:
        place.run(cache=True)

        def looks(**more: Any) -> list[str]:
            place.run(**{"cache": True, **more})
            return place.looked_at

        assert looks() == []
        assert looks(policy=EVERYTHING) == ["a.py"]
        assert looks() == looks(policy=EVERYTHING) == []
        assert looks(options={"XX101": {"word": "2"}}) == ["a.py", "c.py"]
        assert looks(min_torch="2.9") == ["a.py", "c.py"]
        place.put("pyproject.toml", "[project]\nname = 'p'\ndependencies = ['torch>=2.3']\n")
        assert looks() == ["a.py", "c.py"]
        assert looks() == []
        place.rules.write_text(RULES.replace("marked for", "now marked for"))
        assert looks() == ["a.py", "c.py"]
        decided = Policy(decisions={"k": Decision(Verdict.ACCEPT)})
        assert looks(policy=decided) == looks(policy=decided) == ["a.py", "c.py"]

    def test_errors_are_not_kept(self, place: Place) -> None:
        place.write(a="def (mark_me")
        first, _ = place.run(cache=True)
        second, _ = place.run(cache=True)
        assert first["a.py"].errors == second["a.py"].errors != ()

    def test_run_that_is_left_early_keeps_nothing(self, place: Place) -> None:
        with Migration(place.settings(cache=True)) as migration:
            next(migration.run())
        place.run(cache=True)
        assert place.looked_at == ["a.py", "c.py"]


def test_run_without_candidates_imports_no_libcst(place: Place) -> None:
    place.write(a="mark_me(1)\n", b="x = 1\n")
    program = (
        "import json, sys; from torchmigrate.migration import *\n"
        "with Migration(Settings(select=('XX101',), load=(sys.argv[1],), cache=False)) as migration:\n"
        "    found = [r.path for r in migration.run()]\n"
        "print(json.dumps([found, sorted(m for m in sys.modules if m.split('.')[0] in ('libcst', 'click'))]))\n"
    )
    command = [sys.executable, "-c", program, str(place.rules)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [["a.py"], []]
