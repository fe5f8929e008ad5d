"""How a text stands in each form, so that whoever reads the form has the same text again."""

import json
import re
from collections.abc import Iterable
from io import StringIO
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.nodes import ScalarNode
from ruamel.yaml.representer import RoundTripRepresenter

from servetune.analysis.wording import is_one_line
from servetune.errors import UserError


def refuse_several_lines(texts: Iterable[str], form: str) -> None:
    """Raise UserError where a form of lines is to hold a line break or a control character."""
    if text := next((text for text in texts if not is_one_line(text)), None):
        raise UserError(
            f"--as {form}: {json.dumps(text)[:80]}: has a line break or a control character,"
            " which this form cannot hold; use --as compose, or write it into a file"
        )


def refuse_no_text(texts: Iterable[str], form: str) -> None:
    """Raise UserError where YAML is to hold what no argument or no UTF-8 does."""
    for text in texts:
        if "\0" in text or any("\ud800" <= c <= "\udfff" for c in text):
            raise UserError(
                f"--as {form}: {json.dumps(text)[:80]}: has a NUL or bytes that are no UTF-8,"
                " which this form cannot hold; rename the file, or leave it out"
            )


def systemd_word(text: str) -> str:
    """Quote a word of `Environment=`: `%` begins a specifier, `\\` an escape."""
    if re.fullmatch(r"[\w@+=:,./-]+", text, re.ASCII):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped}"'


def systemd_argument(text: str) -> str:
    """Quote a word of `ExecStart=`, where `$` begins a variable as well."""
    return systemd_word(text).replace("$", "$$")


def systemd_program(path: str) -> str:
    """Quote the first word of `ExecStart=`; raises UserError where systemd would not run it."""
    if not path.startswith("/") or set(path) & set("\"'\\$"):
        raise UserError(
            f"--as systemd: {json.dumps(path)}: systemd runs no program of such a name;"
            " expected an absolute path without quotes, $ and backslashes"
        )
    return systemd_word(path)


def doubled(text: str) -> str:
    """Double each `$`: Compose takes it for a variable, and Kubernetes `$(...)` for one."""
    return text.replace("$", "$$")


def in_template(text: str) -> str:
    """Keep `{{` from a Go template, which KServe takes a whole LLMInferenceService for."""
    return text.replace("{{", "{{`{{`}}")


class _Quoting(RoundTripRepresenter):
    """Quotes whatever a reader of YAML 1.1 or 1.2 may take for something else than text."""


_PLAIN = re.compile(r"(--)?[A-Za-z/][A-Za-z0-9/._-]*")
_NO_TEXT = {"y", "n", "yes", "no", "on", "off", "true", "false", "null"}


def _represent(representer: RoundTripRepresenter, text: str) -> ScalarNode:
    is_plain = _PLAIN.fullmatch(text) and text.lower() not in _NO_TEXT
    style = None if is_plain else '"'
    node: ScalarNode = representer.represent_scalar("tag:yaml.org,2002:str", text, style=style)
    return node


_Quoting.add_representer(str, _represent)


def as_yaml(content: dict[str, Any]) -> str:
    """Write a document as YAML in ASCII, without anchors, and each text on one line."""
    writer, out = YAML(), StringIO()
    writer.Representer = _Quoting
    writer.default_flow_style = False
    writer.allow_unicode = False
    writer.representer.ignore_aliases = lambda data: True
    writer.width = 2**31
    writer.dump(content, out)
    return out.getvalue()
