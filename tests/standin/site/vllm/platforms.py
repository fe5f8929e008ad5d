"""What there is to serve on: nothing, as on a login node, unless the environment names it."""

import os


def resolve_current_platform_cls_qualname() -> str:
    is_cpu = os.environ.get("VLLM_TARGET_DEVICE") == "cpu"
    return f"vllm.platforms.{'cpu.CpuPlatform' if is_cpu else 'interface.UnspecifiedPlatform'}"
