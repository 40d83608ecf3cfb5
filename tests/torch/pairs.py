"""Code before and after a rule, executed on two releases of torch.

`fixtures/**/runs/NAME.py` is a script as it was before; the rule named by the folder gives the script after. Both run
on every release at hand and print what they observe as one JSON object on the last line. `NAME.toml` beside it says
what must hold:

    options = { reduce-dtype = "float32" }      options of the rule
    needs = "cpu"                               "cpu", or the number of GPUs: "1", "2" (default "cpu")
    timeout = 120                               seconds until a run counts as hanging
    environment = { NAME = "value" }
    ignore = ["seconds"]                        keys that are only printed
    same = ["before 2.14", "after 2.14", "after 2.15"]
    differ = [["before 2.14", "before 2.15"]]
    [observed."before 2.15"]                    values that must be among the observations
    reduced_in = "torch.float32"
    reported = "part of a message"              the rule only reports; what follows by hand is `NAME.by_hand.py`

A run that fails observes {"error": last line of stderr}, one that takes too long {"hangs": true}.

    python tests/torch/pairs.py emit FOLDER [NAME...]          write the scripts and what must hold
    python tests/torch/pairs.py run FOLDER [--gpus N] PYTHON...  run them, print and check; needs no torchmigrate

`run` writes FOLDER/NAME.txt (NAME.gpu.txt with GPUs): the versions and what each run observed.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
FIXTURES = ROOT / "fixtures" / "torch_2_15"
_KEYS = {"options", "needs", "timeout", "environment", "ignore", "same", "differ", "observed", "reported"}
_BY_HAND = ".by_hand.py"


@dataclass(frozen=True)
class Pair:
    """One script before and after, and what must hold of their observations."""

    name: str
    before: str
    after: str
    needs: str = "cpu"
    timeout: float = 120
    environment: Mapping[str, str] = field(default_factory=dict)
    ignore: Sequence[str] = ()
    same: Sequence[str] = ()
    differ: Sequence[Sequence[str]] = ()
    observed: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def gpus(self) -> int:
        return 0 if self.needs == "cpu" else int(self.needs)


def pairs(names: Sequence[str] = ()) -> Iterator[Pair]:
    """The pairs of the repository, by rule and name. Raises ValueError for an incomplete one."""
    from torchmigrate.engine import process
    from torchmigrate.model import EVERYTHING, Project
    from torchmigrate_codemods.torch_2_15 import CODEMODS

    for script in sorted(FIXTURES.glob("*/runs/*.py")):
        if script.name.endswith(_BY_HAND):
            continue
        rule = next(c for c in CODEMODS if c.name.replace("-", "_") == script.parent.parent.name)
        name = f"{rule.code}.{script.stem}"
        if names and name not in names and rule.code not in names:
            continue
        given = tomllib.loads(script.with_suffix(".toml").read_text("utf-8"))
        if unknown := set(given) - _KEYS:
            raise ValueError(f"{script.with_suffix('.toml')}: unknown {', '.join(sorted(unknown))}")
        before = script.read_bytes()
        result = process(script.name, before, [rule(given.pop("options", {}))], Project(), EVERYTHING)
        after = result.after
        if (reported := given.pop("reported", None)) is not None:
            messages = [finding.message for finding in result.findings]
            if after is not None or not any(reported in message for message in messages):
                raise ValueError(f"{script}: {rule.code} does not report {reported!r}, but says {messages}")
            after = script.with_suffix(_BY_HAND).read_bytes()
        if after is None or result.errors:
            raise ValueError(f"{script}: {rule.code} changes nothing ({[e.message for e in result.errors]})")
        yield Pair(name, before.decode(), after.decode(), **given)


def observe(python: str, script: str, pair: Pair) -> dict[str, Any]:
    """Run one script with one interpreter; what it printed on its last line."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "script.py"
        path.write_text(script, encoding="utf-8")
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1", **pair.environment}
        run = subprocess.Popen(
            [python, str(path)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=folder,
            env=environment,
            start_new_session=True,
        )
        try:
            stdout, stderr = run.communicate(timeout=pair.timeout)
        except subprocess.TimeoutExpired:
            os.killpg(run.pid, signal.SIGKILL)
            run.communicate()
            return {"hangs": True}
    lines = [line for line in stdout.splitlines() if line.startswith("{")]
    if run.returncode or not lines:
        errors = [line for line in stderr.splitlines() if line.strip()] or [f"ended with {run.returncode}"]
        return {"error": errors[-1].strip()[:300]}
    found: dict[str, Any] = json.loads(lines[-1])
    return found


def version_of(python: str) -> str:
    """The release of torch that an interpreter has, without its build tag."""
    code = "import torch; print(torch.__version__)"
    run = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    return run.stdout.strip().partition("+")[0]


def observations(pair: Pair, pythons: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """What each script observes on each release, by "before 2.15" and the like."""
    return {
        f"{side} {'.'.join(version.split('.')[:2])}": observe(python, script, pair)
        for version, python in pythons.items()
        for side, script in (("before", pair.before), ("after", pair.after))
    }


def faults(pair: Pair, found: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """What does not hold, one line each; empty when all does."""
    plain = {run: {k: v for k, v in seen.items() if k not in pair.ignore} for run, seen in found.items()}
    said = [
        f"{run} observes {plain[run]}, {pair.same[0]} {plain[pair.same[0]]}"
        for run in pair.same[1:]
        if plain[run] != plain[pair.same[0]]
    ]
    said += [f"{a} and {b} observe the same: {plain[a]}" for a, b in pair.differ if plain[a] == plain[b]]
    for run, wanted in pair.observed.items():
        for key, value in wanted.items():
            seen = found[run].get(key)
            holds = value in seen if key == "error" and isinstance(seen, str) else seen == value
            if not holds:
                said.append(f"{run} observes {key} {seen!r}, not {value!r}")
    if not (pair.same or pair.differ or pair.observed):
        said.append("nothing is asserted")
    return said


def record(pair: Pair, versions: Sequence[str], found: Mapping[str, Mapping[str, Any]]) -> str:
    """The text that is kept beside the pair."""
    lines = [f"torch {', '.join(versions)}"]
    lines += [f"{run}: {json.dumps(seen, sort_keys=True)}" for run, seen in found.items()]
    return "\n".join(lines) + "\n"


def kept_at(pair: Pair) -> Path:
    """Where the printed result of a pair of the repository is kept."""
    code, _, name = pair.name.partition(".")
    from torchmigrate_codemods.torch_2_15 import CODEMODS

    folder = next(c for c in CODEMODS if c.code == code).name.replace("-", "_")
    return FIXTURES / folder / "runs" / f"{name}{'.gpu' if pair.gpus else ''}.txt"


def _emit(folder: Path, names: Sequence[str]) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    count = 0
    for pair in pairs(names):
        (folder / f"{pair.name}.json").write_text(json.dumps(vars(pair), indent=1), encoding="utf-8")
        count += 1
    print(f"{count} pairs in {folder}")
    return 0 if count else 1


def _run(folder: Path, gpus: int, interpreters: Sequence[str]) -> int:
    pythons = {version_of(python): python for python in interpreters}
    wrong = 0
    for file in sorted(folder.glob("*.json")):
        pair = Pair(**json.loads(file.read_text("utf-8")))
        if pair.gpus > gpus or bool(pair.gpus) != bool(gpus):
            continue
        found = observations(pair, pythons)
        text = record(pair, list(pythons), found)
        said = faults(pair, found)
        (folder / f"{pair.name}{'.gpu' if pair.gpus else ''}.txt").write_text(text, encoding="utf-8")
        print(f"{pair.name}: {'; '.join(said) or 'holds'}\n{text}", flush=True)
        wrong += bool(said)
    return 1 if wrong else 0


def main(arguments: list[str]) -> int:
    """The command line; 2 for bad usage, 1 when something does not hold."""
    match arguments:
        case ["emit", folder, *names]:
            return _emit(Path(folder), names)
        case ["run", folder, "--gpus", count, *interpreters] if interpreters:
            return _run(Path(folder), int(count), interpreters)
        case ["run", folder, *interpreters] if interpreters:
            return _run(Path(folder), 0, interpreters)
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
