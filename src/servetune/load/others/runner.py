"""The client of a load generator of others: the words of each job are a command, which it runs."""

import subprocess
import sys

from servetune.load.client.loop import serve_jobs
from servetune.load.generator import Job


def run(job: Job) -> None:
    """Run one load point, its output on standard error; raises RuntimeError if it fails."""
    last = "no output"
    with subprocess.Popen(
        job.argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            sys.stderr.write(line)
            last = line.strip() or last
    if process.returncode:
        raise RuntimeError(f"exit code {process.returncode}: {last}")


if __name__ == "__main__":
    serve_jobs(run)
