"""What a server tells of itself, beside its configuration: the endpoints that it answers."""

from pathlib import Path

import pytest

from servetune.engines.vllm.dialect import info
from tests.standin.serving import serving, write_model

RENDER = "/v1/completions/render"


@pytest.mark.parametrize(
    ("arguments", "how"), [((), "refuses: 403"), (("--enable-scale-out",), "POST")]
)
def test_an_endpoint_that_is_shut_is_told_from_one_that_answers(
    tmp_path: Path, arguments: tuple[str, ...], how: str
) -> None:
    with serving(write_model(tmp_path), tmp_path, *arguments) as server:
        told = info(server.http)
        assert told["endpoints"][RENDER] == how
        assert told["endpoints"]["/v1/completions"] == "POST"
        assert "vllm_config" in told and "vllm_env" not in told
