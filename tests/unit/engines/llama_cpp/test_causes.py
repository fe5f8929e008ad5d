"""Why llama.cpp's server ended, by the lines that it and its host print."""

import pytest

from servetune.engines.llama_cpp.causes import explain

NO_MODEL = """\
0.00.005.221 I srv    load_model: loading model 'bad/model.gguf'
0.00.005.293 E gguf_init_from_reader: invalid magic characters: 'abc?', expected 'GGUF'
0.00.005.370 E llama_model_load: error loading model: llama_model_loader: failed to load model
0.00.005.722 E srv          init: exiting due to model loading error
Traceback (most recent call last):
RuntimeError: Failed to init server, please check the input params.
"""
PORT_TAKEN = """\
0.00.001.957 E srv         start: couldn't bind HTTP server socket, hostname: 127.0.0.1, port: 1
RuntimeError: Failed to init server, please check the input params.
"""
REFUSED = """\
usage: llama.cpp [-h] --host HOST --port PORT --alias ALIAS
llama.cpp: error: unrecognized arguments: --n-ctxx 3
"""
UNDER_LOAD = """\
0.00.069.235 I srv          init: model loaded
0.00.354.259 E srv    send_error: task id = 77, error: request (6001 tokens) exceeds the context
"""
ASSERTED = UNDER_LOAD + "/src/ggml/src/ggml.c:3202: GGML_ASSERT(a->ne[0] == b->ne[0]) failed\n"


@pytest.mark.parametrize(
    ("log", "exit_code", "cause"),
    [
        (NO_MODEL, 1, "gguf_init_from_reader: invalid magic characters: 'abc?', expected 'GGUF'"),
        (
            PORT_TAKEN,
            1,
            "srv start: couldn't bind HTTP server socket, hostname: 127.0.0.1, port: 1",
        ),
        (REFUSED, 2, "unrecognized arguments: --n-ctxx 3"),
        ("llama.cpp: error: models/m holds no .gguf file", 1, "models/m holds no .gguf file"),
        (
            UNDER_LOAD,
            137,
            "killed by signal 9 (SIGKILL): probably this host, or its container, ran out of memory",
        ),
        (ASSERTED, 134, "GGML_ASSERT(a->ne[0] == b->ne[0]) failed; killed by signal 6 (SIGABRT)"),
        (UNDER_LOAD, 139, "killed by signal 11 (SIGSEGV)"),
        (UNDER_LOAD, 1, "ended with exit code 1"),
        ("", None, None),
    ],
)
def test_the_cause_is_the_first_error_of_a_start_and_never_that_of_a_request(
    log: str, exit_code: int | None, cause: str | None
) -> None:
    assert explain(log.splitlines(), exit_code) == cause
