"""Chromium, and the reports that several tests open.

A missing Chromium fails these tests; CHROMIUM may name it.
"""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Playwright, sync_playwright

from tests.browser.pages import write
from tests.report_data import ReportData, make_all_kinds, make_data, make_quickstart_plan

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def launch(playwright: Playwright) -> Browser:
    executable = os.environ.get("CHROMIUM") or shutil.which("chromium")
    assert executable, "no chromium on PATH: apt-get install chromium, or set CHROMIUM"
    return playwright.chromium.launch(executable_path=executable, args=ARGUMENTS)


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        launched = launch(playwright)
        yield launched
        launched.close()


@pytest.fixture(scope="package")
def data() -> ReportData:
    plan = make_quickstart_plan(repeats=2)
    return make_data(plan, failed={"fp8-kv-text-c8": "died"}, invalid={"w8a8-text-c1": "late"})


@pytest.fixture(scope="package")
def report(data: ReportData, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(data, tmp_path_factory.mktemp("report"))


@pytest.fixture(scope="package")
def all_kinds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    warm = {"implied_prefix_cache_hit_ratio": 0.2}
    data = make_data(make_all_kinds(), cards={"w8a8-chat-c8": warm})
    return write(data, tmp_path_factory.mktemp("all-kinds"))
