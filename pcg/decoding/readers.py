"""Who reads in a loop: the target's readers, and behind them those of whatever drafts."""

from collections.abc import Sequence

from pcg.decoding.feature_draft import FeatureDraft, FeatureReaders
from pcg.decoding.llama import DecodingLlama
from pcg.decoding.lookup import LookupReaders, PromptLookup
from pcg.decoding.state import Readers
from pcg.decoding.static import StaticPool
from pcg.prompt import Prompt

AnyDraft = DecodingLlama | PromptLookup | FeatureDraft
AnyReaders = Readers | LookupReaders


def make_readers(
    target: DecodingLlama, draft: AnyDraft | None, prompts: Sequence[Prompt], limit: int, pool: StaticPool | None = None
) -> list[AnyReaders]:
    """The readers of `target` and, unless it is None, of `draft`, for `prompts` and at most `limit` speech tokens a row (see
    `Readers`).

    They read in this order: first the target's prompts, then the draft's (`prefill`), since a feature draft reads the target's
    hidden states. pool: where readers of fixed shapes come from, on a GPU; a feature draft has none.
    """
    tapped = draft.tapped if isinstance(draft, FeatureDraft) else ()
    static = pool is not None and not tapped

    def plain(model: DecodingLlama) -> Readers:
        return pool.readers(model, prompts, limit) if static else Readers(model, prompts, limit, tapped)

    first = plain(target)
    if isinstance(draft, FeatureDraft):
        return [first, FeatureReaders(draft, first)]
    if isinstance(draft, PromptLookup):
        return [first, draft.readers(prompts)]
    return [first] if draft is None else [first, plain(draft)]
