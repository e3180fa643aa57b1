"""Texts and settings -> the decoding loop over them: which models read, by which sampler, and who chooses."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from pathlib import Path
from threading import RLock
from time import perf_counter

import numpy as np
import torch
from torch import Tensor

from pcg.audio import fade_ends
from pcg.codec.streaming import AudioStream
from pcg.decode.beam_search import Hierarchy, hierarchical
from pcg.decode.device_loop import DevicePool, decode
from pcg.decode.runners import make_runners
from pcg.decode.speculative import Request, sequence_of, to_the_end
from pcg.errors import InputError, PCGError
from pcg.groups.groups import Groups, GroupStatistics
from pcg.groups.library import GroupLibrary
from pcg.places import CACHE
from pcg.rules import Rule, block, coarse, exact, tolerant
from pcg.sampling import sampler_of
from pcg.settings import EXACT, METHODS, Settings, bounds
from pcg.spoof import SHIPPED, Detectors, load_detectors
from pcg.synthesis.voice import Voice
from pcg.take import Cycle, Round, Sound, Take, last_take
from pcg.text.prompt import Reference
from pcg.text.reading import at_pauses, check_text, cut, without_pauses

ONLY_EXACT = "as only rules that keep the target's distribution are allowed here"


@dataclass(frozen=True)
class Decoding:
    """One text while it is decoded: the seconds that its prompt took, and what `Decoder.steps` gives. elsewhere: whether
    another thread decodes it, so that the wait for a step is no measure of its work."""

    prefill_seconds: float
    steps: Iterator[Round | Cycle]
    elsewhere: bool = False


class Decoder:
    """The loops of one voice. `detectors` choose among beams: the shipped ones if none are given, if they know the voice.
    exact_only: refuse methods that change the target's distribution."""

    def __init__(self, voice: Voice, detectors: Detectors | None = None, exact_only: bool = False) -> None:
        self.voice, self._exact_only = voice, exact_only
        self._given = detectors
        self._pool = DevicePool() if voice.target.device.type == "cuda" else None

    @cached_property
    def detectors(self) -> Detectors | None:
        """None where there are none that know the codes of this voice."""
        found = self._given or (load_detectors() if SHIPPED.is_dir() else None)
        return found if found and found.fit(self.voice.usage) else None

    @property
    def methods(self) -> tuple[str, ...]:
        """Those that may speak: without a draft AR alone."""
        if self.voice.draft is None:
            return ("ar",)
        return EXACT if self._exact_only else METHODS

    def steps(
        self,
        text: str,
        speaker: Reference,
        settings: Settings,
        rule: Rule,
        generator: torch.Generator,
        plan: Hierarchy | None = None,
    ) -> Iterator[Round | Cycle]:
        """Read the prompt of `text`; return the loop behind it. A hierarchical one yields a Cycle and then its rounds."""
        request = self.request(text, speaker, settings, rule, generator)
        if settings.hierarchical:
            return self._search(request, plan or Hierarchy())
        return (step[0] for step in decode(self.voice.target, self.voice.draft, [request], self._pool))

    def request(self, text: str, speaker: Reference, settings: Settings, rule: Rule, generator: torch.Generator) -> Request:
        """Return the request of a text, as a `RunningBatch` takes it; hierarchical decoding has none."""
        self.check_method(settings.method)
        if settings.hierarchical and self._exact_only:
            raise InputError("hierarchical", "true", f"false, {ONLY_EXACT}")
        if settings.hierarchical and self.detectors is None:
            raise InputError("hierarchical", "true", "false, as no spoof detectors know the codes of this voice")
        prompt = self.voice.reader.prompt(text, speaker)
        # A model that does not find its end must not speak for ever.
        patience = int(1.6 * self.voice.reader.tokens_for(text, speaker)) + 40
        limit = patience if prompt.room is None else min(patience, prompt.room)
        chosen = (None, 0) if settings.method == "ar" else (rule, settings.lookahead)
        return Request(prompt, limit, generator, sampler_of(settings), *chosen)

    def check_method(self, method: str) -> None:
        """Raise InputError for a method that may not speak."""
        if method not in self.methods:
            reason = "as no draft is loaded" if self.voice.draft is None else ONLY_EXACT
            raise InputError("method", method, f"{' or '.join(self.methods)}, {reason}")

    def _search(self, request: Request, plan: Hierarchy) -> Iterator[Round | Cycle]:
        prompts, limit = [request.prompt] * plan.beams[0], request.positions - len(request.prompt.ids)
        runners = make_runners(self.voice.target, self.voice.draft if request.rule else None, prompts, limit)
        for runner in runners:
            runner.prefill([0])
        advance = partial(to_the_end, *(*runners, None)[:2])

        def fork(source: int, rows: Sequence[int]) -> None:
            for runner in runners:
                runner.fork(source, rows)

        for cycle in hierarchical(advance, fork, self.detectors, plan, sequence_of(0, request)):
            yield cycle
            yield from cycle.rounds


CONTEXT_TOKENS = 50


class Synthesizer:
    """Speaks texts with one voice. Its `library` keeps neighbours and recent groups; everything else is per call.

    detectors: what hierarchical decoding needs. longest_seconds: a take that needs more is stopped with a PCGError. exact_only:
    refuse methods that change the target's distribution. `preparing` tells whether it warms up at the moment.
    """

    def __init__(
        self,
        voice: Voice,
        cache: Path | None = None,
        show_progress: bool = False,
        detectors: Detectors | None = None,
        longest_seconds: float = math.inf,
        exact_only: bool = False,
    ) -> None:
        self.voice, self.longest_seconds = voice, longest_seconds
        self.decoder = Decoder(voice, detectors, exact_only)
        self.library = GroupLibrary(
            voice.code_embedding,
            voice.codec,
            voice.usage > 0,
            floor=bounds("theta").low,
            cache_dir=cache or CACHE,
            shipped=voice.folder,
            device=voice.target.device.type,
            show_progress=show_progress,
        )
        # By thinning, whose cost hardly grows with the vocabulary; with singletons dense, which is SD.
        self._coarse = lru_cache(32)(lambda theta, by: coarse(self.groups(theta, by), "thinning" if theta < 1 else "dense"))
        self._warming_up, self.preparing = RLock(), False

    @property
    def methods(self) -> tuple[str, ...]:
        """Those that can speak: without a draft AR alone."""
        return self.decoder.methods

    def wait_until_warm(self) -> None:
        """Return after the warm-up, if one is under way: what compiles meanwhile would count as time of a take."""
        with self._warming_up:
            return

    def groups(self, theta: float, similarity: str = "cosine") -> Groups:
        """Return the Acoustic Similarity Groups at `theta`; the end of speech and codes that no corpus used stand alone."""
        bounds("theta").check("theta", theta)
        return self.library.groups(theta, similarity)

    def statistics(self, theta: float, similarity: str = "cosine") -> GroupStatistics:
        """Return the shape of the groups at `theta`, also weighted by how often the corpus used each code."""
        return self.groups(theta, similarity).statistics(self.voice.usage)

    def rule(self, settings: Settings) -> Rule:
        """Return the acceptance rule that `settings` ask for; AR, which drafts nothing, gets that of SD."""
        if settings.method == "pcg":
            return self._coarse(settings.theta, settings.similarity)
        if settings.verification == "block":
            return block
        return tolerant(settings.beta) if settings.method == "ssd" else exact

    def speak(
        self,
        text: str,
        settings: Settings,
        voice: str,
        reference: Reference | None = None,
        rule: Rule | None = None,
        stream: bool = False,
    ) -> Iterator[Round | Sound | Take]:
        """Yield every Round as it is done, and the Take last. Closing the generator stops the work.

        voice: the name of a known voice, or any name for `reference`. rule: a rule of the caller's own in place of the
        method's (it is used with any method but "ar"). stream: yield Sounds, too, as soon as their codes are known, and the
        silence of pauses; together they are the Take's audio. Time between two steps of the generator is not counted.
        """
        text = check_text(text)
        self.wait_until_warm()
        speaker = reference or self.voice.reference(voice)
        generator = torch.Generator().manual_seed(settings.seed)

        def decode(part: str) -> Decoding:
            begun = perf_counter()
            steps = self.decoder.steps(part, speaker, settings, rule or self.rule(settings), generator)
            return Decoding(perf_counter() - begun, steps)

        yield from self.voiced(text, settings, voice, speaker, decode, stream)

    def voiced(
        self,
        text: str,
        settings: Settings,
        voice: str,
        speaker: Reference,
        decode: Callable[[str], Decoding],
        stream: bool = False,
    ) -> Iterator[Round | Sound | Take]:
        """`speak` with another decoder: `decode` is called with each chunk of the text in turn."""
        rounds: list[Round] = []
        pieces: list[np.ndarray] = []
        cycles: list[Cycle] = []
        pauses: list[tuple[int, float]] = []
        hit_limit, rate = False, self.voice.codec.sample_rate
        prefill = codec = decoding = 0.0
        for part in self.script(text):
            if isinstance(part, float):
                pauses.append((sum(len(r.tokens) for r in rounds), part))
                pieces.append(np.zeros(round(part * rate), np.float32))
                if stream:
                    yield Sound(pieces[-1], rate)
                continue
            chunk = decode(part)
            prefill += chunk.prefill_seconds
            audio, first = AudioStream(self.voice.codec, self._context(speaker)) if stream else None, len(rounds)
            begun = perf_counter()
            for step in chunk.steps:
                if isinstance(step, Cycle):
                    cycles.append(step)
                    continue
                rounds.append(step)
                decoding += step.milliseconds / 1e3 if chunk.elsewhere else perf_counter() - begun
                if prefill + decoding + codec > self.longest_seconds:
                    raise PCGError(f"The take was stopped after {self.longest_seconds:g} s: try a shorter text.")
                yield step
                begun = perf_counter()
                if audio:
                    pieces.append(audio.push(step.tokens))
                    codec += perf_counter() - begun
                    if len(pieces[-1]):
                        yield Sound(pieces[-1], rate)
                    begun = perf_counter()
            hit_limit |= not rounds[-1].ended
            spoken = [token for round_ in rounds[first:] for token in round_.tokens]
            pieces.append(audio.finish() if audio else self.decode(spoken, speaker))
            codec += perf_counter() - begun
            if stream:
                yield Sound(pieces[-1], rate)
        costs = (1e3 * prefill, 1e3 * codec, prefill + decoding + codec)
        made = (np.concatenate(pieces), rate, hit_limit, *costs, tuple(cycles), tuple(pauses))
        yield Take(text, voice, settings, tuple(rounds), *made)

    def take(
        self, text: str, settings: Settings, voice: str, reference: Reference | None = None, rule: Rule | None = None
    ) -> Take:
        """`speak` to the end."""
        return last_take(self.speak(text, settings, voice, reference, rule))

    def warm_up(self) -> None:
        """Speak one short take a method: the first calls of a process are slow, and would flatter what is timed after them."""
        with self._warming_up:
            self.preparing = True
            for method in self.methods:
                self.take("Warming up.", Settings(method), next(iter(self.voice.references)))
            if "pcg" in self.methods:  # its dense residual is rare, and compiles on first use
                groups = self.groups(Settings().theta)
                groups.masses(np.zeros(groups.vocabulary))
            self.preparing = False

    def decode(self, tokens: list[int], speaker: Reference) -> np.ndarray:
        """Speech codes -> samples, `hop` for each; the end of the reference goes before them as context, and is cut off."""
        context = self._context(speaker)
        wave = self.voice.codec.decode(torch.cat([context, torch.tensor(tokens, dtype=torch.int64)]))
        return fade_ends(wave[len(context) * self.voice.codec.hop :].numpy(), self.voice.codec.sample_rate)

    def _context(self, speaker: Reference) -> Tensor:
        """Return the end of the reference, as much as the codec looks back on."""
        return speaker.codes[-getattr(self.voice.codec, "past_tokens", CONTEXT_TOKENS) :]

    def script(self, text: str) -> list[str | float]:
        """Return the text, in pieces of at most ten seconds or so (see `cut`), and the pauses between them in seconds."""
        reader, parts = self.voice.reader, list(at_pauses(text))
        said = [cut(part, reader.tokens_for, reader.chunk_tokens) if isinstance(part, str) else [part] for part in parts]
        script = [each for pieces in said for each in pieces]
        # A text that says nothing is left to the reader, which has the sentence for it.
        return script if any(isinstance(each, str) for each in script) else [without_pauses(text)]

    def chunks(self, text: str) -> list[str]:
        """Return the pieces of `script` alone: each is decoded by itself."""
        return [part for part in self.script(text) if isinstance(part, str)]
