"""What each answer to the open offers of a file would change in it."""

from __future__ import annotations

from collections.abc import Sequence

from torchmigrate import compose
from torchmigrate.codemod import Change
from torchmigrate.diff import hunks
from torchmigrate.model import Proposal
from torchmigrate.module import Module
from torchmigrate.offers import Offer
from torchmigrate.rewrite import Taken, rewritten, take
from torchmigrate.source import Source, SourceError


def proposals_for(data: bytes, source: Source, module: Module, offers: Sequence[Offer]) -> tuple[Proposal, ...]:
    """What each answer to each open offer would change by itself, then together what touches the same lines."""
    found: list[Proposal] = []
    clusters: list[tuple[list[Taken], set[int]]] = []
    for offer in offers:
        if offer.findings[0].suppressed is not None:
            continue
        for choice, option in enumerate(offer.options):
            taken = take(offer, option)
            proposal = _proposal(data, source, module, [taken], choice)
            if proposal is None:
                continue
            found.append(proposal)
            if choice == 0 and isinstance(offer.plan, Change):
                lines = _lines_touched(module, taken)
                joined = [cluster for cluster in clusters if cluster[1] & lines]
                members = [one for cluster, _ in joined for one in cluster]
                lines.update(*(touched for _, touched in joined))
                clusters = [cluster for cluster in clusters if cluster not in joined] + [([*members, taken], lines)]
    together = (_proposal(data, source, module, cluster, 0) for cluster, _ in clusters if len(cluster) > 1)
    return (*found, *(proposal for proposal in together if proposal is not None))


def _proposal(data: bytes, source: Source, module: Module, cluster: Sequence[Taken], choice: int) -> Proposal | None:
    try:
        after = source.encode(rewritten(module, cluster))
    except (compose.Conflict, compose.NotPossible, SourceError):
        return None
    return Proposal(tuple(one.decision_key for one in cluster), choice, tuple(hunks(data, after)))


def _lines_touched(module: Module, taken: Taken) -> set[int]:
    lines: set[int] = set()
    for start, end in compose.regions(module, taken.edits):
        lines.update(range(module.lines.position(start)[0], module.lines.position(end)[0] + 1))
    return lines
