"""Compares torchmigrate with plain text search, side by side in one run.

    python tests/benchmark/bench.py --make TREE --files 50000 PACKAGE...   makes a git tree of so many .py files first
    python tests/benchmark/bench.py TREE...                                prints the ratios for each tree

A tree that is made is like a repository of many projects, where few files (`--matching`, by default 2 of 1000) concern
a rule as far as their bytes show; of the packages' other files that do none is taken. Any folder can be measured as
well.

Every pair of commands runs alternately (A B A B ...), so that a machine which is busy with other things slows both.
The search is `rg -l -F` for all triggers of the rules over the kinds of files that the rules name. Times are medians
of whole processes; a ratio above its goal is marked, and the exit status is then 1. What was imported is checked too: a
run without candidates must not import libcst, and no run may import libcst.codemod or libcst.matchers.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from torchmigrate import registry
from torchmigrate.kinds import KINDS, kind_of
from torchmigrate.sieve import Sieve
from torchmigrate.work import literals, wanted

SCRIPT = Path(sys.executable).with_name("torchmigrate")
TOOL = (str(SCRIPT),) if SCRIPT.exists() else (sys.executable, "-m", "torchmigrate")
"""What people run: the script that is installed beside the interpreter."""
LARGE = 50_000
"""Files from which on the start of Python weighs little; in smaller trees only the dry run has a goal."""
HOT = frozenset({"libcst.codemod", "libcst.matchers"})
ZERO_RULE = '''
from torchmigrate.codemod import Codemod

class Zero(Codemod):
    """Nothing holds its triggers."""
    code, name = "ZZ1", "zero"
    triggers = ({triggers})
'''


@dataclass(frozen=True)
class Taken:
    """Seconds that one run took: on the clock, and of processors by it and its children."""

    wall: float
    cpu: float


@dataclass(frozen=True)
class Pair:
    """Two commands that are compared; `goal` is the most that the first may take in times of the second, 0 for none."""

    name: str
    ours: Sequence[str]
    theirs: Sequence[str]
    goal: float


def timed(command: Sequence[str], environment: Mapping[str, str]) -> Taken:
    """Run a command with its output thrown away."""
    before, began = os.times(), time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment, check=False)
    wall, after = time.perf_counter() - began, os.times()
    return Taken(wall, after[2] + after[3] - before[2] - before[3])


def compare(pair: Pair, runs: int, environment: Mapping[str, str]) -> bool:
    """Time both commands in turn and print a line; whether the goal is met."""
    ours, theirs = [], []
    for n in range(runs + 1):
        first, second = timed(pair.ours, environment), timed(pair.theirs, environment)
        if n:
            ours.append(first)
            theirs.append(second)
    wall = statistics.median(a.wall for a in ours) / statistics.median(b.wall for b in theirs)
    cpu = statistics.median(a.cpu for a in ours) / max(statistics.median(b.cpu for b in theirs), 0.001)
    met = not pair.goal or wall <= pair.goal
    goal = f"{pair.goal:.2f}" if pair.goal else "-"
    factors = f"{wall:7.2f} {cpu:7.2f} {goal:>7}{'' if met else '  ABOVE'}"
    print(f"  {pair.name:36} {spread(ours):>23} {spread(theirs):>23} {factors}", flush=True)
    return met


HEADER = f"  {'':36} {'torchmigrate':>23} {'the other':>23} {'wall x':>7} {'cpu x':>7} {'goal x':>7}"


def spread(taken: Sequence[Taken]) -> str:
    walls = sorted(one.wall for one in taken)
    return f"{statistics.median(walls):.3f} [{walls[0]:.3f}-{walls[-1]:.3f}] s"


def search(tree: str, triggers: Sequence[bytes], kinds: Sequence[str]) -> list[str]:
    """The text search for the same triggers in the same kinds of files."""
    globs = [part for kind in kinds for pattern in KINDS[kind] if pattern != "*.pyi" for part in ("-g", pattern)]
    lines = {max(trigger.split(b"\n"), key=len) for trigger in triggers}  # rg looks within lines
    words = [part for line in sorted(lines) for part in ("-e", os.fsdecode(line))]
    return ["rg", "-l", "-F", "--hidden", *globs, "-g", "!.git", *words, tree]


def imported(command: Sequence[str], environment: Mapping[str, str]) -> set[str]:
    """Every module that a run imports, in any of its processes."""
    given = {**environment, "PYTHONPROFILEIMPORTTIME": "1"}
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=given, check=False)
    return set(re.findall(r"^import time:.*\|\s+(\S+)$", done.stderr.decode("utf-8", "replace"), re.MULTILINE))


def measure(tree: str, select: Sequence[str], runs: int, goal: float) -> bool:
    """Print all comparisons for one tree; whether every goal is met. `goal` is that of a dry run."""
    rules = registry.load().select(select)
    by_kind = literals(wanted(rules))
    known = sorted({one for found in by_kind.values() for one in found})
    kinds = [kind for kind in by_kind if kind in KINDS]
    picked = [f"--select={','.join(rule.code for rule in rules)}"]
    files = count(tree)
    is_large = files >= LARGE
    print(f"{tree}: {files} .py files; {len(rules)} rules, {len(known)} triggers, {len(kinds)} kinds of files")
    print(HEADER)
    with tempfile.TemporaryDirectory() as folder:
        own = {"XDG_CACHE_HOME": folder, "TORCHMIGRATE_STATE_DIR": folder, "PYTHONPYCACHEPREFIX": folder}
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"} | own
        zero = Path(folder, "zero.py")
        never = [one + b"\x00" for one in known[:8]]
        zero.write_text(ZERO_RULE.format(triggers="".join(f"{one!r}, " for one in never)))
        nothing = [*TOOL, "diff", "--no-cache", "--load", str(zero), "--select=ZZ1", tree]
        unmatched = search(tree, [one[:-1] + b"~~" for one in never], ["python", "notebook"])
        everything = search(tree, known, kinds)
        pairs = (
            Pair("--version / python -c pass", [*TOOL, "--version"], [sys.executable, "-c", "pass"], 1.3),
            Pair("no candidates / rg", nothing, unmatched, 1.0 if is_large else 0),
            Pair("dry run / rg", [*TOOL, "diff", "--no-cache", *picked, tree], everything, goal),
            Pair("dry run again, unchanged / rg", [*TOOL, "diff", *picked, tree], everything, 0.7 if is_large else 0),
        )
        met = [compare(pair, runs, environment) for pair in pairs]
        met.append(check("a run without candidates imports no libcst", "libcst" not in imported(nothing, environment)))
        heavy = imported([*TOOL, "diff", "--no-cache", *picked, tree], environment) & HOT
        met.append(check("no run imports libcst.codemod or libcst.matchers", not heavy))
    return all(met)


def check(what: str, holds: bool) -> bool:
    print(f"  {what}: {'yes' if holds else 'NO'}", flush=True)
    return holds


def count(tree: str) -> int:
    return sum(name.endswith(".py") for _, _, names in os.walk(tree) for name in names)


def make(tree: Path, packages: Sequence[str], files: int, matching: float) -> None:
    """A git repository of copies of packages until it holds enough files, few of which concern a rule."""
    tree.mkdir(parents=True)
    sieves = {kind: Sieve(found) for kind, found in wanted(registry.load().select()).items()}
    holds: dict[str, bool] = {}
    made = taken = turn = 0
    while made < files:
        turn += 1
        before = made
        for package in packages:
            for here, folders, names in os.walk(package):
                folders[:] = [name for name in folders if name not in {".git", "__pycache__"}]
                to = tree / f"turn{turn}" / os.path.basename(os.path.abspath(package)) / os.path.relpath(here, package)
                kinds = {name: kind for name in names if (kind := kind_of(name)) is not None}
                to.mkdir(parents=True, exist_ok=True)
                for name, kind in kinds.items():
                    source = os.path.join(here, name)
                    if source not in holds:
                        holds[source] = kind in sieves and bool(sieves[kind].codes(Path(source).read_bytes()))
                    if holds[source] and taken + 1 > matching * (made + 1):
                        continue
                    taken += holds[source]
                    made += name.endswith(".py")
                    link(source, str(to / name))
        if made == before:
            raise SystemExit("every .py file of these packages concerns a rule")
    for arguments in (
        ("init", "-q"),
        ("add", "-A"),
        ("-c", "user.name=b", "-c", "user.email=b@b", "commit", "-qm", "b"),
    ):
        subprocess.run(["git", *arguments], cwd=tree, check=True, stderr=subprocess.DEVNULL)
    print(f"{tree}: {made} .py files, {taken} files that concern a rule")


def link(source: str, to: str) -> None:
    with contextlib.suppress(OSError):
        os.link(source, to)
        return
    shutil.copyfile(source, to)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", help="trees to measure, or packages to make one of")
    parser.add_argument("--make", metavar="TREE", type=Path, help="make this tree from the packages and measure it")
    parser.add_argument("--files", type=int, default=50_000, help="how many .py files it shall hold at least")
    parser.add_argument("--matching", type=float, default=0.002, help="the share of files that may concern a rule")
    parser.add_argument("--goal", type=float, default=2.0, help="how many times rg a dry run may take (default: 2)")
    parser.add_argument("--runs", type=int, default=5, help="runs of each command, after one that does not count")
    parser.add_argument("--select", action="append", default=[], help="the rules to measure (default: all)")
    given = parser.parse_args()
    if shutil.which("rg") is None:
        parser.error("ripgrep (rg) is needed for comparison")
    trees = given.folders
    if given.make:
        make(given.make, given.folders, given.files, given.matching)
        trees = [str(given.make)]
    met = [measure(tree, given.select, given.runs, given.goal) for tree in trees]
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
