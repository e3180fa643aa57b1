"""NeuTTS by Neuphonic (Air: a Qwen2, Nano: a Llama): it goes on, after a text's phonemes, with the speech codes of NeuCodec.

    user: Convert the text to speech:<|TEXT_PROMPT_START|>reference phonemes, phonemes<|TEXT_PROMPT_END|>
    assistant:<|SPEECH_GENERATION_START|> reference codes ...

So its authors' code writes it, for inference and for training, as plain text and by no chat template; what stands before it
(a Llama's first id) is the tokenizer's. Phonemes are espeak-ng's for American English, with stress and punctuation.
"""

from dataclasses import dataclass
from pathlib import Path

from pcg.text.espeak import espeak_phonemes
from pcg.text.prompt import TokenizerReader, load_tokenizer_reader
from pcg.text.reading import PUNCTUATION, normalise, plain_words, wordless

APACHE, OPEN = "Apache-2.0", "LicenseRef-NeuTTS-Open-1.0"
"""Air's licence and Nano's, the NeuTTS Open License 1.0, which no list of licences has: commercial use only below a revenue."""
REFERENCE_SECONDS = (3.0, 15.0)
TEXT_START, TEXT_END = "<|TEXT_PROMPT_START|>", "<|TEXT_PROMPT_END|>"
SPEECH_START, SPEECH_END = "<|SPEECH_GENERATION_START|>", "<|SPEECH_GENERATION_END|>"


@dataclass(frozen=True)
class NeuTTSReader(TokenizerReader):
    """Turns text into NeuTTS's prompt; a reference may be empty, as in training, where an utterance had none.

    chunk_tokens: fewer than LLaSA's, since phonemes take more ids than letters do.
    """

    chunk_tokens: int = 400

    def words(self, text: str) -> str:
        """Spoken words in lower case; nothing of what the tokenizer would read as a mark or a speech code is left of them."""
        words = normalise(plain_words(text)).lower()
        if text and not any(c.isalpha() for c in words):
            raise wordless(text)
        return words

    def written(self, text: str) -> str:
        """Phonemes with a space between words, closed by a punctuation mark: in its authors' recipe every text had one."""
        words, marks = self.words(text), tuple(PUNCTUATION)
        closed = words if not words or words.endswith(marks) else words + "."
        return "".join(f"{symbol} " if symbol in marks else symbol for symbol in espeak_phonemes(closed)).strip()

    def read(self, written: str) -> list[int]:
        asked = f"user: Convert the text to speech:{TEXT_START}{written}{TEXT_END}\nassistant:{SPEECH_START}"
        return self.tokenizer(asked)["input_ids"]


def load_reader(folder: Path, codes: int) -> NeuTTSReader:
    """Return the reader of the NeuTTS in `folder` for a codec of so many `codes`; raises as `load_tokenizer_reader` does."""
    marks = (TEXT_START, TEXT_END, SPEECH_START, SPEECH_END)
    return load_tokenizer_reader(NeuTTSReader, folder, "<|speech_{}|>", codes, marks, "NeuTTS", "a NeuTTS Air or Nano")


def licence_of(folder: Path) -> str:
    """Return the SPDX identifier of the licence that a NeuTTS's card states; the narrower of the two where there is none."""
    from huggingface_hub import metadata_load

    try:
        stated = (metadata_load(folder / "README.md") or {}).get("license")
    except Exception:  # no card, or none that can be read
        stated = None
    return APACHE if str(stated).lower() == APACHE.lower() else OPEN
