"""One file: bytes, codemods, project and policy in; findings and new bytes out. Pure: no file is read or written here.

Codemods plan on one shared view of the file; each plan becomes an offer, with one finding a place (`offers`). The
policy decides, the accepted offers are carried out together, and the result is parsed and compiled before anybody sees
it (`rewrite`).
"""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from dataclasses import replace

from torchmigrate.codemod import Codemod
from torchmigrate.digest import digest as digest
from torchmigrate.facts import Gathered, OwnFacts
from torchmigrate.formats import comments_of, open_file, readable
from torchmigrate.model import FileResult, Policy, Project
from torchmigrate.module import Module
from torchmigrate.offers import plan_file
from torchmigrate.parse import parse_python
from torchmigrate.proposals import proposals_for
from torchmigrate.rewrite import carry_out
from torchmigrate.source import SourceError
from torchmigrate.suppress import Suppressions

First = tuple[FileResult, Gathered, frozenset[str]]
"""What the first look at a file gives."""


def process(
    path: str,
    data: bytes,
    codemods: Sequence[Codemod],
    project: Project,
    policy: Policy,
    kind: str = "python",
) -> FileResult:
    """Look at one file and carry out what the policy accepts.

    `kind` is the file's format: "python", "notebook", or a format of `texts`. Never raises for bad input: what cannot
    be read is an error in the result.
    """
    return _look(path, data, codemods, project, policy, kind, None)[0]


def process_first(
    path: str,
    data: bytes,
    codemods: Sequence[Codemod],
    project: Project,
    policy: Policy,
    kind: str = "python",
) -> First:
    """`process` for a file that has not given its facts yet: the result with no facts but its own, those facts as
    (name, value) pairs, and the names of the facts that the result hangs on.

    Where those facts turn out to be different in all of the project the file has to be looked at again.
    """
    known = OwnFacts(project.facts)
    return _look(path, data, codemods, replace(project, facts=known), policy, kind, known)


def _look(
    path: str,
    data: bytes,
    codemods: Sequence[Codemod],
    project: Project,
    policy: Policy,
    kind: str,
    known: OwnFacts | None,
) -> First:
    """The result, the file's own facts if it has to give them to `known`, and what it read there."""
    gathered: Gathered = ()
    module: Module | None = None
    try:
        source, module = open_file(path, data, project, kind)
        if known is not None:
            gathered = tuple(fact for codemod in codemods if codemod.gathers for fact in codemod.facts(module))
            known.begin(gathered)
        suppressions = Suppressions.read(module.text, comments_of(module, kind))
        offers, errors = plan_file(path, module, codemods, kind, suppressions)
        findings = tuple(f for offer in offers for f in offer.findings)
        result = FileResult(path, findings, tuple(errors), digest=digest(data))
        if policy.propose:
            result = replace(result, proposals=proposals_for(data, source, module, offers))
        result = carry_out(result, data, source, module, offers, policy, kind)
    except SourceError as error:
        return FileResult(path, errors=(error.in_file(path),), digest=digest(data)), (), frozenset()
    finally:
        if module is not None:
            module.forget()
    return result, gathered, frozenset(known.read if known is not None else ())


def unreadable(path: str, before: bytes, after: bytes, project: Project, kind: str = "python") -> str | None:
    """Why a file's new content, written by a person, cannot be taken; None when it can."""
    try:
        source, module = open_file(path, before, project, kind)
        text = after[len(codecs.BOM_UTF8) :] if source.bom else after
        decoded = text.decode(source.encoding)
        if kind == "python":
            parse_python(decoded)
    except SourceError as error:
        return f"line {error.line}: {error.message}" if error.line else error.message
    except UnicodeDecodeError as error:
        return str(error)
    return None if readable(module, decoded, kind) else "the file would no longer be readable"
