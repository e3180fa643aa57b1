"""What one visitor, and all of them together, may ask of a server. `SECURITY.md` promises these figures."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Sizes in bytes, times in seconds."""

    body: int = 1 << 20  # of a request
    body_seconds: float = 30.0  # until the body of a request for speech has come
    upload: int = 20 << 20  # of an upload, all its parts together
    upload_seconds: float = 120.0  # until an upload has come
    uploads_each_hour: int = 200 << 20  # of one visitor
    kept: int = 2 << 30  # of all uploads and takes on the disk
    free: int = 500 << 20  # that stay free on the disk
    keep_seconds: float = 6 * 3600.0  # how long an upload or a take stays
    job_seconds: float = 300.0  # that a job may hold the decoder
    posts_each_minute: int = 1200  # of one address: a class behind one address is one visitor
    waiting: int = 64  # takes that wait for a row of the batch
    stop_seconds: int = 5  # that open answers of the speech endpoint still have when it is told to stop
    sessions: int = 2048  # that are kept; the one that was used longest ago goes first


LIMITS = Limits()
