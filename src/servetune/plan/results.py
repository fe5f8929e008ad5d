"""Result files of other tools as launches of a variant, and what cannot be asked of them."""

from pathlib import Path

from servetune.errors import UserError
from servetune.files import sha256
from servetune.plan.planned import PlannedResults
from servetune.study.study import Study, Variant


def plan_results(
    study: str, name: str, variant: Variant, repeat: int, root: Path
) -> PlannedResults | None:
    """Return the file that is one launch of a variant, counted from 1; None of other variants.

    Raises:
        UserError: there is no such file, or it is of no format that is known.
    """
    if variant.results is None:
        return None
    # It takes half a second, which other plans need not wait for.
    from servetune.imports.read import read_results

    path = variant.results[repeat - 1]
    try:
        read_results(root / path)
    except UserError as error:
        raise UserError(f"studies/{study}.yaml: variants.{name}.results: {error}") from None
    return PlannedResults(path=str(path), digest=sha256(root / path))


def check_results(name: str, study: Study, names: list[str], repeats: int, root: Path) -> None:
    """Check what is asked of the variants that were measured before.

    Raises:
        UserError: the first thing that takes a server, a launch that nobody planned, or a file
            given twice.
    """
    file = f"studies/{name}.yaml"
    for key in names:
        variant, where = study.variants[key], f"{file}: variants.{key}"
        if variant.results is None:
            continue
        for asked in ("tune", "quality"):
            if getattr(study, asked):
                raise UserError(
                    f"{file}: {asked}: {key} is results, which nothing can be asked; leave {asked}"
                    " out, or the variant"
                )
        if len(variant.results) > repeats:
            raise UserError(
                f"{where}.results: {len(variant.results)} files, each a launch, but repeats is"
                f" {repeats}; set repeats: {len(variant.results)}"
            )
        for workload in variant.workloads or study.workloads:
            if study.workloads[workload].capacity:
                raise UserError(
                    f"{file}: workloads.{workload}.capacity: {key} is results, which hold no"
                    " search; give the variant workloads with load_points"
                )
        digests = [sha256(root / path) for path in variant.results if (root / path).is_file()]
        if len(set(digests)) < len(digests):
            raise UserError(f"{where}.results: a file is given twice; each is one launch")
