"""A bundle as one Job of Kubernetes, on the volume claim `bundles` that holds its file."""

from servetune.bundle.manifest import Manifest as Bundle
from servetune.bundle.start import NEEDED, TO_TUNE
from servetune.deploy.kubernetes import (
    CLAIM,
    SHARED_MEMORY,
    Manifest,
    claim,
    image_of,
    limits_of,
    name_of,
    pod_of,
)

BUNDLES = "bundles"
GRACE_S = 120
"""A bundle that is told to end writes its results first."""


def job(bundle: Bundle) -> Manifest:
    """Return the Job; run again after an eviction, it goes on where it was."""
    study = bundle.study
    gpus = max([bundle.gpus, *(session.gpus for session in bundle.sessions)])
    (vllm, *_) = sorted({engine.vllm or "" for engine in bundle.engines.values()})
    models = [id.rsplit("-", 1)[0] for id in bundle.elsewhere]
    words = [
        *("python3", f"/{BUNDLES}/{study}.pyz", "--folder", f"/{BUNDLES}/{study}"),
        *("--results", f"/{BUNDLES}/{study}.tar.gz"),
        *(word for name in models for word in ("--model", f"{name}=/{CLAIM}/{name}")),
    ]
    packages = " ".join(sorted({**NEEDED, **(TO_TUNE if bundle.is_tuned else {})}.values()))
    container = {
        "name": "bundle",
        "image": image_of(vllm or None, gpus),
        # vLLM's images lack a few of these; on a network without an index, mount an image with all.
        "command": ["sh", "-c", f'python3 -m pip install --quiet {packages} && exec "$@"', "sh"],
        "args": words,
        **limits_of(gpus),
    }
    volumes = [SHARED_MEMORY, claim(BUNDLES, is_read_only=False)]
    pod = pod_of(container, [*volumes, *([claim(CLAIM)] if models else [])])
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name_of("servetune", study)},
        "spec": {
            "backoffLimit": 3,
            "template": {
                "spec": {
                    **pod,
                    "restartPolicy": "OnFailure",
                    "terminationGracePeriodSeconds": GRACE_S,
                }
            },
        },
    }
