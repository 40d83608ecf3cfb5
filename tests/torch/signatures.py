"""Record what torch offers of the names that rules write: `python tests/torch/signatures.py PYTHON...`.

Each PYTHON is an interpreter with a release of torch. The names are those that the fixtures' outputs use and their
inputs do not. The result, `signatures.json` beside the rules, maps each name to the parameters by version: null where
torch shows no signature, absent where the release has not the name. Review the difference before committing it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

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


def main(interpreters: list[str]) -> int:
    """Write the record; 2 without interpreters, 1 when a name is on no release."""
    if not interpreters:
        print(__doc__, file=sys.stderr)
        return 2
    from torchmigrate.testing import Example, examples, written
    from torchmigrate_codemods.torch_2_15 import CODEMODS

    names = sorted(
        {
            name
            for one in examples(ROOT / "fixtures" / "torch_2_15", CODEMODS)
            if isinstance(one, Example) and one.after is not None and one.format == "python"
            for name, _ in written(one.before, one.after)
        }
    )
    record: dict[str, dict[str, list[str] | None]] = {name: {} for name in names}
    for interpreter in interpreters:
        run = subprocess.run(
            [interpreter, "-c", PROBE], input=json.dumps(names), capture_output=True, text=True, check=True
        )
        version, found = json.loads(run.stdout.splitlines()[-1])
        for name, parameters in found.items():
            record[name][version] = parameters
    lines = ",\n".join(f" {json.dumps(name)}: {json.dumps(record[name])}" for name in names)
    RECORD.write_text("{\n" + lines + "\n}\n", encoding="utf-8")
    missing = [name for name in names if not record[name]]
    for name in missing:
        print(f"{name}: on none of these releases", file=sys.stderr)
    return 1 if missing else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
