"""PyYAML's loader in C, for which 1e-3 is the number that it looks like."""

import re

import yaml


class Loader(yaml.CSafeLoader):
    """Reads YAML 1.1, as Snakemake does."""


Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?(?:[0-9][0-9_]*(?:\.[0-9_]*)?|\.[0-9][0-9_]*)[eE][-+]?[0-9]+$"),
    list("-+.0123456789"),
)
