"""A Slurm of one node on loopback, for as long as a command runs: python tests/end_to_end/one_node.py COMMAND ...

Needs root and Debian's packages slurmctld, slurmd, slurm-client, slurm-wlm-basic-plugins and munge, whose daemons
need not run. All of it lives in a temporary folder, munge with a key and a socket of its own, but for
/etc/slurm/slurm.conf, the one place where Slurm's commands look inside a job. The file goes at the end, and where one
of somebody else's stands, nothing is started. A job that is requeued would wait for two minutes: `scontrol update
JobId=N StartTime=now` ends the wait.
"""

import contextlib
import fcntl
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

CONF = Path("/etc/slurm/slurm.conf")
PROGRAMS = ("slurmctld", "slurmd", "sbatch", "srun", "scontrol", "squeue", "sinfo", "munged", "mungekey")
PATIENCE = 60  # seconds until the node must be idle, or a daemon gone
GRACE = 30  # seconds between SIGTERM and SIGKILL, Slurm's own default

# No memory is allotted or enforced, so that what the rules ask for (an upper bound) need not be there.
MARK = "# Written by one_node.py, which was killed if it is not running.\n"
SETTINGS = """\
ClusterName=one
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmdPort={node_port}
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
CryptoType=crypto/munge
StateSaveLocation={folder}/controller
SlurmdSpoolDir={folder}/node
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=batch_sched_delay=0,sched_interval=2,sched_min_interval=0
MpiDefault=none
ReturnToService=2
SlurmdParameters=config_overrides
MinJobAge=3600
KillWait={grace}
DefMemPerCPU=100
NodeName=one NodeHostname={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory={memory} State=UNKNOWN
PartitionName=work Nodes=one Default=YES MaxTime=INFINITE State=UP
"""


def missing() -> str:
    """Why no such cluster can be started on this machine; empty where it can."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return "starting Slurm's daemons needs root"
    if CONF.exists() and not CONF.read_text(encoding="utf-8", errors="replace").startswith(MARK):
        return f"this machine has a Slurm of its own: {CONF}"
    absent = [program for program in PROGRAMS if shutil.which(program) is None]
    return f"Slurm is not installed: no {', '.join(absent)}" if absent else ""


@contextlib.contextmanager
def one_node(folder: Path, cpus: int | None = None) -> Iterator[None]:
    """Run the daemons out of `folder` until the block ends; RuntimeError where the node does not come up."""
    ports = free_ports(2)
    text = MARK + SETTINGS.format(
        folder=folder,
        host=socket.gethostname().split(".")[0],
        controller_port=ports[0],
        node_port=ports[1],
        grace=GRACE,
        cpus=cpus or os.cpu_count(),
        memory=1_000_000,
    )
    folder.chmod(0o755)
    for name in ("munge", "controller", "node"):
        (folder / name).mkdir(mode=0o755)
    with contextlib.ExitStack() as stack:
        stack.enter_context(alone())
        stack.enter_context(in_place(CONF, text))
        munge = folder / "munge"
        subprocess.run(["mungekey", "--create", f"--keyfile={munge}/key"], check=True)
        options = [f"--{name}={munge}/{file}" for name, file in MUNGE_FILES.items()]
        # Forced: it dislikes sockets below /tmp, which others may write to.
        stack.enter_context(daemon(folder, ["munged", "--foreground", "--force", *options]))
        wait_until(lambda: (munge / "socket").exists(), "munge has no socket", folder)
        stack.enter_context(daemon(folder, ["slurmctld", "-D", "-i", "-f", str(CONF)]))
        stack.enter_context(daemon(folder, ["slurmd", "-D", "-N", "one", "-f", str(CONF)]))
        stack.callback(end_jobs)
        wait_until(lambda: "idle" in said("sinfo", "-h", "-o", "%T"), "the node did not become idle", folder)
        yield


MUNGE_FILES = {"key-file": "key", "socket": "socket", "pid-file": "pid", "log-file": "log", "seed-file": "seed"}


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """One such cluster at a time: the next one waits, since both would write the same file."""
    with open(Path(tempfile.gettempdir(), "one_node.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def in_place(path: Path, text: str) -> Iterator[None]:
    """`path` holds `text`; afterwards it is gone, and so is its folder if it was not there."""
    new_folder = not path.parent.exists()
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    try:
        yield
    finally:
        path.unlink()
        if new_folder:
            path.parent.rmdir()


@contextlib.contextmanager
def daemon(folder: Path, command: list[str]) -> Iterator[None]:
    """A process in the foreground of its own session, ended by SIGTERM at the end."""
    with open(folder / f"{command[0]}.out", "wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            yield
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def end_jobs() -> None:
    """Cancel what still runs and wait for it: a daemon that ends leaves its jobs running."""
    said("scancel", "--me")
    deadline = time.monotonic() + GRACE + PATIENCE
    while said("squeue", "-h", "-t", "PD,R,CG,S") and time.monotonic() < deadline:
        time.sleep(0.2)


def said(*command: str) -> str:
    """What a command says; nothing where it fails."""
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def wait_until(condition, complaint: str, folder: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            logs = "\n".join(path.read_text(errors="replace")[-2000:] for path in sorted(folder.glob("*.[ol][uo][tg]")))
            raise RuntimeError(f"{complaint}\n{logs}")
        time.sleep(0.05)


def free_ports(count: int) -> list[int]:
    """Ports of the loopback that nobody listens on."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def main(command: list[str]) -> int:
    if reason := missing():
        print(f"error: {reason}", file=sys.stderr)
        return 1
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    with tempfile.TemporaryDirectory(prefix="slurm-") as folder, one_node(Path(folder)):
        return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
