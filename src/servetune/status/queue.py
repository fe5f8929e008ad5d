"""DVC's queue of experiments, read from the messages that it leaves for its workers."""

import base64
import json
from pathlib import Path
from typing import Any

QUEUE = Path(".dvc/tmp/exps/celery/broker/in")


def queued_experiments(root: Path) -> list[str]:
    """Return the names of the experiments that wait in DVC's queue, the first one first.

    Only files are read: `dvc queue status` takes a second, and a load may run beside this.
    """
    names = map(_name, sorted((root / QUEUE).glob("*.msg"), key=_sent_ms))
    return [name for name in names if name]


def _sent_ms(message: Path) -> int:
    sent = message.name.partition("_")[0]
    return int(sent) if sent.isdecimal() else 0


def _name(message: Path) -> str | None:
    """Return the name of the experiment of a message; None of another one, or one just taken."""
    try:
        content: dict[str, Any] = json.loads(message.read_bytes())
        (entry, *_), *_ = json.loads(base64.b64decode(content["body"]))
        return str(entry["name"] or entry["stash_rev"][:7])
    except (OSError, ValueError, KeyError, TypeError):
        return None
