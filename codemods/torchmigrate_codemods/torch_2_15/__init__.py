"""What changed from PyTorch 2.14 to 2.15."""

from __future__ import annotations

from torchmigrate.codemod import Codemod

CODEMODS: tuple[type[Codemod], ...] = ()
