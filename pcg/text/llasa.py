"""LLaSA (arXiv 2502.04128): a Llama 3 that was taught to go on, after a chat about a text, with the speech codes of X-codec2.

    user:       Convert the text to speech:<|TEXT_UNDERSTANDING_START|>reference text, text<|TEXT_UNDERSTANDING_END|>
    assistant:  <|SPEECH_GENERATION_START|> reference codes ...

Which ids these marks and codes have is asked of the tokenizer, never assumed.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from pcg.errors import AssetError, first_line
from pcg.text.prompt import Prompt, Reference, codes_at_pace, first_code, read_tokenizer
from pcg.text.reading import plain_words, spoken_length, wordless

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

LICENCE = "CC-BY-NC-4.0"
REFERENCE_SECONDS = (1.0, 15.0)
OWN_VOICE = "the model's own"
CONTEXT = 2048
"""Ids that a sequence had in training: prompt and speech together."""
DATE = "26 Jul 2024"
"""Llama 3.2's template writes a date into every prompt: today's, unless one is given, and tomorrow would sound different."""
INSTRUCTION = "Convert the text to speech:"
TEXT_START, TEXT_END = "<|TEXT_UNDERSTANDING_START|>", "<|TEXT_UNDERSTANDING_END|>"
SPEECH_START, SPEECH_END = "<|SPEECH_GENERATION_START|>", "<|SPEECH_GENERATION_END|>"
TOKENS_PER_CHARACTER = 3.3
"""Read English is about 15 characters of spelled-out words a second, and a second is 50 codes."""


@dataclass(frozen=True)
class LlasaReader:
    """Turns text into LLaSA's prompt by the chat template of its tokenizer; a reference may be empty (`OWN_VOICE`)."""

    tokenizer: "PreTrainedTokenizerFast"
    first_code: int
    end: int
    chunk_tokens: int = 500

    def tokens_for(self, text: str, reference: Reference | None = None) -> float:
        return codes_at_pace(lambda words: TOKENS_PER_CHARACTER * spoken_length(_plain(words)), text, reference)

    def prompt(self, text: str, reference: Reference) -> Prompt:
        return Prompt.within(CONTEXT, self.learned(text, reference).ids, self.tokens_for(text, reference))

    def learned(self, text: str, reference: Reference) -> Prompt:
        ids = torch.tensor(self._read(f"{_plain(reference.text)} {_plain(text)}".strip()), dtype=torch.int64)
        return Prompt.counted(torch.cat([ids, reference.codes.to(torch.int64) + self.first_code]))

    def _read(self, text: str) -> list[int]:
        chat = [
            {"role": "user", "content": f"{INSTRUCTION}{TEXT_START}{text}{TEXT_END}"},
            {"role": "assistant", "content": SPEECH_START},
        ]
        # What the template gives as ids is a list or an encoding, depending on the version; a string is a string.
        written = self.tokenizer.apply_chat_template(chat, tokenize=False, continue_final_message=True, date_string=DATE)
        return self.tokenizer(written, add_special_tokens=False)["input_ids"]


def load_reader(folder: Path, codes: int) -> LlasaReader:
    """The reader of the LLaSA in `folder` for a codec of so many `codes`.

    Raises AssetError where there is no tokenizer, no chat template, or where marks or codes are not each one id of their own,
    the codes in order.
    """
    tokenizer = read_tokenizer(folder)
    if not tokenizer.chat_template:
        raise AssetError(f"The tokenizer in {folder} has no chat template, so it is none of a LLaSA.")
    marks = (TEXT_START, TEXT_END, SPEECH_START, SPEECH_END)
    first = first_code(tokenizer, folder, "<|s_{}|>", codes, marks, "LLaSA", "a LLaSA with X-codec2")
    reader = LlasaReader(tokenizer, first, tokenizer.convert_tokens_to_ids(SPEECH_END))
    _check_template(reader, folder)
    return reader


def _check_template(reader: LlasaReader, folder: Path) -> None:
    """A tokenizer that cuts the marks into pieces, or a template that drops them, would make the model babble."""
    marks = reader.tokenizer.convert_tokens_to_ids([TEXT_START, TEXT_END, SPEECH_START])
    try:
        ids = reader._read("text")
    except Exception as error:
        raise AssetError(f"The chat template in {folder} cannot be used ({first_line(error)}).") from error
    if [i for i in ids if i in marks] != marks or ids[-1] != marks[-1]:
        raise AssetError(f"The chat template in {folder} does not end with {SPEECH_START} behind the text.")


def _plain(text: str) -> str:
    """The text on one line, without what the tokenizer would read as a mark or a speech code."""
    said = " ".join(plain_words(text).replace("<|", " ").replace("|>", " ").split())
    if text and not any(c.isalnum() for c in said):
        raise wordless(text)
    return said
