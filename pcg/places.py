"""Where the project's own files lie: in a checkout, or in a package that pip has installed."""

from pathlib import Path

_PACKAGE = Path(__file__).parent
PROJECT = _PACKAGE.parent
_INSTALLED = _PACKAGE / "assets"
ASSETS = _INSTALLED if _INSTALLED.is_dir() else PROJECT / "assets"
CACHE = PROJECT / "cache"
if _INSTALLED.is_dir():
    from platformdirs import user_cache_path

    CACHE = user_cache_path("pcg-lab")
