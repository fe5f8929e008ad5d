"""Rules about what stands before the engine: the server's front end, and clients in lockstep.

The front end is the API server (HTTP, tokenization, detokenization) with all that lies between it
and the client's clock.
"""

import re

from servetune.analysis.findings.bounds import Bound, load_bound
from servetune.analysis.findings.busy import front_end_limit, in_flight
from servetune.analysis.findings.gather import Case, Finding, facts, rule
from servetune.analysis.lockstep import is_in_lockstep
from servetune.analysis.wording import TIMES, ms, proportion, short
from servetune.numbers import whole

_API_SERVERS = re.compile(r"--api-server-count[= ](\d+)")


@rule
def front_end_is_the_limit(case: Case) -> Finding | None:
    """Requests and tokens wait in the API server while the engine has room for more."""
    parts = front_end_limit(case)
    if parts is None or load_bound(case) is not Bound.FRONT_END:
        return None
    engine_ms, decode_ms = parts.e2e_ms - parts.front_end_ms, parts.decode_ms
    client_ms = decode_ms + parts.front_end_later_ms
    stretch = f" ({short(client_ms / decode_ms)}{TIMES})" if decode_ms else ""
    server_ms = case.value("server_e2e_mean_ms")
    in_server = None if server_ms is None else ms(max(0.0, server_ms - engine_ms))
    count = _API_SERVERS.search(" ".join(case.arguments))
    return Finding(
        title="The front end is the limit, not the engine.",
        evidence=(
            (
                "front end",
                f"{ms(parts.front_end_ms)} of {ms(parts.e2e_ms)} a request,"
                f" {proportion(parts.front_end_ratio)}",
            ),
            *([("of that, in the API server", in_server)] if in_server else []),
            (
                "TTFT beyond queue and prefill",
                f"{ms(parts.front_end_ttft_ms)} of {ms(parts.ttft_ms)}",
            ),
            ("decode, by client and engine", f"{ms(client_ms)} and {ms(decode_ms)}{stretch}"),
            (
                "running, on average",
                f"{whole(case.value('running_mean'))} of {whole(in_flight(case))} in flight",
            ),
            *facts(
                ("front end, of one core", case.card("front_end_cpu_ratio"), proportion),
                ("client, of one core", case.card("client_cpu_ratio"), proportion),
                ("other processes, of all cores", case.card("other_cpu_ratio"), proportion),
            ),
        ),
        attempts=(
            f"raise api_server_count (now {count[1] if count else 1})",
            "give the host more cores, or run the client on another machine",
        ),
        gain=parts.e2e_ms / engine_ms,
        chart="latency",
    )


@rule
def lockstep(case: Case) -> Finding | None:
    """The clients send together, so that prompts wait for each other: TTFT is that of a wave."""
    crowding = case.card("send_crowding")
    if not is_in_lockstep(case.row) or crowding is None:
        return None
    return Finding(
        title="Clients run in lockstep: prompts arrive in waves, so TTFT is the time of a wave.",
        evidence=(
            ("sends close together", f"{short(crowding)}{TIMES} as often as by chance"),
            ("clients", whole(case.value("concurrency"))),
            *facts(
                ("median TTFT", case.value("ttft_p50_ms"), ms),
                ("queue", case.value("queue_time_mean_ms"), ms),
                ("prefill", case.value("prefill_time_mean_ms"), ms),
            ),
        ),
        attempts=(
            "vary the output lengths, as users do",
            "or send at a rate, with random arrivals",
            "until then, conclude nothing from TTFT",
        ),
        # It makes no request faster, but says what TTFT is worth.
        gain=1.05,
        chart="latency",
    )
