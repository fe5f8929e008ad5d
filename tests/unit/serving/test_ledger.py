"""What is taken from an endpoint stays within its limits, whoever takes it and is killed."""

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from servetune.engines.source import environment_with_source
from servetune.records.spending import Amount, Spending
from servetune.serving.ledger import RETRIES, Account, LimitError, ledger_folder
from servetune.serving.ledger_file import Writer
from servetune.study.targets import SpendLimits, TokenPrice

LEDGER = "0123456789ab"
PRICE = TokenPrice(input_usd_per_million=1.0, output_usd_per_million=10.0)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVETUNE_CACHE", str(tmp_path))


def account(
    recorded: Iterable[Spending] = (), price: TokenPrice | None = None, **limits: float
) -> Account:
    declared = SpendLimits.model_validate(limits)
    return Account(LEDGER, declared, price, lambda: recorded)


def amount(requests: int, output_tokens: int = 0, input_tokens: int = 0) -> Amount:
    return Amount(requests=requests, input_tokens=input_tokens, output_tokens=output_tokens)


def send(one: Account, count: int) -> None:
    for _ in range(count):
        one.sending(amount(1))


KILLED = """
import os, signal, sys
from servetune.records.spending import Amount
from servetune.serving.ledger import Account
from servetune.study.targets import SpendLimits
one = Account({ledger!r}, SpendLimits(requests=100), None, lambda: ())
with one.load(Amount(requests=60)):
    for _ in range({sent}):
        one.sending(Amount(requests=1))
    print("sent", flush=True)
    {then}
"""


def process(sent: int, then: str) -> "subprocess.Popen[str]":
    code = KILLED.format(ledger=LEDGER, sent=sent, then=then)
    started = subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment_with_source(),
        text=True,
    )
    assert started.stdout is not None and started.stdout.readline() == "sent\n"
    return started


def test_a_load_that_does_not_fit_is_refused_before_it_is_sent() -> None:
    one = account(requests=10)
    with one.load(amount(6)):
        send(one, 6)
    told = r"limits\.requests: 4 of 10 requests are left, and this load may take 5"
    with pytest.raises(LimitError, match=told), one.load(amount(5)):
        pass
    with one.load(amount(4)):
        send(one, 4)
    assert one.spent.requests == 10


def test_what_a_load_did_not_take_is_given_back() -> None:
    one = account(output_tokens=100)
    with one.load(amount(2, output_tokens=100)):
        most = amount(1, output_tokens=50)
        one.sending(most)
        one.settle(most, amount(1, output_tokens=20))
    assert one.spent.output_tokens == 20
    with one.load(amount(1, output_tokens=80)):
        pass


def test_requests_are_sent_again_within_the_limit_alone() -> None:
    with account(requests=10).load(amount(8)) as granted:
        assert granted.retries == 2
    with account(requests=1000).load(amount(8)) as granted:
        assert granted.retries == RETRIES


def test_two_loads_at_once_stay_below_a_limit_together() -> None:
    running = process(sent=1, then="sys.stdin.read()")
    told = r"limits\.requests: 3[0-9] of 100 requests are left"
    with pytest.raises(LimitError, match=told), account(requests=100).load(amount(50)):
        pass
    running.communicate()


def test_a_load_that_was_killed_counts_with_what_it_sent() -> None:
    process(sent=7, then="os.kill(os.getpid(), signal.SIGKILL)").wait()
    with account(requests=100).load(amount(93)):
        pass
    with pytest.raises(LimitError), account(requests=100).load(amount(94)):
        pass


def test_a_load_whose_client_lives_on_counts_with_all_that_it_may_send() -> None:
    killed = process(sent=7, then="os.kill(os.getpid(), signal.SIGKILL)")
    killed.wait()
    (file,) = ledger_folder(LEDGER).glob("*.jsonl")
    client = Writer(file)
    with pytest.raises(LimitError, match=r"3[0-9] of 100"), account(requests=100).load(amount(50)):
        pass
    client.close()
    with account(requests=100).load(amount(50)):
        pass


def test_a_load_that_a_crash_of_the_machine_ended_counts_with_all_that_it_might() -> None:
    process(sent=7, then="os.kill(os.getpid(), signal.SIGKILL)").wait()
    (file,) = ledger_folder(LEDGER).glob("*.jsonl")
    first, *rest = file.read_text().splitlines()
    reserved = {**json.loads(first), "boot": "another"}
    file.write_text("\n".join([json.dumps(reserved), *rest]) + "\n")
    with pytest.raises(LimitError, match=r"3[0-9] of 100"), account(requests=100).load(amount(50)):
        pass


def test_what_records_tell_of_other_machines_counts_and_nothing_twice() -> None:
    elsewhere = Spending(ledger=LEDGER, entry="a" * 32, requests=60)
    one = account([elsewhere, elsewhere], requests=100)
    with one.load(amount(10)):
        send(one, 10)
    again = account([elsewhere, one.spent], requests=100)
    with pytest.raises(LimitError, match="30 of 100"), again.load(amount(31)):
        pass


def test_money_is_counted_by_the_price_of_both_kinds_of_tokens() -> None:
    one = account(price=PRICE, usd=0.001)
    with one.load(amount(1, input_tokens=500, output_tokens=50)):
        pass
    told = r"limits\.usd: 0\.001 of 0\.001 USD are left, and this load may take 0\.00101"
    with (
        pytest.raises(LimitError, match=told),
        one.load(amount(1, input_tokens=500, output_tokens=51)),
    ):
        pass


def test_without_limits_no_load_is_granted() -> None:
    one = Account(LEDGER, None, None, lambda: ())
    one.sending(amount(1))
    with pytest.raises(LimitError, match="no limits are declared"), one.load(amount(1)):
        pass
