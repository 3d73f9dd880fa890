"""The official E2B SDK, unmodified, against a Pons of its own."""

import json
import os
import shutil
import subprocess

from pons_fixture import PonsTestCase
from warden_client import end_orderly

HERE = os.path.dirname(os.path.abspath(__file__))
SUITE = os.path.join(HERE, "e2b")


def node():
    """The SDK wants Node 20; where the system's is older, npm brings one."""
    bundled = os.path.join(SUITE, "node_modules", "node", "bin", "node")
    return bundled if os.path.exists(bundled) else shutil.which("node")


class SdkTestCase(PonsTestCase):
    """A Pons with two projects, and the suites of `e2b` as a user of the first one runs them."""

    CONFIG = "domain: sbx.test\nlimits:\n  connections: 4096\nsandbox:\n  warm_min: 2\n"

    def setUp(self):
        super().setUp()
        self.pons = self.start(self.CONFIG)
        self.addCleanup(end_orderly, self.pons)
        self.key = self.make_key("mine")
        self.pons.command("project", "create", "other")
        self.other_key = self.make_key("theirs", "--project", "other")

    def make_key(self, name, *more):
        done = self.pons.command("key", "create", name, "--json", *more)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)["key"]

    def url(self):
        return "http://%s:%d" % self.pons.address

    def environment(self):
        url = self.url()
        return {"PATH": os.environ["PATH"], "HOME": self.directory, "E2B_API_KEY": self.key, "E2B_API_URL": url,
                "E2B_SANDBOX_URL": url, "PONS_OTHER_KEY": self.other_key}

    def run_suite(self, name):
        done = subprocess.run([node(), "--test", f"{name}.test.mjs"], cwd=SUITE, env=self.environment(),
                              capture_output=True, text=True, timeout=240)
        self.assertEqual(done.returncode, 0, done.stdout[-20_000:] + done.stderr[-4_000:])
        self.assertNotIn("\n# skipped 1", done.stdout)
