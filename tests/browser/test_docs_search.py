"""What people ask the search of the docs is answered by the first three pages that it finds.

The site is built without the DAG and the reports; pages, ranking and search are the site's own.
"""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from playwright.sync_api import Browser, Page

from tests.browser.pages import PATIENCE_MS
from tests.paths import ROOT

QUESTIONS = {
    "running server": "endpoint",
    "benchmark an openai compatible api": "endpoint",
    "docker": "from",
    "docker compose": "from",
    "kubernetes": "deploying",
    "kserve": "deploying",
    "two versions of vllm": "engines",
    "my own vllm build": "engines",
    "use a gpu": "gpus",
    "llama.cpp": "engines",
    "my own model": "models",
    "hugging face token": "models",
    "dummy weights": "models",
    "quantization": "adding-a-variant",
    "fp8 kv cache": "adding-a-variant",
    "speculative decoding": "adding-a-variant",
    "eagle3": "adding-a-variant",
    "how do I compare server arguments": "adding-a-variant",
    "lora": "classes",
    "structured output json": "classes",
    "tool calls": "classes",
    "reasoning model": "classes",
    "images": "embeddings",
    "audio": "index",
    "embeddings": "embeddings",
    "rerank": "embeddings",
    "disaggregated prefill": "pools",
    "kv cache offloading": "pools",
    "long prompts": "feared-loads",
    "are the answers still right": "answers",
    "my own prompts": "prompts",
    "sharegpt": "prompts",
    "prefix cache": "prompts",
    "multi-turn chat": "conversations",
    "replay a trace": "conversations",
    "agents": "conversations",
    "request rate": "workloads",
    "concurrency": "workloads",
    "offline batch": "workloads",
    "router": "fleet",
    "replicas": "fleet",
    "slo": "capacity",
    "max requests per second": "capacity",
    "find the best settings": "tuning",
    "sweep": "experiments",
    "does quantization hurt accuracy": "quality",
    "perplexity": "quality",
    "cost per million tokens": "cost",
    "several gpus": "gpus",
    "tensor parallel": "gpus",
    "slurm": "slurm",
    "air-gapped": "air-gapped",
    "no internet": "air-gapped",
    "resume after kill": "runs",
    "how long will it take": "runs",
    "server failed to start": "failures",
    "out of memory": "failures",
    "invalid measurement": "failures",
    "gpu already in use": "failures",
    "retry": "failures",
    "ci": "pull-requests",
    "github actions": "pull-requests",
    "regression": "pull-requests",
    "guidellm results": "other-tools",
    "aiperf": "other-tools",
    "seed": "adding-a-study",
    "secrets": "adding-a-study",
    "how many repeats": "verdicts",
    "is the difference statistically significant": "verdicts",
    "what is tpot": "methodology",
    "warmup": "workloads",
    "own folder": "own-folder",
    "predict": "predict",
    "how many gpus for 1000 users": "predict",
}
"""A page, by its name in docs/, that has to be among the first three, by what people type."""


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site of the pages as they stand."""
    root = tmp_path_factory.mktemp("site")
    shutil.copytree(ROOT / "docs", root / "docs")
    shutil.copytree(ROOT / "gallery/docs", root / "docs/gallery")
    shutil.copy(ROOT / "README.md", root / "docs/index.md")
    for name in ("CONTRIBUTING", "CHANGELOG", "SECURITY"):
        shutil.copy(ROOT / f"{name}.md", root / f"docs/{name.lower()}.md")
    hooks = f"hooks: [{ROOT / 'docs/ranking.py'}]"
    config = f"INHERIT: {ROOT / 'mkdocs.yml'}\ndocs_dir: docs\n{hooks}\n"
    (root / "mkdocs.yml").write_text(config)
    subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", "site"],
        cwd=root,
        check=True,
        capture_output=True,
    )
    return root / "site"


@contextmanager
def served(folder: Path) -> Iterator[str]:
    handler = partial(_Quiet, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.fixture(scope="module")
def hits(browser: Browser, site: Path) -> dict[str, list[str]]:
    """The pages that the site's search finds for each question, the best first."""
    with served(site) as url, closing(browser.new_page()) as page:
        page.set_default_timeout(PATIENCE_MS)
        page.add_init_script(KEEP_THE_SETUP)
        page.goto(url)
        page.wait_for_function("window.setup")
        page.evaluate(START)
        return {question: _ask(page, question) for question in QUESTIONS}


# A worker of our own: an answer does not say which question it is to, and the page asks, too.
KEEP_THE_SETUP = """
window.Worker = class extends Worker {
  constructor(url) {
    super(url);
    this.url = url;
  }
  postMessage(message) {
    super.postMessage(message);
    if (message.type === 0) window.setup = {url: this.url, message};
  }
};
"""
START = """() => new Promise(done => {
  window.search = new Worker(setup.url);
  window.search.addEventListener("message", ({data}) => data.type === 1 && done());
  window.search.postMessage(setup.message);
})"""
ASK = """question => new Promise(done => {
  window.search.addEventListener("message", ({data}) => {
    if (data.type === 3) done(data.data.items.map(hits => hits[0].location));
  }, {once: true});
  window.search.postMessage({type: 2, data: question});
})"""


def _ask(page: Page, question: str) -> list[str]:
    places: list[str] = page.evaluate(ASK, question)
    return [place.partition("#")[0].strip("/") or "index" for place in places]


@pytest.mark.parametrize("question", QUESTIONS)
def test_the_first_three_hits_hold_the_page_that_answers(
    hits: dict[str, list[str]], question: str
) -> None:
    assert QUESTIONS[question] in hits[question][:3], hits[question][:6]
