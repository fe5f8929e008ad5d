"""The `serve` subcommand: its parser, and the server behind it."""

import argparse
from typing import Any

from ...platforms import resolve_current_platform_cls_qualname
from ...standin.arguments import add_arguments


class ServeSubcommand:
    name = "serve"

    @staticmethod
    def cmd(args: argparse.Namespace) -> None:
        from ...standin.server import serve

        serve(args)

    def subparser_init(self, subparsers: Any) -> argparse.ArgumentParser:
        if resolve_current_platform_cls_qualname().endswith("UnspecifiedPlatform"):
            raise RuntimeError("Failed to infer device type")
        parser: argparse.ArgumentParser = subparsers.add_parser(
            self.name, usage="vllm serve [model_tag] [options]"
        )
        add_arguments(parser)
        return parser


def cmd_init() -> list[ServeSubcommand]:
    return [ServeSubcommand()]
