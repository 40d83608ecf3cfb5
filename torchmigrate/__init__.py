"""Moves Python repositories from one PyTorch release to the next. Imports nothing: see `torchmigrate.__main__`."""

__version__ = "0.1.0"
