"""NeuTTS by Neuphonic (Air: a Qwen2, Nano: a Llama): it goes on, after a text's phonemes, with the speech codes of NeuCodec.

    user: Convert the text to speech:<|TEXT_PROMPT_START|>reference phonemes, phonemes<|TEXT_PROMPT_END|>
    assistant:<|SPEECH_GENERATION_START|> reference codes ...

So its authors' code writes it, for inference and for training, as plain text and by no chat template; what stands before it
(a Llama's first id) is the tokenizer's. Phonemes are espeak-ng's for American English, with stress and punctuation.
"""

from dataclasses import dataclass
from pathlib import Path

from pcg.errors import AssetError
from pcg.text.espeak import espeak_phonemes
from pcg.text.prompt import TokenizerReader, first_code, read_tokenizer
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
    """The reader of the NeuTTS in `folder` for a codec of so many `codes`.

    Raises AssetError where there is no tokenizer, or where marks or codes are not each one id of their own, the codes in order.
    """
    tokenizer, marks = read_tokenizer(folder), (TEXT_START, TEXT_END, SPEECH_START, SPEECH_END)
    first = first_code(tokenizer, folder, "<|speech_{}|>", codes, marks, "NeuTTS", "a NeuTTS Air or Nano")
    *said, end = tokenizer.convert_tokens_to_ids(list(marks))
    reader = NeuTTSReader(tokenizer, first, end)
    ids = reader.read("ə")
    # A tokenizer that cuts the marks into pieces, or that closes every text, would make the model babble.
    if [i for i in ids if i in said] != said or ids[-1] != said[-1]:
        raise AssetError(f"The tokenizer in {folder} does not read NeuTTS's marks as they are written.")
    return reader


def licence_of(folder: Path) -> str:
    """The SPDX identifier of the licence that a NeuTTS's card states; the narrower of the two where there is none."""
    from huggingface_hub import metadata_load

    try:
        stated = (metadata_load(folder / "README.md") or {}).get("license")
    except Exception:  # no card, or none that can be read
        stated = None
    return APACHE if str(stated).lower() == APACHE.lower() else OPEN
