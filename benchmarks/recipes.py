"""How many of the commands that vLLM's users are given become a study that plans, unedited?

    git clone https://github.com/vllm-project/recipes && \\
        uv run python benchmarks/recipes.py recipes [VERSION]

Reads each `vllm serve` command of its pages, and each list of arguments of its YAML, gives it to
`servetune from` with a model in front, and plans what that wrote. Printed are how many lists are
taken, and for the others why not. By default the version is that of `vllm-cuda`.
"""

import re
import shlex
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from servetune.commands.files import source_of  # noqa: E402
from servetune.commands.study import study_from  # noqa: E402
from servetune.errors import UserError  # noqa: E402
from servetune.plan.make import make_plan  # noqa: E402
from tests.project import Project  # noqa: E402

COMMAND = re.compile(r"vllm serve((?:\\\r?\n|[^\n`])*)")
ENDS = re.compile(r"\s(?:&|\||;|#|>|2>).*", re.DOTALL)

MODEL = "owner/model"

KINDS = {
    "have a variable or a placeholder of the page's": r"what is \$|<[A-Z_a-z -]+>|\.\.\.",
    "name an argument that this version does not have": r"has no such argument",
    "have arguments that vLLM refuses together": r" and | with ",
    "have a value of another type": r"",
}
"""Why a list is refused, by its error."""


def commands(text: str) -> Iterator[list[str]]:
    """Yield the words of each command after its model."""
    for match in COMMAND.finditer(text):
        line = ENDS.sub("", re.sub(r"\\\r?\n", " ", match[1]))
        try:
            words = shlex.split(line)
        except ValueError:
            continue
        begins = next((i for i, word in enumerate(words) if word.startswith("-")), len(words))
        if begins < len(words):
            yield words[begins:]


def lists(content: Any) -> Iterator[list[str]]:
    """Yield the lists of words that begin with an option, wherever they stand in YAML."""
    if isinstance(content, dict):
        for value in content.values():
            yield from lists(value)
    elif isinstance(content, list):
        if content and all(isinstance(each, str) for each in content):
            if content[0].startswith("--"):
                # An option may hold its value in the same text.
                yield [
                    word
                    for each in content
                    for word in (each.split(" ", 1) if each.startswith("-") else [each])
                ]
            return
        for value in content:
            yield from lists(value)


def refusal(words: list[str], version: str | None, project: Project) -> str | None:
    """Say why a list becomes no study that plans; None where it does."""
    try:
        command = shlex.join(["vllm", "serve", MODEL, *words])
        written = study_from(source_of(command), "recipe", "nvidia-h200", version, project.root)
        (project.root / "studies" / "recipe.yaml").write_text(written.text)
        make_plan({**project.params, "study": "recipe"}, project.root)
    except UserError as error:
        return str(error)
    return None


def main() -> None:
    """Check every list, and print what came of them."""
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    version = sys.argv[2] if len(sys.argv) > 2 else None
    found: set[tuple[str, ...]] = set()
    for path in sorted(Path(sys.argv[1]).rglob("*")):
        if path.suffix not in (".md", ".yaml"):
            continue
        text = path.read_text()
        found.update(map(tuple, commands(text)))
        if path.suffix == ".yaml":
            found.update(map(tuple, lists(yaml.safe_load(text))))
    # `vllm serve --omni` is another program, vLLM-Omni, with arguments of its own.
    omni = {words for words in found if "--omni" in words}
    found -= omni
    with tempfile.TemporaryDirectory() as folder:
        project = Project(Path(folder))
        refusals = [refusal(list(words), version, project) for words in sorted(found)]
    reasons = Counter(reason for reason in refusals if reason is not None)
    taken = refusals.count(None)
    print(f"{taken} of {len(found)} lists become a study that plans, unedited")
    print(f"{len(omni)} more are of vLLM-Omni")
    kinds = Counter[str]()
    for reason, count in reasons.items():
        kinds[next(kind for kind, pattern in KINDS.items() if re.search(pattern, reason))] += count
    for kind, count in kinds.most_common():
        print(f"{count:4} {kind}")
    print()
    for reason, count in reasons.most_common():
        print(f"{count:4} {reason[:150]}")


if __name__ == "__main__":
    main()
