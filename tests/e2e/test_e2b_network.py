"""E2B's SDK and the way out: lists of hosts, fields that egress sets, secrets of a project."""

import json
import os
import subprocess
import unittest

from boundary.internet import HOSTS
from boundary.world import World, enter, random_secret
from sdk_fixture import SUITE, node


def setUpModule():
    enter()


class E2bNetwork(unittest.TestCase):
    def setUp(self):
        self.world = World()
        self.addCleanup(self.world.end)
        self.pons = self.world.pons

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

    def test_the_way_out(self):
        value = random_secret()
        self.pons.command("project", "create", "other")
        url = "http://%s:%d" % self.pons.address
        environment = {"PATH": os.environ["PATH"], "HOME": self.world.directory, "E2B_API_KEY": self.make_key("mine"),
                       "E2B_API_URL": url, "E2B_SANDBOX_URL": url, "PONS_SECRET_VALUE": value,
                       "PONS_OTHER_KEY": self.make_key("theirs", "--project", "other")}
        done = subprocess.run([node(), "--test", "network.test.mjs"], cwd=SUITE, env=environment, capture_output=True,
                              text=True, timeout=240)
        self.assertEqual(done.returncode, 0, done.stdout[-20_000:] + done.stderr[-4_000:])
        self.assertIn(f"bearer {value}".lower(), self.received("seen.example.net").decode("latin-1").lower())
        for host in HOSTS:
            if host != "seen.example.net":
                self.assertNotIn(value.encode(), self.received(host), host)
        used = [event for event in self.world.events() if "e2b.secrets.reader-token" in event.get("credentials", [])]
        self.assertTrue(used)
        self.world.forms = self.world.forms_of(value)
        self.world.check_growing_files()
        self.world.check_everything_kept()
