"""Files that hold servers: shell, a --config YAML, compose, Kubernetes, serving-tests.json."""

import json
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from servetune.commands.words import Command, command_of, commands_in, is_cpu_image, version_of
from servetune.errors import UserError
from servetune.files import read_given

_MOST_BYTES = 4 * 1024**2

_TAKEN = (
    "a command (vllm serve …, docker run … vllm/vllm-openai …, vllm bench serve …), a --config YAML"
    " with model, a compose file, a KServe or Kubernetes manifest, or vLLM's serving-tests.json"
)


@dataclass
class Source:
    """Servers by name, and loads, each as words or by the names of its arguments.

    A load of a test names the server that it is for. `has_names` tells whether a reader knows the
    servers by their names, as those of a compose file.
    """

    servers: dict[str, Command] = field(default_factory=dict)
    benches: list[tuple[str | None, list[str] | dict[str, Any]]] = field(default_factory=list)
    has_names: bool = False


def source_of(word: str) -> Source:
    """Read a file by its path, or a command.

    Raises:
        UserError: it is none of what is taken; the message says what is.
    """
    path = Path(word)
    if not word.strip():
        raise UserError(f"from: nothing is given; expected {_TAKEN}")
    is_path = "\n" not in word and len(word) < 1000 and (path.exists() or _looks_like_file(word))
    text = read_given(path, word, _MOST_BYTES) if is_path else word
    name = word if is_path else "the command"
    try:
        if is_path and path.suffix == ".json":
            source = _of_tests(_json(text, name), name)
        elif is_path and path.suffix in (".yaml", ".yml"):
            source = _of_yaml(text, name)
        else:
            source = _of_text(text)
    except (AttributeError, KeyError, IndexError, TypeError, ValueError):
        # A manifest is large, and little of it is read: another shape of that little shows here.
        raise UserError(f"{name[:200]}: damaged, or of another shape; expected {_TAKEN}") from None
    for command in source.servers.values():
        _with_config(command)
    if not source.servers and not source.benches:
        raise UserError(f"from: {name[:200]}: holds no server of vLLM; expected {_TAKEN}")
    return source


def _with_config(command: Command) -> None:
    """Put the arguments of a --config file before those of the command, which win."""
    words = command.arguments
    for at, word in enumerate(words):
        option, joined, value = word.partition("=")
        if option != "--config" or not (joined or at + 1 < len(words)):
            continue
        name = value if joined else words[at + 1]
        rest = [*words[:at], *words[at + (1 if joined else 2) :]]
        content = yaml.load(read_given(Path(name), name, _MOST_BYTES), yaml.CSafeLoader)
        if not isinstance(content, dict):
            raise UserError(f"{name}: expected arguments of vllm serve by name")
        has_model = bool(rest) and not rest[0].startswith("-")
        model = [rest.pop(0)] if has_model else [str(content.get("model") or "")]
        given = {key: value for key, value in content.items() if key not in ("model", "model_tag")}
        command.arguments = [*filter(None, model), *_as_words(given), *rest]
        return


def _looks_like_file(word: str) -> bool:
    return " " not in word.strip() and word.endswith((".yaml", ".yml", ".json", ".sh", ".txt"))


def _of_text(text: str) -> Source:
    source = Source()
    for command in commands_in(text):
        if command.kind == "bench":
            source.benches.append((None, command.arguments))
        else:
            source.servers[f"server-{len(source.servers) + 1}"] = command
    return source


def _json(text: str, name: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{name}: cut off, damaged or no JSON: {error}") from None


def _of_tests(content: Any, name: str) -> Source:
    """Read vLLM's serving-tests.json: a list of tests, or that list under `tests`."""
    defaults: dict[str, Any] = {}
    if isinstance(content, dict) and isinstance(content.get("tests"), list):
        defaults, content = content.get("defaults") or {}, content["tests"]
    if not isinstance(content, list) or not all(isinstance(test, dict) for test in content):
        raise UserError(f"{name}: expected a list of tests, as vLLM's serving-tests.json has")
    source = Source()
    for test in content:
        merged = {**defaults, **test}
        parameters = {
            **(defaults.get("server_parameters") or {}),
            **(test.get("server_parameters") or {}),
        }
        key = str(merged.get("test_name") or f"test-{len(source.servers) + 1}")
        variables = merged.get("server_environment_variables") or {}
        source.servers[key] = Command(
            "serve",
            _as_words(parameters),
            {str(name): str(value) for name, value in variables.items()},
        )
        client = {
            **(defaults.get("client_parameters") or {}),
            **(test.get("client_parameters") or {}),
        }
        rates = merged.get("qps_list") or [client.get("request_rate", "inf")]
        limits = merged.get("max_concurrency_list") or [client.get("max_concurrency")]
        source.benches += [
            (key, {**client, "request_rate": rate, "max_concurrency": limit})
            for rate in rates
            for limit in limits
        ]
    return source


def _as_words(parameters: dict[str, Any]) -> list[str]:
    """Write arguments by name as words; an empty text is a flag, as in vLLM's own tests."""
    words: list[str] = []
    for name, value in parameters.items():
        option = f"--{str(name).replace('_', '-')}"
        if value is False:
            words.append(option.replace("--", "--no-", 1))
        elif value == "" or value is True or value is None:
            words.append(option)
        elif isinstance(value, list) and not any(isinstance(one, dict) for one in value):
            words += [option, *map(str, value)]
        elif isinstance(value, dict | list):
            words += [option, json.dumps(value)]
        else:
            words.append(f"{option}={value}")
    return words


def _of_yaml(text: str, name: str) -> Source:
    try:
        documents = [each for each in yaml.load_all(text, yaml.CSafeLoader) if each]
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        first = str(error).replace("\n", " ")[:200]
        raise UserError(f"{name}: cut off, damaged or no YAML: {first}") from None
    source = Source()
    for document in documents:
        if not isinstance(document, dict):
            continue
        source.has_names |= "services" in document or "apiVersion" in document
        if "services" in document:
            _of_compose(document, source)
        elif "kind" in document and "apiVersion" in document:
            _of_manifest(document, source, name)
        elif "model" in document or "model_tag" in document:
            words = _as_words({key: document[key] for key in document if key != "model"})
            model = document.get("model")
            source.servers["server-1"] = Command(
                "serve", [*([str(model)] if model else []), *words]
            )
    return source


def _of_compose(document: dict[str, Any], source: Source) -> None:
    services = document["services"]
    for key, service in services.items() if isinstance(services, dict) else ():
        if not isinstance(service, dict):
            continue
        entry = [*_listed(service.get("entrypoint")), *_listed(service.get("command"))]
        image = str(service.get("image") or "")
        command = command_of(entry) or (
            Command("serve", entry[1:] if entry[:1] == ["serve"] else entry)
            if "vllm" in image
            else None
        )
        if command is None:
            continue
        _name_environment(command, service.get("environment"))
        _of_image(command, image)
        source.servers[str(key)] = command


def _listed(words: Any) -> list[str]:
    if isinstance(words, str):
        # A block of YAML keeps the line breaks of a command.
        return shlex.split(words.replace("\\\n", " ").replace("\n", " "))
    return [str(word) for word in words] if isinstance(words, list) else []


def _name_environment(command: Command, environment: Any) -> None:
    """Take the variables of a container: a mapping, a list of NAME=VALUE, or of name and value."""
    if isinstance(environment, dict):
        entries = [(str(name), value) for name, value in environment.items()]
    else:
        entries = [
            (str(one.get("name")), one.get("value"))
            if isinstance(one, dict)
            else (str(one).partition("=")[0], str(one).partition("=")[2] or None)
            for one in environment or ()
        ]
    for name, value in entries:
        if value is None:
            command.names.append(name)
        else:
            command.environment[name] = str(value)


_MODELS = ("huggingface", "vllm")


def _of_manifest(document: dict[str, Any], source: Source, file: str) -> None:
    """Read KServe's kinds, and any other whose pods hold a container of vLLM's."""
    spec = document.get("spec") or {}
    key = str((document.get("metadata") or {}).get("name") or document["kind"])
    if document["kind"] == "InferenceService":
        predictor = spec.get("predictor") or {}
        if model := predictor.get("model"):
            _of_kserve_model(model, key, source, file)
            return
        containers = predictor.get("containers")
    elif document["kind"] in ("LLMInferenceService", "LLMInferenceServiceConfig"):
        _of_llm_service(spec, key, source, file)
        return
    else:
        pod = spec
        for step in ("jobTemplate", "spec", "template", "spec"):
            pod = pod.get(step) if isinstance(pod.get(step), dict) else pod
        containers = pod.get("containers")
    for container in containers or ():
        if command := _of_pod(container):
            source.servers[key] = command


def _of_pod(container: dict[str, Any]) -> Command | None:
    words = [*_listed(container.get("command")), *_listed(container.get("args"))]
    image = str(container.get("image") or "")
    command = command_of(words)
    if command is None and "vllm" in image:
        command = Command("serve", words[1:] if words[:1] == ["serve"] else words)
    if command is not None:
        _name_environment(command, container.get("env"))
        _of_image(command, image)
    return command


def _of_image(command: Command, image: str) -> None:
    command.version = version_of(image.rpartition(":")[2])
    command.is_cpu = is_cpu_image(image)


def _of_kserve_model(model: dict[str, Any], key: str, source: Source, file: str) -> None:
    kind = str((model.get("modelFormat") or {}).get("name") or "")
    if kind not in _MODELS:
        raise UserError(f"{file}: modelFormat {kind or 'missing'}: expected huggingface or vllm")
    args = _listed(model.get("args"))
    # KServe's own arguments, which its server takes before vLLM's.
    own = ("--model_name", "--model-name", "--backend", "--model_dir", "--model_id", "--model-id")
    kept: list[str] = []
    named: dict[str, str] = {}
    at = 0
    while at < len(args):
        option, joined, value = args[at].partition("=")
        if option in own:
            named[option.replace("-", "_").removeprefix("__")] = value if joined else args[at + 1]
            at += 1 if joined else 2
            continue
        kept.append(args[at])
        at += 1
    where = str(model.get("storageUri") or named.get("model_id") or "")
    command = Command("serve", [_model_at(where, file), *kept])
    _name_environment(command, model.get("env"))
    source.servers[key] = command


def _of_llm_service(spec: dict[str, Any], key: str, source: Source, file: str) -> None:
    model = spec.get("model") or {}
    command = Command("serve", [_model_at(str(model.get("uri") or ""), file)])
    template = spec.get("template") or {}
    for container in template.get("containers") or ():
        _of_image(command, str(container.get("image") or ""))
        words = _listed(container.get("args"))
        inner = command_of([*_listed(container.get("command")), *words])
        arguments = inner.arguments if inner else words
        # A template serves the model of its uri, whatever path the command names.
        command.arguments += (
            arguments[1:] if arguments[:1] and arguments[0][0] != "-" else arguments
        )
        environment = [*(container.get("env") or ())]
        for entry in environment:
            if isinstance(entry, dict) and entry.get("name") == "VLLM_ADDITIONAL_ARGS":
                command.arguments += shlex.split(str(entry.get("value") or ""))
        _name_environment(
            command,
            [
                entry
                for entry in environment
                if not (isinstance(entry, dict) and entry.get("name") == "VLLM_ADDITIONAL_ARGS")
            ],
        )
    for adapter in (model.get("lora") or {}).get("adapters") or ():
        path = _model_at(str(adapter.get("uri") or ""), file)
        command.arguments += ["--lora-modules", f"{adapter.get('name')}={path}"]
    parallel = spec.get("parallelism") or {}
    for name in ("tensor", "pipeline", "data"):
        if parallel.get(name):
            command.arguments += [f"--{name}-parallel-size", str(parallel[name])]
    source.servers[key] = command


def _model_at(uri: str, file: str) -> str:
    """Return the model of an address: hf://owner/name, or a path of a volume."""
    if uri.startswith("hf://"):
        return uri.removeprefix("hf://").partition(":")[0]
    if uri.startswith(("/", "file://")):
        return uri.removeprefix("file://")
    raise UserError(
        f"{file}: the model at {uri or '(nowhere)'}: expected hf://OWNER/NAME, or a path on this"
        " host"
    )
