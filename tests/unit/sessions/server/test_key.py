"""One key for all launches, which nobody else can read."""

import os
import stat
from pathlib import Path

import pytest

from servetune.sessions.server.key import own_key


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SERVETUNE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_each_launch_has_the_same_key_so_that_compiled_graphs_are_found_again(cache: Path) -> None:
    assert own_key() == own_key()


def test_the_key_is_readable_by_its_user_alone(cache: Path) -> None:
    before = os.umask(0)
    try:
        key = own_key()
    finally:
        os.umask(before)
    (file,) = cache.iterdir()
    assert file.read_text() == key
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.parametrize("damage", [b"", b"short", b"\xff\xfe" * 16, b"two lines of one key\n" * 2])
def test_a_damaged_key_is_made_again(cache: Path, damage: bytes) -> None:
    cache.mkdir()
    (cache / "api-key").write_bytes(damage)
    key = own_key()
    assert len(key) == 32
    assert own_key() == key


def test_another_users_key_is_another(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = own_key()
    monkeypatch.setenv("SERVETUNE_CACHE", str(cache / "other"))
    assert own_key() != key


def test_a_cache_that_cannot_be_written_stops_no_launch(cache: Path) -> None:
    cache.write_text("a file where the folder belongs")
    assert len(own_key()) == 32
