"""Places where executors are tested: this machine, a real Slurm of two nodes, a Ray cluster of two nodes."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

from microtome.executors.base import ExecutorSettings
from microtome.testing.executors import PERFORM

SCRIPT = Path(__file__).with_name("slurm.sh")


def kill(process: int) -> None:
    """Send SIGKILL, if the process is still there."""
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)


class Place(ABC):
    """Where calls run, and how its nodes are lost."""

    name: str
    options: dict[str, Any]

    def settings(self, root: Path) -> ExecutorSettings:
        """Settings of the executor, with a store."""
        return ExecutorSettings(store=root, perform=PERFORM, **self.options)

    @abstractmethod
    def lose_node(self, process: int, coordinator: int) -> None:
        """Kill the node that has a process with all that runs there, and bring it back."""

    def preempt(self, process: int) -> None:
        """Take its place from a process."""
        os.kill(process, signal.SIGTERM)


class Machine(Place):
    """Processes of this machine, which is lost as a whole."""

    name, options = "processes", {"workers": 4}

    def lose_node(self, process: int, coordinator: int) -> None:
        """Kill the coordinator and its workers at once."""
        with suppress(psutil.NoSuchProcess):
            workers = psutil.Process(coordinator).children(recursive=True)
            for one in (coordinator, *(worker.pid for worker in workers)):
                kill(one)


class Slurm(Place):
    """Two nodes of a real Slurm."""

    name, options = "slurm", {"partition": "low", "pack": 2}

    def __init__(self) -> None:
        self.folder = Path(os.environ.setdefault("MICROTOME_SLURM", "/tmp/microtome-slurm"))
        os.environ["SLURM_CONF"] = str(self.folder / "slurm.conf")
        subprocess.run([SCRIPT, "stop"], check=False, capture_output=True)
        time.sleep(2)
        subprocess.run([SCRIPT, "start"], check=True, stdout=subprocess.DEVNULL)

    def close(self) -> None:
        """Cancel all jobs, and end the daemons."""
        subprocess.run([SCRIPT, "stop"], check=False, capture_output=True)

    def node_of(self, process: int) -> str:
        """The node that has a process."""
        with suppress(psutil.NoSuchProcess):
            return psutil.Process(process).environ().get("SLURMD_NODENAME", "n1")
        return "n1"

    def lose_node(self, process: int, coordinator: int) -> None:
        """Kill the daemon of the node, its steps and all that they started."""
        node = self.node_of(process)
        victims = []
        for one in psutil.process_iter():
            with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                if one.name() == "slurmd" and f"-N {node} " in " ".join(one.cmdline()):
                    victims.append(one.pid)
                elif one.environ().get("SLURMD_NODENAME") == node:
                    parent = one.parent()
                    step = [parent.pid] if parent is not None and "slurmstepd" in parent.name() else []
                    victims += [*step, one.pid]
        for victim in victims:
            kill(victim)
        time.sleep(3)
        subprocess.run([SCRIPT, "up", node], check=True, stdout=subprocess.DEVNULL)

    def preempt(self, process: int) -> None:
        """Give the node to a job of a partition with a higher tier."""
        words = ["sbatch", "--partition=high", "--exclusive", f"--nodelist={self.node_of(process)}"]
        log = f"--output={self.folder}/preempting"
        subprocess.run([*words, log, "--wrap=sleep 5"], check=True, stdout=subprocess.DEVNULL)


class Ray(Place):
    """Two nodes of a Ray cluster beside its head."""

    name = "ray"

    def __init__(self) -> None:
        from ray.cluster_utils import Cluster

        self.cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
        self.nodes = [self.cluster.add_node(num_cpus=2) for _ in range(2)]
        self.options = {"ray_address": self.cluster.address}

    def close(self) -> None:
        """End the cluster."""
        self.cluster.shutdown()

    def lose_node(self, process: int, coordinator: int) -> None:
        """Kill the node's processes, and add another node."""
        parents = []
        with suppress(psutil.NoSuchProcess):
            parents = [parent.pid for parent in psutil.Process(process).parents()]
        lost = next((node for node in self.nodes if self._raylet(node) in parents), self.nodes[0])
        self.nodes.remove(lost)
        self.cluster.remove_node(lost, allow_graceful=False)
        self.nodes.append(self.cluster.add_node(num_cpus=2))

    def preempt(self, process: int) -> None:
        """Take the node away."""
        self.lose_node(process, 0)

    def _raylet(self, node: Any) -> int:
        return node.all_processes["raylet"][0].process.pid


@contextmanager
def place_of(name: str) -> Iterator[Place]:
    """A place by the name of its executor, which ends with the block."""
    place = {"processes": Machine, "slurm": Slurm, "ray": Ray}[name]()
    try:
        yield place
    finally:
        if isinstance(place, Slurm | Ray):
            place.close()
