"""What a host gives back is taken as what was measured there, or refused."""

import io
import json
import math
import random
import shutil
import tarfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fuzz_imports
import pytest

from servetune.bundle import archive as archives
from servetune.bundle.manifest import MANIFEST, Manifest
from servetune.bundle.results import pack_results, take_results
from servetune.errors import UserError
from servetune.files import write_json
from servetune.records.measurements import read_measurement
from tests import stories as stories_of
from tests.paths import GALLERY
from tests.recorded import plan_of
from tests.stories import content_of

STUDY = "h200-capacity"

Edit = Callable[[dict[str, Any]], Any]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A host's project, which holds a manifest and the records of a study."""
    made = tmp_path / "there"
    plan = plan_of(STUDY)
    manifest = Manifest(study=STUDY, sessions=plan.sessions, engines={})
    write_json(made / MANIFEST, manifest)
    for kind in ("records", "searches"):
        shutil.copytree(GALLERY / "results" / STUDY / kind, made / "results" / STUDY / kind)
    return made


def taken(project: Path, here: Path) -> Counter[str]:
    """Take an archive as its host may have made it, whatever a bundle would have packed."""
    with tarfile.open(project / "out.tar.gz", "w:gz") as archive:
        for name in (MANIFEST, "results"):
            archive.add(project / name, name)
    return take_results(project / "out.tar.gz", here, [STUDY]).counts


def edit(file: Path, change: Edit) -> None:
    content = json.loads(file.read_text())
    change(content)
    file.write_text(json.dumps(content))


def a_record(project: Path) -> Path:
    return min((project / "results" / STUDY / "records").glob("*.json"))


def test_every_record_that_was_measured_there_is_here_afterwards(
    project: Path, tmp_path: Path
) -> None:
    counts = taken(project, tmp_path / "here")
    for kind in ("records", "searches"):
        folder = Path("results", STUDY, kind)
        names = {path.name for path in (project / folder).glob("*.json")}
        assert {path.name for path in (tmp_path / "here" / folder).iterdir()} >= names > set()
    assert counts["measurements"] == len(
        list((project / "results" / STUDY / "records").glob("*.json"))
    )


def test_what_came_with_a_bundle_of_other_sessions_stays_behind(
    project: Path, tmp_path: Path
) -> None:
    edit(project / MANIFEST, lambda manifest: manifest["sessions"].pop())
    gone = plan_of(STUDY).sessions[-1].id
    pack_results(project, project / "out.tar.gz", has_output=False)
    take_results(project / "out.tar.gz", tmp_path, [STUDY])
    came = [read_measurement(file) for file in tmp_path.glob("results/*/records/*.json")]
    assert came and gone not in {record.session for record in came}


@pytest.mark.parametrize("field", ["study", "measurement", "variant", "session"])
@pytest.mark.parametrize("value", ["elsewhere", "../../../src/servetune", "/tmp/elsewhere", ""])
def test_a_record_of_something_else_than_its_name_says_is_refused(
    project: Path, tmp_path: Path, field: str, value: str
) -> None:
    file = a_record(project)
    edit(file, lambda record: record.update({field: value}))
    with pytest.raises(UserError, match=file.name):
        taken(project, tmp_path / "here")


@pytest.mark.parametrize(
    "change",
    [
        lambda record: record["metrics"].update(output_throughput_tok_s=-1),
        lambda record: record["metrics"].update(ttft_p50_ms=math.nan),
        lambda record: record["metrics"].update(output_throughput_tok_s=99999),
        lambda record: record["metrics"].update(ttft_p99_ms=0.001),
        lambda record: record.update(started_at="yesterday"),
        lambda record: record.update(ended_at="2001-01-01T00:00:00+00:00"),
        lambda record: record["metrics"].update(ttft_p50_ms=math.inf),
        lambda record: record["load"].update(seed=record["load"]["seed"] + 1),
        lambda record: record["load"].update(dataset="../../params"),
        lambda record: record.update(repeat=2),
        lambda record: record.update(schema_version=99),
        lambda record: record.update(unheard_of=1),
    ],
)
def test_a_record_that_cannot_be_of_its_measurement_is_refused(
    project: Path, tmp_path: Path, change: Edit
) -> None:
    file = a_record(project)
    edit(file, change)
    with pytest.raises(UserError, match=file.name):
        taken(project, tmp_path / "here")
    assert not (tmp_path / "here" / "results").exists()


@pytest.mark.parametrize(
    "change",
    [
        lambda manifest: manifest.update(format=2),
        lambda manifest: manifest.update(study="../src"),
        lambda manifest: manifest.update(study="quickstart"),
        lambda manifest: manifest["sessions"][0].update(id="../../../src/servetune"),
        lambda manifest: manifest["sessions"][0].update(model="../../src"),
        lambda manifest: manifest["sessions"][0]["server"].update(max_model_len=4096),
        lambda manifest: manifest["sessions"][0]["searches"][0].update(id="../x-0123456789ab"),
        lambda manifest: manifest["sessions"][0]["searches"][0]["settings"].update(probes=99),
        lambda manifest: manifest["sessions"][0]["searches"][0]["load"].update(seed=5),
    ],
)
def test_a_session_whose_ids_do_not_follow_from_what_it_holds_is_refused(
    project: Path, tmp_path: Path, change: Edit
) -> None:
    edit(project / MANIFEST, change)
    with pytest.raises(UserError):
        taken(project, tmp_path / "here")
    assert not (tmp_path / "here" / "results").exists()


def link(name: str, to: str) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = tarfile.SYMTYPE, to
    return member


def device(name: str) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type = tarfile.CHRTYPE
    return member


@pytest.mark.parametrize(
    "member",
    [
        link("results/raw", "../../src"),
        link(f"results/{STUDY}/records/x.json", "/etc/passwd"),
        device("results/zero"),
        tarfile.TarInfo("results/../src/servetune/cli.py"),
        tarfile.TarInfo("/etc/cron.d/job"),
        tarfile.TarInfo("Snakefile"),
    ],
    ids=lambda member: member.name,
)
def test_an_archive_with_more_than_plain_results_is_refused(
    member: tarfile.TarInfo, tmp_path: Path
) -> None:
    with tarfile.open(tmp_path / "bad.tar.gz", "w:gz") as archive:
        archive.addfile(member, io.BytesIO())
    with pytest.raises(UserError, match="not a file of a bundle's results"):
        take_results(tmp_path / "bad.tar.gz", tmp_path / "here", [STUDY])


def test_an_archive_that_would_fill_the_disk_is_refused_before_it_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archives, "MOST_BYTES", 1000)
    with tarfile.open(tmp_path / "big.tar.gz", "w:gz") as archive:
        member = tarfile.TarInfo("results/zeros")
        member.size = 1001
        archive.addfile(member, io.BytesIO(bytes(1001)))
    with pytest.raises(UserError, match="more than"):
        archives.unpack(tmp_path / "big.tar.gz", tmp_path / "here")
    assert not (tmp_path / "here").exists()


def test_whatever_is_changed_in_an_archive_what_is_here_stays(tmp_path: Path) -> None:
    stories = [fuzz_imports.members(done, tmp_path / f"story-{done}") for done in range(1, 5)]
    draw, came = random.Random(1), Counter[str]()
    for index in range(60):
        was, here = tmp_path / "was", tmp_path / "here"
        ours = draw.randint(1, 4)
        shutil.copytree(tmp_path / f"story-{ours}" / "results", was / "results")
        shutil.copytree(was, here)
        (tmp_path / "a.tar.gz").write_bytes(fuzz_imports.changed(draw.choice(stories), draw))
        try:
            take_results(tmp_path / "a.tar.gz", here, [stories_of.STUDY])
            came["imported"] += 1
        except UserError as error:
            assert str(error).isprintable()
            assert content_of(here) == content_of(was)
            came["refused"] += 1
        assert not fuzz_imports.harm_to(content_of(was), content_of(here), was, here), index
        assert {path.name for path in here.iterdir()} == {"results", ".servetune"}
        shutil.rmtree(was)
        shutil.rmtree(here)
    assert min(came["imported"], came["refused"]) > 5
