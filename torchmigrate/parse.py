"""Python text to a syntax tree, also where the text is newer than the running Python."""

from __future__ import annotations

import ast
import warnings

from torchmigrate.source import SourceError


def parse_python(text: str) -> ast.Module:
    """The `ast` tree of a module; positions are those of `text`.

    Syntax that the running Python does not know yet is read with libcst and hidden from `ast` behind text of the same
    length (see `newer`). Raises SourceError TM001 where neither can read the text.
    """
    try:
        return _parse(text)
    except SyntaxError as error:
        from torchmigrate.newer import masked

        hidden = masked(text)
        if hidden is not None:
            try:
                return _parse(hidden)
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                pass
        raise _unreadable(error) from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise SourceError("TM001", f"cannot parse: {error or type(error).__name__}", 1, 1) from None


def _parse(text: str) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(text)


def _unreadable(error: SyntaxError) -> SourceError:
    return SourceError("TM001", f"cannot parse: {error.msg} (file not looked at)", error.lineno or 1, error.offset or 1)


def compiles(text: str) -> bool:
    """Whether Python can compile a module; only meaningful where `ast` itself can read it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            compile(text, "<migrated>", "exec", dont_inherit=True)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return False
    return True
