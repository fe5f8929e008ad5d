"""A variant's answers against the baseline's, document by document, on the same tokens.

Documents, not tokens, are what was drawn: tokens of one document are not independent of each
other. So every interval is over documents, paired where two variants answered the same ones
(Miller 2024, Adding Error Bars to Evals, arXiv:2411.00640, sec. 2.2 and 4).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from servetune.records.quality import Document

CONFIDENCE = 0.95
"""Of each interval: the usual convention (Fisher 1925), as of `analysis.differences`."""

Verdict = Literal["passes", "fails", "undecided"]


@dataclass(frozen=True)
class Estimate:
    """A number with its interval, which is from -inf to inf where one document cannot tell it."""

    value: float
    low: float
    high: float


def perplexity(documents: Sequence[Document]) -> float:
    """Return the perplexity of a corpus: exp(-sum of log probabilities / scored tokens).

    Jelinek et al. 1977, Perplexity - a measure of the difficulty of speech recognition tasks,
    J. Acoust. Soc. Am. 62. Infinite where it is beyond the range of a float.
    """
    tokens = sum(document.tokens for document in documents)
    return _exp(-math.fsum(document.logprob for document in documents) / tokens)


def perplexity_ratio(baseline: Sequence[Document], variant: Sequence[Document]) -> Estimate:
    """Return the variant's perplexity over the baseline's, paired by document.

    The log ratio is a ratio of sums over documents: of the log probability that the variant lost,
    by tokens.
    """
    pairs = zip(baseline, variant, strict=True)
    lost = [before.logprob - after.logprob for before, after in pairs]
    log_ratio, error = _ratio_of_sums(lost, [document.tokens for document in baseline])
    half = _quantile(len(lost)) * error
    return Estimate(_exp(log_ratio), _exp(log_ratio - half), _exp(log_ratio + half))


def top1_agreement(baseline: Sequence[Document], variant: Sequence[Document]) -> Estimate:
    """Return the share of positions where both hold the same token to be the most likely.

    Under teacher forcing: at each position both saw the document's own tokens, so that one
    difference does not make all that follow differ. The interval is Wilson's (1927, J. Am. Stat.
    Assoc. 22) with the effective sample size of a clustered sample, positions / design effect
    (Franco et al. 2019, J. Surv. Stat. Methodol. 7), the design effect not below 1.
    """
    same = [
        sum(a == b for a, b in zip(before.top1, after.top1, strict=True))
        for before, after in zip(baseline, variant, strict=True)
    ]
    positions = [document.tokens for document in baseline]
    share, error = _ratio_of_sums(same, positions)
    if len(same) < 2:
        return Estimate(share, -math.inf, math.inf)
    total = sum(positions)
    binomial = share * (1 - share) / total
    effective = total / max(1.0, error**2 / binomial) if binomial else total
    return Estimate(share, *_wilson(share, effective, _quantile(len(same))))


def greedy_identical_ratio(baseline: Sequence[Document], variant: Sequence[Document]) -> float:
    """Return the share of greedy continuations that are the same, token by token to their end."""
    pairs = list(zip(baseline, variant, strict=True))
    return sum(before.greedy == after.greedy for before, after in pairs) / len(pairs)


def greedy_common_tokens(baseline: Sequence[Document], variant: Sequence[Document]) -> float:
    """Return how many tokens two greedy continuations share at their beginning, on average."""
    pairs = zip(baseline, variant, strict=True)
    return float(np.mean([_common(a.greedy, b.greedy) for a, b in pairs]))


def _common(a: Sequence[int], b: Sequence[int]) -> int:
    same = (x == y for x, y in zip(a, b, strict=False))
    return sum(takewhile(bool, same))


def within(
    estimate: Estimate, *, most: float | None = None, least: float | None = None
) -> Verdict | None:
    """Judge an estimate against a bound, by its whole interval; None without a bound."""
    if most is not None:
        low, high, bound = estimate.low, estimate.high, most
    elif least is not None:
        low, high, bound = -estimate.high, -estimate.low, -least
    else:
        return None
    if high <= bound:
        return "passes"
    return "fails" if low > bound else "undecided"


def together(verdicts: Sequence[Verdict | None]) -> Verdict | None:
    """Return the verdict over all bounds: the worst one, None where there is no bound."""
    worst_first: tuple[Verdict, ...] = ("fails", "undecided", "passes")
    return next((verdict for verdict in worst_first if verdict in verdicts), None)


def have_same_tokens(baseline: Sequence[Document], variant: Sequence[Document]) -> bool:
    """Tell whether both scored the same tokens, which another tokenizer would not give."""
    return [each.prompt_digest for each in baseline] == [each.prompt_digest for each in variant]


def _ratio_of_sums(numerators: ArrayLike, denominators: ArrayLike) -> tuple[float, float]:
    """Return sum(numerators) / sum(denominators) over clusters, and its standard error.

    The linearized variance of a ratio estimate: Cochran 1977, Sampling Techniques, sec. 2.11.
    """
    y, x = np.asarray(numerators, float), np.asarray(denominators, float)
    ratio = y.sum() / x.sum()
    count = len(y)
    if count < 2:
        return float(ratio), math.inf
    residuals = y - ratio * x
    variance = (residuals**2).sum() / (count - 1) / count / x.mean() ** 2
    return float(ratio), float(np.sqrt(variance))


def _quantile(documents: int) -> float:
    """Return the two-sided quantile of Student's t over documents; infinite of a single one."""
    if documents < 2:
        return math.inf
    return float(special.stdtrit(documents - 1, 0.5 + CONFIDENCE / 2))


def _wilson(share: float, trials: float, quantile: float) -> tuple[float, float]:
    square = quantile**2 / trials
    centre = (share + square / 2) / (1 + square)
    half = quantile / (1 + square) * math.sqrt(share * (1 - share) / trials + square / 4 / trials)
    return max(0.0, centre - half), min(1.0, centre + half)


def _exp(value: float) -> float:
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf
