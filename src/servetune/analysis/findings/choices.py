"""The arguments in which the servers of a study differ by choice: what it compares."""

import re
from collections.abc import Iterable, Sequence


def choices(commands: Iterable[Sequence[str]]) -> set[str]:
    """Name the arguments that choose, by a word or a switch, in which command lines differ.

    A number is none: another one than any variant has may be worth a try.
    """
    given = [_given(words) for words in {tuple(words) for words in commands if words}]
    differ = {name for one in given for name in one if len({each.get(name) for each in given}) > 1}
    return {name for name in differ if all(_is_word(one.get(name, "")) for one in given)}


def _given(words: tuple[str, ...]) -> dict[str, str]:
    """Return the long arguments of a command line, a switch with itself as its value."""
    given = {}
    for word, after in zip(words, (*words[1:], "--"), strict=True):
        if word.startswith("--"):
            name, _, value = word[2:].partition("=")
            value = value or (word if after.startswith("-") else after)
            given[name.removeprefix("no-").replace("-", "_")] = value
    return given


def _is_word(value: str) -> bool:
    return not re.match(r"[\d.{\[]", value)
