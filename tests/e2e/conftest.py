from pathlib import Path

import pytest

from servetune.plan.make import make_plan
from tests.e2e.clone import Clone, make_clone
from tests.e2e.studies import (
    double_scales,
    one_server_for_all_loads,
    with_unfit_servers,
    write_task,
)


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """The models of all clones: each is made once, as its id names what it is made of."""
    if worker_id == "master":
        return tmp_path_factory.mktemp("models")
    shared = tmp_path_factory.getbasetemp().parent / "models"
    shared.mkdir(exist_ok=True)
    return shared


@pytest.fixture(scope="session")
def quickstart(tmp_path_factory: pytest.TempPathFactory, models: Path) -> Clone:
    """A clone in which the quickstart was measured once, unfit servers beside its own."""
    made = make_clone(tmp_path_factory.mktemp("quickstart") / "servetune", models)
    planned = make_plan({"study": "quickstart"}, made.root).models
    (w8a8,) = (f"data/models/{id}" for id in planned if id.startswith("tiny-w8a8"))
    print(made.run("snakemake", "--cores", "1", f"{w8a8}/servetune.json"))
    double_scales(made.root / w8a8, made.root / "broken")
    made.write_study(with_unfit_servers(made.study()))
    print(made.measure())
    return made


@pytest.fixture(scope="session")
def loaded(tmp_path_factory: pytest.TempPathFactory, models: Path) -> Clone:
    """A clone in which one server of the quickstart's baseline took loads of every kind.

    It serves while models are made for the other clone, with which it takes turns on the machine.
    """
    made = make_clone(tmp_path_factory.mktemp("loaded") / "servetune", models)
    write_task(made.root / "evaluation")
    made.write_study(one_server_for_all_loads(made.study()))
    print(made.measure())
    return made
