"""A Parquet file of anyone is read within its bounds, or refused in a line."""

import subprocess
import sys
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from servetune.doctor import check_files
from servetune.errors import DamagedError
from servetune.files import write_table
from servetune.load.request_table import read_request_table
from servetune.parquet import read_table
from servetune.telemetry.samples import read_samples
from tests import bombs
from tests.paths import ROOT
from tests.recorded import RECORDED, results_of
from tests.written import STUDY, write_project

ROWS = {"a text that repeats": 2**20}
MANY = 2**24

WITHIN = """
import resource, sys
from pathlib import Path
import pandas, pyarrow.parquet, pyarrow.compute
from servetune.errors import UserError
from servetune.parquet import read_table
pages = int(Path("/proc/self/statm").read_text().split()[0])
limit = pages * resource.getpagesize() + 200 * 1024**2
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
for name in sys.argv[1:]:
    try:
        print(len(read_table(Path(name))))
    except UserError as error:
        print(error)
"""
"""Reads tables in 200 MiB more than it has once it has imported."""


def refusal(path: Path) -> str:
    with pytest.raises(DamagedError) as caught:
        read_table(path)
    assert str(caught.value).isprintable()
    return caught.value.why


@pytest.mark.parametrize("study", RECORDED[:3])
def test_every_table_of_a_study_is_read_as_pandas_reads_it(study: str) -> None:
    files = sorted(results_of(study).glob("*.parquet"))
    assert files
    for file in files:
        pd.testing.assert_frame_equal(read_table(file), pd.read_parquet(file))


@pytest.mark.parametrize("kind", bombs.TABLES)
def test_a_small_file_that_would_fill_gigabytes_is_refused(kind: str, tmp_path: Path) -> None:
    path = bombs.write_parquet(kind, tmp_path / "t.parquet", ROWS.get(kind, MANY))
    assert path.stat().st_size < 100_000
    assert refusal(path).startswith("would fill ")


def test_what_is_refused_takes_no_memory_before_it_is(tmp_path: Path) -> None:
    paths = [
        bombs.write_parquet(kind, tmp_path / f"{place}.parquet", ROWS.get(kind, MANY))
        for place, kind in enumerate(bombs.TABLES)
    ]
    paths += [bombs.write_footer(tmp_path / "footer.parquet", 1_000_000)]
    done = subprocess.run(
        [sys.executable, "-c", WITHIN, *map(str, paths)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    lines = done.stdout.splitlines()
    assert len(lines) == len(paths)
    assert all("would fill" in line for line in lines[:-1])
    assert "has a footer of 3 MB" in lines[-1]


@pytest.mark.parametrize("field", [1, 2], ids=["values", "size"])
def test_a_page_that_holds_more_than_the_footer_says_is_refused(field: int, tmp_path: Path) -> None:
    path = bombs.write_lie(tmp_path / "t.parquet", field)
    assert refusal(path) == "time_s: its pages are not as its footer says"


@pytest.mark.parametrize(
    "options",
    [
        {"column_encoding": {"error": "DELTA_BYTE_ARRAY"}, "use_dictionary": False},
        {"column_encoding": {"error": "DELTA_LENGTH_BYTE_ARRAY"}, "use_dictionary": False},
        {"data_page_version": "2.0"},
    ],
    ids=["prefixes", "lengths", "another kind of page"],
)
def test_pages_that_servetune_never_writes_are_refused(
    options: dict[str, object], tmp_path: Path
) -> None:
    pq.write_table(pa.table({"error": ["a" * 100, "a" * 101]}), tmp_path / "t", **options)
    assert "another" in refusal(tmp_path / "t")


@pytest.mark.parametrize(
    "column",
    [
        pa.array([b"x"], pa.binary()),
        pa.array([0], pa.timestamp("s")),
        pa.array([{"a": 1}]),
        pa.array([["x"]]),
        pa.array([[[1.0]]]),
        pa.array([[1.0]], pa.list_(pa.float64(), 1)),
        pa.array(["x"]).dictionary_encode(),
        pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())),
    ],
    ids=lambda column: str(column.type),
)
def test_columns_of_types_that_servetune_never_writes_are_refused(
    column: pa.Array, tmp_path: Path
) -> None:
    pq.write_table(pa.table({"x": column}), tmp_path / "t")
    assert refusal(tmp_path / "t").startswith("x is ")


def test_two_columns_of_a_name_are_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table([pa.array([1]), pa.array([2])], ["x", "x"]), tmp_path / "t")
    assert "two of a name" in refusal(tmp_path / "t")


def test_the_folders_of_a_table_add_no_columns_to_it(tmp_path: Path) -> None:
    path = tmp_path / "study=3" / "t.parquet"
    write_table(path, pd.DataFrame({"a": [1]}))
    assert [*read_table(path)] == ["a"]


def test_every_bit_of_a_pages_header_that_flips_leaves_a_line_or_the_table(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    write_table(path, pd.DataFrame({"time_s": [1.0, 2.0], "measurement": ["a", "b"]}))
    whole = path.read_bytes()
    ends = 0
    for place in range(4, 80):
        for bit in range(8):
            content = bytearray(whole)
            content[place] ^= 1 << bit
            path.write_bytes(content)
            try:
                assert len(read_table(path)) == 2
            except DamagedError as error:
                assert str(error).isprintable()
                ends += 1
    assert ends > 100


def requests(**columns: object) -> pd.DataFrame:
    one = {
        **dict.fromkeys(("scheduled", "conversation", "turn"), 0),
        **{"is_counted": True, "is_ok": True, "error": None, "start_s": 0.0},
        **{"send_delay_ms": 0.0, "asked_output_tokens": 2, "input_tokens": 3},
        **{"output_tokens": 2, "cached_tokens": None, "ttft_ms": 1.0, "e2e_ms": 2.0},
        **{"tpot_ms": 1.0, "itl_ms": [1.0]},
    }
    return pd.DataFrame([{**one, **columns}])


def test_only_the_columns_of_a_request_table_are_read(tmp_path: Path) -> None:
    write_table(tmp_path / "r.parquet", requests(more="x"))
    read = read_request_table(tmp_path / "r.parquet")
    # Those that came later are empty of an older one.
    assert {*requests()} <= {*read} and "more" not in read


@pytest.mark.parametrize(
    ("name", "value"),
    [("ttft_ms", "fast"), ("is_ok", 1), ("itl_ms", 1.0), ("error", 2), ("input_tokens", [1])],
)
def test_a_column_of_requests_of_another_kind_is_named(
    name: str, value: object, tmp_path: Path
) -> None:
    write_table(tmp_path / "r.parquet", requests(**{name: value}))
    with pytest.raises(DamagedError, match=f"{name} is "):
        read_request_table(tmp_path / "r.parquet")


def test_a_request_table_without_a_column_is_damaged(tmp_path: Path) -> None:
    write_table(tmp_path / "r.parquet", requests().drop(columns="e2e_ms"))
    with pytest.raises(DamagedError, match="has no column e2e_ms"):
        read_request_table(tmp_path / "r.parquet")


def test_only_the_documented_columns_of_samples_are_read(tmp_path: Path) -> None:
    samples = pd.DataFrame(
        {"time_s": [0.0], "measurement": [""], "gpu0_power_w": [1.0], "drafts": [2], "x": [3]}
    )
    write_table(tmp_path / "s.parquet", samples)
    assert [*read_samples(tmp_path / "s.parquet")] == [*samples.drop(columns="x")]
    write_table(tmp_path / "s.parquet", samples.assign(drafts="many"))
    with pytest.raises(DamagedError, match="drafts is "):
        read_samples(tmp_path / "s.parquet")


@pytest.mark.parametrize(
    "place", [f"{STUDY}/probes.parquet", f"raw/{STUDY}/x/requests.parquet", "telemetry"]
)
def test_the_doctor_names_a_table_that_would_fill_gigabytes(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SERVETUNE_CACHE", str(tmp_path / "cache"))
    root = write_project(tmp_path)
    path = root / "results" / place
    if place == "telemetry":
        path = min(root.glob("results/raw/*/*/telemetry-*.parquet"))
    path.parent.mkdir(parents=True, exist_ok=True)
    bombs.write_parquet("a number that repeats", path, MANY)
    (found,) = [each for each in check_files(root) if each]
    assert found.path == path
    assert "would fill" in found.why
