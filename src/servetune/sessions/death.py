"""A replica that is killed in the middle of a load, and what became of its requests."""

import time
from dataclasses import dataclass, field

import pandas as pd

from servetune.load.generator import CUT, LEFT, NOT_SENT
from servetune.progress import say
from servetune.records.fleets import Death
from servetune.serving.fleet import Fleet
from servetune.study.workloads import Kill

NOTICED_WITHIN_S = 60.0
"""A longer wait than for three looks at a replica, five seconds apart."""

LOOK_EVERY_S = 0.5


@dataclass
class Killing:
    """Kills a replica once the load is so far, and sees when the gateway notices.

    Times are of `time.perf_counter`, as the client's are.
    """

    target: Fleet
    kill: Kill
    in_flight: int | None = None
    killed_at_s: float | None = None
    noticed_at_s: float | None = field(default=None)

    def __call__(self, finished: int) -> None:
        """Look once; `finished` counts the requests that the replicas have answered together."""
        if self.killed_at_s is None:
            if finished >= self.kill.after_requests:
                self.in_flight = self.target.kill(self.kill.replica)
                self.killed_at_s = time.perf_counter()
                say(f"  replica {self.kill.replica} killed after {finished} requests")
        elif self.noticed_at_s is None and self.target.has_noticed(self.kill.replica):
            self.noticed_at_s = time.perf_counter()

    def wait_until_noticed(self) -> None:
        """Wait until the gateway knows, also where the load ended before that."""
        while (
            self.killed_at_s is not None
            and self.noticed_at_s is None
            and time.perf_counter() - self.killed_at_s < NOTICED_WITHIN_S
        ):
            self(0)
            time.sleep(LOOK_EVERY_S)

    def death(self, requests: pd.DataFrame, first_sent_s: float) -> Death | None:
        """Return what became of the requests of a table; None where the load ended before."""
        if (killed_at_s := self.killed_at_s) is None:
            return None
        at_s, errors = killed_at_s - first_sent_s, requests["error"]
        lost = requests[errors.notna() & ~errors.isin([CUT, LEFT, NOT_SENT])]
        return Death(
            replica=self.kill.replica,
            at_s=at_s,
            in_flight=self.in_flight,
            lost=len(lost),
            not_sent=int((errors == NOT_SENT).sum()),
            noticed_s=None if self.noticed_at_s is None else self.noticed_at_s - killed_at_s,
            last_lost_s=None if lost.empty else float(lost["start_s"].max()) - at_s,
        )
