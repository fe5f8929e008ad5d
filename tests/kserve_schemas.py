"""Check what `servetune deploy` writes for KServe against KServe's own resource definitions.

Run: uv run python tests/kserve_schemas.py KSERVE VARIANT...

KSERVE is a checkout of KServe; the variants are of params.yaml's study. It prints what is wrong,
and ends with 1 if anything is.
"""

import sys
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from ruamel.yaml import YAML

from servetune.deploy.formats import FORMS
from servetune.deploy.served import served
from servetune.plan.make import make_plan, read_params

CRDS = "config/crd/full"
FORMS_OF_KSERVE = ("kserve", "llm-inference-service")
"""Those of its kinds."""


def closed(schema: Any) -> Any:
    """Return a schema that refuses what it does not name, as the API server's strict mode does."""
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {key: closed(value) for key, value in schema.items()}
    is_open = schema.get("x-kubernetes-preserve-unknown-fields") or "additionalProperties" in schema
    if (
        isinstance(schema.get("properties"), dict)
        and schema.get("type") == "object"
        and not is_open
    ):
        inner["additionalProperties"] = False
    if schema.get("x-kubernetes-int-or-string"):
        inner.pop("type", None)
    return inner


def schemas(kserve: Path) -> dict[tuple[str, str], Any]:
    """Return the schemas by apiVersion and kind."""
    found = {}
    for file in sorted((kserve / CRDS).rglob("*inferenceservices.yaml")):
        spec = YAML(typ="safe").load(file.read_text())["spec"]
        for version in spec["versions"]:
            schema = closed(version["schema"]["openAPIV3Schema"])
            schema["properties"]["metadata"] = {"type": "object"}
            found[f"{spec['group']}/{version['name']}", spec["names"]["kind"]] = schema
    return found


def main(kserve: Path, variants: list[str]) -> int:
    """Check every form of every variant; returns the exit code."""
    by_kind, root, wrong = schemas(kserve), Path(), 0
    plan = make_plan(read_params(root), root)
    for variant in variants or plan.variants:
        for form in FORMS_OF_KSERVE:
            for document in YAML(typ="safe").load_all(FORMS[form](served(plan, variant, root))):
                schema = by_kind[document["apiVersion"], document["kind"]]
                errors = list(Draft202012Validator(schema).iter_errors(document))
                wrong += len(errors)
                print(f"{variant} {document['kind']} {document['apiVersion']}: {len(errors)} wrong")
                for error in errors:
                    print(f"  {error.json_path}: {error.message[:200]}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
