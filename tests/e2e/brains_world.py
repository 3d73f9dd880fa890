"""Two installations of Pons that share one PostgreSQL, as if on two machines: each has its own roles and sandboxes."""

import json
import os
import signal

from pons_fixture import wait_for
from postgres_world import DATABASE, Postgres
from sandbox_world import Warden
from session_world import Client, SessionTestCase

PASSWORD = "correct-horse-battery-staple-7341"


class BrainsTestCase(SessionTestCase):
    def setUp(self):
        super().setUp()
        self.postgres = Postgres(self, PASSWORD)

    def store(self, url=None):
        return {"postgres": url or self.postgres.url(), "others": "shared", "authority_file": self.postgres.authority_file,
                "password_env": "DATABASE_PASSWORD"}

    def start_node(self, name, config):
        """One of them; `config` is JSON."""
        whole = {"store": self.store(), **json.loads(config)}
        pons = self.start(json.dumps(whole), binary=self.copy_program(self.binary, f"pons-{name}"),
                          state_dir=f"{self.directory}/{name}", environment={"DATABASE_PASSWORD": PASSWORD})
        pons.node = self.node_of(pons)
        return pons

    def start_two(self, config):
        """self.nodes, and self.clients that speak to one each with the same key; self.pons is the first."""
        self.nodes = [self.start_node(name, config) for name in ("a", "b")]
        self.use(self.nodes[0])
        self.clients = [Client(pons, self.client.key) for pons in self.nodes]
        self.wardens = [Warden(pons) for pons in self.nodes]
        for client in self.clients:
            wait_for(lambda client=client: client.raw("GET", "/x/agents")[0] == 200, "both doors know the key")
        return self.nodes

    @staticmethod
    def node_of(pons):
        with open(f"{pons.state_dir}/brain/node", encoding="ascii") as file:
            return file.read().strip()

    def sql(self, statement):
        return self.postgres.psql(DATABASE, statement)

    def owner_of(self, session):
        """Which of the two has it, or had it last."""
        owner = self.sql(f"SELECT owner FROM sessions WHERE id = '{session}'")
        return next(i for i, pons in enumerate(self.nodes) if pons.node == owner)

    def freeze_brain(self, pons):
        """Its pid; whatever the test does, it runs again afterwards."""
        pid = pons.role("brain")["pid"]
        os.kill(pid, signal.SIGSTOP)
        self.addCleanup(self.thaw, pid)
        return pid

    @staticmethod
    def thaw(pid):
        try:
            os.kill(pid, signal.SIGCONT)
        except ProcessLookupError:
            pass
