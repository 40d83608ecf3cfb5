"""`nox -s torch`: the pairs of fixtures/**/runs on two releases of torch, each in an environment of its own."""

from __future__ import annotations

import os
from pathlib import Path

import nox

RELEASES = ("2.14.1", "2.15.0")

nox.options.sessions = ["torch"]


@nox.session
def torch(session: nox.Session) -> None:
    """Run the pairs; arguments go to pytest. The two releases need about 6 GB and are kept for the next time."""
    interpreters = []
    for release in RELEASES:
        folder = Path(session.cache_dir) / f"torch-{release}"
        python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
        if not python.exists():
            session.run("python", "-m", "venv", str(folder), external=True)
        session.run(str(python), "-m", "pip", "install", "-q", f"torch=={release}", "numpy", external=True)
        interpreters.append(str(python))
    session.install("-e", ".[test]")
    environment = {"TORCHMIGRATE_TORCH": os.pathsep.join(interpreters)}
    session.run("pytest", "-m", "torch", "tests/torch", *session.posargs, env=environment)
