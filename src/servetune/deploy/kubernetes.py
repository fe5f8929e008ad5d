"""Manifests for Kubernetes: a Deployment with its Service, and KServe's kinds.

Secrets are named and never written. Checkpoints that no hub has are expected on the volume
claim `models`, each in a folder of its id.
"""

import re
import shlex
from typing import Any

from servetune.deploy.served import Checkpoint, Served

PORT = 8000
CLAIM = "models"
SECRET = "vllm"
"""The Secret whose keys `api-key` and `hf-token` the server gets; the latter may be absent."""

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
    address, probes and shared memory, and takes further words in VLLM_ADDITIONAL_ARGS.
    """
    model, words = served.model, served.words(in_container)
    uri = f"hf://{model.repo}" if model.repo else f"pvc://{CLAIM}/{model.id}"
    more = shlex.join(words[words.index("--served-model-name") + 2 :])
    arguments = shlex.join(served.arguments)
    container = _container(served, "main")
    container["env"].append(
        {"name": "VLLM_ADDITIONAL_ARGS", "value": " ".join(filter(None, [arguments, more]))}
    )
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
        # Kubernetes would replace $(a variable).
        "args": [word.replace("$(", "$$(") for word in served.words(in_container)],
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


def _environment(served: Served) -> list[Manifest]:
    keys = {"VLLM_API_KEY": ("api-key", False), "HF_TOKEN": ("hf-token", True)}
    secrets = [
        {
            "name": name,
            "valueFrom": {"secretKeyRef": {"name": SECRET, "key": key, "optional": optional}},
        }
        for name, (key, optional) in keys.items()
    ]
    return [*({"name": n, "value": v} for n, v in served.environment.items()), *secrets]
