"""What was predicted before, so that a round of a tuning works out only what is new to it."""

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from servetune.files import write_json

T = TypeVar("T")
V = TypeVar("V", float, dict[str, float])


def kept_values(
    asked: Sequence[T],
    key_of: Callable[[T], bytes],
    predict: Callable[[Sequence[T]], Sequence[V]],
    path: Path,
) -> list[V]:
    """Return the values of what is asked, in its order; only those that no file has are predicted.

    The file then has these values and no others. A value counts for the same inputs under the same
    code of this package; a file that cannot be read has none.

    Args:
        asked: inputs.
        key_of: returns bytes that differ where inputs do.
        predict: returns the values of some of them, in their order.
        path: the file.
    """
    code = hashlib.sha256()
    for source in sorted(Path(__file__).parent.glob("*.py")):
        code.update(source.read_bytes())
    keys = [hashlib.sha256(code.digest() + key_of(one)).hexdigest() for one in asked]
    before = _read(path)
    new = {key: one for key, one in zip(keys, asked, strict=True) if key not in before}
    if new:
        before |= zip(new, predict(list(new.values())), strict=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, {key: before[key] for key in keys})
    return [before[key] for key in keys]


def _read(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
