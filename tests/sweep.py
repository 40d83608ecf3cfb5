"""Run the tool over whole trees, as a user would, and check what must hold of any tree.

    python tests/sweep.py [--unsafe] FOLDER...

Each folder is copied and put under git. Then: the dry run ends without a traceback and writes nothing; its diff passes
`git apply --check`; `apply --yes` gives the same bytes as the diff; every changed Python file compiles, every changed
TOML, YAML and JSON file parses; a second run offers nothing that was taken; `undo` gives every byte back.
Prints one line a folder and ends with 1 when anything did not hold.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

TOOL = [sys.executable, "-P", "-m", "torchmigrate"]


def digests(folder: Path) -> dict[str, str]:
    """The content of every file below a folder, by name."""
    found = {}
    for at, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name != ".git"]
        for path in (Path(at) / name for name in names):
            if path.is_file() and not path.is_symlink():
                found[str(path.relative_to(folder))] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def problems(folder: Path, flags: Sequence[str]) -> Iterator[str]:
    """What does not hold of one tree; the tree is migrated and put back."""
    before = digests(folder)
    asked = [*TOOL, "apply", "--no-gitignore", "--no-cache", "--allow-dirty", *flags, "."]
    dry = subprocess.run([*asked, "--dry-run"], cwd=folder, capture_output=True, check=False)
    if dry.returncode not in (0, 1, 3) or b"Traceback" in dry.stderr:
        yield f"the dry run ended with {dry.returncode}: {dry.stderr[-300:].decode('utf-8', 'replace')}"
        return
    if b"TM011" in dry.stderr or b"TM012" in dry.stderr:
        lines = [
            line for line in dry.stderr.decode("utf-8", "replace").splitlines() if "TM011" in line or "TM012" in line
        ]
        yield f"a rule failed: {lines[0]}"
    if digests(folder) != before:
        yield "the dry run wrote"
    if not dry.stdout:
        return
    checked = subprocess.run(
        ["git", "apply", "--check", "-"], cwd=folder, input=dry.stdout, capture_output=True, check=False
    )
    if checked.returncode:
        yield f"git apply --check: {checked.stderr[-300:].decode('utf-8', 'replace')}"
    compiled = {name: compiles(folder / name) for name in before if name.endswith(".py")}
    subprocess.run([*asked, "--yes"], cwd=folder, capture_output=True, check=False)
    after = digests(folder)
    changed = sorted(name for name, digest in after.items() if before.get(name) != digest)
    for name in changed:
        if not readable(folder / name, compiled.get(name, True)):
            yield f"{name} cannot be read any more"
    again = subprocess.run([*asked, "--dry-run"], cwd=folder, capture_output=True, check=False)
    if again.stdout:
        yield f"a second run would change {again.stdout[:200].decode('utf-8', 'replace')}"
    subprocess.run(["git", "apply", "-R", "-"], cwd=folder, input=dry.stdout, capture_output=True, check=False)
    if digests(folder) != before:
        yield "the diff and what --yes wrote differ"
    subprocess.run(["git", "apply", "-"], cwd=folder, input=dry.stdout, capture_output=True, check=False)
    undone = subprocess.run([*TOOL, "undo"], cwd=folder, capture_output=True, check=False)
    if digests(folder) != before:
        yield f"undo did not give every byte back: {undone.stderr[-300:].decode('utf-8', 'replace')}"
    print(f"    {len(changed)} files changed", end="")


def compiles(path: Path) -> bool:
    """Whether Python can compile a file."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            compile(path.read_bytes(), str(path), "exec", dont_inherit=True)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return False
    return True


def readable(path: Path, compiled: bool) -> bool:
    """Whether a changed file still is what its name says."""
    import yaml

    try:
        if path.suffix == ".py":
            return compiles(path) or not compiled
        if path.suffix == ".toml":
            tomllib.loads(path.read_text("utf-8"))
        elif path.suffix in (".json", ".ipynb"):
            json.loads(path.read_text("utf-8"))
        elif path.suffix in (".yml", ".yaml"):
            list(yaml.safe_load_all(path.read_text("utf-8")))
    except (ValueError, yaml.YAMLError):
        return False
    return True


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--unsafe", action="store_true")
    given = parser.parse_args()
    flags = ["--min-torch", "2.15", *(["--unsafe"] if given.unsafe else [])]
    failed = 0
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["TORCHMIGRATE_STATE_DIR"] = str(Path(scratch) / "state")
        for folder in given.folders:
            copy = Path(scratch) / "tree"
            shutil.copytree(folder, copy, symlinks=True)
            for command in (["init", "-q"], ["add", "-A", "-f"], ["commit", "-q", "-m", "before"]):
                subprocess.run(
                    ["git", "-c", "core.autocrlf=false", "-c", "gc.auto=0", *command],
                    cwd=copy,
                    check=True,
                    capture_output=True,
                )
            print(folder.name, end="", flush=True)
            found = list(problems(copy, flags))
            print("" if found else "    ok", *(f"\n    {line}" for line in found), flush=True)
            failed += bool(found)
            shutil.rmtree(copy)
    print(f"{len(given.folders) - failed} of {len(given.folders)} trees passed")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
