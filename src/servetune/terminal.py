"""What a terminal is shown: text of others never steers it, nor turns its lines round."""

import re
import sys

# Controls of C0 and C1 but for tab and newline, ends of lines, bidirectional controls, and halves
# of characters, which no terminal can be sent.
_STEERS = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


def visible(text: str) -> str:
    r"""Return text with what steers a terminal as escapes, such as `\x1b` and `\u202e`.

    JSON stays the same JSON.
    """
    return _STEERS.sub(_escape, text)


def echo(text: object = "", *, error: bool = False) -> None:
    """Print lines to standard output, or to standard error."""
    print(visible(str(text)), file=sys.stderr if error else sys.stdout, flush=error)


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x20 else f"\\u{code:04x}"
