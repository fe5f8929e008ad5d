"""Serve a GGUF with llama.cpp's own HTTP server, behind the key of the launch.

It runs in the environment `llama-cpp` and needs the standard library and xllamacpp. Its arguments
are the binding's parameters, by their own names.

    python -m servetune.engines.llama_cpp.inside_serve FOLDER --host H --port P --alias NAME ...
"""

import argparse
import enum
import os
import signal
from collections.abc import Mapping
from itertools import takewhile
from pathlib import Path
from typing import Any

KEY_VARIABLE = "SERVETUNE_KEY"

NOWHERE = f"{os.devnull}/"
"""The server erases its slots where it has a folder to save them in; it shall save none."""

SETTINGS = (
    *("cache_idle_slots", "cache_prompt", "cache_ram_mib", "cache_type_k", "cache_type_v"),
    *("check_tensors", "cont_batching", "ctx_shift", "fit_params", "fit_params_min_ctx"),
    *("flash_attn_type", "kv_unified", "load_mode", "main_gpu", "moe_cache_size", "n_batch"),
    *("n_cache_reuse", "n_ctx", "n_ctx_checkpoints", "n_gpu_layers", "n_keep", "n_parallel"),
    *("n_predict", "n_threads_http", "n_ubatch", "no_extra_bufts", "no_host", "no_kv_offload"),
    *("no_op_offload", "numa", "rope_freq_base", "rope_freq_scale", "rope_scaling_type"),
    *("slot_prompt_similarity", "split_mode", "swa_full", "use_jinja", "verbosity", "warmup"),
    *("yarn_attn_factor", "yarn_beta_fast", "yarn_beta_slow", "yarn_ext_factor", "yarn_orig_ctx"),
)
"""The parameters that decide how a server serves; others are of its address, its tools or files."""

THREADS = {"n_threads": "cpuparams", "n_threads_batch": "cpuparams_batch"}
"""Arguments that are `n_threads` of a part of the parameters."""


def arguments(params: Any) -> dict[str, dict[str, Any]]:
    """Return each argument: its option, kind, choices, and whether it negates."""
    known = {name: _argument(name, getattr(params, name)) for name in SETTINGS}
    return known | {name: _argument(name, 0) for name in THREADS}


def _argument(name: str, value: Any) -> dict[str, Any]:
    is_enum, is_flag = isinstance(value, enum.Enum), isinstance(value, bool)
    kind = "flag" if is_flag else "str" if is_enum else type(value).__name__
    return {
        "option": f"--{name.replace('_', '-')}",
        "kind": kind,
        "negatable": is_flag,
        "choices": sorted(words_of(type(value))) if is_enum else None,
    }


def words_of(kind: type[enum.Enum]) -> dict[str, Any]:
    """Return the members of an enumeration by what is their own of their names, in lower case."""
    members = {member.name: member for member in kind}
    alike = takewhile(lambda letters: len(set(letters)) == 1, zip(*members, strict=False))
    common = "".join(letters[0] for letters in alike).rpartition("_")[0]
    words = {name[len(common) :].strip("_").lower(): kind for name, kind in members.items()}
    # How many there are is the last member of C's enumerations.
    return {word: member for word, member in words.items() if word != "count"}


def read_arguments(known: Mapping[str, Mapping[str, Any]]) -> argparse.Namespace:
    """Read the command line; ends the program with one line where it is wrong."""
    parser = argparse.ArgumentParser(prog="llama.cpp", allow_abbrev=False)
    parser.add_argument("folder", type=Path)
    for option, kind in (("--host", str), ("--port", int), ("--alias", str)):
        parser.add_argument(option, type=kind, required=True)
    for name, argument in known.items():
        if argument["kind"] == "flag":
            told: dict[str, Any] = {"action": argparse.BooleanOptionalAction}
        else:
            told = {"type": {"int": int, "float": float, "str": str}[argument["kind"]]}
            told["choices"] = argument["choices"]
        parser.add_argument(argument["option"], dest=name, **told)
    return parser.parse_args()


def weights_of(folder: Path) -> Path:
    """Return the GGUF of a checkpoint, its first part of several; ends the program without one."""
    files = sorted(folder.glob("*.gguf"))
    if not files:
        raise SystemExit(f"llama.cpp: error: {folder} holds no .gguf file")
    return files[0]


def main() -> None:
    """Serve until the process is told to end."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    options = read_arguments(arguments(params))
    for name in SETTINGS:
        value = getattr(options, name)
        if value is not None:
            now = getattr(params, name)
            is_enum = isinstance(now, enum.Enum)
            setattr(params, name, words_of(type(now))[value] if is_enum else value)
    for name, part in THREADS.items():
        if (value := getattr(options, name)) is not None:
            getattr(params, part).n_threads = value
    params.model.path = str(weights_of(options.folder))
    params.hostnames, params.port = [options.host], options.port
    params.model_alias = {options.alias}
    params.api_keys = [os.environ[KEY_VARIABLE]]
    params.endpoint_metrics = params.endpoint_slots = params.endpoint_props = True
    params.slot_save_path = NOWHERE
    params.ui = False
    kinds = words_of(type(params.cache_type_k))
    types = (params.cache_type_k, params.cache_type_v)
    told = [name for kind in types for name, member in kinds.items() if member == kind]
    print(f"KV cache types: {', '.join(told)}", flush=True)
    server = xllamacpp.Server(params)
    print(f"listening on {server.listening_address}", flush=True)
    while True:
        signal.pause()


if __name__ == "__main__":
    main()
