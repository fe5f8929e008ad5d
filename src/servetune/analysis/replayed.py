"""The looks of a study that launches until it is decided, replayed from its launches.

The records alone say what was decided after which launch: a report made later, or on another
machine, stands where the study stood when it chose what to launch.
"""

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from servetune.analysis.differences import CONFIDENCE, Difference, Floats, difference
from servetune.analysis.launches import PLACE
from servetune.analysis.sequential import LEVEL, Flags, Looks, Standing, after, begin
from servetune.analysis.verdicts import groups_of, pairs_of, words_of
from servetune.study.until import UntilDecided

_AT = ["variant", *PLACE]

NOT_LOOKED_AT = "none of its first {least} launches is ok, so that the rule does not look at it"


@dataclass(frozen=True)
class Replayed:
    """Comparisons (variant, workload, load_point, metric), and where they stand, [1, comparisons].

    `launches` are those after the last look, 0 before the first. `went_on` are the comparisons that
    these were for.
    """

    until: UntilDecided
    compared: pd.DataFrame
    standing: Standing
    launches: int
    went_on: Flags

    @property
    def named(self) -> pd.DataFrame:
        """The comparisons that the study named, with `claim`, `goes_on` and `went_on`."""
        told = self.compared.assign(
            claim=self.standing.claims[0],
            goes_on=self.standing.goes_on[0],
            went_on=self.went_on[0],
        )
        return told[self.standing.named]


def replay(
    values: pd.DataFrame, baseline: str, equivalence: float, until: UntilDecided, last: int
) -> Replayed:
    """Look at launch values after `until.least` launches, and after each more, to the `last`.

    Takes what `servetune.analysis.verdicts.compare` does. Launches of which none is ok are a look
    all the same, or they would be launched again for ever. A comparison of which a side has no ok
    launch among the first, or that is in lockstep, is not launched again.
    """
    values = values[~values["in_lockstep"].astype(bool)]
    first = values[(values["repeat"] <= until.least) & (values["variant"] != baseline)]
    compared = first[_AT].drop_duplicates(ignore_index=True)
    is_named = [f"{row.metric}@{row.load_point}" in until.decide for row in compared.itertuples()]
    looks = Looks(until.least, until.most)
    margin = float(np.log1p(equivalence))
    standing = begin(looks, margin, np.array(is_named, bool))
    launches, went_on = 0, standing.goes_on
    if len(values) and len(compared):
        for launches in range(until.least, min(last, until.most) + 1):
            went_on = standing.goes_on
            standing = _look(standing, values, compared, baseline, launches)
    return Replayed(until, compared, standing, launches, went_on)


def _look(
    standing: Standing, values: pd.DataFrame, compared: pd.DataFrame, baseline: str, launches: int
) -> Standing:
    pairs = pairs_of(values[values["repeat"] <= launches], baseline).set_index(_AT)
    here = pairs.reindex(pd.MultiIndex.from_frame(compared)).reset_index()
    variant, base = groups_of(here)
    fewest = np.nan_to_num(np.fmin(variant.launches, np.nan_to_num(base.launches)))
    now = values[values["repeat"] == launches]
    launched = _are_in(compared[_AT], now) & _are_in(
        compared[PLACE], now[now["variant"] == baseline]
    )
    measured = _one_table(difference(variant, base))
    looked = after(standing, measured, launches, launched[None], fewest[None])
    return replace(looked, goes_on=looked.goes_on & (fewest > 0))


def _one_table(measured: Difference) -> Difference:
    return Difference(*(np.asarray(each)[None] for each in vars(measured).values()))


def _are_in(rows: pd.DataFrame, among: pd.DataFrame) -> Flags:
    index = pd.MultiIndex.from_frame(among[[*rows.columns]])
    return np.asarray(pd.MultiIndex.from_frame(rows).isin(index))


def with_claims(verdicts: pd.DataFrame, replayed: Replayed) -> pd.DataFrame:
    """Give a table of `servetune.analysis.verdicts.compare` the verdicts of the looks.

    The level of all looks is `LEVEL`: `p_value` is scaled so that 5 % is where a verdict is proven.
    More launches after an open end would be further looks, so `further_repeats` says none.
    """
    standing, scale = replayed.standing, (1 - CONFIDENCE) / LEVEL
    told = replayed.compared.assign(
        claim=standing.claims[0], p=np.minimum(scale * standing.p_values[0], 1.0)
    ).set_index(_AT)
    told = told.reindex(pd.MultiIndex.from_frame(verdicts[_AT]))
    is_judged = verdicts["p_value"].notna().to_numpy()
    is_left_out = is_judged & ~_are_in(verdicts[_AT], replayed.compared)
    words = words_of(told["claim"].to_numpy(float), verdicts["metric"])
    words = np.where(is_left_out, "none", words)
    p_values: Floats = told["p"].to_numpy(float)
    return verdicts.assign(
        p_value=np.where(is_judged, p_values, np.nan),
        verdict=np.where(is_judged, words, verdicts["verdict"]).astype(object),
        further_repeats=np.nan,
        reason=np.where(
            is_left_out, NOT_LOOKED_AT.format(least=replayed.until.least), verdicts["reason"]
        ).astype(object),
    )
