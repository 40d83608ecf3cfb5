"""The qualified names under which one thing of torch is reached."""

from __future__ import annotations

_HOMES = ("torch.distributed", "torch.distributed.distributed_c10d")


def c10d(*names: str) -> tuple[str, ...]:
    """Both public spellings of functions and classes of `torch.distributed`."""
    return tuple(f"{home}.{name}" for name in names for home in _HOMES)


def leads_to(inside: str) -> bytes:
    """A regular expression for what a file's text must show before it can name `torch.<inside>` at all.

    `inside` is a regular expression for one name. Names are followed through imports and plain aliases of torch only.
    """
    return (
        rb"torch(?:\s*\.\s*(?:%b)|\s+as\s|\s+import\s(?:[^\n]*\b(?:%b)|[^\n]*[(\\*])"
        rb"|(?<=[=,(]torch)\s*[,;)\n]|(?<=[=,(] torch)\s*[,;)\n])"
    ) % (inside.encode(), inside.encode())


OTHER_ALIAS = rb"distributed\s+as\s+(?!(?:dist|distributed|c10d)\b)\w"
"""What a file shows that calls `torch.distributed` by a name which triggers such as `dist.send(` do not hold."""


NOT_BATCHED = {b"isend": rb"isend(?<!batch_isend)", b"irecv": rb"irecv(?<!isend_irecv)"}
"""What a file shows that names isend or irecv, not only batch_isend_irecv."""


def imports_from_distributed(names: str) -> bytes:
    """A regular expression for an import of one of some names (a regular expression) from `torch.distributed`."""
    return rb"torch\.distributed[\w.]*\s+import\s*(?:\([^)]*|[^\n]*)\b(?:%b)\b" % names.encode()


RELEASE_NOTES = "https://github.com/pytorch/pytorch/releases/tag/v2.15.0"
"""The notes of the release, for changes that have no pull request of their own on record."""


def pull(number: int) -> str:
    """The address of a pull request of PyTorch."""
    return f"https://github.com/pytorch/pytorch/pull/{number}"
