"""The candidates of a tuning: every combination of its settings that nothing forbids.

What vLLM refuses is forbidden, too.
"""

import hashlib
import itertools
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from servetune.errors import UserError
from servetune.study.conditions import holds
from servetune.study.contradictions import contradiction
from servetune.study.study import Study, Variant
from servetune.study.tune import Tune, Value

LONGEST_NAME = 64
"""Of a variant: `servetune.study.base.Name`."""

MOST_CANDIDATES = 20_000
"""A judgement: more than any budget tries, and each is made and checked by a plan."""

_ENVIRONMENT = "environment."


@dataclass(frozen=True)
class Candidate:
    """One way to serve: its settings by name, as `tune.space` has them, and what they make."""

    name: str
    values: Mapping[str, Value]
    variant: Variant


def with_variants(study: Study, tried: Iterable[Candidate]) -> Study:
    """Return a study whose variants are those that it declares, and candidates."""
    variants = {**study.variants, **{one.name: one.variant for one in tried}}
    return study.model_copy(update={"variants": variants})


def candidates(tune: Tune, study: Study) -> list[Candidate]:
    """Return the base, then every other combination that nothing forbids, in declared order.

    Raises:
        UserError: there are too many or none beside the base, or a condition cannot be decided.
    """
    base = study.variants[tune.base]
    at_base = _settings(base, tune, study)
    found = [Candidate(tune.base, {name: at_base.get(name) for name in tune.space}, base)]
    for values in _combinations(tune):
        variant = _variant(base, tune, study, values)
        if variant != base and not _forbidding(tune, {**at_base, **values}):
            changed = {name: value for name, value in values.items() if value != at_base.get(name)}
            found.append(Candidate(_name(changed), values, variant))
    if len(found) == 1:
        rules = forbidden(tune, study)
        why = f"{rules.total():,} others are forbidden" if rules else "no setting differs"
        raise UserError(f"tune.space: {why}; expected a candidate beside the base, {tune.base}")
    return found


def forbidden(tune: Tune, study: Study) -> Counter[str]:
    """Count the combinations that each condition leaves out; the first that holds counts.

    What vLLM refuses (`servetune.study.contradictions`) comes after what the study forbids.
    """
    at_base = _settings(study.variants[tune.base], tune, study)
    rules = (_forbidding(tune, {**at_base, **values}) for values in _combinations(tune))
    return Counter(rule for rule in rules if rule)


def _combinations(tune: Tune) -> Iterator[dict[str, Value]]:
    lists = [tune.values_of(name) for name in tune.space]
    size = 1
    for values in lists:
        size *= len(values)
    if size > MOST_CANDIDATES:
        raise UserError(
            f"tune.space: {size:,} combinations; expected at most {MOST_CANDIDATES:,}:"
            " leave out values that cannot be best"
        )
    for combination in itertools.product(*lists):
        yield dict(zip(tune.space, combination, strict=True))


def _settings(variant: Variant, tune: Tune, study: Study) -> dict[str, Any]:
    """Return what a variant is served with, by the names that conditions and a space use."""
    drafts = (name for name, of in tune.speculative.items() if of == variant.speculative)
    own = tune.base if variant.speculative else "none"
    environment = {**study.environment, **variant.environment}
    return {
        **study.server,
        **variant.server,
        **{f"{_ENVIRONMENT}{name}": value for name, value in environment.items()},
        "model": variant.model,
        "speculative": next(drafts, own),
    }


def _variant(base: Variant, tune: Tune, study: Study, values: Mapping[str, Value]) -> Variant:
    """Return the base with other settings; what the study sets anyway is not set again."""
    server, environment = dict(base.server), dict(base.environment)
    changes: dict[str, Any] = {"server": server, "environment": environment}
    for name, value in values.items():
        if name == "model":
            changes["model"] = value
        elif name == "speculative":
            changes["speculative"] = tune.speculative.get(str(value))
        elif name.startswith(_ENVIRONMENT):
            _set(environment, name.removeprefix(_ENVIRONMENT), str(value), study.environment)
        else:
            _set(server, name, value, study.server)
    return base.model_copy(update=changes)


def _set(settings: dict[str, Any], name: str, value: Value, common: Mapping[str, Any]) -> None:
    settings.pop(name, None)
    if value != common.get(name):
        settings[name] = value


def _forbidding(tune: Tune, settings: Mapping[str, Any]) -> str | None:
    for condition in tune.forbid:
        try:
            if holds(condition, settings):
                return condition
        except ValueError as error:
            raise UserError(f"tune.forbid: {error}") from None
    return contradiction(settings)


def _name(values: Mapping[str, Value]) -> str:
    """Name a candidate after what differs from the base: by its values alone where that is long.

    A digest is added where the words are not the whole of it.
    """
    words = {name.removeprefix(_ENVIRONMENT): _word(value) for name, value in values.items()}
    whole = "-".join(f"{name}-{word}" for name, word in words.items())
    named = re.sub(r"[^A-Za-z0-9._-]", "", whole).strip("._-")
    if named == whole and len(named) <= LONGEST_NAME:
        return named
    content = hashlib.sha256(json.dumps(dict(values), sort_keys=True).encode()).hexdigest()[:10]
    short = re.sub(r"[^A-Za-z0-9._-]", "", "-".join(words.values()))
    return f"{short[: LONGEST_NAME - 11].strip('._-') or 'candidate'}-{content}"


def _word(value: Value) -> str:
    return json.dumps(value).strip('"')
