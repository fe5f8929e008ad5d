"""The forms in which a variant can be deployed, as text: what is known of it, then the form."""

import shlex
from collections.abc import Callable, Iterable
from io import StringIO
from typing import Any

from ruamel.yaml import YAML

from servetune.deploy.kubernetes import (
    PORT,
    deployment,
    image_of,
    in_container,
    inference_service,
    llm_inference_service,
)
from servetune.deploy.served import Checkpoint, Served

KEY = "VLLM_API_KEY"


def command(served: Served) -> str:
    """Return a line for a shell, which serves at http://127.0.0.1:8000/v1."""
    program = str(served.command or "vllm")
    own = [] if served.command else [f"install before: pip install vllm=={served.vllm}"]
    own += [
        f"make before: servetune model {each.id}" for each in served.local if not each.path.exists()
    ]
    words = [program, "serve", *served.words(_on_this_host)]
    words += ["--host", "127.0.0.1", "--port", str(PORT)]
    variables = [f"{name}={value}" for name, value in served.environment.items()]
    line = shlex.join(["env", *variables, *words] if variables else words)
    secret = f"where {KEY} is set, clients need it"
    return f"{_comments([*served.notes, *own, secret])}{line}\n"


def systemd(served: Served) -> str:
    """Return a unit that serves this host; its key is in a file that only root reads."""
    program = str(served.command or "/opt/vllm/bin/vllm")
    words = [program, "serve", *served.words(_on_this_host), "--port", str(PORT)]
    variables = [f"Environment={_quoted(f'{n}={v}')}" for n, v in served.environment.items()]
    lines = [
        "[Unit]",
        f"Description=vLLM {served.vllm or ''}, {served.name} of {served.study}",
        "After=network-online.target",
        "Wants=network-online.target",
        "",
        "[Service]",
        f"# Holds {KEY}=...; mode 600.",
        "EnvironmentFile=/etc/vllm.env",
        *variables,
        f"ExecStart={' '.join(map(_quoted, words))}",
        "DynamicUser=yes",
        "CacheDirectory=vllm",
        "Environment=HOME=/var/cache/vllm",
        "Restart=on-failure",
        "TimeoutStopSec=60",
        "",
        "[Install]",
        "WantedBy=multi-user.target",
    ]
    return _comments(served.notes) + "\n".join(lines) + "\n"


def compose(served: Served) -> str:
    """Return a Compose file; a folder of models that no hub has is mounted."""
    service: dict[str, Any] = {
        "image": image_of(served.vllm, served.gpus),
        "entrypoint": ["vllm", "serve"],
        # Compose would replace a variable.
        "command": [word.replace("$", "$$") for word in served.words(in_container)],
        "ports": [f"127.0.0.1:{PORT}:{PORT}"],
        # Workers of tensor parallelism share memory.
        "ipc": "host",
        "environment": {
            **served.environment,
            KEY: f"${{{KEY}:?set it to what clients must send}}",
            "HF_TOKEN": "${HF_TOKEN:-}",
        },
        "volumes": [
            "huggingface:/root/.cache/huggingface",
            *(f"{each.path}:{in_container(each)}:ro" for each in served.local),
        ],
        "restart": "unless-stopped",
    }
    if served.gpus:
        gpus = {"driver": "nvidia", "count": served.gpus, "capabilities": ["gpu"]}
        service["deploy"] = {"resources": {"reservations": {"devices": [gpus]}}}
    content = {"services": {"vllm": service}, "volumes": {"huggingface": {}}}
    return _comments(served.notes) + as_yaml(content)


FORMS: dict[str, Callable[[Served], str]] = {
    "command": command,
    "compose": compose,
    "systemd": systemd,
    "deployment": lambda served: _manifests(served, deployment(served)),
    "kserve": lambda served: _manifests(served, inference_service(served)),
    "llm-inference-service": lambda served: _manifests(served, llm_inference_service(served)),
}
"""How to write each form."""


def _on_this_host(model: Checkpoint) -> str:
    return str(model.path)


def _quoted(word: str) -> str:
    """Quote a word as systemd reads it: percent signs and dollars stand for themselves."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{escaped}"' if set(escaped) & set(" \t\"'{}\\;") else escaped


def _comments(notes: Iterable[str]) -> str:
    return "".join(f"# {note}\n" for note in notes)


def _manifests(served: Served, manifests: list[dict[str, Any]]) -> str:
    return _comments(served.notes) + "---\n".join(map(as_yaml, manifests))


def as_yaml(content: dict[str, Any]) -> str:
    """Write a document as YAML, without anchors."""
    writer, out = YAML(), StringIO()
    writer.default_flow_style = False
    writer.representer.ignore_aliases = lambda data: True
    writer.width = 1000
    writer.dump(content, out)
    return out.getvalue()
