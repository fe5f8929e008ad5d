"""Conversations as wholes: how long they last, with the delays between their turns and without."""

from collections import Counter

import numpy as np
import pandas as pd

from servetune.load.schedule import ScheduledRequest
from servetune.load.throughput import ends_s
from servetune.records.measurements import ConversationMetrics


def by_conversation(
    requests: pd.DataFrame, schedule: list[ScheduledRequest]
) -> ConversationMetrics | None:
    """Aggregate the conversations of a request table; None if all are single prompts.

    Times are of those whose turns were all sent, are counted and have an answer.
    """
    turns = Counter(request.conversation for request in schedule)
    if not requests["turn"].any():
        return None
    spans = requests.assign(end_s=ends_s(requests).fillna(requests["start_s"]))
    e2e_s, busy_s, most = [], [], 1
    for number, rows in spans.sort_values("start_s").groupby("conversation"):
        starts_s, until_s = rows["start_s"].to_numpy(), rows["end_s"].to_numpy()
        under_way = np.searchsorted(np.sort(until_s), starts_s, side="right")
        most = max(most, int((np.arange(1, len(rows) + 1) - under_way).max()))
        if len(rows) == turns[int(str(number))] and (rows["is_ok"] & rows["is_counted"]).all():
            last_s = np.maximum.accumulate(until_s)
            idle_s = (starts_s[1:] - last_s[:-1]).clip(min=0).sum()
            e2e_s.append(last_s[-1] - starts_s[0])
            busy_s.append(last_s[-1] - starts_s[0] - idle_s)
    times_s = {
        f"{name}_p{percentile}_s": float(np.percentile(values_s, percentile))
        for name, values_s in (("e2e", e2e_s), ("busy", busy_s))
        for percentile in (50, 99)
        if values_s
    }
    return ConversationMetrics(conversations=len(e2e_s), turns_at_once_max=most, **times_s)
