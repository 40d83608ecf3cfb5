"""Formats that are not Python: one module each, giving tokens with offsets into the text."""
