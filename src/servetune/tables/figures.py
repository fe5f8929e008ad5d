"""What a measurement says beside its metrics: requests within the SLO, and what tokens cost."""

from servetune.metrics import WHOLE_LOAD
from servetune.records.measurements import MeasurementRecord
from servetune.tables.attainment import attainment


def figures(
    record: MeasurementRecord,
    limits_ms: dict[str, float],
    devices: int | None,
    price_usd_per_hour: float | None,
) -> dict[str, float | None]:
    """Return the metrics that follow from a record and the plan; None where one is not known.

    The price is of one of the server's `devices`, which are None where they are not known. Energy
    is the mean power of all of them under load by the duration: samples tell a mean well, but not
    when a load began and ended.
    """
    metrics, power_w = record.metrics, record.signals.gpu_power_mean_w
    price = devices * price_usd_per_hour / 3600 if devices and price_usd_per_hour else None

    def cost_usd(count: float, per_s: float | None) -> float | None:
        return price / per_s * count if price and per_s else None

    output_tok_s = metrics.output_throughput_tok_s if metrics else None
    tokens, duration_s = (metrics.output_tokens, metrics.duration_s) if metrics else (None, None)
    energy_j = power_w * duration_s if duration_s and power_w else None
    return {
        WHOLE_LOAD: tokens / metrics.duration_s
        if metrics and tokens and metrics.duration_s
        else None,
        "slo_attainment_percent": attainment(record, limits_ms),
        "cost_usd_per_million_output_tokens": cost_usd(1e6, output_tok_s),
        "cost_usd_per_million_total_tokens": cost_usd(
            1e6, metrics.total_throughput_tok_s if metrics else None
        ),
        "cost_usd_per_thousand_requests": cost_usd(
            1e3, metrics.request_throughput_rps if metrics else None
        ),
        "output_throughput_tok_s_per_gpu": output_tok_s / devices
        if devices and output_tok_s
        else None,
        "energy_j_per_output_token": energy_j / tokens if energy_j and tokens else None,
    }
