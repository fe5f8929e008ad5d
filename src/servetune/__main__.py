"""The `servetune` command, which Ctrl-C ends in one line from its first moment on."""

import os
import signal
import sys

from servetune.lifetime.at_once import stop_at_once

_STOPPED = "servetune: stopped"


def main() -> None:
    """Run the command, and exit."""
    # A step's shell has it ignore Ctrl-C until it can end in order.
    if signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
        stop_at_once(_STOPPED, signal.SIGINT)
    # These take a second.
    from servetune.cli import app
    from servetune.lifetime.owners import OWNERS

    try:
        app()
    except SystemExit as end:
        # Of a step its pipeline tells.
        if end.code == 128 + signal.SIGINT and not os.environ.get(OWNERS):
            sys.stderr.write(f"{_STOPPED}\n")
        raise


if __name__ == "__main__":
    main()
