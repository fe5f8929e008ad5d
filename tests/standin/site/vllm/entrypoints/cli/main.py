"""`python -m vllm.entrypoints.cli.main serve MODEL ...`."""

import os
import sys

from ...utils.argparse_utils import FlexibleArgumentParser
from .serve import cmd_init


def main() -> None:
    is_prepared = "vllm.entrypoints.openai.api_server" in sys.modules
    if is_prepared and os.environ.get("STANDIN_IMPORTS") == "die later":
        raise RuntimeError("these imports were of no use")
    os.environ["VLLM_TARGET_DEVICE"] = "cpu"
    os.environ.setdefault("VLLM_WORKER_MULTIPROC_METHOD", "spawn")
    parser = FlexibleArgumentParser(prog="vllm")
    subparsers = parser.add_subparsers(required=True, dest="subparser")
    commands = {command.name: command for command in cmd_init()}
    for command in commands.values():
        command.subparser_init(subparsers)
    args = parser.parse_args(sys.argv[1:])
    commands[args.subparser].cmd(args)


if __name__ == "__main__":
    main()
