"""A Slurm of two nodes on this machine: munged, slurmctld and two slurmd, each with one GPU.

Run: uv run python tests/slurm/cluster.py FOLDER

It needs root and Debian's slurmctld, slurmd, slurm-client and munge. The GPUs are device files,
so that Slurm counts them; nothing computes on them. It runs until it is told to
end.
"""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import psutil

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch")

CONF = Path("/etc/slurm")

CONFIG = """\
ClusterName=local
SlurmctldHost={host}
SlurmUser=root
SlurmctldPort={ports[0]}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory,CR_LLN
SchedulerParameters=batch_sched_delay=0,sched_interval=1
SlurmdTimeout=600
MessageTimeout=100
BatchStartTimeout=600
ReturnToService=2
MinJobAge=3600
TaskProlog={folder}/prolog
KillWait=5
RebootProgram=/bin/true
GresTypes=gpu
NodeName=n1 NodeHostname={host} Port={ports[1]} CPUs=2 RealMemory=8000 Gres=gpu:1 State=UNKNOWN
NodeName=n2 NodeHostname={host} Port={ports[2]} CPUs=2 RealMemory=8000 Gres=gpu:1 State=UNKNOWN
PartitionName=main Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP
"""


PROLOG = """\
#!/bin/sh
echo "export SERVETUNE_LOCKS={folder}/locks-$SLURMD_NODENAME"
"""


def missing() -> list[str]:
    """Return the programs that are not installed."""
    return [name for name in PROGRAMS if shutil.which(name) is None]


class Cluster:
    """The processes of the cluster."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        """Start the daemons, each until the stack ends."""
        self.folder = folder.absolute()
        self._stack = stack
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}
        host = socket.gethostname().split(".")[0]
        for name in ("state", "spool-n1", "spool-n2", "munge"):
            (folder / name).mkdir(parents=True)
        for node in ("n1", "n2"):
            os.mknod(folder / f"gpu-{node}", 0o020666, os.makedev(1, 3))
        (folder / "gres.conf").write_text(
            "".join(f"NodeName={n} Name=gpu File={self.folder}/gpu-{n}\n" for n in ("n1", "n2"))
        )
        config = CONFIG.format(host=host, folder=self.folder, ports=_free_ports(3))
        (folder / "slurm.conf").write_text(config)
        # Jobs do not inherit SLURM_CONF: the executor takes Slurm's variables from them.
        for name in ("slurm.conf", "gres.conf"):
            (CONF / name).symlink_to(self.folder / name)
            stack.callback((CONF / name).unlink)
        # Each node has locks of its own, as each host has.
        (folder / "prolog").write_text(PROLOG.format(folder=self.folder))
        (folder / "prolog").chmod(0o755)
        (folder / "munge.key").write_bytes(os.urandom(128))
        (folder / "munge.key").chmod(0o400)
        self._start("munged", _munged(self.folder))
        self._until(lambda: (folder / "munge.socket").exists())
        self._start("slurmctld", ["slurmctld", "-D", "-c"])
        for node in ("n1", "n2"):
            self.start_node(node)
        self._until(lambda: self.run("sinfo", "-h", "-o", "%D %t").split() == ["2", "idle"])

    def start_node(self, node: str) -> None:
        """Start the daemon of a node."""
        self._start(node, ["slurmd", "-D", "-N", node])

    def kill_node(self, node: str) -> None:
        """Kill a node as a power cut does: its daemon, and all that it had started."""
        for process in [self._daemons.pop(node).pid, *_of_node(node)]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        # Slurm finds out by itself, after a time in which a busy node may not answer either.
        self.run("scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=killed")

    def run(self, *words: str) -> str:
        """Run a command of Slurm; returns what it prints."""
        return subprocess.run(words, capture_output=True, text=True, check=False).stdout

    def _start(self, name: str, words: list[str]) -> None:
        log = (self.folder / f"{name}.out").open("ab")
        daemon = subprocess.Popen(words, stdout=log, stderr=log)
        self._daemons[name] = daemon
        self._stack.callback(daemon.wait)
        self._stack.callback(daemon.kill)

    def _until(self, is_so: Callable[[], bool]) -> None:
        while not is_so():
            for name, daemon in self._daemons.items():
                if daemon.poll() is not None:
                    raise RuntimeError(f"{name} ended; see {self.folder}/{name}.out")
            time.sleep(0.1)


@contextlib.contextmanager
def cluster(folder: Path) -> Iterator[Cluster]:
    """Run a cluster, its files in a folder."""
    with ExitStack() as stack:
        yield Cluster(folder, stack)


def _munged(folder: Path) -> list[str]:
    files = {
        "socket": "munge.socket",
        "key-file": "munge.key",
        "pid-file": "munge.pid",
        "log-file": "munge.log",
        "seed-file": "munge.seed",
    }
    words = [f"--{option}={folder / name}" for option, name in files.items()]
    return ["munged", "--foreground", "--force", *words]


def _of_node(node: str) -> list[int]:
    """List the processes of a node's jobs: Slurm names the node in their environment.

    Those who started them come first: they would tell the controller.
    """
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get("SLURMD_NODENAME") == node:
                parent = process.parent()
                is_step = parent is not None and parent.name() == "slurmstepd"
                found += [parent.pid] if parent is not None and is_step else []
                found.append(process.pid)
    return found


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


if __name__ == "__main__":
    with cluster(Path(sys.argv[1])) as running:
        print(running.run("sinfo"), flush=True)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        with contextlib.suppress(KeyboardInterrupt):
            signal.pause()
