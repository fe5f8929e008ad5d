"""What cannot be asked of an endpoint: refused before anything is sent."""

from servetune.errors import UserError
from servetune.study.generators import OWN
from servetune.study.study import Study


def check_endpoints(name: str, study: Study, names: list[str]) -> None:
    """Check what is asked of the endpoints among some variants of a study.

    Raises:
        UserError: the first thing that only a server of servetune's own can answer.
    """
    file = f"studies/{name}.yaml"
    endpoints = [each for each in names if study.variants[each].endpoint]
    if not endpoints:
        return
    if study.tune:
        raise UserError(
            f"{file}: tune: {endpoints[0]} is an endpoint, whose settings are its operator's;"
            " leave it out of a study that tunes"
        )
    if study.quality and study.quality.corpus:
        raise UserError(
            f"{file}: quality.corpus: {endpoints[0]} is an endpoint, and only a server of vLLM's is"
            " known to score prompts; use quality.questions, or leave the variant out"
        )
    for variant in endpoints:
        for key in study.variants[variant].workloads or study.workloads:
            workload, where = study.workloads[key], f"{file}: workloads.{key}"
            if workload.generator != OWN:
                raise UserError(
                    f"{where}.generator: {workload.generator} needs the checkpoint, which the"
                    f" endpoint {variant} does not have; leave generator out: {OWN} can"
                )
            if workload.capacity:
                raise UserError(
                    f"{where}.capacity: a search finds where a server breaks, and {variant} is an"
                    " endpoint; declare load_points"
                )
