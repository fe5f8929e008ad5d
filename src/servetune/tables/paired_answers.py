"""Right and wrong answers of a variant against the baseline's, question by question.

Questions are what was drawn, and both answered the same ones, so all is over pairs: McNemar's test
of any difference, exact (McNemar 1947, Psychometrika 12), and the score interval of the difference
between two paired shares (Tango 1998, Statistics in Medicine 17, 891-908), whose test at zero is
McNemar's. It keeps its level where few answers differ, where Wald's does not.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scipy import optimize, special

from servetune.records.quality import Answered
from servetune.tables.quality_statistics import CONFIDENCE, Estimate

_QUANTILE = float(special.ndtri(0.5 + CONFIDENCE / 2))


@dataclass(frozen=True)
class Pairs:
    """How many questions there are, and on which only one side was right."""

    questions: int
    lost: int
    gained: int

    @property
    def change(self) -> Estimate:
        """The share of right answers less the baseline's, with its interval."""
        n, value = self.questions, (self.gained - self.lost) / self.questions
        if not self.lost + self.gained:
            end = _QUANTILE**2 / (n + _QUANTILE**2)
            return Estimate(0.0, -end, end)

        def excess(share: float) -> float:
            """How far a share is outside of the interval: the squared score, less its limit."""
            a, c = 2 * n, -self.lost * share * (1 - share)
            b = -(self.gained + self.lost) + (2 * n - self.gained + self.lost) * share
            q = (math.sqrt(max(0.0, b * b - 4 * a * c)) - b) / (2 * a)
            variance = max(0.0, n * (2 * q + share * (1 - share)))
            return (self.gained - self.lost - n * share) ** 2 - _QUANTILE**2 * variance

        ends = [
            end if abs(value - end) < 1e-12 else float(optimize.brentq(excess, value, end))
            for end in (-1.0, 1.0)
        ]
        return Estimate(value, *ends)

    @property
    def p_value(self) -> float:
        """McNemar's exact test that neither side is right more often; 1 where nothing differs."""
        differ = self.lost + self.gained
        return min(1.0, 2 * float(special.bdtr(min(self.lost, self.gained), differ, 0.5)))


def pairs_of(baseline: Sequence[Answered], variant: Sequence[Answered]) -> Pairs:
    """Count the pairs of the first answers to each question."""
    right = [(b.right[0], v.right[0]) for b, v in zip(baseline, variant, strict=True)]
    return Pairs(len(right), right.count((True, False)), right.count((False, True)))


def noise_of(answers: Sequence[Answered]) -> tuple[int, int]:
    """Count the questions on which a server differs from itself: in being right, and in its text.

    Between the rounds of one launch; what differs between launches is not known.
    """
    return (
        sum(len({*each.right}) > 1 for each in answers),
        sum(len({*each.digests}) > 1 for each in answers),
    )


def right_ratio(answers: Sequence[Answered]) -> float:
    """Return the share of right answers in the first round."""
    return sum(each.right[0] for each in answers) / len(answers)


def have_same_questions(baseline: Sequence[Answered], variant: Sequence[Answered]) -> bool:
    """Tell whether both were asked the same, each question in its own words."""
    return [(a.question, a.asked, a.expected) for a in baseline] == [
        (a.question, a.asked, a.expected) for a in variant
    ]
