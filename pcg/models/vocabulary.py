"""Which ids are speech, which is the end of speech, and how the LM head is sliced to just these.

Decoding, rules and groups count speech tokens from 0: code i is `i`, and the end of speech is `codes`, the last index. Only
this file knows which ids of the model they are.
"""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Vocabulary:
    """`first_code` is the model's id of speech code 0; the codes follow one another. `end` is the id of the end of speech."""

    codes: int
    first_code: int
    end: int

    @property
    def size(self) -> int:
        """Entries of a row of probabilities: every code and the end of speech."""
        return self.codes + 1

    @property
    def eos(self) -> int:
        """The end of speech as a token index."""
        return self.codes

    def model_ids(self) -> Tensor:
        """The model's id of every token index, `[size]`: the rows that the LM head is sliced to."""
        return torch.cat([torch.arange(self.first_code, self.first_code + self.codes), torch.tensor([self.end])])
