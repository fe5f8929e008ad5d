"""Whoever runs a form gets the words and variables that were measured, whatever they hold."""

import re
import shlex
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from servetune.deploy.formats import FORMS
from servetune.deploy.served import Checkpoint, Served, served
from servetune.engines.arguments import Parser, as_argv
from servetune.engines.environments import known_parser
from servetune.engines.vllm.dialect import DIALECT as VLLM
from servetune.errors import UserError
from servetune.plan.make import make_plan
from servetune.serving.server import Server
from servetune.sessions.processes import OWN_ARGUMENTS
from tests.deployed import (
    Got,
    container_of,
    documents,
    read_compose,
    read_container,
    read_llm_inference_service,
    read_unit,
    run_line,
    write_stub,
)
from tests.project import Project

MEASURING = re.compile(
    r"SERVETUNE_.*|(GLOO|NCCL)_SOCKET_IFNAME|HF_HUB_OFFLINE|VLLM_NO_USAGE_STATS|VLLM_SERVER_DEV_MODE|VLLM_API_KEY"
)
PLACES = ("--host", "--port", "--served-model-name", "--middleware")
"""What belongs to measuring, and each form has otherwise or not at all."""

PASSED = {"HF_TOKEN": "planted-$HOME `id`", "OPENAI_API_KEY": "planted 2"}
SECRETS = {
    "api-key": "clients' key",
    "hf-token": PASSED["HF_TOKEN"],
    "OPENAI_API_KEY": PASSED["OPENAI_API_KEY"],
}
SHELLS = [shell for shell in ("/bin/bash", "/bin/dash") if Path(shell).exists()]

HOSTILE = [
    *("", " ", "a b", "it's", '"', "\\", "\\\\n", "a\\", "$", "$$", "$$$", "$HOME", "${HOME}"),
    *("$(id)", "$$(id)", "$(HOME)", "`id`", "%", "%n", "%%", "100%", ";", "a; rm -rf ~", "&&", "|"),
    *("#", "a #b", "!", "~", "*", "{}", "[]", "{{", "{{ .Spec }}", "{{{{", "}}", "{{`a`}}", "`{{"),
    *("yes", "no", "on", "Off", "y", "~", "null", "true", "1", "0x1F", "1e3", "0o7", "12:30:45"),
    *("1_000", ".inf", "=", "<<", "- a", "a: b", "? a", "&a", "*a", "!!int 1", "@a", ">", "%TAG"),
    *(
        "---",
        "...",
        "é",
        "\U0001f600",
        "\xa0",
        '{"a": {"b": [1, "$x"]}}',
        "x" * 5000,
        "a  b " * 300,
    ),
]
BROKEN = ["a\nrm -rf ~\n#", "\nExecStartPre=/bin/rm", "a\r", "\t", "\x1b]0;", "\u2028", "\u202e"]
"""Texts that no line holds."""


def served_with(
    arguments: tuple[str, ...], environment: dict[str, str], stub: Path, folder: str = "tiny"
) -> Served:
    return Served(
        name="bf16",
        study="quickstart",
        vllm="0.32.0",
        command=stub,
        gpus=0,
        model=Checkpoint("tiny-0123456789ab", Path("/models", folder)),
        draft=None,
        arguments=arguments,
        speculative=None,
        environment=environment,
        environment_from=tuple(PASSED),
        notes=(),
    )


def measured(of: Served) -> Got:
    """Return what the server was measured with, but for what belongs to measuring."""
    server = Server(
        dialect=VLLM,
        python=Path("python"),
        model=str(of.model.path),
        arguments=list(of.arguments),
        environment=of.environment,
        name="bf16-r1-0123456789ab-1-4711",
        log=Path("server.log"),
        folder=Path(),
    )
    variables, words = {}, iter(server.command)
    assert next(words) == "env"
    for word in words:
        name, is_variable, value = word.partition("=")
        if not is_variable:
            break
        variables[name] = value
    assert next(words) == "serve"
    return _without_measuring(Got([*words], variables))


def launched(project: Project, variant: str) -> Got:
    """Return what a session of the project is launched with, but for what is for measuring."""
    plan = make_plan(project.params, project.root)
    session = next(each for each in plan.sessions if each.variant == variant)
    parser = known_parser(plan.engines[session.engines[0]], project.root)
    assert parser is not None
    own = {name: True for name in OWN_ARGUMENTS if name in parser}
    of = served_with(tuple(as_argv({**own, **session.server}, parser)), session.environment, Path())
    got = measured(of)
    return Got([word for word in got.words if word not in own_options(parser)], got.environment)


def own_options(parser: Parser) -> list[str]:
    return [parser[name].option for name in OWN_ARGUMENTS]


def _without_measuring(got: Got) -> Got:
    _, *words = got.words
    while found := next((option for option in PLACES if option in words), None):
        at = words.index(found)
        del words[at : at + 2]
    kept = {name: v for name, v in got.environment.items() if not MEASURING.fullmatch(name)}
    return Got(words, kept)


def read(form: str, of: Served, shell: str = "/bin/bash") -> Got:
    """Return what the server of a form gets."""
    text = FORMS[form](of)
    assert of.command is not None
    if form == "command":
        return run_line(text, shell, PASSED)
    if form == "systemd":
        unit = read_unit(text)
        return Got(unit.words, {**unit.environment, **PASSED})
    if form == "compose":
        return read_compose(text, {**PASSED, "VLLM_API_KEY": "clients' key"})
    if form == "llm-inference-service":
        return read_llm_inference_service(text, SECRETS, of.command)
    container = container_of(documents(text)[0])
    assert container["command"] == ["vllm", "serve"]
    return read_container(container, SECRETS)


def check(form: str, of: Served, shell: str = "/bin/bash") -> None:
    """Check that a form gives what was measured, and what the caller passes, and no more."""
    expected, got = measured(of), _without_measuring(read(form, of, shell))
    assert got.words == expected.words
    environment = {**PASSED, **expected.environment}
    for name in {*OWN[form], *got.environment} - environment.keys():
        assert name in OWN[form], f"{name} is set, and was not measured"
        got.environment.pop(name, None)
    assert got.environment == environment


OWN: dict[str, set[str]] = {
    **{form: set[str]() for form in FORMS},
    "command": {"PATH", "PWD", "OLDPWD", "SHLVL", "_"},
    "systemd": {"HOME"},
}
"""Variables of a form that are no setting of vLLM's: a shell has its own."""

TEXTS = st.text(max_size=30) | st.sampled_from(HOSTILE) | st.sampled_from(BROKEN)
VALUES = TEXTS.filter(lambda text: not text.startswith("-"))
"""A value that begins with a dash is refused in a study."""
NAMES = st.from_regex(r"X[A-Z_]{0,4}", fullmatch=True) | st.sampled_from(["NO", "Y", "on", "HOME"])


@pytest.fixture(scope="module")
def stub(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_stub(tmp_path_factory.mktemp("stub"))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("shell", SHELLS)
def test_each_hostile_text_comes_back_as_it_was_measured(form: str, shell: str, stub: Path) -> None:
    arguments = [word for i, text in enumerate(HOSTILE) for word in (f"--option-{i}", text)]
    environment = {f"VARIABLE_{i}": text for i, text in enumerate(HOSTILE)}
    check(form, served_with(tuple(arguments), environment, stub), shell)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("variant", ["bf16", "w8a8", "fp8-kv"])
def test_a_variant_of_a_study_is_served_as_its_sessions_are(
    form: str, variant: str, stub: Path, project: Project
) -> None:
    study = project.study()
    study["server"] |= {"chat_template": '{{ m }} $HOME `id` "it\'s" 100%', "tokenizer": "a\\b"}
    study["environment"]["NOTE"] = '{{ m }} $HOME `id` "it\'s" 100% \\ ;'
    project.write_study({**study, "environment_from": list(PASSED)})
    plan = make_plan(project.params, project.root)
    of = replace(served(plan, variant, project.root), command=stub)
    got, expected = _without_measuring(read(form, of)), launched(project, variant)
    assert got.words == expected.words
    kept = {name: v for name, v in got.environment.items() if name not in OWN[form]}
    assert kept == {**expected.environment, **PASSED}


@pytest.mark.parametrize("form", FORMS)
@settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    arguments=st.lists(VALUES, max_size=4),
    environment=st.dictionaries(NAMES, TEXTS, max_size=3),
)
def test_a_form_gives_what_was_measured_or_is_refused_in_a_line(
    form: str, arguments: list[str], environment: dict[str, str], stub: Path
) -> None:
    of = served_with(tuple(arguments), environment, stub)
    try:
        check(form, of)
    except UserError as error:
        line = str(error)
        assert line.startswith(f"--as {form}: ") and line.isprintable()
        given = [*arguments, *environment.values()]
        assert any(not text.isprintable() for text in given), line


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("broken", BROKEN)
def test_no_line_of_a_form_begins_what_a_value_says(form: str, broken: str, stub: Path) -> None:
    of = served_with(("--chat-template", broken), {"NOTE": broken}, stub)
    if form in ("command", "systemd"):
        with pytest.raises(UserError, match=r"has a line break or a control character.* use --as"):
            FORMS[form](of)
    else:
        check(form, of)
        text = FORMS[form](of)
        assert text.isascii() and all(line.isprintable() for line in text.split("\n"))
        assert not any(line.startswith(("rm", "ExecStartPre")) for line in text.split("\n"))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("text", ["a\0b", "\udcff"])
def test_what_no_form_holds_is_refused_in_a_line(form: str, text: str, stub: Path) -> None:
    with pytest.raises(UserError, match=f"--as {form}: .*cannot hold") as caught:
        FORMS[form](served_with(("--note", text), {}, stub))
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("form", ["command", "systemd", "compose"])
@pytest.mark.parametrize("folder", ["a b", "$HOME", "a:b", "100%", "it's", "a\\b"])
def test_a_model_is_found_in_a_folder_of_any_name(form: str, folder: str, stub: Path) -> None:
    of = served_with((), {}, stub, folder)
    if form == "compose":
        (document,) = documents(FORMS[form](of))
        (volume,) = [v for v in document["services"]["vllm"]["volumes"] if isinstance(v, dict)]
        assert volume["source"].replace("$$", "$") == f"/models/{folder}"
        assert volume["target"] == read(form, of).words[0] and volume["read_only"] is True
    else:
        assert read(form, of).words[0] == f"/models/{folder}"


@pytest.mark.parametrize("name", ["it's", "a\\b", "$x", 'a"b'])
def test_a_program_that_systemd_would_not_run_is_refused(name: str, stub: Path) -> None:
    of = replace(served_with((), {}, stub), command=Path("/opt", name, "vllm"))
    with pytest.raises(UserError, match=r"--as systemd: .*systemd runs no program of such a name"):
        FORMS["systemd"](of)


def test_what_kserve_takes_arguments_from_cannot_be_set_beside_it(stub: Path) -> None:
    of = served_with((), {"VLLM_ADDITIONAL_ARGS": "--api-key x"}, stub)
    with pytest.raises(UserError, match=r"VLLM_ADDITIONAL_ARGS: .*use --as kserve"):
        FORMS["llm-inference-service"](of)


@pytest.mark.parametrize("form", FORMS)
def test_a_secret_is_a_reference_that_fails_where_it_is_missing(form: str, stub: Path) -> None:
    of = served_with((), {}, stub)
    text = FORMS[form](of)
    assert all(name in text for name in PASSED) and "planted" not in text
    if form == "command":
        given = {"PATH": "/usr/bin:/bin", "HF_TOKEN": "x"}
        done = subprocess.run(["/bin/sh", "-c", text], env=given, capture_output=True, check=False)
        assert done.returncode != 0 and b"OPENAI_API_KEY: set it" in done.stderr
        assert not re.search(r"env .*HF_TOKEN", text), "arguments are for all to see"
    elif form == "systemd":
        (line,) = [line for line in text.splitlines() if "mode 600" in line]
        assert line.startswith("#") and all(f"{name}=..." in line for name in PASSED)
        assert not any(line.startswith("Environment=") and "TOKEN" in line for line in text)
    elif form == "compose":
        with pytest.raises(AssertionError, match="OPENAI_API_KEY: set it"):
            read_compose(text, {"VLLM_API_KEY": "x", "HF_TOKEN": "x"})
    else:
        variables = {v["name"]: v for v in container_of(documents(text)[0])["env"]}
        for name in PASSED:
            assert variables[name]["valueFrom"]["secretKeyRef"]["optional"] is False


@pytest.mark.parametrize("form", FORMS)
def test_what_is_told_above_a_form_changes_nothing_of_it(form: str, stub: Path) -> None:
    plain = served_with(("--seed", "0"), {"NOTE": "a"}, stub)
    notes = [*HOSTILE, *BROKEN, *(f"capacity {text}" for text in (*HOSTILE, *BROKEN))]
    told = replace(plain, notes=tuple(notes))
    lines, more = FORMS[form](plain).split("\n"), FORMS[form](told).split("\n")
    assert more[len(notes) :] == lines
    for line in more[: len(notes)]:
        assert line.startswith("# ") and not set("`$;&|<>\\\"'") & set(line)
    assert read(form, told) == read(form, plain)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="this host has no systemd")
def test_systemd_itself_reads_the_same_words_and_variables(stub: Path, tmp_path: Path) -> None:
    arguments = [word for i, text in enumerate(HOSTILE) for word in (f"--option-{i}", text)]
    environment = {f"VARIABLE_{i}": text for i, text in enumerate(HOSTILE)}
    text = FORMS["systemd"](served_with(tuple(arguments), environment, stub))
    unit = tmp_path / "servetune-test.service"
    unit.write_text(text.replace("EnvironmentFile", "# EnvironmentFile"))
    done = subprocess.run(
        ["systemd-analyze", "verify", str(unit)],
        env={"PATH": "/usr/bin:/bin", "SYSTEMD_LOG_LEVEL": "debug", "LANG": "C.UTF-8"},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    dumped = done.stdout.decode()
    expected = read_unit(text)
    (line,) = re.findall(r"^\t+Command Line: (.*)$", dumped, re.M)
    # Quoted for a person: a dollar and a backtick are escaped, too.
    shown = re.sub(r"\\(.)", lambda found: found[found[1] in "$`"], line)
    words = [word.replace("$$", "$") for word in shlex.split(shown)]
    assert words == [str(stub), "serve", *expected.words]
    found = dict(re.findall(r"^\t+Environment: (\w+)=(.*)$", dumped, re.M))
    assert found == expected.environment
