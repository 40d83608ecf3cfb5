"""Record what torch offers of the names that rules write: `python tests/torch/signatures.py TORCH...`.

Each TORCH is an interpreter with a release of torch, or a wheel of one (`pip download --no-deps torch==2.7.1`). The
names are those that rules write into the fixtures, for projects that allow any of the releases. The result,
`signatures.json` beside the rules, maps each name to its parameters by version: null where torch shows none, without
the version where the release lacks the name. Releases that are not given stay as they are on record. Review the
difference before committing it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from wheels import Wheel

ROOT = Path(__file__).resolve().parents[2]
RECORD = ROOT / "codemods" / "torchmigrate_codemods" / "torch_2_15" / "signatures.json"

PROBE = r"""
import importlib, inspect, json, sys, warnings
warnings.simplefilter("ignore")
import torch
def find(name):
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:cut]))
        except ImportError:
            continue
        for part in parts[cut:]:
            found = getattr(found, part)
        return found
    raise AttributeError(name)
def parameters(thing):
    if not callable(thing):
        return None
    try:
        found = inspect.signature(thing).parameters.values()
    except (TypeError, ValueError):
        return None
    if any(p.kind is p.VAR_KEYWORD for p in found):
        return None
    return [p.name for p in found if p.kind is not p.VAR_POSITIONAL]
result = {}
for name in json.load(sys.stdin):
    try:
        result[name] = parameters(find(name))
    except AttributeError:
        pass
print(json.dumps([torch.__version__.split("+")[0], result]))
"""

Parameters = dict[str, list[str] | None]


def read(source: str, names: list[str]) -> tuple[str, Parameters]:
    """The version of an interpreter's or a wheel's torch, and the parameters of the names that it has."""
    if source.endswith(".whl"):
        wheel = Wheel(Path(source))
        return wheel.version, wheel.parameters(names)
    run = subprocess.run([source, "-c", PROBE], input=json.dumps(names), capture_output=True, text=True, check=True)
    version, found = json.loads(run.stdout.splitlines()[-1])
    return version, found


def main(sources: list[str]) -> int:
    """Write the record; 2 without releases, 1 when a name is on none of them."""
    if not sources:
        print(__doc__, file=sys.stderr)
        return 2
    from torchmigrate.testing import Example, examples, names_written
    from torchmigrate.versions import release
    from torchmigrate_codemods.torch_2_15 import CODEMODS

    versions = [read(source, [])[0] for source in sources]
    fixtures = [one for one in examples(ROOT / "fixtures" / "torch_2_15", CODEMODS) if isinstance(one, Example)]
    names = sorted({name for one in fixtures for name, _ in names_written(one, versions)})
    known = json.loads(RECORD.read_text("utf-8")) if RECORD.is_file() else {}
    others = {name: {v: p for v, p in known.get(name, {}).items() if v not in versions} for name in names}
    record: dict[str, Parameters] = dict(others)
    for source in sources:
        version, found = read(source, names)
        for name, parameters in found.items():
            record[name][version] = parameters
    ordered = {name: dict(sorted(record[name].items(), key=lambda pair: release(pair[0]))) for name in names}
    lines = ",\n".join(f" {json.dumps(name)}: {json.dumps(one)}" for name, one in ordered.items())
    RECORD.write_text("{\n" + lines + "\n}\n", encoding="utf-8")
    missing = [name for name in names if not record[name]]
    for name in missing:
        print(f"{name}: on none of these releases", file=sys.stderr)
    return 1 if missing else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
