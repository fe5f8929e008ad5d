"""Tiers of a server's KV cache beyond its device: memory, disks, other hosts."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from servetune.engines.dialect import Tiers

_EMPTIED = ("OffloadingConnector", "SimpleCPUOffloadConnector", "MooncakeStoreConnector")
"""Connectors that follow /reset_prefix_cache?reset_external=true; others say yes, and keep all."""


def read_tiers(info: Mapping[str, Any], server: Mapping[str, Any]) -> Tiers:
    """Read them from what a server resolved (`Dialect.info`), else from its arguments."""
    config = info.get("vllm_config")
    told = config.get("kv_transfer_config") if isinstance(config, Mapping) else None
    found = list(_connectors(told or server.get("kv_transfer_config")))
    names = tuple(name for name, _ in found)
    return Tiers(names, tuple(kept for name, extra in found if (kept := _kept(name, extra))))


def _connectors(config: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the name and the further configuration of each connector."""
    if isinstance(config, str):
        try:
            config = json.loads(config)
        except ValueError:
            return
    if not isinstance(config, Mapping) or not isinstance(name := config.get("kv_connector"), str):
        return
    extra = config.get("kv_connector_extra_config")
    extra = extra if isinstance(extra, Mapping) else {}
    if name != "MultiConnector":
        yield name, extra
        return
    for each in extra.get("connectors") or []:
        yield from _connectors(each)


def _kept(name: str, extra: Mapping[str, Any]) -> str | None:
    """Name what a connector keeps; None where it is emptied."""
    if name not in _EMPTIED:
        return name
    # vLLM resets the first tier alone (`TieringOffloadingManager.reset_cache`).
    return f"{name}'s secondary_tiers" if extra.get("secondary_tiers") else None
