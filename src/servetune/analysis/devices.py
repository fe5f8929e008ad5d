"""Launches on several devices: compared within a device, or a device at a time.

A fast and a slow GPU differ by percents, as variants do. Where variants meet on the same devices,
each device is a block, and its effect is taken out by least squares (intra-block analysis:
Cochran and Cox, Experimental Designs, 1957, ch. 9). Where blocks would take most of the degrees of
freedom, as on eight GPUs with three launches a variant, devices are random instead: their
differences are part of how much launches vary, and launches of a variant on one device count as
one. Which it is follows from the design alone, never from the values.

A launch on several GPUs has the mean of their effects, so that it can be compared with launches
on one of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from servetune.analysis.differences import Floats
from servetune.records.sessions import SEVERAL

Ints = NDArray[np.int64]

LEAST_KEPT = 0.5
"""Share of the degrees of freedom that blocks must leave."""


@dataclass(frozen=True)
class Blocked:
    """Launches [..., variants, rounds] as they can be compared, and what that costs.

    `kept` [..., 1] is the share of the degrees of freedom that blocks leave, `inflation`
    [..., variants] what the variance of a variant's mean is multiplied by. Variants with different
    `groups` [..., variants] share no device, directly or through others: their difference may be
    that of the devices.
    """

    launches: Floats
    kept: Floats
    inflation: Floats
    groups: Ints


def shares(names: Sequence[str]) -> Floats:
    """Return the shares [launches, devices] of launches, from the names of each one's devices."""
    used = [name.split(SEVERAL) for name in names]
    known = sorted({device for each in used for device in each})
    return np.array([[(device in each) / len(each) for device in known] for each in used])


def block(launches: Floats, devices: Floats) -> Blocked:
    """Take devices out of launches.

    `devices` [variants, rounds, devices] has each launch's share on each: 1 for its only one, 1/2
    for each of two. A launch that is missing is NaN, and its devices do not matter.
    """
    *lead, variants, rounds = launches.shape
    flat = launches.reshape(-1, variants * rounds)
    kept, inflation = np.ones((len(flat), 1)), np.ones((len(flat), variants))
    groups, adjusted = np.zeros((len(flat), variants), np.int64), flat.copy()
    present, which = np.unique(np.isfinite(flat), axis=0, return_inverse=True)
    for i, mask in enumerate(present):
        rows = np.flatnonzero(which.reshape(-1) == i)
        at = np.flatnonzero(mask)
        on = devices.reshape(variants * rounds, -1)[at]
        if (on == on[:1]).all():
            continue
        design = _Design(at // rounds, on, variants)
        kept[rows], inflation[rows], groups[rows] = design.kept, design.inflation, design.groups
        adjusted[np.ix_(rows, at)] = design.adjust(flat[np.ix_(rows, at)])
    return Blocked(
        adjusted.reshape(launches.shape),
        kept.reshape(*lead, 1),
        inflation.reshape(*lead, variants),
        groups.reshape(*lead, variants),
    )


def are_blocks(variants: Sequence[str], names: Sequence[str]) -> bool:
    """Tell whether `block` compares launches within devices, from the two names of each launch."""
    known = sorted(set(variants))
    of = np.array([known.index(variant) for variant in variants], np.int64)
    return _Design(of, shares(names), len(known)).is_within


class _Design:
    """Which launches are of which variant and on which devices: the same for many values."""

    def __init__(self, variant: Ints, on: Floats, variants: int) -> None:
        _, place = np.unique(on, axis=0, return_inverse=True)
        self._cells = np.stack([variant, place.reshape(-1)])
        of = (variant[:, None] == np.arange(variants)).astype(float)
        counts, table = of.sum(0), of.T @ on
        per_variant = np.divide(table, counts[:, None], out=np.zeros_like(table), where=table > 0)
        centred = on - of @ per_variant
        degrees = len(variant) - np.count_nonzero(counts)
        left = degrees - np.linalg.matrix_rank(centred)
        self.is_within = bool(left > 0 and left >= LEAST_KEPT * degrees)
        self.kept, self.inflation = 1.0, np.ones(variants)
        self.groups = np.zeros(variants, np.int64)
        if self.is_within:
            self.kept = left / degrees
            self.groups = _connected(table)
            effects = on @ np.linalg.pinv(centred)
            same = self.groups[variant][:, None] == self.groups[variant]
            self._effects = effects - (same / same.sum(1, keepdims=True)) @ effects
            self.inflation = _inflation(of, on, self.groups)
        else:
            units = np.bincount(np.unique(self._cells, axis=1)[0], minlength=variants)
            self.inflation = np.where(units > 0, counts / np.maximum(units, 1), 1.0)

    def adjust(self, values: Floats) -> Floats:
        """Take the effects of devices out of values [..., launches], or average over each."""
        if self.is_within:
            return np.asarray(values - values @ self._effects.T)
        same = (self._cells[:, :, None] == self._cells[:, None, :]).all(0)
        is_first = same.argmax(1) == np.arange(same.shape[1])
        means = values @ (same / same.sum(0)).T
        return np.where(is_first, means, np.nan)


def _connected(table: Floats) -> Ints:
    """Number the variants [variants, devices] such that those that meet have the same number."""
    meet = table @ table.T > 0
    groups = np.arange(len(table))
    for _ in groups:
        groups = np.array(
            [groups[row].min() if row.any() else groups[i] for i, row in enumerate(meet)]
        )
    return groups


def _inflation(of: Floats, on: Floats, groups: Ints) -> Floats:
    """Return by how much devices widen the comparisons of each variant, at most over the others.

    The variance of a difference is that of the reduced normal equations, which balance makes as
    small as without blocks.
    """
    counts, table = of.sum(0), of.T @ on
    information = np.diag(counts) - table @ np.linalg.pinv(on.T @ on) @ table.T
    inverse = np.linalg.pinv(information)
    diagonal = np.diag(inverse)
    variance = diagonal[:, None] + diagonal - 2 * inverse
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = variance / (1 / counts[:, None] + 1 / counts)
    is_pair = (groups[:, None] == groups) & ~np.eye(len(groups), dtype=bool)
    is_pair &= (counts[:, None] > 0) & (counts > 0)
    return np.asarray(np.max(np.where(is_pair, ratio, 1.0), axis=1, initial=1.0))
