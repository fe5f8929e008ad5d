"""The workflow that comes with this code: around it in a clone, inside it in a wheel."""

import hashlib
from pathlib import Path

_PACKAGE = Path(__file__).absolute().parent
_IN_WHEEL = _PACKAGE / "shipped"

SHIPPED = _IN_WHEEL if _IN_WHEEL.is_dir() else _PACKAGE.parents[1]
"""The folder of Snakefile, workflow/, dvc.yaml and the schema of studies."""

SNAKEFILE = str(SHIPPED / "Snakefile")
"""What a Snakefile of one's own includes, or names in a module."""

_CODE = {".py", ".j2", ".css", ".js"}

ENVS = SHIPPED / "workflow" / "envs"


def is_clone() -> bool:
    """Tell whether this code runs from a clone."""
    return SHIPPED != _IN_WHEEL


def env_file(name: str, root: Path) -> Path:
    """Return a file of workflow/envs: the project's own if it has one, else the shipped one."""
    own = root / "workflow" / "envs" / name
    shipped = ENVS / name
    return shipped if shipped.is_file() and not own.is_file() else own


def env_names(root: Path) -> list[str]:
    """Return the names of all tool environments, the project's own and the shipped ones."""
    folders = (ENVS, root / "workflow" / "envs")
    return sorted({file.stem for folder in folders for file in folder.glob("*.in")})


def digest_of(file: Path) -> str:
    """Digest of a file's content."""
    return hashlib.sha256(file.read_bytes()).hexdigest()[:12]


def code_digest() -> str:
    """Digest of the code and the workflow, by which one version may differ from another."""
    package = {f: f.relative_to(_PACKAGE) for f in _PACKAGE.rglob("*") if f.suffix in _CODE}
    package = {f: name for f, name in package.items() if name.parts[0] != _IN_WHEEL.name}
    rules = [SHIPPED / "Snakefile", *(SHIPPED / "workflow" / "rules").glob("*.smk")]
    files = {**package, **{f: f.relative_to(SHIPPED) for f in rules}}
    lines = sorted(f"{name} {digest_of(file)}\n" for file, name in files.items())
    return hashlib.sha256("".join(lines).encode()).hexdigest()[:12]
