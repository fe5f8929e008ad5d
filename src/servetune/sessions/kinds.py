"""Lines that say the same of different numbers, taken together."""

import re
from collections.abc import Iterable


def count_kinds(texts: Iterable[str]) -> list[tuple[str, int]]:
    """Return the first of each kind of text, with how many there are, in their order.

    Texts that differ in numbers alone are of one kind.
    """
    kinds: dict[str, tuple[str, int]] = {}
    for text in texts:
        kind = re.sub(r"\d+", "0", text)
        first, count = kinds.get(kind, (text, 0))
        kinds[kind] = first, count + 1
    return list(kinds.values())
