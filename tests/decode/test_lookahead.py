"""Block verification is reached by settings."""

from pcg.settings import Settings


def test_block_verification_is_reached_by_settings(synthesizer):
    for method in ("sd", "pcg"):
        settings = Settings(method, theta=0.3, seed=1)
        token, whole = (synthesizer.take("hello", settings.with_(verification=v), "one") for v in ("token", "block"))
        assert token.tokens != whole.tokens
        assert synthesizer.take("hello", settings.with_(verification="block"), "one").tokens == whole.tokens
