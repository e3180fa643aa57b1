"""The tokenizer of a speech model from the hub: read, and asked which ids its speech codes have."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pcg.errors import AssetError, first_line

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast


def read_tokenizer(folder: Path) -> "PreTrainedTokenizerFast":
    """The tokenizer of a Llama 3 or a Qwen2; raises AssetError where there is none."""
    from transformers import PreTrainedTokenizerFast

    try:
        # It reads the same ids as the class of each model; `AutoTokenizer` would look that up, for longer than reading takes.
        return PreTrainedTokenizerFast.from_pretrained(folder, local_files_only=True)  # nosec B615 # a folder, no name
    except Exception as error:
        raise AssetError(f"The tokenizer in {folder} is missing or damaged ({first_line(error)}).") from error


def first_code(
    tokenizer: "PreTrainedTokenizerFast", folder: Path, code: str, codes: int, marks: Sequence[str], model: str, take: str
) -> int:
    """The id of speech code 0, where `code` with a number is the name of every code.

    Raises AssetError where one of `codes` codes or `marks` is not one id of its own, or the codes are not in order.
    model: whose tokenizer it should be; take: which one to take, if it is not.
    """
    known, codes_named = tokenizer.get_vocab(), [code.format(number) for number in range(codes)]
    if missing := [name for name in (*codes_named, *marks) if name not in known]:
        lacking = f"{len(missing):,} of {model}'s speech tokens, {missing[0]} first"
        raise AssetError(f"The tokenizer in {folder} lacks {lacking}: take the tokenizer of {take}.")
    first = known[codes_named[0]]
    if any(known[name] != first + number for number, name in enumerate(codes_named)):
        raise AssetError(f"The speech tokens in {folder} do not follow one another, as those of a {model} do.")
    return first
