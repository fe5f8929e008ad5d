"""The section of rooflines: what is known of each variant, and why nothing is of others."""

from dataclasses import replace
from typing import Any

from servetune.records.sessions import Launch, SessionRecord
from servetune.report.html import render_html
from servetune.report.roofline.section import section
from servetune.report.section import Plain
from tests.report_data import ReportData, make_data


def relaunched(data: ReportData, variant: str | None = None, **changes: Any) -> ReportData:
    """Change the launches of a variant, or of all."""

    def changed(session: SessionRecord) -> SessionRecord:
        if variant not in (None, session.variant):
            return session
        launches: list[Launch] = [one.model_copy(update=changes) for one in session.launches]
        return session.model_copy(update={"launches": launches})

    return replace(data, sessions={id: changed(one) for id, one in data.sessions.items()})


def server_info(**config: Any) -> dict[str, Any]:
    return {"vllm_config": config}


def test_why_a_variant_has_no_roofline_is_said_beside_those_that_have_one() -> None:
    pipelined = server_info(parallel_config={"pipeline_parallel_size": 2})
    data = relaunched(make_data(), "w8a8", server_info=pipelined)
    assert not any(case.attained for case in data.cases if case.row["variant"] == "w8a8")
    assert any(case.attained for case in data.cases if case.row["variant"] == "bf16")
    assert "pipeline_parallel_size 2" in render_html(data)


def test_where_no_variant_has_a_roofline_the_section_says_why() -> None:
    data = relaunched(make_data(), model=None, uncounted="layers differ (mamba_d_state)")
    made = section(data)
    assert made is not None and isinstance(made.words, Plain)
    assert ("w8a8", "layers differ (mamba_d_state)") in [
        (getattr(row[0], "variant", ""), row[1]) for row in made.words.table.rows
    ]
    assert "layers differ (mamba_d_state)" in render_html(data)


def test_a_draft_that_is_not_understood_does_not_cost_nothing() -> None:
    drafting = server_info(speculative_config={"method": "eagle3"})
    data = relaunched(make_data(), "eagle3", draft=None, server_info=drafting)
    reasons = {case.uncounted for case in data.cases if case.row["variant"] == "eagle3"}
    assert reasons == {"what drafting by eagle3 costs is not known"}


def test_weights_that_were_quantized_at_load_halve_what_a_step_reads() -> None:
    data = make_data()
    loaded = relaunched(data, "bf16", server_info=server_info(model_config={"quantization": "fp8"}))
    for before, after in zip(data.cases, loaded.cases, strict=True):
        if before.row["variant"] == "bf16" and before.engine:
            assert after.engine is not None
            stored = before.engine.model
            read = stored.linear_bytes - stored.linear_parameters
            assert after.engine.model.linear_bytes == read


def test_engines_side_by_side_are_held_against_the_ceilings_of_all_their_devices() -> None:
    info = server_info(parallel_config={"data_parallel_size": 2})
    host = {"gpus": [{"name": "H200"}] * 2}
    data = relaunched(make_data(), "bf16", server_info=info, host=host)
    engines = {case.engine for case in data.cases if case.row["variant"] == "bf16" and case.engine}
    assert {(one.copies, one.devices) for one in engines} == {(2, 2)}
    assert {one.ceilings.memory_bandwidth_gb_s for one in engines} == {46.0}
    assert "on 2 devices 46.0 GB/s" in render_html(data)
