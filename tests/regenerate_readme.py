"""Brings the generated parts of README.md up to date: `python tests/regenerate_readme.py`."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).resolve().parent.parent / "README.md"
_GENERATED = re.compile(r"(<!-- rules: torchmigrate (?P<command>.*?) -->\n).*?(<!-- /rules -->)", re.DOTALL)


def regenerated(text: str) -> str:
    """The README with the output of each command that it names in a comment."""

    def output(found: re.Match[str]) -> str:
        command = [sys.executable, "-m", "torchmigrate", *found["command"].split()]
        return found[1] + subprocess.run(command, capture_output=True, text=True, check=True).stdout + found[3]

    return _GENERATED.sub(output, text)


if __name__ == "__main__":
    README.write_text(regenerated(README.read_text(encoding="utf-8")), encoding="utf-8")
