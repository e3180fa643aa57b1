"""Where the project's own files lie: in a checkout, or in a package that pip has installed."""

from pathlib import Path

_PACKAGE = Path(__file__).parent
PROJECT = _PACKAGE.parent
_INSTALLED = _PACKAGE / "assets"
ASSETS = _INSTALLED if _INSTALLED.is_dir() else PROJECT / "assets"


def _cache() -> Path:
    if not _INSTALLED.is_dir():
        return PROJECT / "cache"
    from platformdirs import user_cache_path

    return user_cache_path("pcg-lab")


CACHE = _cache()
