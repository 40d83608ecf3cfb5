"""The `torchmigrate` command. Its version is told before anything else is imported."""

from __future__ import annotations

import sys

from torchmigrate import __version__


def main() -> None:
    """Run the command line on this process's arguments and exit."""
    if sys.argv[1:] in (["--version"], ["-V"]):
        print(f"torchmigrate {__version__}")
        return
    from torchmigrate.cli import run

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
