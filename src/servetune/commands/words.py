"""The words of a shell's text: its commands, with the variables that stand before them.

Nothing is run: a variable is replaced where the text itself sets it, and is an error elsewhere.
"""

import re
import shlex
from dataclasses import dataclass, field

from servetune.errors import UserError

_CONTINUED = re.compile(r"\\[ \t]*\r?\n[ \t]*")
_COMMENT = re.compile(r"^[ \t]*#.*$", re.MULTILINE)
_ASSIGNED = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_VARIABLE = re.compile(r"\$\{(\w+)(?::?-([^}]*))?\}|\$(\w+)")

SERVER = "vllm.entrypoints.openai.api_server"
_PROGRAM = re.compile(r"(.*/)?vllm(-rs)?$")
_PYTHON = re.compile(r"(.*/)?python[\d.]*$")
_IMAGE = re.compile(
    r"(?:[\w.:-]+/)*[\w.-]*vllm[\w.-]*(?:/[\w.-]+)*(?::(?P<tag>[\w.-]+))?(?:@\S+)?$"
)
_CONTAINER = ("docker", "podman", "nerdctl", "sudo")
_SHELLS = ("bash", "sh", "/bin/bash", "/bin/sh")


@dataclass
class Command:
    """What was asked of vLLM: `arguments` after `serve` or `bench serve`.

    `environment` is what stands before it, or is given to its container; `names` are the variables
    whose values come from the caller. `version` is that of an image's tag, `is_cpu` of vLLM's image
    for CPUs. `outside` are words
    before it that are not of vLLM.
    """

    kind: str
    arguments: list[str]
    environment: dict[str, str] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)
    version: str | None = None
    is_cpu: bool = False
    outside: list[str] = field(default_factory=list)


def commands_in(text: str) -> list[Command]:
    """Return the commands of vLLM in a shell's text, in its order.

    Raises:
        UserError: a quote without its end.
    """
    exported: dict[str, str] = {}
    found = []
    for words in _split(text):
        words = [*words]
        if words and words[0] in ("export", "set", "ENV"):
            exported |= _assigned(words[1:])
            continue
        if words and all(_ASSIGNED.fullmatch(word) for word in words):
            exported |= _assigned(words)
            continue
        if command := command_of([_replaced(word, exported) for word in words]):
            # What a shell exports goes to the server; a container gets what it is given.
            command.environment = {**_of_server(exported), **command.environment}
            found.append(command)
    return found


def _assigned(words: list[str]) -> dict[str, str]:
    return {m[1]: m[2] for word in words if (m := _ASSIGNED.fullmatch(word))}


def _of_server(exported: dict[str, str]) -> dict[str, str]:
    prefixes = ("VLLM_", "CUDA_", "NCCL_", "HF_", "TORCH", "OMP_", "PYTORCH_", "HIP_", "HSA_")
    return {name: value for name, value in exported.items() if name.startswith(prefixes)}


def _split(text: str) -> list[list[str]]:
    """Split text into simple commands, each a list of words."""
    joined = _COMMENT.sub("", _CONTINUED.sub(" ", text.replace("\r\n", "\n")))
    lexer = shlex.shlex(joined, posix=True, punctuation_chars=";|&<>\n")
    lexer.whitespace, lexer.commenters, lexer.whitespace_split = " \t\r", "", True
    words, commands = list[str](), list[list[str]]()
    skips = 0
    try:
        for word in lexer:
            if set(word) <= set("<>&") and ("<" in word or ">" in word):
                # What follows a redirection is a file.
                skips = 1
                if words and words[-1] in ("1", "2"):
                    words.pop()
            elif set(word) <= set(";|&\n"):
                commands.append(words)
                words, skips = [], 0
            elif skips:
                skips = 0
            else:
                words.append(word)
    except ValueError as error:
        raise UserError(f"from: the command cannot be read: {error}; check its quotes") from None
    return [_without_comment(each) for each in [*commands, words] if each]


def _without_comment(words: list[str]) -> list[str]:
    at = next((i for i, word in enumerate(words) if word.startswith("#")), len(words))
    return words[:at]


def _replaced(word: str, known: dict[str, str]) -> str:
    def value(found: re.Match[str]) -> str:
        name = found[1] or found[3]
        return known.get(name, found[0] if found[2] is None else found[2])

    return _VARIABLE.sub(value, word)


def unset(word: str) -> str | None:
    """Return the variable of a shell that stands in a word still; None where none does."""
    found = _VARIABLE.search(word)
    return found and (found[1] or found[3])


def command_of(words: list[str]) -> Command | None:
    """Find vLLM's command among words; None where there is none."""
    environment, before, rest = _before(words)
    for at, word in enumerate(rest):
        after = rest[at + 1 :]
        if _PROGRAM.fullmatch(word) and after[:1] == ["serve"]:
            return Command("serve", after[1:], environment, outside=[*before, *rest[:at]])
        if _PROGRAM.fullmatch(word) and after[:2] == ["bench", "serve"]:
            return Command("bench", after[2:], environment, outside=[*before, *rest[:at]])
        if _PYTHON.fullmatch(word) and "-m" in after:
            module = after[after.index("-m") + 1 :]
            if module[:1] == [SERVER]:
                return Command("serve", module[1:], environment, outside=[*before, *rest[:at]])
            if module[:2] == ["vllm.entrypoints.cli.main", "serve"]:
                return Command("serve", module[2:], environment, outside=[*before, *rest[:at]])
        if word in _SHELLS and len(after) > 1 and re.fullmatch(r"-\w*c", after[0]):
            inner = commands_in(after[1])
            return inner[0] if inner else None
        if word in _CONTAINER[:3] and "run" in after:
            return _of_container(after[after.index("run") + 1 :])
    return None


def _before(words: list[str]) -> tuple[dict[str, str], list[str], list[str]]:
    """Split off the variables before a command, also of `env`."""
    environment: dict[str, str] = {}
    at = 0
    while at < len(words):
        assigned = _ASSIGNED.fullmatch(words[at])
        if assigned:
            environment[assigned[1]] = assigned[2]
        elif words[at] not in ("env", "$"):
            break
        at += 1
    return environment, [], words[at:]


def _of_container(words: list[str]) -> Command | None:
    """Read what stands after `docker run`: its options, an image of vLLM's, and arguments."""
    at = next((i for i, word in enumerate(words) if _is_image(words, i)), None)
    if at is None:
        return None
    environment: dict[str, str] = {}
    names: list[str] = []
    options, image, rest = words[:at], words[at], words[at + 1 :]
    for index, option in enumerate(options):
        name, joined, value = option.partition("=")
        if name not in ("-e", "--env") and not re.match(r"-e[A-Z_]", option):
            continue
        if re.match(r"-e[A-Z_]", option):
            value = option[2:]
        elif not joined:
            value = options[index + 1] if index + 1 < len(options) else ""
        variable, is_set, told = value.partition("=")
        if is_set:
            environment[variable] = told
        elif variable:
            names.append(variable)
    tag = (_IMAGE.fullmatch(image) or {"tag": None})["tag"]
    inner = command_of(rest)
    if inner is None:
        rest = rest[1:] if rest[:1] == ["serve"] else rest
        inner = Command("serve", rest)
    inner.outside = ["docker run"]
    inner.environment = environment | inner.environment
    inner.names = names
    inner.version = inner.version or version_of(tag)
    inner.is_cpu = is_cpu_image(image)
    return inner


def is_cpu_image(image: str) -> bool:
    """Tell whether an image is vLLM's for CPUs."""
    return bool(re.search(r"vllm[\w/-]*-cpu", image))


_TAKES_NONE = ("--rm", "-d", "-it", "-i", "-t", "--detach", "--privileged", "--init", "-ti", "-dit")


def _is_image(words: list[str], at: int) -> bool:
    if words[at].startswith("-") or not _IMAGE.fullmatch(words[at]):
        return False
    before = words[at - 1] if at else ""
    # The value of an option, such as --name vllm, is no image.
    return not before.startswith("-") or before in _TAKES_NONE or "=" in before


def version_of(tag: str | None) -> str | None:
    """Return the version of an image's tag, v0.11.0; None of others, such as latest."""
    found = re.match(r"v?(\d+\.\d+\.\d+(?:\.post\d+|rc\d+)?)", tag or "")
    return found[1] if found else None
