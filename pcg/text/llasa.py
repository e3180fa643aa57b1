"""LLaSA (arXiv 2502.04128): a Llama 3 that was taught to go on, after a chat about a text, with the speech codes of X-codec2.

    user:       Convert the text to speech:<|TEXT_UNDERSTANDING_START|>reference text, text<|TEXT_UNDERSTANDING_END|>
    assistant:  <|SPEECH_GENERATION_START|> reference codes ...

Which ids these marks and codes have is asked of the tokenizer, never assumed.
"""

from dataclasses import dataclass
from pathlib import Path

from pcg.text.prompt import TokenizerReader, load_tokenizer_reader
from pcg.text.reading import plain_words, wordless

LICENCE = "CC-BY-NC-4.0"
REFERENCE_SECONDS = (1.0, 15.0)
OWN_VOICE = "the model's own"
DATE = "26 Jul 2024"
"""Llama 3.2's template writes a date into every prompt: today's, unless one is given, and tomorrow would sound different."""
INSTRUCTION = "Convert the text to speech:"
TEXT_START, TEXT_END = "<|TEXT_UNDERSTANDING_START|>", "<|TEXT_UNDERSTANDING_END|>"
SPEECH_START, SPEECH_END = "<|SPEECH_GENERATION_START|>", "<|SPEECH_GENERATION_END|>"


@dataclass(frozen=True)
class LlasaReader(TokenizerReader):
    """Turns text into LLaSA's prompt by the chat template of its tokenizer; a reference may be empty (`OWN_VOICE`)."""

    def words(self, text: str) -> str:
        """Return the text on one line, without what the tokenizer would read as a mark or a speech code."""
        said = " ".join(plain_words(text).replace("<|", " ").replace("|>", " ").split())
        if text and not any(c.isalnum() for c in said):
            raise wordless(text)
        return said

    def read(self, written: str) -> list[int]:
        chat = [
            {"role": "user", "content": f"{INSTRUCTION}{TEXT_START}{written}{TEXT_END}"},
            {"role": "assistant", "content": SPEECH_START},
        ]
        # What the template gives as ids is a list or an encoding, depending on the version; a string is a string.
        filled = self.tokenizer.apply_chat_template(chat, tokenize=False, continue_final_message=True, date_string=DATE)
        return self.tokenizer(filled, add_special_tokens=False)["input_ids"]


def load_reader(folder: Path, codes: int) -> LlasaReader:
    """Return the reader of the LLaSA in `folder` for a codec of so many `codes`; raises as `load_tokenizer_reader` does."""
    marks = (TEXT_START, TEXT_END, SPEECH_START, SPEECH_END)
    return load_tokenizer_reader(LlasaReader, folder, "<|s_{}|>", codes, marks, "LLaSA", "a LLaSA with X-codec2")
