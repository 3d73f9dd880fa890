"""Vaults of the Managed Agents API: the official SDK keeps secrets that only their hosts get to see."""

import json
import os
import subprocess
import unittest

from boundary.internet import HOSTS
from boundary.world import World, enter, random_secret
from model_world import node
from test_managed import SUITE

SEEN = "seen.example.net"


def setUpModule():
    enter()


class ManagedVaults(unittest.TestCase):
    def setUp(self):
        self.world = World()
        self.addCleanup(self.world.end)
        self.pons = self.world.pons
        self.pons.command("project", "create", "other")
        self.secret = random_secret()

    def make_key(self, name, *more):
        done = self.pons.command("key", "create", name, "--json", *more)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)["key"]

    def received(self, host):
        try:
            with open(f"{self.world.directory}/bytes-{HOSTS[host]}", "rb") as file:
                return file.read()
        except FileNotFoundError:
            return b""

    def run_suite(self, name):
        environment = {"PATH": os.environ["PATH"], "HOME": self.world.directory,
                       "PONS_URL": "http://%s:%d" % self.pons.address, "PONS_KEY": self.make_key("mine"),
                       "PONS_OTHER_KEY": self.make_key("theirs", "--project", "other"),
                       "PONS_SECRET_VALUE": self.secret}
        done = subprocess.run([node(), "--test", f"{name}.test.mjs"], cwd=SUITE, env=environment, capture_output=True,
                              text=True, timeout=240)
        self.assertEqual(done.returncode, 0, done.stdout[-20_000:] + done.stderr[-4_000:])

    def check_nothing_leaked(self):
        """Not in any file of any role, any log, any memory of the disk; and at no host but its own."""
        for host in HOSTS:
            if host != SEEN:
                self.assertNotIn(self.secret.encode(), self.received(host), host)
        self.world.forms = self.world.forms_of(self.secret)
        self.world.check_growing_files()
        self.world.check_everything_kept()

    def test_vaults_keep_what_they_are_given(self):
        self.run_suite("vaults")
        self.check_nothing_leaked()


if __name__ == "__main__":
    unittest.main()
