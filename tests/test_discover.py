"""Which files a run looks at, on real folders and real git repositories."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from unprivileged import permissions_count

from torchmigrate import git
from torchmigrate.discover import Discovery, shown_path
from torchmigrate.kinds import KINDS, kind_of, kinds_of
from torchmigrate.model import Settings, UsageError
from torchmigrate.roots import Projects

ALWAYS = ("git", "walk", "no-gitignore")
"""The ways in which files are found; they agree wherever no ignore rule speaks."""


def make(folder: Path, names: Iterable[str], content: str = "x = 1\n") -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


def run_git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "protocol.file.allow=always")
    done = subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout


def repository(folder: Path, names: Iterable[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    run_git(folder, "init", "-q", "-b", "main")
    make(folder, names)
    run_git(folder, "add", "-A")
    run_git(folder, "commit", "-qm", "first")


def settings(way: str, *paths: str, **more: object) -> Settings:
    by_way = {"git": {}, "walk": {"git": False}, "no-gitignore": {"gitignore": False}}[way]
    return Settings(paths=paths or (".",), **{**by_way, **more})  # type: ignore[arg-type]


def files(given: Settings, formats: Iterable[str] = ("python",)) -> list[str]:
    return [path for batch in Discovery(given, kinds_of(formats)).batches() for path in batch.paths()]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


class TestKinds:
    @pytest.mark.parametrize(
        ("name", "kind"),
        [
            ("a.py", "python"),
            ("a.pyi", "python"),
            ("dir/a.ipynb", "notebook"),
            ("requirements-dev.txt", "requirements"),
            ("notes.txt", None),
            ("pyproject.toml", "toml"),
            ("setup.cfg", "cfg"),
            ("run.sbatch", "shell"),
            ("Dockerfile.gpu", "dockerfile"),
            ("deep/.env", "env"),
            ("Makefile", "makefile"),
            ("a.cu", "cpp"),
            ("apy", None),
        ],
    )
    def test_by_name(self, name: str, kind: str | None) -> None:
        assert kind_of(name) == kind

    def test_notebooks_come_with_python_only(self) -> None:
        assert kinds_of({"python"}) == {"python", "notebook"}
        assert kinds_of({"yaml"}) == {"yaml"}

    def test_only_wanted_kinds_are_offered(self, here: Path) -> None:
        make(here, ["a.py", "n.ipynb", "run.sh", "Dockerfile", "c.yaml", "s.pyi"])
        assert sorted(files(settings("walk"))) == ["a.py", "n.ipynb"]
        assert sorted(files(settings("walk"), {"shell", "dockerfile"})) == ["Dockerfile", "run.sh"]
        assert sorted(files(settings("walk", include_stubs=True))) == ["a.py", "n.ipynb", "s.pyi"]
        assert set(KINDS) >= {"python", "notebook", "shell", "yaml", "toml"}


class TestWays:
    @pytest.mark.parametrize("way", ALWAYS)
    def test_agree_without_ignore_rules(self, here: Path, way: str) -> None:
        names = ["a.py", "pkg/b.py", "pkg/deep/er/c.py", ".hidden/d.py", "build/e.py", "UP.py"]
        repository(here, names)
        make(here, ["pkg/untracked.py"])
        assert sorted(files(settings(way))) == sorted([*names, "pkg/untracked.py"])

    @pytest.mark.parametrize("way", ALWAYS)
    def test_leave_out_what_is_no_source(self, here: Path, way: str) -> None:
        repository(here, ["a.py", "node_modules/x/b.py", "site-packages/c.py", "__pycache__/d.py", ".tox/py/e.py"])
        make(here, ["env/pyvenv.cfg", "env/lib/python3/f.py", "sub/.venv/pyvenv.cfg", "sub/.venv/bin/g.py", "sub/h.py"])
        assert sorted(files(settings(way))) == ["a.py", "sub/h.py"]

    @pytest.mark.parametrize("way", ALWAYS)
    def test_named_folder_is_entered_whatever_it_is(self, here: Path, way: str) -> None:
        make(here, [".gitignore"], "env/\nbuild/\n")
        repository(here, ["a.py"])
        make(here, ["env/pyvenv.cfg", "env/lib/site-packages/torch/b.py", "build/c.py", "build/out/d.py"])
        inside = "env/lib/site-packages"
        assert files(settings(way, inside)) == [f"{inside}/torch/b.py"]
        assert files(settings(way, "env")) == ["env/lib/site-packages/torch/b.py"]
        assert sorted(files(settings(way, "build"))) == ["build/c.py", "build/out/d.py"]

    @pytest.mark.parametrize("way", ALWAYS)
    def test_odd_names(self, here: Path, way: str) -> None:
        names = [
            "with space/a b.py",
            "new\nline.py",
            'quo"te.py',
            "-dash.py",
            "ümlaut/é.py",
            "tab\there.py",
            ":(top)x.py",
        ]
        repository(here, names)
        raw = os.fsencode(here) + b"/latin-\xe9.py"
        with open(raw, "wb") as file:
            file.write(b"x = 1\n")
        expected = sorted([*names, os.fsdecode(b"latin-\xe9.py")])
        assert sorted(files(settings(way))) == expected
        assert all(os.path.exists(path) for path in files(settings(way)))

    @pytest.mark.parametrize("way", ALWAYS)
    def test_links_to_folders_are_not_followed(self, here: Path, way: str) -> None:
        make(here.parent, ["outside/a.py"])
        make(here, ["real/b.py"])
        (here / "out").symlink_to(here.parent / "outside")
        (here / "loop").symlink_to(here)
        repository(here, ["c.py"])
        assert [path for path in sorted(files(settings(way))) if not os.path.islink(path)] == ["c.py", "real/b.py"]

    def test_many_files_come_in_batches_once_each(self, here: Path) -> None:
        names = [f"d{n % 7}/f{n}.py" for n in range(1500)]
        make(here, names)
        for way in ("walk", "no-gitignore"):
            batches = list(Discovery(settings(way), kinds_of({"python"})).batches())
            assert sorted(path for batch in batches for path in batch.paths()) == sorted(names)
            assert max(len(batch.names) for batch in batches) <= 512


class TestGit:
    def test_own_ignore_rules_count(self, here: Path) -> None:
        make(here, [".gitignore"], "*.gen.py\n/top/\n")
        make(here, ["pkg/.gitignore"], "local.py\n!kept.gen.py\n")
        repository(here, ["a.py"])
        make(here, ["b.gen.py", "pkg/local.py", "pkg/kept.gen.py", "top/c.py", "pkg/top/d.py"])
        expected = ["a.py", "pkg/kept.gen.py", "pkg/top/d.py"]
        assert sorted(files(settings("git"))) == expected
        assert sorted(files(settings("walk"))) == expected
        assert len(files(settings("no-gitignore"))) == 6

    def test_outer_ignore_rules_count_below_the_top(self, here: Path) -> None:
        make(here, [".gitignore"], "*.gen.py\npkg/anchored/\n")
        repository(here, ["pkg/a.py"])
        make(here, ["pkg/b.gen.py", "pkg/anchored/c.py", "pkg/other/anchored/d.py"])
        for way in ("git", "walk"):
            assert sorted(files(settings(way, "pkg"))) == ["pkg/a.py", "pkg/other/anchored/d.py"]

    def test_tracked_file_is_taken_though_ignored(self, here: Path) -> None:
        repository(here, ["a.py"])
        make(here, [".gitignore"], "a.py\n")
        assert files(settings("git")) == ["a.py"]

    def test_folder_of_a_hook_cannot_mislead(self, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        repository(here / "one", ["a.py"])
        repository(here / "two", ["b.py"])
        monkeypatch.setenv("GIT_DIR", str(here / "two" / ".git"))
        monkeypatch.setenv("GIT_INDEX_FILE", str(here / "two" / ".git" / "index"))
        assert files(settings("git", "one")) == ["one/a.py"]

    def test_broken_repository_is_walked_and_said(self, here: Path) -> None:
        make(here, ["a.py", ".git/HEAD"])
        discovery = Discovery(settings("git"), kinds_of({"python"}))
        assert [path for batch in discovery.batches() for path in batch.paths()] == ["a.py"]
        (note,) = discovery.notes
        assert note.startswith("git could not list .")

    def test_git_that_is_missing_is_walked(self, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        repository(here, ["a.py"])
        monkeypatch.setenv("PATH", str(here / "nothing"))
        assert files(settings("git")) == ["a.py"]

    def test_nested_repositories_are_named_not_entered(self, here: Path) -> None:
        repository(here.parent / "library", ["lib.py"])
        repository(here, ["a.py"])
        run_git(here, "submodule", "add", "-q", str(here.parent / "library"), "third/library")
        repository(here / "clone", ["c.py"])
        discovery = Discovery(settings("git"), kinds_of({"python"}))
        assert [path for batch in discovery.batches() for path in batch.paths()] == ["a.py"]
        assert discovery.notes == [
            "2 nested repositories not entered: clone, third/library (name one to look at it)",
        ]
        assert files(settings("git", "third/library")) == ["third/library/lib.py"]
        assert files(settings("git", "clone")) == ["clone/c.py"]

    def test_changed_since_a_branch(self, here: Path) -> None:
        repository(here, ["same.py", "edited.py", "gone.py", "sub/other.py"])
        run_git(here, "checkout", "-qb", "topic")
        make(here, ["edited.py", "sub/other.py"], "x = 2\n")
        run_git(here, "rm", "-q", "gone.py")
        run_git(here, "commit", "-qam", "second")
        make(here, ["new.py", "note.txt"])
        assert sorted(files(settings("git", changed_since="main"))) == ["edited.py", "new.py", "sub/other.py"]
        assert files(settings("git", "sub", changed_since="main")) == ["sub/other.py"]
        for reference in ("no-such-branch", "--output=x"):
            with pytest.raises(UsageError, match=f"--changed-since {reference}: fatal: bad revision"):
                files(settings("git", changed_since=reference))

    def test_changed_since_needs_a_repository(self, here: Path) -> None:
        with pytest.raises(UsageError, match="needs a git repository"):
            files(settings("git", changed_since="main"))

    def test_uncommitted_are_edited_staged_untracked_and_ignored(self, here: Path) -> None:
        repository(here, ["clean.py", "edited.py", "staged.py", "sp ace.py", "dir/clean.py"])
        make(here, [".gitignore"], "ignored.py\nout/\n")
        make(here, ["edited.py", "staged.py", "sp ace.py"], "x = 2\n")
        run_git(here, "add", "staged.py")
        make(here, ["new.py", "ignored.py", "out/deep/a.py", "fresh/b.py"])
        names = ["clean.py", "edited.py", "staged.py", "sp ace.py", "dir/clean.py", "new.py", "ignored.py"]
        asked = [str(here / name) for name in [*names, "out/deep/a.py", "fresh/b.py"]]
        dirty = ["edited.py", "fresh/b.py", "ignored.py", "new.py", "out/deep/a.py", "sp ace.py", "staged.py"]
        assert git.uncommitted(asked) == [str(here / name) for name in dirty]
        assert git.uncommitted([str(here / "clean.py")]) == []

    def test_outside_a_repository_nothing_is_uncommitted(self, here: Path) -> None:
        make(here, ["a.py"])
        assert git.uncommitted(["a.py"]) == []


class TestPaths:
    @pytest.mark.parametrize(
        ("given", "shown"),
        [(".", ""), ("./", ""), ("./a", "a"), ("a/", "a"), ("a//", "a"), ("../x", "../x"), ("/", "/"), ("/a/", "/a")],
    )
    def test_shown(self, given: str, shown: str) -> None:
        assert shown_path(given) == shown

    def test_results_begin_with_the_folder_as_given(self, here: Path) -> None:
        make(here, ["train/a.py", "run/x"])
        assert files(settings("walk", "train/")) == ["train/a.py"]
        assert files(settings("walk", str(here / "train"))) == [f"{here}/train/a.py"]
        os.chdir(here / "run")
        assert files(settings("walk", "../train")) == ["../train/a.py"]

    @pytest.mark.parametrize("way", ALWAYS)
    def test_overlapping_folders_give_each_file_once(self, here: Path, way: str) -> None:
        repository(here, ["a.py", "pkg/b.py", "pkg/sub/c.py", "pkgx/d.py"])
        found = files(settings(way, "pkg", ".", "pkg/sub", "./pkg/", "a.py", str(here / "pkg")))
        assert sorted(found) == ["a.py", "pkg/b.py", "pkg/sub/c.py", "pkgx/d.py"]

    def test_missing_path_is_a_usage_error(self, here: Path) -> None:
        make(here, ["a.py"])
        with pytest.raises(UsageError, match="no such file or folder: gone"):
            files(settings("git", "a.py", "gone"))

    def test_named_file_is_taken_though_ignored_excluded_or_unusual(self, here: Path) -> None:
        make(here, [".gitignore"], "a.py\n")
        repository(here, ["b.py"])
        make(here, ["a.py", "stub.pyi", "a.pyw"])
        make(here, ["script"], "#!/usr/bin/env -S python3 -u\nx = 1\n")
        asked = ("a.py", "./script", "stub.pyi", "a.py", "a.pyw")
        found = files(settings("git", *asked, exclude=("*.py",), include=("none",)))
        assert found == ["a.py", "script", "stub.pyi", "a.pyw"]

    def test_named_file_of_no_known_kind_is_told_not_read(self, here: Path) -> None:
        make(here, ["README.md", "a.py"], "init_process_group\n")
        discovery = Discovery(settings("git", "README.md", "a.py"), frozenset({"python"}))
        assert [path for batch in discovery.batches() for path in batch.paths()] == ["a.py"]
        (note,) = discovery.notes
        assert note.startswith("README.md is no Python file")

    def test_named_file_of_another_format_is_not_read_as_python(self, here: Path) -> None:
        make(here, ["run.sh"])
        assert files(settings("git", "run.sh")) == []
        assert files(settings("git", "run.sh"), {"shell"}) == ["run.sh"]

    @pytest.mark.parametrize("separator", ["\n", "\0"])
    def test_list_of_files(self, here: Path, separator: str) -> None:
        make(here, ["a.py", "b c.py", "d.md", "left.py"])
        (here / "list").write_text(separator.join(["a.py", "./b c.py", "d.md"]) + separator)
        assert files(settings("git", files_from="list")) == ["a.py", "b c.py"]
        (here / "list").write_text("gone.py\n")
        with pytest.raises(UsageError, match=r"no such file: gone\.py \(listed in list\)$"):
            files(settings("git", files_from="list"))
        (here / "list").write_text('"caf\\303\\251.py"\n')
        with pytest.raises(UsageError, match=r"\(listed in list\); git ls-files and git diff quote no names with -z"):
            files(settings("git", files_from="list"))

    @pytest.mark.parametrize("way", ALWAYS)
    def test_include_and_exclude(self, here: Path, way: str) -> None:
        repository(here, ["a.py", "tests/b.py", "pkg/tests/c.py", "pkg/d.py", "pkg/gen_e.py"])

        def found(*paths: str, **more: object) -> list[str]:
            return sorted(files(settings(way, *paths, **more)))

        assert found(exclude=("tests/",)) == ["a.py", "pkg/d.py", "pkg/gen_e.py"]
        assert found(exclude=("/tests/", "gen_*")) == ["a.py", "pkg/d.py", "pkg/tests/c.py"]
        assert found(include=("pkg/**",), exclude=("tests/",)) == ["pkg/d.py", "pkg/gen_e.py"]
        assert found("pkg", exclude=("pkg/tests",)) == ["pkg/d.py", "pkg/gen_e.py"]
        assert found("pkg", include=("/d.py",)) == ["pkg/d.py"]

    def test_folder_without_permission_is_an_error(self, here: Path) -> None:
        repository(here, ["a.py"])
        make(here, ["secret/b.py"])
        (here / "secret").chmod(0)
        program = (
            "from torchmigrate.discover import *\n"
            "from torchmigrate.kinds import kinds_of\n"
            "for way in ({}, {'git': False}):\n"
            "    found = Discovery(Settings(**way), kinds_of({'python'}))\n"
            "    print([p for b in found.batches() for p in b.paths()], [(e.path, e.code) for e in found.errors])\n"
        )
        drop: Callable[[], None] | None = permissions_count()
        done = subprocess.run(
            [sys.executable, "-c", program], cwd=here, capture_output=True, text=True, preexec_fn=drop, check=True
        )
        (here / "secret").chmod(0o755)
        assert done.stdout.splitlines() == ["['a.py'] [('secret', 'TM010')]"] * 2


class TestProjects:
    def test_nearest_metadata_counts(self, here: Path) -> None:
        run_git(here, "init", "-q")
        make(here, ["setup.py", "one/pyproject.toml", "one/a.py"], "[project]\nname = 'x'\n")
        make(here, ["two/setup.cfg"], "[metadata]\nname = x\n")
        make(here, ["tools/pyproject.toml"], "[tool.ruff]\nline-length = 100\n")
        make(here, ["docs/requirements.txt"], "sphinx\n")
        make(here, ["example/requirements.txt"], "numpy\ntorch>=2.1\n")
        roots = Projects(["."])
        found = {
            path: roots.root_of(path)
            for path in ("a.py", "one/a.py", "one/deep/er/b.py", "two/c.py", "tools/d.py", "docs/e.py", "example/f.py")
        }
        assert found == {
            "a.py": ".",
            "one/a.py": "one",
            "one/deep/er/b.py": "one",
            "two/c.py": "two",
            "tools/d.py": ".",
            "docs/e.py": ".",
            "example/f.py": "example",
        }

    def test_without_metadata_the_repository_counts(self, here: Path) -> None:
        repository(here / "repo", ["pkg/a.py"])
        assert Projects(["repo/pkg"]).root_of("repo/pkg/a.py") == "repo"

    def test_without_a_repository_the_given_folder_counts(self, here: Path) -> None:
        make(here, ["given/pkg/deep/a.py"])
        assert Projects(["given/pkg"]).root_of("given/pkg/deep/a.py") == "given/pkg"
        assert Projects(["given/pkg/deep/a.py"]).root_of("given/pkg/deep/a.py") == "given/pkg/deep"

    def test_metadata_above_the_given_folder_counts_up_to_the_repository(self, here: Path) -> None:
        make(here, ["pyproject.toml"], "[project]\nname = 'x'\n")
        make(here, ["src/pkg/a.py"])
        repository(here / "inner", ["src/b.py"])
        assert Projects(["src/pkg"]).root_of("src/pkg/a.py") == "."
        assert Projects(["inner/src"]).root_of("inner/src/b.py") == "inner"
        os.chdir(here / "src")
        assert Projects(["pkg"]).root_of("pkg/a.py") == str(here)

    def test_fingerprint_changes_with_metadata_alone(self, here: Path) -> None:
        make(here, ["pyproject.toml", "requirements/base.txt", "a.py"])
        before = Projects(["."]).fingerprint(".")
        make(here, ["a.py", "new.py"], "x = 2\n")
        assert Projects(["."]).fingerprint(".") == before
        make(here, ["requirements/base.txt"], "torch==2.14\n")
        assert Projects(["."]).fingerprint(".") != before
