"""What no import tells, and the layers of the code still forbid."""

import re

from tests.paths import ROOT

SOURCE = ROOT / "src/servetune"


def test_only_the_folder_of_an_engine_holds_names_of_its_metrics() -> None:
    named = re.compile(r"\bvllm:[a-z]\w+_\w+")
    holding = {
        file.relative_to(SOURCE).parent.as_posix()
        for file in SOURCE.rglob("*.py")
        if named.search(file.read_text())
    }
    assert holding == {"engines/vllm"}
