"""A fast and a slow GPU do not look like a difference of variants."""

import numpy as np
import pandas as pd
import pytest

from servetune.analysis.devices import are_blocks, block
from servetune.analysis.launches import devices_in, on_the_same_devices
from servetune.analysis.verdicts import compare
from tests.unit.analysis.launch_data import make_values

SLOWER = np.log(1.05)


def on(values: pd.DataFrame, devices: dict[str, str]) -> pd.DataFrame:
    """Put launches on devices, by a letter a repeat of each variant; device b is 5 % slower."""
    at = [devices[v][r - 1] for v, r in zip(values["variant"], values["repeat"], strict=True)]
    slow = SLOWER * np.array([device == "b" for device in at])
    return values.assign(device=at, log_value=values["log_value"] + slow)


def test_a_slow_device_hides_no_difference_and_makes_none() -> None:
    means = {"base": 10.0, "same": 10.0, "slower": 10.8}
    values = make_values(means, repeats=6, spread=0.003)
    dealt = on(values, {"base": "ababab", "same": "bababa", "slower": "abbaab"})
    told = compare(dealt, "base", 0.03)
    same, slower = (told[told["variant"] == name] for name in ("same", "slower"))
    assert set(same["verdict"]) == {"indistinguishable"}
    assert set(slower["verdict"]) == {"slower"}
    assert slower["ratio"].to_numpy() == pytest.approx(1.08, rel=0.01)
    without = compare(dealt.drop(columns="device"), "base", 0.03)
    assert "indistinguishable" not in set(without.loc[without["variant"] == "same", "verdict"])


def test_a_variant_on_a_device_of_its_own_has_no_verdict_and_is_named() -> None:
    values = make_values({"base": 10.0, "other": 10.0, "fast": 8.0}, repeats=3, spread=0.003)
    alone = on(values, {"base": "aca", "other": "cac", "fast": "bbb"})
    told = compare(alone, "base", 0.03)
    fast = told[told["variant"] == "fast"]
    assert set(fast["verdict"]) == {"none"}
    assert all("different GPUs" in reason for reason in fast["reason"])
    assert "none" not in set(told.loc[told["variant"] == "other", "verdict"])
    assert on_the_same_devices(alone) == {"fast": "b"}
    assert on_the_same_devices(values.assign(device=None)) == {}


def test_a_server_on_two_devices_is_compared_with_those_on_one_of_them() -> None:
    values = make_values({"one": 10.0, "same": 10.0, "two": 8.0}, repeats=4, spread=0.003)
    devices = {"one": "abab", "same": "baba", "two": "++++"}
    at = [devices[v][r - 1] for v, r in zip(values["variant"], values["repeat"], strict=True)]
    slow = [{"a": 0.0, "b": SLOWER, "+": SLOWER / 2}[device] for device in at]
    dealt = values.assign(
        device=["a+b" if device == "+" else device for device in at],
        log_value=values["log_value"] + np.array(slow),
    )
    told = compare(dealt, "one", 0.03)
    two = told[told["variant"] == "two"]
    assert set(two["verdict"]) == {"faster"}
    assert two["ratio"].to_numpy() == pytest.approx(0.8, rel=0.01)
    assert set(told.loc[told["variant"] == "same", "verdict"]) == {"indistinguishable"}
    assert on_the_same_devices(dealt) == {}
    assert devices_in(dealt) == {"a", "b"}


def test_blocks_are_least_squares() -> None:
    random = np.random.default_rng(0)
    devices = np.eye(3)[[[0, 0, 1, 2], [1, 2, 2, 2], [0, 1, 1, 0]]]
    # On two at once.
    devices[1, 3] = [0.5, 0.5, 0]
    launches = random.standard_normal((3, 4))
    launches[2, 3] = np.nan
    blocked = block(launches, devices)
    mask = np.isfinite(launches)
    design = np.hstack([np.eye(3)[np.nonzero(mask)[0]], devices[mask][:, 1:]])
    fit, (squares,), *_ = np.linalg.lstsq(design, launches[mask], rcond=None)
    means = np.nanmean(blocked.launches, 1)
    assert np.diff(means) == pytest.approx(np.diff(fit[:3]))
    assert np.nansum((blocked.launches - means[:, None]) ** 2) == pytest.approx(squares)
    assert blocked.kept.tolist() == [6 / 8]
    variance = np.linalg.inv(design.T @ design)
    counts = mask.sum(1)
    for a, b in ((0, 1), (0, 2), (1, 2)):
        exact = variance[a, a] + variance[b, b] - 2 * variance[a, b]
        taken = blocked.inflation[a] / counts[a] + blocked.inflation[b] / counts[b]
        assert exact <= taken * (1 + 1e-9)


def test_where_every_launch_has_a_device_of_its_own_devices_are_part_of_the_spread() -> None:
    launches = np.random.default_rng(0).standard_normal((2, 4))
    blocked = block(launches, np.eye(8).reshape(2, 4, 8))
    assert (blocked.launches == launches).all() and (blocked.kept == 1).all()
    # Two launches on one device are one: they show nothing of how devices differ.
    twice = block(launches, np.eye(7)[[[0, 0, 1, 2], [3, 4, 5, 6]]])
    assert np.isfinite(twice.launches).sum(1).tolist() == [3, 4]
    assert twice.launches[0, 0] == pytest.approx(launches[0, :2].mean())
    assert twice.inflation[0] == pytest.approx(4 / 3)


def test_devices_are_blocks_only_where_enough_launches_met_on_them() -> None:
    assert are_blocks(["bf16", "bf16", "fp8", "fp8"], ["a", "b", "a", "b"])
    assert not are_blocks(["bf16", "bf16", "fp8", "fp8"], ["a", "b", "b", "c"])
