"""Bytes to text and back, byte for byte, and the arithmetic of positions.

A file's text keeps its own line ends, so a splice into the text leaves every other byte as it was. Only what Python
itself takes for a line end ("\\r\\n", "\\n", "\\r") ends a line here; form feeds and Unicode separators do not.
"""

from __future__ import annotations

import bisect
import codecs
import functools
import io
import itertools
import re
import tokenize
from collections.abc import Iterable
from dataclasses import dataclass

from torchmigrate.model import FileError

_WIDE = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_LINE_END = re.compile(r"\r\n|\r|\n")


class SourceError(Exception):
    """A file that cannot be read, parsed or reproduced; `code` is an engine code, positions are 1-based or None."""

    def __init__(self, code: str, message: str, line: int | None = None, column: int | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.line = line
        self.column = column

    def in_file(self, path: str) -> FileError:
        """The error as a result tells it."""
        return FileError(path, self.line, self.column, self.code, self.message)


class Lines:
    """Offsets of a text's lines."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._ascii = text.isascii()

    @functools.cached_property
    def starts(self) -> list[int]:
        """The offset of each line's first character."""
        if "\r" in self.text:
            return [0, *(m.end() for m in _LINE_END.finditer(self.text))]
        return [0, *itertools.accumulate([len(line) + 1 for line in self.text.split("\n")][:-1])]

    def offset(self, line: int, utf8_column: int) -> int:
        """The text offset of a position as `ast` gives it: 1-based line, 0-based column in UTF-8 bytes."""
        start = self.starts[line - 1]
        if self._ascii or utf8_column == 0:
            return start + utf8_column
        end = self.starts[line] if line < len(self.starts) else len(self.text)
        prefix = self.text[start:end].encode("utf-8", "surrogatepass")[:utf8_column]
        return start + len(prefix.decode("utf-8", "surrogatepass"))

    def position(self, offset: int) -> tuple[int, int]:
        """The 1-based line and 1-based character column of an offset."""
        line = bisect.bisect_right(self.starts, offset)
        return line, offset - self.starts[line - 1] + 1

    def line_start(self, offset: int) -> int:
        """The offset at which the line of `offset` begins."""
        return self.starts[bisect.bisect_right(self.starts, offset) - 1]

    def line_end(self, offset: int) -> int:
        """The offset just after the line end of the line of `offset` (the text's length on the last line)."""
        line = bisect.bisect_right(self.starts, offset)
        return self.starts[line] if line < len(self.starts) else len(self.text)

    def newline_near(self, offset: int) -> str:
        """The line end in use around an offset: of its line, else of the line before, else "\\n"."""
        line = bisect.bisect_right(self.starts, offset)
        for end in (line, line - 1):
            if 0 < end < len(self.starts) and (found := re.search(r"\r\n|\r|\n$", self.text[: self.starts[end]][-2:])):
                return found[0] if not self.text[: self.starts[end]].endswith("\r\n") else "\r\n"
        return "\n"


@dataclass(frozen=True, slots=True)
class Source:
    """A decoded file: `text` without the byte order mark, in `encoding`."""

    text: str
    encoding: str
    bom: bool

    def encode(self, text: str) -> bytes:
        """The file's bytes for a new text.

        Raises SourceError TM006 when the text does not fit the file's own encoding.
        """
        try:
            body = text.encode(self.encoding)
        except UnicodeEncodeError as error:
            raise SourceError(
                "TM006", f"cannot be written in {self.encoding} ({error.reason}); left as it was"
            ) from None
        return codecs.BOM_UTF8 + body if self.bom else body


def wide(data: bytes) -> str | None:
    """The encoding of two or four bytes a character that a byte order mark says, as Windows writes it, else None."""
    return next((name for mark, name in _WIDE if data.startswith(mark)), None)


def narrow(data: bytes) -> bytes:
    """The text of a wide encoding in UTF-8, to be searched and not written; other bytes as they are."""
    encoding = wide(data)
    return data.decode(encoding, "replace").encode("utf-8", "replace") if encoding else data


def read_python(data: bytes) -> Source:
    """Decode a Python file by its byte order mark and PEP 263 cookie.

    Raises SourceError TM001 for bytes that the declared encoding cannot decode and TM006 where decoding and encoding
    would not give the same bytes again.
    """
    _refuse_wide(data)
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    except SyntaxError as error:
        if "invalid or missing encoding" in (error.msg or ""):
            _decode(data, "utf-8")
        raise SourceError("TM001", f"cannot decode: {error.msg}", 1, 1) from None
    return _decode(data, "utf-8" if encoding == "utf-8-sig" else encoding)


def read_text(data: bytes) -> Source:
    """Decode a file that is not Python: UTF-8, with or without a byte order mark, else Latin-1 byte by byte.

    Raises SourceError TM001 for UTF-16 and UTF-32.
    """
    _refuse_wide(data)
    try:
        return _decode(data, "utf-8")
    except SourceError:
        return _decode(data, "latin-1")


def _refuse_wide(data: bytes) -> None:
    if encoding := wide(data):
        name = encoding.upper()
        raise SourceError("TM001", f"cannot decode: the file is in {name}; save it in UTF-8 (file not looked at)", 1, 1)


def _decode(data: bytes, encoding: str) -> Source:
    bom = data.startswith(codecs.BOM_UTF8) and codecs.lookup(encoding).name == "utf-8"
    body = data[len(codecs.BOM_UTF8) :] if bom else data
    try:
        text = body.decode(encoding)
    except UnicodeDecodeError as error:
        line = body.count(b"\n", 0, error.start) + 1
        column = error.start - (body.rfind(b"\n", 0, error.start) + 1) + 1
        message = f"cannot decode as {encoding}: byte 0x{body[error.start]:02x}; add the right coding comment"
        raise SourceError("TM001", message, line, column) from None
    except (LookupError, ValueError) as error:
        raise SourceError("TM001", f"cannot decode: {error}", 1, 1) from None
    source = Source(text, encoding, bom)
    if source.encode(text) != data:
        raise SourceError("TM006", f"cannot be reproduced byte for byte (encoding {encoding}); left as it was", 1, 1)
    return source


@dataclass(frozen=True, slots=True, order=True)
class Splice:
    """Replace text[start:end] by `text`."""

    start: int
    end: int
    text: str


def splice(text: str, splices: Iterable[Splice]) -> str:
    """The text with all splices carried out.

    Splices must not overlap; several insertions at one offset come out in the order given. Raises ValueError else.
    """
    out: list[str] = []
    at = 0
    for one in sorted(splices, key=lambda s: (s.start, s.end)):
        if one.start < at:
            raise ValueError(f"overlapping splices at offset {one.start}")
        out += (text[at : one.start], one.text)
        at = one.end
    out.append(text[at:])
    return "".join(out)
