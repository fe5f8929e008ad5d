"""A bundle as one Job of Kubernetes, on the volume claim `bundles` that holds its file."""

from servetune.bundle.manifest import Manifest as Bundle
from servetune.deploy.kubernetes import (
    CLAIM,
    SHARED_MEMORY,
    Manifest,
    Volume,
    claim,
    from_secret,
    image_of,
    key_of,
    limits_of,
    name_of,
    pod_of,
)

BUNDLES = "bundles"
SCRATCH = "/tmp"
"""A volume of the pod's own: caches, and the packages that the image lacks."""

USER = 1000
"""Any but root's: images have no account of it."""

OF_NO_ACCOUNT = {
    **{"HOME": SCRATCH, "USER": "servetune", "LOGNAME": "servetune"},
    "SERVETUNE_LOCKS": f"{SCRATCH}/locks",
}
"""What libraries and locks would else take from an account or from the image's folders."""

GRACE_S = 120
"""A bundle that is told to end writes its results first."""


def job(bundle: Bundle) -> Manifest:
    """Return the Job; run again after an eviction, it goes on where it was."""
    study = bundle.study
    gpus = max([bundle.gpus, *(session.gpus for session in bundle.sessions)])
    (vllm, *_) = sorted({engine.vllm or "" for engine in bundle.engines.values()})
    models = [id.rsplit("-", 1)[0] for id in bundle.elsewhere]
    words = [
        *(f"/{BUNDLES}/{study}.pyz", "--folder", f"/{BUNDLES}/{study}"),
        *("--packages", f"{SCRATCH}/packages", "--results", f"/{BUNDLES}/{study}.tar.gz"),
        *(word for name in models for word in ("--model", f"{name}=/{CLAIM}/{name}")),
    ]
    container = {
        "name": "bundle",
        "image": image_of(vllm or None, gpus),
        "command": ["python3"],
        "args": words,
        "env": [
            *({"name": name, "value": value} for name, value in OF_NO_ACCOUNT.items()),
            *(
                from_secret(name, key_of(name), is_optional=False)
                for name in bundle.environment_from
            ),
        ],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            # NVIDIA's container toolkit may write the image's cache of libraries at the start.
            "readOnlyRootFilesystem": gpus == 0,
        },
        **limits_of(gpus),
    }
    scratch: Volume = (
        {"name": "scratch", "emptyDir": {}},
        {"name": "scratch", "mountPath": SCRATCH},
    )
    volumes = [SHARED_MEMORY, scratch, claim(BUNDLES, is_read_only=False)]
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
                    "automountServiceAccountToken": False,
                    "securityContext": {
                        **{"runAsNonRoot": True, "runAsUser": USER, "runAsGroup": USER},
                        # Lets it write to the claim.
                        "fsGroup": USER,
                        "seccompProfile": {"type": "RuntimeDefault"},
                    },
                    "restartPolicy": "OnFailure",
                    "terminationGracePeriodSeconds": GRACE_S,
                }
            },
        },
    }
