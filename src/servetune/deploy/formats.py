"""The forms in which a variant can be deployed, as text: what is known of it, then the form."""

import shlex
from collections.abc import Callable, Iterable
from typing import Any

from servetune.analysis.wording import comment
from servetune.deploy.escaping import (
    as_yaml,
    doubled,
    refuse_no_text,
    refuse_several_lines,
    systemd_argument,
    systemd_program,
    systemd_word,
)
from servetune.deploy.kubernetes import (
    PORT,
    SECRET,
    deployment,
    from_caller,
    image_of,
    in_container,
    inference_service,
    key_of,
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
    refuse_several_lines([*variables, *words], "command")
    line = shlex.join(["env", *variables, *words] if variables else words)
    # Before the command, as its arguments are for all to see.
    passed = "".join(f'{name}="${{{name}:?set it}}" ' for name in served.environment_from)
    secret = f"where {KEY} is set, clients need it"
    return f"{_comments([*served.notes, *own, secret])}{passed}{line}\n"


def systemd(served: Served) -> str:
    """Return a unit that serves this host; its secrets are in a file that only root reads."""
    program = str(served.command or "/opt/vllm/bin/vllm")
    words = ["serve", *served.words(_on_this_host), "--port", str(PORT)]
    variables = [f"{name}={value}" for name, value in served.environment.items()]
    refuse_several_lines([*variables, program, *words], "systemd")
    secrets = " and ".join(f"{name}=..." for name in (KEY, *served.environment_from))
    lines = [
        "[Unit]",
        f"Description=vLLM {served.vllm or ''}, {served.name} of {served.study}",
        "After=network-online.target",
        "Wants=network-online.target",
        "",
        "[Service]",
        f"# Holds {secrets}; mode 600.",
        "EnvironmentFile=/etc/vllm.env",
        "Environment=HOME=/var/cache/vllm",
        *(f"Environment={systemd_word(variable)}" for variable in variables),
        f"ExecStart={' '.join([systemd_program(program), *map(systemd_argument, words)])}",
        "DynamicUser=yes",
        "CacheDirectory=vllm",
        "Restart=on-failure",
        "TimeoutStopSec=60",
        "",
        "[Install]",
        "WantedBy=multi-user.target",
    ]
    return _comments(served.notes) + "\n".join(lines) + "\n"


def compose(served: Served) -> str:
    """Return a Compose file; a folder of models that no hub has is mounted."""
    refuse_no_text(_texts(served), "compose")
    required = {KEY: "set it to what clients must send", **dict.fromkeys(served.environment_from)}
    service: dict[str, Any] = {
        "image": image_of(served.vllm, served.gpus),
        "entrypoint": ["vllm", "serve"],
        "command": [doubled(word) for word in served.words(in_container)],
        "ports": [f"127.0.0.1:{PORT}:{PORT}"],
        # Workers of tensor parallelism share memory.
        "ipc": "host",
        "environment": {
            **{name: doubled(value) for name, value in served.environment.items()},
            "HF_TOKEN": "${HF_TOKEN:-}",
            **{name: f"${{{name}:?{why or 'set it'}}}" for name, why in required.items()},
        },
        "volumes": [
            "huggingface:/root/.cache/huggingface",
            *({"type": "bind", **_bound(each)} for each in served.local),
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
    "deployment": lambda served: _manifests(served, "deployment", deployment),
    "kserve": lambda served: _manifests(served, "kserve", inference_service),
    "llm-inference-service": lambda served: _manifests(
        served, "llm-inference-service", llm_inference_service
    ),
}
"""How to write each form."""


def _on_this_host(model: Checkpoint) -> str:
    return str(model.path)


def _bound(model: Checkpoint) -> dict[str, Any]:
    source = doubled(str(model.path))
    return {"source": source, "target": in_container(model), "read_only": True}


def _texts(served: Served) -> list[str]:
    """Return all texts of a variant that are not servetune's own."""
    paths = (str(model.path) for model in served.local)
    return [*served.words(in_container), *served.environment.values(), *paths]


def _comments(notes: Iterable[str]) -> str:
    return "".join(f"{comment(note)}\n" for note in notes)


def _manifests(
    served: Served, form: str, manifests: Callable[[Served], list[dict[str, Any]]]
) -> str:
    refuse_no_text(_texts(served), form)
    keys = ", ".join(f"{key_of(name)} for {name}" for name in from_caller(served))
    secret = f"of the Secret {SECRET}: {keys}"
    documents = "---\n".join(map(as_yaml, manifests(served)))
    return _comments([*served.notes, secret]) + documents
