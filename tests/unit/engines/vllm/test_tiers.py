"""Tiers of a KV cache, and which of them can be emptied."""

import json
from typing import Any

import pytest

from servetune.engines.dialect import Tiers
from servetune.engines.vllm.tiers import read_tiers

FILES = {"secondary_tiers": [{"type": "fs", "root_dir": "kv"}]}


def config(name: str, **extra: Any) -> dict[str, Any]:
    return {"kv_connector": name, "kv_role": "kv_both", "kv_connector_extra_config": extra}


@pytest.mark.parametrize(
    ("told", "connectors", "kept"),
    [
        (config("OffloadingConnector"), ("OffloadingConnector",), ()),
        (config("ExampleConnector"), ("ExampleConnector",), ("ExampleConnector",)),
        (
            config("OffloadingConnector", **FILES),
            ("OffloadingConnector",),
            ("OffloadingConnector's secondary_tiers",),
        ),
        (
            config(
                "MultiConnector",
                connectors=[config("SimpleCPUOffloadConnector"), config("LMCacheConnectorV1")],
            ),
            ("SimpleCPUOffloadConnector", "LMCacheConnectorV1"),
            ("LMCacheConnectorV1",),
        ),
        (None, (), ()),
        ({"kv_connector": None}, (), ()),
    ],
)
def test_tiers_are_those_that_the_server_resolved(
    told: Any, connectors: tuple[str, ...], kept: tuple[str, ...]
) -> None:
    info = {"vllm_config": {"kv_transfer_config": told}}
    assert read_tiers(info, {}) == Tiers(connectors, kept)
    # As a server that tells nothing was asked for them.
    assert read_tiers({}, {"kv_transfer_config": told}) == Tiers(connectors, kept)
    assert read_tiers({}, {"kv_transfer_config": json.dumps(told)}) == Tiers(connectors, kept)


def test_a_text_in_place_of_the_configuration_tells_no_tier() -> None:
    assert read_tiers({"vllm_config": "model='m'"}, {}) == Tiers()
