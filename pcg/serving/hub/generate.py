"""Speculative decoding of speech tokens for transformers: the README beside this folder says how it is called."""

from pcg.models.weights import Vocabulary
from pcg.serving.hub.speculator import speculator
from pcg.settings import Settings

DEFAULTS = Settings()


def generate(
    model,
    assistant_model=None,
    method="pcg",
    theta=DEFAULTS.theta,
    lookahead=DEFAULTS.lookahead,
    beta=DEFAULTS.beta,
    codes=65_536,
    first_code=128_264,
    end=128_261,
    seed=0,
    **asked,
):
    """`model.generate` with drafts by `assistant_model`, or by three layers of `model`; returns prompts and speech ids."""
    settings = Settings(method, theta=theta, lookahead=lookahead, beta=beta, seed=seed)
    vocabulary = Vocabulary(codes, first_code, end)
    speculate = speculator(model, assistant_model, settings, vocabulary, streamer=asked.get("streamer"))
    return model.generate(custom_generate=speculate, **{name: value for name, value in asked.items() if value is not None})
