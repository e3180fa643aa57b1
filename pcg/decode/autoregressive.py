"""The baseline: one target call for every token of every utterance."""

from collections.abc import Iterator, Sequence

from pcg.decode.model_runner import ModelRunner
from pcg.decode.sequence import DecodingSequence
from pcg.decode.speculative import Line, to_the_end
from pcg.takes.take import Round


def autoregressive(target: ModelRunner, utterances: Sequence[DecodingSequence]) -> Iterator[dict[int, Round]]:
    """Yield a Round a token for every row that still speaks, until its end of speech, its pause or its limit of tokens.

    The times in a Round are those of the whole batch.
    """
    return to_the_end(target, None, [Line(each) for each in utterances])
