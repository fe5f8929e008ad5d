"""The commands `snakemake`, `dvc` and `servetune` without the time that their imports take.

`commands()` is a folder for PATH. What stands there under a command's name hands its words,
folder, environment and output to a process that has imported the libraries already, which forks
a child that runs what the real command runs. Only signals do not reach it: tests that send one
use the real commands.
"""

import atexit
import gc
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path

NAMES = ("dvc", "servetune", "snakemake")

# Nothing of servetune itself: a workspace has a copy of it, which a test may edit; and no NVML,
# whose place a stand-in may take.
LIBRARIES = (
    *("altair", "httpx", "jinja2", "pandas", "psutil", "pyarrow.dataset", "pydantic"),
    *("rich.console", "ruamel.yaml", "scipy.optimize", "tokenizers", "typer", "vl_convert", "yaml"),
    *("dvc.cli.command", "dvc.repo", "dvc.repo.experiments", "dvc.stage.run", "dvc_data.index"),
    *("dvc_render", "dvc_task.app", "pygit2", "requests"),
    *("snakemake.cli", "snakemake.api", "snakemake.workflow", "snakemake.dag"),
    *("smart_open", "snakemake.executors.local", "yte"),
)

CLIENT = """\
#!{python} -IS
import json, os, socket, sys
server = socket.socket(socket.AF_UNIX)
server.connect({address!r})
socket.send_fds(server, [b"\\n"], [0, 1, 2])
told = json.dumps([{name!r}, sys.argv[1:], os.getcwd(), dict(os.environ)])
server.sendall(told.encode() + b"\\n")
sys.exit(int(server.makefile().readline() or 1))
"""


@cache
def commands() -> Path:
    """Start the server, which ends with this process; returns the folder of its commands."""
    folder = Path(tempfile.mkdtemp(prefix="warm-"))
    address = str(folder / "socket")
    python = folder / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    for name in NAMES:
        client = CLIENT.format(python=sys.executable, address=address, name=name)
        (folder / name).write_text(client)
    for file in folder.iterdir():
        file.chmod(0o755)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen(64)
    subprocess.Popen(
        [sys.executable, "-P", __file__, str(listener.fileno()), str(python)],
        # Never written to: it closes when this process ends.
        stdin=subprocess.PIPE,
        pass_fds=[listener.fileno()],
        start_new_session=True,
    )
    listener.close()
    return folder


def serve(listener: socket.socket, python: Path) -> None:
    """Take commands until the process that started this one has ended."""
    for library in LIBRARIES:
        import_module(library)
    # What is imported is never collected, so that children share its memory.
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while 0 not in select.select([0, listener.fileno()], [], [])[0]:
        client, _ = listener.accept()
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            listener.close()
            return attend(client, python)
        client.close()
    shutil.rmtree(python.parent)


def attend(client: socket.socket, python: Path) -> None:
    """Run one command, end it if its client goes, and tell the client its exit code."""
    _, streams, _, _ = socket.recv_fds(client, 1, 3)
    name, words, folder, environment = json.loads(client.makefile().readline())
    pid = os.fork()
    if pid == 0:
        client.close()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        become(name, words, folder, environment, python)
    for stream in streams:
        os.close(stream)
    child = os.pidfd_open(pid)
    if child not in select.select([child, client.fileno()], [], [])[0]:
        os.kill(pid, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    client.sendall(f"{code if code >= 0 else 128 - code}\n".encode())


def become(
    name: str, words: list[str], folder: str, environment: dict[str, str], python: Path
) -> None:
    """Do what the command's script does, as if this process had been started for it."""
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.path[:0] = filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))
    sys.argv = [name, *words]
    # Where commands look for other commands.
    sys.executable = str(python)
    (script,) = entry_points(group="console_scripts", name=name)
    code: object = 1
    try:
        code = script.load()()
    except SystemExit as ended:
        code = ended.code
    except BaseException:
        traceback.print_exc()
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    if isinstance(code, str):
        print(code, file=sys.stderr)
    sys.stdout.flush()
    sys.stderr.flush()
    # Without the end of the interpreter, which takes apart all that was imported.
    os._exit(code if isinstance(code, int) else int(code is not None))


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])), Path(sys.argv[2]))
