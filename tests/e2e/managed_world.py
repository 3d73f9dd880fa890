"""The official SDK before a Pons with an internet: hosts behind public addresses, and agents that use them."""

import json
import os
import subprocess
import unittest

from boundary.world import World
from model_world import node
from session_world import config
from test_managed import SUITE


class ManagedWorld(unittest.TestCase):
    ANSWERS = []
    AGENTS = None

    def setUp(self):
        settings = json.loads(config(self.ANSWERS, self.AGENTS))
        self.world = World(more_config="".join(f"{name}: {json.dumps(value)}\n" for name, value in settings.items()))
        self.addCleanup(self.world.end)
        self.pons = self.world.pons
        self.pons.command("project", "create", "other")

    def make_key(self, name, *more):
        done = self.pons.command("key", "create", name, "--json", *more)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)["key"]

    def run_suite(self, name, **more):
        environment = {"PATH": os.environ["PATH"], "HOME": self.world.directory,
                       "PONS_URL": "http://%s:%d" % self.pons.address, "PONS_KEY": self.make_key("mine"),
                       "PONS_OTHER_KEY": self.make_key("theirs", "--project", "other"),
                       **more}
        done = subprocess.run([node(), "--test", f"{name}.test.mjs"], cwd=SUITE, env=environment, capture_output=True,
                              text=True, timeout=240)
        self.assertEqual(done.returncode, 0, done.stdout[-20_000:] + done.stderr[-4_000:])
