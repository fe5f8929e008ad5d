"""The driver of each load generator, from the module that its row names."""

from functools import cache
from importlib import import_module

from servetune.load.generator import Driver
from servetune.study.generators import GENERATORS


@cache
def driver_of(name: str) -> Driver:
    """Return the driver of a load generator, by its name."""
    driver: Driver = import_module(GENERATORS[name].module).DRIVER
    return driver
