"""Subwords of the embedded recogniser: byte-pair encoding over a..z, apostrophe and word breaks, learned from sentences."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from pcg.asr.network.alphabet import CHARACTERS
from pcg.errors import AssetError

_BREAK = "▁"


class Subwords:
    """Text of CHARACTERS <-> tokens 0 .. size - 1. Every word begins with its break, so a token's length counts it."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self.lengths = [len(tokenizer.id_to_token(i)) for i in range(tokenizer.get_vocab_size())]

    @property
    def size(self) -> int:
        return len(self.lengths)

    @classmethod
    def learn(cls, texts: Iterable[str], size: int) -> "Subwords":
        """The `size` subwords that shorten `texts` most; every character is one of them."""
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(_BREAK, prepend_scheme="always")
        tokenizer.decoder = decoders.Metaspace(_BREAK, prepend_scheme="always")
        alphabet = [_BREAK, *CHARACTERS.strip()]
        trainer = trainers.BpeTrainer(
            vocab_size=size, initial_alphabet=alphabet, limit_alphabet=len(alphabet), show_progress=False
        )
        tokenizer.train_from_iterator(texts, trainer)
        return cls(tokenizer)

    @classmethod
    def load(cls, path: Path) -> "Subwords":
        try:
            return cls(Tokenizer.from_str(path.read_text(encoding="utf-8")))
        except Exception as error:
            raise AssetError(f"The subwords {path} are missing or damaged ({type(error).__name__}).") from error

    def to_json(self) -> str:
        return self._tokenizer.to_str(pretty=True)

    def encode(self, text: str) -> list[int]:
        return self._tokenizer.encode(text).ids if text else []

    def decode(self, tokens: Sequence[int]) -> str:
        return self._tokenizer.decode(list(tokens)).strip()
