"""What a link keeps of a stored take."""

from dataclasses import replace

from pcg.takes.stored import Stored


def in_a_link(stored: Stored) -> Stored:
    return replace(stored, origin=replace(stored.origin, digest=stored.origin.digest[:12], licence=""))
