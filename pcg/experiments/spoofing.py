"""Spoof as a figure of a unit: how synthetic its tokens look to M50, the detector of MSpoofTTS that tells most.

It reads tokens and nothing else, and a result keeps its tokens: results of before there were detectors, or of other ones, are
judged as they lie, and nothing has to be said again, as it would only say the same tokens.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from pcg.spoof.detectors import M50, STEP, Detectors

if TYPE_CHECKING:
    from pcg.experiments.store import Store
    from pcg.experiments.unit import Record

JUDGED = "Spoof"


def judge_name(detectors: Detectors) -> str:
    """Who judges, with a digest of the weights: trained anew, they are another judge."""
    digest = hashlib.sha256()
    for name, tensor in detectors.by_name[M50.name].state_dict().items():
        digest.update(name.encode() + tensor.float().cpu().numpy().tobytes())
    return f"1 - P(real) by {M50.name} of the detectors {detectors.name} ({digest.hexdigest()[:8]})"


def spoof(detectors: Detectors, tokens: Sequence[int]) -> float | None:
    """The mean of 1 - P(real) over windows of 50 tokens, one every 5; None for fewer tokens than a window has."""
    last = len(tokens) - M50.span
    if last < 0:
        return None
    codes = torch.tensor(tokens, dtype=torch.int64)
    windows = torch.stack([codes[start : start + M50.span] for start in (*range(0, last, STEP), last)])
    return float(1 - detectors.real(M50, windows).mean())


def unjudged(record: "Record", judge: str) -> bool:
    """Whether its tokens are enough for a figure that it does not have, or whether another judge is named in it."""
    by, enough = record.context.get("judges", {}).get(JUDGED), len(record.result.tokens) >= M50.span
    return (enough and record.result.spoof is None) or (by != judge and (enough or by is not None))


def judged(records: "Sequence[Record]", voice: str, store: "Store", detectors: Detectors) -> "list[Record]":
    """`records` of `voice` with the spoof of all that are long enough; what was judged now is kept in `store`."""
    judge, complete = judge_name(detectors), []
    for record in records:
        if unjudged(record, judge):
            found = spoof(detectors, record.result.tokens)
            judges = {**record.context.get("judges", {}), JUDGED: judge}
            record = replace(record, result=replace(record.result, spoof=found), context={**record.context, "judges": judges})
            store.add(record.unit.key(voice), record)
        complete.append(record)
    return complete
