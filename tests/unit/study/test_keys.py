"""What a study's keys are declared to bound, they do."""

import importlib
import pkgutil

import pytest
from annotated_types import Ge, Gt
from pydantic import BaseModel

import servetune.study
from servetune.study.base import Declared

MODULES = [
    importlib.import_module(f"servetune.study.{each.name}")
    for each in pkgutil.iter_modules(servetune.study.__path__)
]
MODELS: set[type[BaseModel]] = {
    model
    for module in MODULES
    for model in vars(module).values()
    if isinstance(model, type) and issubclass(model, BaseModel) and issubclass(model, Declared)
}


@pytest.mark.parametrize("model", sorted(MODELS, key=str))
def test_no_bound_of_a_key_takes_the_place_of_another(model: type[BaseModel]) -> None:
    # Of two lower bounds, a type's own and one beside it, the one that comes later holds alone.
    for name, field in model.model_fields.items():
        assert sum(isinstance(bound, Ge | Gt) for bound in field.metadata) <= 1, name
