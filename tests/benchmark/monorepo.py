"""Makes a repository of many projects from folders of packages, and measures runs over it beside plain text search.

    python tests/benchmark/monorepo.py make TREE --projects 300 --files 60000 PACKAGE...
    python tests/benchmark/monorepo.py measure TREE [--runs N]

`make` copies the files of the packages, round and round under other names, into projects that differ in their bounds of
torch and Python, some with a configuration of their own, with owners in CODEOWNERS, and commits it all. `measure` times
`audit`, a dry run and `apply` in turn with `rg -l` for the same literals, prints the ratios and the peak memory of all
processes together, and checks that the patch of every owner applies by itself.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import shutil
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench import TOOL, search

from torchmigrate import registry
from torchmigrate.kinds import KINDS
from torchmigrate.work import literals, wanted

GIT = ("git", "-c", "user.name=T", "-c", "user.email=t@example.org", "-c", "gc.auto=0")
BOUNDS = ("torch>=2.13", "torch>=2.14,<2.15", "torch>=2.15", "torch", "torch==2.14.1")
TEAMS = 40


def make(tree: Path, projects: int, files: int, packages: Sequence[Path]) -> None:
    """A committed repository of so many projects with about so many files of the kinds that rules look at."""
    source = [path for package in packages for path in sorted(package.rglob("*")) if _is_code(path)]
    names = itertools.cycle(source)
    each = files // projects
    owners = ["*.py @org/rest"]
    for number in range(projects):
        home = tree / f"group-{number % 12:02}" / f"project-{number:03}"
        home.mkdir(parents=True)
        bound, python = BOUNDS[number % len(BOUNDS)], 11 + number % 3
        (home / "pyproject.toml").write_text(
            f'[project]\nname = "project-{number:03}"\nversion = "1"\nrequires-python = ">=3.{python}"\n'
            f'dependencies = ["{bound}"]\n' + ('[tool.torchmigrate]\nignore = ["TM3"]\n' if number % 10 == 0 else "")
        )
        if number % 7:
            owners.append(f"/group-{number % 12:02}/project-{number:03}/ @org/team-{number % TEAMS:02}")
        for index in range(each - 1):
            path = next(names)
            to = home / f"part{index // 100}" / f"{path.stem}_{index}{path.suffix}"
            to.parent.mkdir(exist_ok=True)
            shutil.copyfile(path, to)
    (tree / "CODEOWNERS").write_text("\n".join(owners) + "\n")
    for command in (("init", "-q"), ("add", "-A"), ("commit", "-q", "-m", "state")):
        subprocess.run([*GIT, *command], cwd=tree, check=True)


def _is_code(path: Path) -> bool:
    return path.suffix in {".py", ".sh", ".yaml"} and path.is_file() and not path.is_symlink()


class Memory:
    """The peak, in MiB, of what a process and its children hold by themselves (PSS), looked at ten times a second."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.peak = 0.0
        self._process = process
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()

    def _watch(self) -> None:
        while self._process.poll() is None:
            self.peak = max(self.peak, sum(_held(pid) for pid in _family(self._process.pid)) / 1024)
            time.sleep(0.1)


def _family(pid: int) -> Iterator[int]:
    yield pid
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return
    for child in children:
        yield from _family(int(child))


def _held(pid: int) -> int:
    try:
        found = re.search(r"^Pss:\s+(\d+)", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.MULTILINE)
    except OSError:
        return 0
    return int(found[1]) if found else 0


def run(command: Sequence[str], tree: Path, state: str) -> tuple[float, float, int, bytes, float]:
    """Seconds, peak MiB, exit code, stdout and seconds of processors of a command."""
    environment = {**os.environ, "XDG_CACHE_HOME": f"{state}/cache", "TORCHMIGRATE_STATE_DIR": f"{state}/runs"}
    with tempfile.TemporaryFile() as out:
        began, before = time.perf_counter(), os.times()
        process = subprocess.Popen(command, cwd=tree, env=environment, stdout=out, stderr=subprocess.DEVNULL)
        memory = Memory(process)
        process.wait()
        seconds, after = time.perf_counter() - began, os.times()
        memory._thread.join()
        out.seek(0)
        cpu = after.children_user + after.children_system - before.children_user - before.children_system
        return seconds, memory.peak, process.returncode, out.read(), cpu


def report(line: str) -> None:
    """Print a line at once: a run over many files takes a while."""
    print(f"  {line}", flush=True)


def measure(tree: Path, runs: int) -> None:
    """Print what runs over the tree take, and check what comes of them."""
    rules = registry.load().select()
    by_kind = wanted(rules)
    known = sorted({one for found in literals(by_kind).values() for one in found})
    grep = search(".", known, [kind for kind in by_kind if kind in KINDS])
    count = sum(1 for path in tree.rglob("*") if path.is_file() and ".git" not in path.parts)
    report(f"{tree}: {count:,} files, {len(rules)} rules, {len(known)} literals")
    with tempfile.TemporaryDirectory() as state:
        run(grep, tree, state)  # warms the file cache for both
        searched = []
        for name, flags in (
            ("dry run", ["apply", "--dry-run", "--no-cache", "-q"]),
            ("dry run, keeping what it finds", ["apply", "--dry-run", "-q"]),
            ("dry run again", ["apply", "--dry-run", "-q"]),
            ("audit", ["audit", "--no-cache", "--format", "json"]),
        ):
            taken = []
            for _ in range(runs):
                searched.append(run(grep, tree, state)[0])
                taken.append(run([*TOOL, *flags], tree, state))
            seconds, base = statistics.median(one[0] for one in taken), statistics.median(searched)
            cpu = statistics.median(one[4] for one in taken)
            peak = max(one[1] for one in taken)
            took = f"{seconds:7.2f} s  cpu {cpu:7.2f} s  {peak:6.0f} MiB"
            report(f"{name:32} {took}  x{seconds / base:5.1f} of rg ({base:.2f} s)")
            if name == "audit":
                report(f"{'':32} {len(json.loads(taken[0][3])['projects'])} projects with findings")
        split = f"{state}/split"
        os.mkdir(split)
        _, _, code, *_ = run([*TOOL, "apply", "--dry-run", "--split", "owner", "--patch-out", split], tree, state)
        patches = sorted(Path(split).glob("*.patch"))
        for patch in patches:
            subprocess.run([*GIT, "apply", "--check", str(patch)], cwd=tree, check=True)
        report(f"{len(patches)} patches, one an owner, each applies by itself (exit code {code})")
        seconds, peak, code, *_ = run([*TOOL, "apply", "--yes", "--no-cache", "-q"], tree, state)
        changed = len(subprocess.check_output([*GIT, "diff", "--name-only"], cwd=tree).splitlines())
        report(f"{'apply':32} {seconds:7.2f} s  {peak:6.0f} MiB  {changed:,} files changed (exit code {code})")
        for patch in patches:
            subprocess.run([*GIT, "apply", "--reverse", str(patch)], cwd=tree, check=True)
        left = subprocess.check_output([*GIT, "status", "--porcelain"], cwd=tree)
        report(f"the patches together are the apply: {not left}")
        subprocess.run([*GIT, "checkout", "-q", "."], cwd=tree, check=True)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    making = commands.add_parser("make")
    making.add_argument("tree", type=Path)
    making.add_argument("--projects", type=int, default=300)
    making.add_argument("--files", type=int, default=60_000)
    making.add_argument("packages", type=Path, nargs="+")
    measuring = commands.add_parser("measure")
    measuring.add_argument("tree", type=Path)
    measuring.add_argument("--runs", type=int, default=3)
    given = parser.parse_args()
    if given.command == "make":
        make(given.tree, given.projects, given.files, given.packages)
    else:
        measure(given.tree, given.runs)


if __name__ == "__main__":
    main()
