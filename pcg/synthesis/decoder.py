"""Texts and settings -> the decoding loop over them: which models read, by which sampler, and who chooses."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import torch

from pcg.decode.autoregressive import autoregressive
from pcg.decode.beam_search import Advance, Hierarchy, hierarchical
from pcg.decode.cuda_graphs import GraphPool, GraphRunner
from pcg.decode.runners import AnyRunner, make_runners
from pcg.decode.running_batch import Request
from pcg.decode.sequence import DecodingSequence, begin
from pcg.decode.speculative import Drafting, speculative
from pcg.errors import InputError
from pcg.rules import Rule
from pcg.sampling import sampler_of
from pcg.settings import METHODS, Settings
from pcg.spoof.detectors import SHIPPED, Detectors, load_detectors
from pcg.synthesis.voice import Voice
from pcg.takes.take import Cycle, Round
from pcg.text.prompt import Prompt, Reference

DRAFT_CONFIDENCE = 0.3


@dataclass(frozen=True)
class Decoding:
    """One text while it is decoded: the seconds that its prompt took, and what `Decoder.steps` gives. elsewhere: whether
    another thread decodes it, so that the wait for a step is no measure of its work."""

    prefill_seconds: float
    steps: Iterator[dict[int, Round] | Cycle]
    elsewhere: bool = False


class Decoder:
    """The loops of one voice. `detectors` choose among beams: the shipped ones if none are given, if they know the voice."""

    def __init__(self, voice: Voice, detectors: Detectors | None = None) -> None:
        self.voice = voice
        self._given = detectors
        self._pool = GraphPool() if voice.target.device.type == "cuda" else None

    @cached_property
    def detectors(self) -> Detectors | None:
        """None where there are none that know the codes of this voice."""
        found = self._given or (load_detectors() if SHIPPED.is_dir() else None)
        return found if found and found.fit(self.voice.usage) else None

    @property
    def methods(self) -> tuple[str, ...]:
        """Those that can speak: without a draft AR alone."""
        return METHODS if self.voice.draft is not None else ("ar",)

    def steps(
        self,
        texts: Sequence[str],
        speaker: Reference,
        settings: Settings,
        rule: Rule,
        generators: Sequence[torch.Generator],
        plan: Hierarchy | None = None,
    ) -> Iterator[dict[int, Round] | Cycle]:
        """Read the prompts of `texts`; return the loop over them, a row a text. A hierarchical one takes one text, and yields a
        Cycle and then its rounds."""
        self._check(texts, settings)
        pairs = zip(texts, generators, strict=True)
        requests = [self.request(text, speaker, settings, rule, generator) for text, generator in pairs]
        lines = begin(sampler_of(settings), [each.limit for each in requests], generators)
        plan = (plan or Hierarchy()) if settings.hierarchical else None
        rows = plan.beams[0] if plan else 1
        draft = None if settings.method == "ar" else self.voice.draft
        limit = max(each.limit for each in requests) + settings.lookahead + 1
        runners = make_runners(self.voice.target, draft, [each.prompt for each in requests] * rows, limit, self._pool)
        for each in runners:
            each.prefill([0] if plan else None)
        advance = self._advance(runners, settings, rule)
        steps = self._search(advance, runners, plan, lines[0]) if plan else advance(lines)
        return self._to_the_end(steps, runners)

    def request(self, text: str, speaker: Reference, settings: Settings, rule: Rule, generator: torch.Generator) -> Request:
        """What a `RunningBatch` needs to know of a text; hierarchical decoding is nothing for one."""
        self._check([text], settings)
        prompt = self.voice.reader.prompt(text, speaker)
        limit, memory = self._limit(text, speaker, prompt), sampler_of(settings)
        chosen = (None, None) if settings.method == "ar" else (rule, _drafting(settings))
        return Request(prompt, limit, generator, memory, *chosen)

    def _check(self, texts: Sequence[str], settings: Settings) -> None:
        if settings.method not in self.methods:
            raise InputError("method", settings.method, "ar, as no draft is loaded")
        if not settings.hierarchical:
            return
        if self.detectors is None:
            raise InputError("hierarchical", "true", "false, as no spoof detectors know the codes of this voice")
        if len(texts) > 1:
            raise InputError("hierarchical", f"true for {len(texts)} texts side by side", "one text at a time")

    def _advance(self, runners: Sequence[AnyRunner], settings: Settings, rule: Rule) -> Advance:
        if settings.method == "ar":
            return partial(autoregressive, runners[0])
        return partial(speculative, *runners, rule, _drafting(settings))

    def _search(
        self, advance: Advance, runners: Sequence[AnyRunner], plan: Hierarchy, utterance: DecodingSequence
    ) -> Iterator[dict[int, Round] | Cycle]:
        def fork(source: int, rows: Sequence[int]) -> None:
            for each in runners:
                each.fork(source, rows)

        for cycle in hierarchical(advance, fork, self.detectors, plan, utterance):
            yield cycle
            for round_ in cycle.rounds:
                yield {0: round_}

    def _limit(self, text: str, speaker: Reference, prompt: Prompt) -> int:
        """The most codes that `text` may take: a model that does not find its end must not speak for ever."""
        patience = int(1.6 * self.voice.reader.tokens_for(text, speaker)) + 40
        return patience if prompt.room is None else min(patience, prompt.room)

    def _to_the_end(
        self, steps: Iterator[dict[int, Round] | Cycle], runners: Sequence[AnyRunner]
    ) -> Iterator[dict[int, Round] | Cycle]:
        try:
            yield from steps
        finally:
            for each in runners:
                if isinstance(each, GraphRunner):
                    self._pool.give_back(each)


def _drafting(settings: Settings) -> Drafting:
    return Drafting(settings.lookahead, DRAFT_CONFIDENCE if settings.adaptive else None, settings.lookahead_cost)
