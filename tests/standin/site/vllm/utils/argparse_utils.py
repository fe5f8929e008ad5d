"""vLLM's argument parser, as far as it is asked for."""

import argparse
from typing import Any


class FlexibleArgumentParser(argparse.ArgumentParser):
    """An argument parser that takes underscores for dashes in the names of options."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        if args is not None:
            args = [_dashed(word) for word in args]
        return super().parse_known_args(args, namespace)


def _dashed(word: str) -> str:
    if not word.startswith("--"):
        return word
    name, equals, value = word.partition("=")
    return name.replace("_", "-") + equals + value
