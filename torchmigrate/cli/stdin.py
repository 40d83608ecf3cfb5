"""Code from stdin: migrated code (or its diff) on stdout, as editors and pre-commit pipelines use filters."""

from __future__ import annotations

import sys
from dataclasses import replace

from torchmigrate.cli.running import Ran, select
from torchmigrate.migration import Migration
from torchmigrate.model import FileResult, Policy, Settings, UsageError

NAME = "<stdin>"


def look_at_stdin(settings: Settings, name: str | None, policy: Policy) -> tuple[Ran, bytes]:
    """Process what stdin gives under the name given; the data that was read comes with it. Raises UsageError."""
    if settings.paths != ("-",):
        raise UsageError("- cannot be combined with other paths")
    data = sys.stdin.buffer.read()
    at = replace(settings, paths=(".",))
    with Migration(at, select(settings), policy) as migration:
        result: FileResult = migration.process_bytes(name or NAME, data, policy)
        return Ran([result], migration.counts, list(migration.projects.values())), data
