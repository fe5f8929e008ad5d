"""What a server gets of each form of `servetune deploy`, read as those who run the form read it.

A shell runs its line. YAML is read by the rules of 1.1 and 1.2. The rest follows what its reader
documents, and fails on what that would refuse or replace:
systemd.syntax(7) and systemd.service(5), Command Lines; Compose, Interpolation;
Kubernetes, Container.args and EnvVar.value; KServe's config-llm-template.yaml.
"""

import json
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from ruamel.yaml import YAML

END = "\x01end"
STUB = f"#!/bin/sh\nprintf '%s\\0' \"$@\" '{END}'\nexec env -0\n"
"""A program in vLLM's place: writes what it gets."""


class Got(NamedTuple):
    """The words after `vllm serve`, and the environment: all of it, or what the form sets."""

    words: list[str]
    environment: dict[str, str]


def write_stub(folder: Path) -> Path:
    """Write the program in vLLM's place."""
    stub = folder / "vllm"
    stub.write_text(STUB)
    stub.chmod(0o755)
    return stub


def run_line(text: str, shell: str, environment: Mapping[str, str]) -> Got:
    """Run a text in a shell, comments and all."""
    given = {"PATH": "/usr/bin:/bin", **environment}
    done = subprocess.run([shell, "-c", text], env=given, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    words, _, variables = done.stdout.decode().partition(f"{END}\0")
    pairs = (each.partition("=") for each in variables.split("\0") if each)
    return Got(_after_serve(words.split("\0")[:-1]), {name: value for name, _, value in pairs})


def _after_serve(words: list[str]) -> list[str]:
    assert words[0] == "serve"
    return words[1:]


def read_unit(text: str) -> Got:
    """Read a unit as systemd does."""
    lines = [line for line in text.split("\n") if line and line[0] not in "#;"]
    assert not any(line.endswith("\\") for line in lines), "would go on in the next line"
    words: list[list[str]] = []
    environment: dict[str, str] = {}
    for line in lines:
        key, _, value = line.partition("=")
        if key == "Environment":
            pairs = (word.partition("=") for word in map(_specified, _unquoted(value)))
            environment |= {name: content for name, _, content in pairs}
        elif key == "ExecStart":
            program, *rest = map(_specified, _unquoted(value))
            assert program.startswith("/") and not set(program) & set("\"'\\$")
            words.append([_substituted(word) for word in rest])
        else:
            assert line in KNOWN_LINES or key == "Description", line
    (only,) = words
    return Got(_after_serve(only), environment)


KNOWN_LINES = {
    *("[Unit]", "After=network-online.target", "Wants=network-online.target", "[Service]"),
    *("EnvironmentFile=/etc/vllm.env", "DynamicUser=yes", "CacheDirectory=vllm"),
    *("Restart=on-failure", "TimeoutStopSec=60", "[Install]", "WantedBy=multi-user.target"),
}


def _unquoted(value: str) -> Iterator[str]:
    """Split into words: quotes of both kinds, and escapes of C."""
    word: str | None = None
    quote = ""
    at = 0
    while at < len(value):
        c = value[at]
        at += 1
        if c == "\\":
            assert value[at] in "\\\"'", "no other escape is written"
            word, at = (word or "") + value[at], at + 1
        elif quote and c == quote:
            quote = ""
        elif not quote and c in "\"'":
            quote, word = c, word or ""
        elif not quote and c in " \t;":
            assert c != ";", "ends a command"
            if word is not None:
                yield word
            word = None
        else:
            word = (word or "") + c
    assert not quote
    if word is not None:
        yield word


def _specified(word: str) -> str:
    assert not re.search("(?<!%)(?:%%)*%(?!%)", word), "a specifier"
    return word.replace("%%", "%")


def _substituted(word: str) -> str:
    return _without_variables(word, r"\$(?:\{|[A-Za-z_])")


def _without_variables(text: str, variable: str) -> str:
    """Halve dollars; fails where what is left of a run of them begins a variable."""

    def halved(run: re.Match[str]) -> str:
        is_odd = len(run[0]) % 2
        assert not (is_odd and re.match(variable, text[run.end() - 1 :])), "a variable"
        return "$" * (len(run[0]) // 2 + is_odd)

    return re.sub(r"\$+", halved, text)


def documents(text: str) -> list[dict[str, Any]]:
    """Read YAML by both of its versions, which have to agree."""
    found = list(YAML(typ="safe").load_all(text))
    assert list(yaml.safe_load_all(text)) == found
    return found


def read_compose(text: str, environment: Mapping[str, str]) -> Got:
    """Read a Compose file with the variables of a shell."""
    (document,) = documents(text)
    service = _each_text(document, lambda text: _interpolated(text, environment))["services"][
        "vllm"
    ]
    assert service["entrypoint"] == ["vllm", "serve"]
    return Got(service["command"], service["environment"])


_COMPOSE = re.compile(
    r"\$(?:(?P<escaped>\$)|\{(?P<name>[A-Za-z_]\w*)(?P<then>:[?-])(?P<more>[^}]*)\}|(?P<other>))"
)


def _interpolated(text: str, environment: Mapping[str, str]) -> str:
    def value(found: re.Match[str]) -> str:
        if found["escaped"]:
            return "$"
        assert found["other"] is None, f"{text!r} has a variable that nobody wrote"
        given = environment.get(found["name"], "")
        assert given or found["then"] == ":-", f"{found['name']}: {found['more']}"
        return given or found["more"]

    return _COMPOSE.sub(value, text)


def _each_text(content: Any, change: Callable[[str], str]) -> Any:
    if isinstance(content, str):
        return change(content)
    if isinstance(content, list):
        return [_each_text(each, change) for each in content]
    if isinstance(content, dict):
        return {key: _each_text(value, change) for key, value in content.items()}
    return content


def container_of(document: dict[str, Any]) -> dict[str, Any]:
    """Return the container that serves in a manifest."""
    spec = document["spec"]
    template = spec.get("template") or {}
    pod = spec.get("predictor") or template.get("spec") or template
    (container,) = pod["containers"]
    return dict(container)


def read_container(container: dict[str, Any], secrets: Mapping[str, str]) -> Got:
    """Read a container of Kubernetes; `secrets` holds the keys of the Secret `vllm`."""
    environment = {}
    for variable in container["env"]:
        assert variable["name"] not in environment
        if "value" in variable:
            environment[variable["name"]] = _expanded(variable["value"])
        else:
            reference = variable["valueFrom"]["secretKeyRef"]
            assert reference["name"] == "vllm"
            assert reference["key"] in secrets or reference["optional"]
            environment[variable["name"]] = secrets.get(reference["key"], "")
    words = [_expanded(word) for word in container.get("args", [])]
    return Got(words, environment)


def _expanded(text: str) -> str:
    return _without_variables(text, r"\$\(")


def read_llm_inference_service(text: str, secrets: Mapping[str, str], stub: Path) -> Got:
    """Read KServe's LLMInferenceService: as a template of Go, a pod, and a line of its shell."""
    (document,) = documents(text)
    filled = re.sub(r"\{\{(.*?)\}\}", _action, json.dumps(document))
    container = container_of(json.loads(filled))
    got = read_container(container, secrets)
    more = got.environment.pop("VLLM_ADDITIONAL_ARGS")
    line = f'eval "exec {stub} serve /mnt/models ${{VLLM_ADDITIONAL_ARGS}} $@"'
    ran = run_line(line, "/bin/bash", {"VLLM_ADDITIONAL_ARGS": more})
    return Got(ran.words, got.environment)


def _action(found: re.Match[str]) -> str:
    assert re.fullmatch("`[^`]*`", found[1]), f"{found[0]} is an action that nobody wrote"
    return found[1].strip("`")
