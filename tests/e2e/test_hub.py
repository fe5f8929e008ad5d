"""What a user reads when the Hugging Face hub gives no model, with the hub's real client."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from servetune.engines.environments import build_engine
from servetune.errors import UserError
from servetune.models.make import make_model
from servetune.plan.planned import PlannedModel
from servetune.study.models import MAKER, HuggingFace
from tests.paths import ROOT
from tests.project import Project

pytestmark = pytest.mark.e2e

REPO, REVISION = "someone/some-model", "0" * 40


@contextmanager
def hub(status: int, code: str | None) -> Iterator[str]:
    """A hub that answers everything with a status, and a code where it has one for it."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            if code:
                self.send_header("X-Error-Code", code)
            self.end_headers()

        do_HEAD = do_GET  # noqa: N815

        def log_message(self, *_: object) -> None:
            """Keep quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


Refused = Callable[..., str]


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Refused:
    """Return what is told of a fetch from an endpoint; nothing is in the hub's cache."""
    build_engine(MAKER, ROOT)
    root = Project(tmp_path).root
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)

    def fetch(endpoint: str, revision: str | None = REVISION) -> str:
        monkeypatch.setenv("HF_ENDPOINT", endpoint)
        source = HuggingFace(source="huggingface", repo=REPO, revision=revision)
        with pytest.raises(UserError) as refusal:
            make_model(PlannedModel(id="wanted", source=source, parents={}), root)
        line = str(refusal.value)
        assert line.startswith(f"models: {REPO}: ") and "developer.mozilla.org" not in line
        return line

    return fetch


@pytest.mark.parametrize(
    ("status", "code", "told"),
    [
        (404, "RepoNotFound", ["no such repository", "HF_TOKEN"]),
        (404, "RevisionNotFound", [f"no revision {REVISION}", f"{REPO}/commits/main"]),
        (403, "GatedRepo", ["gated", "ask for access", "HF_TOKEN"]),
        (401, None, ["401 Unauthorized", "HF_TOKEN"]),
        (500, None, ["500 Internal Server Error", "try again"]),
    ],
)
def test_what_the_hub_refuses_is_told_with_what_to_try(
    status: int, code: str | None, told: list[str], refused: Refused
) -> None:
    with hub(status, code) as endpoint:
        line = refused(endpoint)
    assert all(part in line for part in told), line


def test_a_missing_repository_is_told_also_where_no_revision_is_pinned(
    refused: Refused,
) -> None:
    with hub(404, "RepoNotFound") as endpoint:
        assert "no such repository" in refused(endpoint, revision=None)


def test_a_hub_that_is_out_of_reach_names_what_to_check(
    refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    with hub(200, None) as gone:
        pass
    line = refused(gone)
    assert "cannot be reached" in line and gone in line and "HTTPS_PROXY" in line
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert "HF_HUB_OFFLINE" in refused(gone)
