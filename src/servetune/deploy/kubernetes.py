"""Manifests for Kubernetes: a Deployment with its Service, and KServe's kinds.

Secrets are named and never written. Checkpoints that no hub has are expected on the volume
claim `models`, each in a folder of its id.
"""

import re
import shlex
from typing import Any

from servetune.deploy.escaping import doubled, in_template
from servetune.deploy.served import Checkpoint, Served
from servetune.errors import UserError

PORT = 8000
"""Where vLLM listens by default."""

CLAIM = "models"
SECRET = "vllm"
"""The Secret that holds what a server gets and no manifest says."""

MORE = "VLLM_ADDITIONAL_ARGS"

Manifest = dict[str, Any]

Volume = tuple[Manifest, Manifest]
"""A volume of a pod, and how a container mounts it."""

SHARED_MEMORY: Volume = (
    {"name": "shm", "emptyDir": {"medium": "Memory"}},
    {"name": "shm", "mountPath": "/dev/shm"},
)
"""Workers of tensor parallelism need more than the 64 MB of a container."""


def image_of(vllm: str | None, gpus: int) -> str:
    """Return vLLM's official image of a version, for GPUs or for a CPU."""
    version = f"v{vllm.split('+')[0]}" if vllm else "latest"
    if gpus:
        return f"vllm/vllm-openai:{version}"
    return f"public.ecr.aws/q9t5s3a7/vllm-cpu-release-repo:{version}"


def in_container(model: Checkpoint) -> str:
    """Return where a checkpoint that no hub has lies in a container."""
    return f"/{CLAIM}/{model.id}"


def name_of(*parts: str) -> str:
    """Return a name as Kubernetes takes it: letters, digits and dashes, at most 40."""
    return re.sub(r"[^a-z0-9]+", "-", "-".join(parts).lower())[:40].strip("-")


def deployment(served: Served) -> list[Manifest]:
    """Return a Deployment and the Service before it."""
    name = name_of("vllm", served.study, served.name)
    labels = {"app": name}
    pod = _server(served, "vllm")
    return [
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": name, "labels": labels},
            "spec": {
                "replicas": 1,
                "selector": {"matchLabels": labels},
                # A second server beside the first would need as many GPUs again.
                "strategy": {"type": "Recreate"},
                "template": {"metadata": {"labels": labels}, "spec": pod},
            },
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": name, "labels": labels},
            "spec": {"selector": labels, "ports": [{"name": "http", "port": PORT}]},
        },
    ]


def inference_service(served: Served) -> list[Manifest]:
    """Return KServe's InferenceService, with a container of its own and no serving runtime."""
    return [
        {
            "apiVersion": "serving.kserve.io/v1beta1",
            "kind": "InferenceService",
            "metadata": {"name": name_of("vllm", served.study, served.name)},
            "spec": {"predictor": {"minReplicas": 1, **_server(served, "kserve-container")}},
        }
    ]


def llm_inference_service(served: Served) -> list[Manifest]:
    """Return KServe's LLMInferenceService.

    KServe brings the model to /mnt/models and serves it by a template of its own, which has
    address, probes and shared memory, and takes further words in VLLM_ADDITIONAL_ARGS, as a shell
    would read them. Before, it takes the whole manifest for a template of Go.

    Raises:
        UserError: the variant sets VLLM_ADDITIONAL_ARGS itself.
    """
    if MORE in {*served.environment, *served.environment_from}:
        raise UserError(
            f"--as llm-inference-service: {MORE}: KServe takes the arguments of vLLM from it; use"
            " --as kserve"
        )
    model = served.model
    uri = f"hf://{model.repo}" if model.repo else f"pvc://{CLAIM}/{model.id}"
    more = shlex.join([*served.arguments, *served.speculative_words(in_container)])
    container = _container(served, "main")
    container["env"] = [
        {name: in_template(value) if name == "value" else value for name, value in each.items()}
        for each in [*container["env"], {"name": MORE, "value": doubled(more)}]
    ]
    is_local = served.draft is not None and not served.draft.repo
    return [
        {
            "apiVersion": "serving.kserve.io/v1alpha2",
            "kind": "LLMInferenceService",
            "metadata": {"name": name_of("vllm", served.study, served.name)},
            "spec": {
                "model": {
                    "uri": f"{uri}:{model.revision}" if model.revision else uri,
                    "name": served.name,
                },
                "replicas": 1,
                "router": {"gateway": {}, "route": {}, "scheduler": {}},
                "template": pod_of(container, [claim(CLAIM)] if is_local else []),
            },
        }
    ]


def _server(served: Served, name: str) -> Manifest:
    """Return a pod that serves on its own."""
    probe = {"httpGet": {"path": "/health", "port": PORT}, "periodSeconds": 10}
    container = {
        **_container(served, name),
        "command": ["vllm", "serve"],
        "args": [doubled(word) for word in served.words(in_container)],
        "ports": [{"containerPort": PORT}],
        # Weights and compilation take minutes; after that, half a minute of silence is long.
        "startupProbe": {**probe, "failureThreshold": 180},
        "readinessProbe": {**probe, "failureThreshold": 3},
    }
    return pod_of(container, [SHARED_MEMORY, *([claim(CLAIM)] if served.local else [])])


def _container(served: Served, name: str) -> Manifest:
    """Return what every container that serves has."""
    image = image_of(served.vllm, served.gpus)
    return {"name": name, "image": image, "env": _environment(served), **limits_of(served.gpus)}


def limits_of(gpus: int) -> Manifest:
    """Return what a container asks of its node."""
    return {"resources": {"limits": {"nvidia.com/gpu": gpus}}} if gpus else {}


def pod_of(container: Manifest, volumes: list[Volume]) -> Manifest:
    """Return a pod of one container with its volumes."""
    if not volumes:
        return {"containers": [container]}
    mounts = [mount for _, mount in volumes]
    return {
        "containers": [{**container, "volumeMounts": mounts}],
        "volumes": [volume for volume, _ in volumes],
    }


def claim(name: str, *, is_read_only: bool = True) -> Volume:
    """Return the volume of a claim, mounted at the root by its name."""
    return (
        {"name": name, "persistentVolumeClaim": {"claimName": name}},
        {"name": name, "mountPath": f"/{name}", "readOnly": is_read_only},
    )


def key_of(variable: str) -> str:
    """Return the key of the Secret that holds a variable."""
    return {"VLLM_API_KEY": "api-key", "HF_TOKEN": "hf-token"}.get(variable, variable)


def from_caller(served: Served) -> dict[str, bool]:
    """Name the variables that a server gets from the Secret; True of one that may be absent."""
    return {
        "VLLM_API_KEY": False,
        "HF_TOKEN": True,
        **dict.fromkeys(served.environment_from, False),
    }


def from_secret(name: str, key: str, *, is_optional: bool) -> Manifest:
    """Return a variable of a container whose value is in the Secret."""
    reference: Manifest = {"name": SECRET, "key": key, "optional": is_optional}
    return {"name": name, "valueFrom": {"secretKeyRef": reference}}


def _environment(served: Served) -> list[Manifest]:
    return [
        *({"name": name, "value": doubled(value)} for name, value in served.environment.items()),
        *(
            from_secret(name, key_of(name), is_optional=is_optional)
            for name, is_optional in from_caller(served).items()
        ),
    ]
