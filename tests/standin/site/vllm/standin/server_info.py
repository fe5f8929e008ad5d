"""GET /server_info: the configuration as the server resolved it, in vLLM's sections."""

import os
import platform
from typing import Any

from .metrics import cache_config
from .settings import EngineSettings, kv_cache_device


def server_info(settings: EngineSettings) -> dict[str, Any]:
    speculation = settings.speculation
    config = {
        "model_config": {
            "model": settings.model,
            "tokenizer": settings.model,
            "dtype": "torch.bfloat16",
            "seed": settings.seed,
            "max_model_len": settings.max_model_len,
            "served_model_name": settings.served_model_names[0],
        },
        "cache_config": cache_config(settings),
        "scheduler_config": {
            "max_num_batched_tokens": settings.max_num_batched_tokens,
            "max_num_seqs": settings.max_num_seqs,
        },
        "parallel_config": {"pipeline_parallel_size": 1, "tensor_parallel_size": 1},
        "kv_transfer_config": settings.kv_transfer_config,
        "device_config": {"device": kv_cache_device().lower()},
        "speculative_config": speculation
        and {"method": speculation.method, "num_speculative_tokens": speculation.tokens},
    }
    environment = {
        name: value
        for name, value in os.environ.items()
        if name.startswith("VLLM_") and "KEY" not in name
    }
    system = {
        "os": platform.platform(),
        "python_version": platform.python_version(),
        "is_cuda_available": "False",
        "nvidia_driver_version": None,
        "nvidia_gpu_models": None,
        "torch_version": None,
        "env_vars": "\n".join(f"{name}={value}" for name, value in environment.items()),
    }
    return {"vllm_config": config, "vllm_env": environment, "system_env": system}
