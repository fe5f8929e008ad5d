"""How many of the argument lists that vLLM's users are given does a study take as they stand?

    git clone https://github.com/vllm-project/recipes && \\
        uv run python benchmarks/recipes.py recipes [VERSION]

Reads each `vllm serve` command of its pages, and each list of arguments of its YAML, and writes
them as a study's `server` and `speculative` would: the long name with underscores, a flag as true
or false. Where a server listens, under which name and key, is servetune's to set and left out.
Printed are how many lists the check of a plan takes, and for the others why not.
"""

import re
import shlex
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from servetune.engines.arguments import OWNED, Parser, check_arguments  # noqa: E402
from servetune.engines.environments import known_parser  # noqa: E402
from servetune.errors import UserError  # noqa: E402
from servetune.study.engines import EngineVersion  # noqa: E402

COMMAND = re.compile(r"vllm serve((?:\\\r?\n|[^\n`])*)")
ENDS = re.compile(r"\s(?:&|\||;|#|>|2>).*", re.DOTALL)

KINDS = {
    "are refused with the words to write instead": r"; write ",
    "set what belongs under speculative": r"set the variant's speculative",
    "name an argument that this version does not have": r"has no such argument",
    "have a placeholder or a value of another type": r"",
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
                yield [word for each in content for word in each.split(" ", 1)]
            return
        for value in content:
            yield from lists(value)


def as_declared(words: list[str], parser: Parser) -> dict[str, Any]:
    """Write words as a study's `server` does."""
    declared: dict[str, Any] = {}
    name = ""
    for word in words:
        if re.match(r"-+[A-Za-z]", word):
            option, _, value = word.partition("=")
            name = option.lstrip("-").replace("-", "_")
            if name not in parser and name.startswith("no_") and name[3:] in parser:
                declared[name[3:]] = False
            elif value:
                declared[name] = read(value)
            else:
                declared[name] = True
        elif name:
            before = declared.get(name)
            if before is True:
                declared[name] = read(word)
            else:
                declared[name] = [*(before if isinstance(before, list) else [before]), read(word)]
    return {name: value for name, value in declared.items() if name not in OWNED}


def read(word: str) -> Any:
    """Read a value as YAML does."""
    try:
        return yaml.safe_load(word)
    except yaml.YAMLError:
        return word


def main() -> None:
    """Check every list, and print what came of them."""
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    version = sys.argv[2] if len(sys.argv) > 2 else "0.33.0"
    parser = known_parser(EngineVersion(vllm=version), ROOT)
    assert parser is not None, f"workflow/envs/vllm-{version}.arguments.json: no such file"
    found: set[tuple[str, ...]] = set()
    for path in sorted(Path(sys.argv[1]).rglob("*")):
        if path.suffix not in (".md", ".yaml"):
            continue
        text = path.read_text()
        found.update(map(tuple, commands(text)))
        if path.suffix == ".yaml":
            found.update(map(tuple, lists(yaml.safe_load(text))))
    taken, reasons = 0, Counter[str]()
    for words in sorted(found):
        try:
            check_arguments(as_declared(list(words), parser), parser, "")
            taken += 1
        except UserError as error:
            reasons[str(error)] += 1
    print(f"{taken} of {len(found)} lists are taken by the arguments of vLLM {version}")
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
