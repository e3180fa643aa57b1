"""One model reading one utterance: its KV cache, and the positions of the speech tokens."""

import torch
from torch import Tensor

from pcg.decoding.llama import DecodingLlama
from pcg.prompt import Prompt


class Reader:
    """Feeds a prompt and then speech tokens (as law indices) to a model, and forgets them by a length.

    `read` counts the speech tokens that the cache holds.
    """

    def __init__(self, model: DecodingLlama, prompt: Prompt, limit: int) -> None:
        self._model = model
        self._prompt = prompt
        self._ids = model.vocabulary.model_ids()
        self._cache = model.cache(1, len(prompt.ids) + limit)
        self.read = 0

    @property
    def vocabulary_size(self) -> int:
        return self._model.vocabulary.size

    def prefill(self) -> None:
        """Read the prompt but for its last id, which waits for the first `feed`."""
        self._model.forward(self._prompt.ids[None, :-1], self._prompt.positions[:-1], self._cache, last=1)

    def feed(self, tokens: list[int], last: int) -> Tensor:
        """Read speech `tokens` and return the logits behind the `last` ids, `[last, V]`.

        The first call also reads the prompt's last id, so `feed([], 1)` gives the law of the first speech token.
        """
        ids = self._ids[tokens]
        first = self._prompt.next_position + self.read
        positions = torch.arange(len(tokens), dtype=torch.float32) + first
        if self.read == 0 and self._cache.length < len(self._prompt.ids):
            ids = torch.cat([self._prompt.ids[-1:], ids])
            positions = torch.cat([self._prompt.positions[-1:], positions])
        self.read += len(tokens)
        return self._model.forward(ids[None], positions, self._cache, last=last)[0]

    def roll_back(self, read: int) -> None:
        """Forget all but the first `read` speech tokens."""
        self._cache.roll_back(len(self._prompt.ids) + read)
        self.read = read
