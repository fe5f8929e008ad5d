"""What a check is asked for: an endpoint, targets, and how much it may send."""

from dataclasses import dataclass, field
from pathlib import Path

FIRST = (1, 8)
"""The numbers of clients that each check tells of."""

OUTPUT_TOKENS = 64
INPUT_WORDS = 150
"""A short chat: long enough for a TPOT, short enough for some hundred requests in a minute."""


@dataclass(frozen=True)
class Targets:
    """What clients ask for: latencies in ms that a share of the requests keeps to.

    By default what a reader of a chat notices: a first token within a second, then more than he
    reads; MLPerf Inference 5.1 has limits of that order (interactive: 450 ms and 40 ms at p99).
    """

    ttft_ms: float = 1000.0
    tpot_ms: float = 50.0
    share: float = 0.9

    @property
    def limits_ms(self) -> dict[str, float]:
        """The limits by latency."""
        return {"ttft": self.ttft_ms, "tpot": self.tpot_ms}


@dataclass(frozen=True)
class Asked:
    """All that a check is told. `key_env` and `headers_env` name variables, `model` may be open."""

    url: str
    model: str | None
    key_env: str | None = None
    headers_env: dict[str, str] = field(default_factory=dict)
    ca: Path | None = None
    metrics: list[str] = field(default_factory=list)
    targets: Targets = Targets()
    requests: int = 200
    seconds: float = 60.0
    highest: int = 256
    input_words: int = INPUT_WORDS
    output_tokens: int = OUTPUT_TOKENS
    hardware: str = "elsewhere"
