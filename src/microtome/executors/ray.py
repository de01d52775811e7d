"""
Calls as tasks of Ray, on a cluster or on this machine.

A task gets a call as JSON and answers with its outcome. Ray itself runs a task again elsewhere when its
process or its node was lost; what had been computed is in the store by then, and is not computed twice.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from ..context import Context
from ..errors import InputError
from ..store.shelf import Shelf
from .base import Call, Executor, ExecutorSettings, Outcome, Resources, check_calls
from .worker import attempt

# So often does Ray run a task again whose process or node was lost.
RETRIES = 8
# Seconds in which interrupted tasks save their state.
PATIENCE = 20.0
# Seconds that nodes have to join the cluster.
JOINING = 20.0
# Tasks that Ray has at a time; others wait here.
MOST = 2000


def answer(text: str, root: str, perform: str) -> str:
    """
    Perform a call on a node.

    Parameters
    ----------
    text : str
        The call, as JSON.
    root : str
        The folder of the store.
    perform : str
        See `ExecutorSettings`.

    Returns
    -------
    str
        The outcome, as JSON.
    """
    return json.dumps(asdict(attempt(json.loads(text), Context(store=root), perform)))


class RayExecutor(Executor):
    """
    Performs calls in tasks of Ray; owns the connection to the cluster.

    Parameters
    ----------
    settings : ExecutorSettings
    """

    def __init__(self, settings: ExecutorSettings) -> None:
        import ray

        super().__init__(settings)
        self._ray = ray
        address = settings.ray_address
        # A cluster has paths of its own; here, workers see what this process sees.
        local = {"num_cpus": settings.workers, "include_dashboard": False} if address is None else {}
        path = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))} if address is None else {}
        ray.init(
            address=address,
            ignore_reinit_error=True,
            log_to_driver=False,
            logging_level=logging.ERROR,
            runtime_env={"env_vars": path} if path else None,
            **local,
        )
        self._waiting: list[tuple[Call, Resources]] = []
        self._running: dict[Any, Call] = {}
        self._tasks: dict[Resources, Any] = {}

    def check(self, resources: Resources) -> None:
        """Raise if no node of the cluster could ever take a call: Ray would wait without an end."""
        needs = {"CPU": resources.cpus, "GPU": resources.gpus, "memory": resources.bytes}
        deadline = time.monotonic() + JOINING
        while True:
            nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
            if any(all(node.get(name, 0) >= need for name, need in needs.items()) for node in nodes):
                return
            if time.monotonic() > deadline:
                break
            time.sleep(1.0)
        cpus, gpus, memory = max([[node.get(name, 0) for name in needs] for node in nodes] or [[0, 0, 0]])
        raise InputError(
            f"a call must fit a node of the Ray cluster, the largest of which has {cpus:g} CPUs, "
            f"{gpus:g} GPUs and {memory / 2**30:.1f}GB, but it needs {resources.sentence}."
        )

    def submit(self, calls: Sequence[Call], resources: Resources) -> None:
        """Take calls, and hand them to Ray."""
        check_calls(calls)
        if resources not in self._tasks:  # later, nodes that were lost may still come back
            self.check(resources)
        self._waiting += [(call, resources) for call in calls]
        self._begin()

    def outcomes(self, timeout: float) -> list[Outcome]:
        """Wait for tasks to end."""
        if not self._running:
            return []
        running = list(self._running)
        ended, _ = self._ray.wait(running, num_returns=1, timeout=timeout)
        if ended:  # and those that have ended meanwhile
            ended, _ = self._ray.wait(running, num_returns=len(running), timeout=0)
        outcomes = [self._outcome(task) for task in ended]
        self._begin()
        return outcomes

    def close(self) -> None:
        """Interrupt the tasks, wait until they have saved their state, and leave the cluster."""
        self._waiting.clear()
        running = list(self._running)
        self._running.clear()
        if self._ray.is_initialized():
            try:
                for task in running:
                    self._ray.cancel(task)
                if running:
                    self._ray.wait(running, num_returns=len(running), timeout=PATIENCE)
            finally:
                self._ray.shutdown()

    def _begin(self) -> None:
        room = MOST - len(self._running)
        ready, self._waiting = self._waiting[:room], self._waiting[room:]
        for call, resources in ready:
            if resources not in self._tasks:
                self._tasks[resources] = self._ray.remote(
                    num_cpus=resources.cpus,
                    num_gpus=resources.gpus,
                    memory=resources.bytes,
                    max_retries=RETRIES,
                )(answer)
            root, perform = str(self.settings.root), self.settings.perform
            self._running[self._tasks[resources].remote(json.dumps(call), root, perform)] = call

    def _outcome(self, task: Any) -> Outcome:
        from ray.exceptions import RayError

        call = self._running.pop(task)
        try:
            return Outcome(**json.loads(self._ray.get(task)))
        except RayError as problem:
            if Shelf(self.settings.root).has([call["address"]]):
                return Outcome(address=call["address"], state="done")
            reason = str(problem).strip().splitlines()[0]
            return Outcome(address=call["address"], state="lost", message=f"Ray gave it up: {reason}")
