"""Where the project and what the tests read of others stand."""

from pathlib import Path

ROOT = Path(__file__).parents[1]
DATA = ROOT / "tests" / "data"
GALLERY = ROOT / "gallery"
"""The folder of the recorded studies."""


def home_of(study: str) -> Path:
    """Return the folder that declares a study: the root, or the gallery."""
    own = ROOT / "studies" / f"{study}.yaml"
    return ROOT if own.is_file() else GALLERY
