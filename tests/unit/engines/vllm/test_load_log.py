"""What a server logs while it is loaded is told, and nothing of before or after."""

from pathlib import Path

from servetune.engines.vllm.load_log import MOST_WARNINGS, read_load_log

KEY = "sesame-sesame"
JIT = (
    "(EngineCore pid=9) WARNING 08-17 21:04:25 [jit_monitor.py:141] {} JIT compilation during"
    " inference: {}. This causes a latency spike; consider extending warmup to cover this"
    " shape/config."
)
COMPILED = [
    JIT.format("Triton kernel", "_zero_kv_blocks_kernel"),
    JIT.format("Triton kernel", "_zero_kv_blocks_kernel"),
    JIT.format("Triton kernel", "expand_kernel (key=[('*u64', 'D'), ('i32', '')])"),
    JIT.format("TileLang", "mhc_pre_big_fuse"),
    "Triton autotuning for function _fwd_kernel,",
    "2026-07-01 TileLang begins to compile kernel `mhc_post` with `out_idx=[]`",
    "(EngineCore pid=9) INFO 08-17 21:04:25 [backends.py:1] Compiling a graph for compile range"
    " (1, 2048) takes 2.31 s",
]


def told(tmp_path: Path, during: list[str], before: str = "", after: str = "") -> dict[str, object]:
    log = tmp_path / "server.log"
    log.write_text(before)
    began = log.stat().st_size
    with log.open("a") as file:
        file.write("".join(f"{line}\n" for line in during))
    ended = log.stat().st_size
    with log.open("a") as file:
        file.write(after)
    return read_load_log(log, began, ended, [KEY])


def test_a_load_in_which_nothing_is_logged_compiled_nothing(tmp_path: Path) -> None:
    around = "\n".join(COMPILED)
    assert told(tmp_path, [], before=around, after=around) == {
        "compiled_kernels": [],
        "log_preemptions": 0,
        "engine_restarts": 0,
        "log_warnings": [],
    }


def test_the_kernels_that_were_compiled_in_a_load_are_told_each_once(tmp_path: Path) -> None:
    assert told(tmp_path, COMPILED)["compiled_kernels"] == [
        "_zero_kv_blocks_kernel",
        "expand_kernel",
        "mhc_pre_big_fuse",
        "_fwd_kernel",
        "mhc_post",
        "graph",
    ]


def test_preemptions_and_restarts_of_the_engine_are_counted(tmp_path: Path) -> None:
    preempted = (
        "WARNING 03-01 10:00:00 [scheduler.py:1] Sequence group 12 is preempted by"
        " PreemptionMode.RECOMPUTE mode because there is not enough KV cache space."
    )
    started = "(EngineCore pid=9) INFO 03-01 10:00:00 [core.py:1] Initializing a V1 LLM engine (v0)"
    found = told(tmp_path, [preempted, preempted, started])
    assert (found["log_preemptions"], found["engine_restarts"]) == (2, 1)


def warning(text: str, level: str = "WARNING") -> str:
    return f"(APIServer pid=7) {level} 03-01 10:00:00 [a.py:1] {text}"


def test_warnings_that_differ_in_numbers_alone_are_told_once_with_their_count(
    tmp_path: Path,
) -> None:
    lines = [warning(f"Request {i} waited {i} s") for i in range(40)]
    lines += [warning("It broke.", "ERROR"), "INFO 03-01 10:00:00 [a.py:1] All is well"]
    assert told(tmp_path, lines)["log_warnings"] == ["Request 0 waited 0 s (40x)", "It broke."]


def test_no_key_no_prompt_and_not_many_warnings_get_into_a_record(tmp_path: Path) -> None:
    names = [chr(ord("a") + i) for i in range(26)]
    lines = [
        warning(f"{name}: {KEY} in 'the long text of a prompt that is private'") for name in names
    ]
    found = told(tmp_path, lines)["log_warnings"]
    assert isinstance(found, list)
    assert len(found) == MOST_WARNINGS
    assert found[0] == "a: *** in ..."
