"""Roles die and freeze at random while sessions work. The seed decides who, how and for how long."""

import os
import random
import signal
import threading
import time

from pons_fixture import wait_for

ROLES = ("brain", "warden", "spawner", "gateway")


class Storm(threading.Thread):
    """Strikes until it is told to stop; every role is well again when stop() returns."""

    def __init__(self, pons, seed, roles=ROLES, ways=("kill", "freeze"), pause=(0.02, 0.3)):
        super().__init__()
        self.pons = pons
        self.random = random.Random(seed)
        self.kinds = [(role, way) for role in roles for way in ways]
        self.pause = pause
        self.strikes = []
        self.over = threading.Event()
        self.error = None

    def run(self):
        try:
            plan = []
            while not self.over.wait(self.random.uniform(*self.pause)):
                if not plan:  # each of them before any comes again
                    plan = self.random.sample(self.kinds, len(self.kinds))
                self.strike(*plan.pop())
        except Exception as error:  # pylint: disable=broad-except
            self.error = error

    def strike(self, role, way):
        # One that has not come up yet is left alone: who dies three times without having been ready ends Pons.
        pid = wait_for(lambda: self.ready_pid(role), f"{role} is ready")
        self.strikes.append((role, way))
        if way == "kill":
            os.kill(pid, signal.SIGKILL)
            return
        os.kill(pid, signal.SIGSTOP)
        try:
            time.sleep(self.random.uniform(0.05, 1.5))
        finally:
            os.kill(pid, signal.SIGCONT)

    def ready_pid(self, role):
        state = self.pons.role(role)
        return state["pid"] if state["state"] == "ready" and state["pid"] > 0 else None

    def stop(self):
        self.over.set()
        self.join()
        if self.error is not None:
            raise self.error
        for role in ROLES:
            wait_for(lambda role=role: self.ready_pid(role), f"{role} is well again")
