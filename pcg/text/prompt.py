"""Text and reference speech -> the prompt of a model; here that of the embedded voice, in the shape of LLaSA's (`llasa.py`).

    TEXT_START  reference phonemes, text phonemes  TEXT_END  SPEECH_START  reference codes ...

Text and speech overlap in position: a phoneme stands at the moment when it will probably be spoken, a speech code at its own
moment, so that the attention that reads the text is local. The moments come from a table of typical durations, scaled to
the speed of the reference voice.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import torch
from torch import Tensor

from pcg.errors import AssetError, InputError, first_line
from pcg.text.reading import PUNCTUATION, WORD_BREAK, given_phonemes, normalise, phonemise, spoken_length, wordless

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast


SPECIALS = ("<text_start>", "<text_end>", "<speech_start>", "<speech_end>")


@dataclass(frozen=True)
class Prompt:
    """Model ids `[P]` and their positions `[P]` (float); the first generated code stands at `next_position`.

    room: the most codes that the model may put behind it; None where nothing but patience ends them.
    """

    ids: Tensor
    positions: Tensor
    next_position: float
    room: int | None = None

    @classmethod
    def counted(cls, ids: Tensor, room: int | None = None) -> "Prompt":
        """Return the prompt `ids [P]` of a model that counts its positions."""
        return cls(ids, torch.arange(len(ids), dtype=torch.float32), float(len(ids)), room)

    @classmethod
    def within(cls, context: int, ids: Tensor, wanted: float) -> "Prompt":
        """`counted`, of a model that has seen `context` positions in training.

        wanted: how many codes will probably follow. Raises InputError where there is no room for them.
        """
        room = context - len(ids)
        if room < wanted:
            given = f"{len(ids)} ids and about {wanted:.0f} more to be spoken"
            raise InputError("text with its reference", given, f"at most {context} together: take a shorter reference or text")
        return cls.counted(ids, room)


@dataclass(frozen=True)
class Reference:
    """A voice by example: its words, and its speech codes `[T]`; neither, where the model is to choose the voice."""

    text: str
    codes: Tensor


@dataclass(frozen=True)
class PhonemeReader:
    """Turns text into prompts. `durations[i]` is the typical length of `symbols[i]` in speech codes.

    Ids: the specials, then the symbols, then the speech codes. chunk_tokens: a text that will probably take more speech codes
    is said in pieces.
    """

    symbols: tuple[str, ...]
    durations: tuple[float, ...]
    chunk_tokens: int = 240

    @property
    def first_code(self) -> int:
        return len(SPECIALS) + len(self.symbols)

    @property
    def end(self) -> int:
        return SPECIALS.index("<speech_end>")

    def read(self, text: str) -> list[int]:
        """Symbol numbers of `text`, always closed by a punctuation mark; phonemes that no training text had are left out, and
        refused in words that are given by their phonemes."""
        words = normalise(text)
        closed = words if words[-1:] in tuple(PUNCTUATION) else words + "."
        number = {symbol: i for i, symbol in enumerate(self.symbols)}
        if unknown := [symbol for symbol in given_phonemes(text) if symbol not in number]:
            raise InputError("phoneme", unknown[0], "one of " + " ".join(self.symbols[1:]))
        found = [number[s] for s in phonemise(closed) if s in number]
        if not any(self.symbols[i] not in PUNCTUATION + WORD_BREAK for i in found):
            raise wordless(text)
        return found

    def expected_tokens(self, symbols: Sequence[int]) -> float:
        return sum(self.durations[s] for s in symbols)

    def tokens_for(self, text: str, reference: Reference | None = None) -> float:
        """Estimate the speech codes of `text` at the usual speed, or at that of `reference`. Raises PCGError."""
        expected = self.expected_tokens(self.read(text))
        return expected * self._pace(self.read(reference.text), reference.codes) if reference else expected

    def prompt(self, text: str, reference: Reference) -> Prompt:
        return self.assemble(self.read(reference.text), reference.codes, self.read(text))

    learned = prompt

    def assemble(self, reference: Sequence[int], codes: Tensor, text: Sequence[int]) -> Prompt:
        """Lay out reference symbols, its `codes [T]` and text symbols."""
        pace = self._pace(reference, codes)
        spans = torch.tensor([self.durations[s] for s in (*reference, *text)]) * pace
        ends = spans.cumsum(0)
        moments = ends - spans / 2
        symbol_ids = torch.tensor([*reference, *text]) + len(SPECIALS)
        start, stop, speech = (torch.tensor([i]) for i in range(3))
        ids = torch.cat([start, symbol_ids, stop, speech, codes + self.first_code])
        spoken = torch.arange(1, len(codes) + 1, dtype=torch.float32)
        positions = torch.cat([torch.zeros(1), moments, ends[-1:], torch.zeros(1), spoken])
        return Prompt(ids, positions, float(len(codes) + 1))

    def _pace(self, reference: Sequence[int], codes: Tensor) -> float:
        """Return how long the reference takes, where 1 is the usual."""
        return len(codes) / max(1.0, self.expected_tokens(reference))


CONTEXT = 2048
"""Ids that a sequence of LLaSA or NeuTTS had in training: prompt and speech together."""
TOKENS_PER_CHARACTER = 3.3
"""Read English is about 15 characters of spelled-out words a second, and a second is 50 codes."""


@dataclass(frozen=True)
class TokenizerReader(ABC):
    """Turns text into the prompt of a language model that was taught to speak: the tokenizer's ids of the text between marks,
    and the codes behind them. A reference may be empty.

    A family says which plain `words` a text has, how they are `written` for the model, and what ids those are (`read`).
    """

    tokenizer: "PreTrainedTokenizerFast"
    first_code: int
    end: int
    chunk_tokens: int = 500

    @abstractmethod
    def words(self, text: str) -> str: ...

    def written(self, text: str) -> str:
        return self.words(text)

    @abstractmethod
    def read(self, written: str) -> list[int]: ...

    def tokens_for(self, text: str, reference: Reference | None = None) -> float:
        usual = TOKENS_PER_CHARACTER * spoken_length(self.words(text))
        if reference is None or not len(reference.codes):
            return usual
        return usual * len(reference.codes) / max(1.0, TOKENS_PER_CHARACTER * spoken_length(self.words(reference.text)))

    def prompt(self, text: str, reference: Reference) -> Prompt:
        """Raises PCGError for a text that cannot be spoken, or that leaves no room for its speech."""
        return Prompt.within(CONTEXT, self.learned(text, reference).ids, self.tokens_for(text, reference))

    def learned(self, text: str, reference: Reference) -> Prompt:
        """`prompt` for training, where the speech is known, so that nothing has to be guessed of its length."""
        ids = self.read(f"{self.written(reference.text)} {self.written(text)}".strip())
        return Prompt.counted(torch.cat([torch.tensor(ids, dtype=torch.int64), reference.codes.long() + self.first_code]))


PromptReader = PhonemeReader | TokenizerReader
"""What a model wants to read before it speaks: a prompt that ends with the codes of the reference."""
R = TypeVar("R", bound=TokenizerReader)


def load_tokenizer_reader(
    kind: type[R], folder: Path, code: str, codes: int, marks: Sequence[str], model: str, whose: str
) -> R:
    """Load the reader of the `model` in `folder`, for a codec of so many `codes`, each named by `code` with its number.

    Args:
        marks: of the text's begin and end, and of the speech's.
        whose: tokenizer to take where this is none of the model's.

    Raises:
        AssetError: where there is no tokenizer, where codes or marks are not each one id of their own, the codes in order, or
            where a text is not read with its marks, so that the model would babble.
    """
    from transformers import PreTrainedTokenizerFast

    try:
        # It reads the same ids as the class of each model; `AutoTokenizer` would look that up, for longer than reading takes.
        tokenizer = PreTrainedTokenizerFast.from_pretrained(folder, local_files_only=True)  # nosec B615 # a folder, no name
    except Exception as error:
        raise AssetError(f"The tokenizer in {folder} is missing or damaged ({first_line(error)}).") from error
    known, codes_named = tokenizer.get_vocab(), [code.format(number) for number in range(codes)]
    if missing := [name for name in (*codes_named, *marks) if name not in known]:
        lacking = f"{len(missing):,} of {model}'s speech tokens, {missing[0]} first"
        raise AssetError(f"The tokenizer in {folder} lacks {lacking}: take the tokenizer of {whose}.")
    first = known[codes_named[0]]
    if any(known[name] != first + number for number, name in enumerate(codes_named)):
        raise AssetError(f"The speech tokens in {folder} do not follow one another, as those of a {model} do.")
    *opened, end = (known[mark] for mark in marks)
    reader = kind(tokenizer, first, end)
    try:
        ids = reader.read("a")
    except Exception as error:
        raise AssetError(f"The chat template in {folder} cannot be used ({first_line(error)}).") from error
    if [i for i in ids if i in opened] != opened or ids[-1] != opened[-1]:
        raise AssetError(f"The tokenizer in {folder} does not read {model}'s marks as they are written.")
    return reader
