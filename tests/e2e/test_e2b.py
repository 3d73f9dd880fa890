"""The official E2B SDK, unmodified, call by call."""

import json
import os
import shutil
import subprocess
import time
import urllib.error
import urllib.request

from pons_fixture import wait_for
from sdk_fixture import HERE, SUITE, SdkTestCase, node


class E2b(SdkTestCase):
    def test_sandboxes(self):
        self.run_suite("sandbox")

    def test_commands(self):
        self.run_suite("commands")

    def test_files(self):
        self.run_suite("files")

    def test_ports(self):
        self.run_suite("ports")

    def test_streams_through_ports(self):
        self.run_suite("streams")

    def test_options(self):
        self.run_suite("options")

    def test_secrets(self):
        self.run_suite("secrets")

    def test_the_quickstart_runs_as_it_stands(self):
        example = os.path.join(self.directory, "quickstart")
        shutil.copytree(os.path.join(HERE, "..", "..", "examples", "e2b-quickstart"), example,
                        ignore=shutil.ignore_patterns("node_modules"))
        os.symlink(os.path.join(SUITE, "node_modules"), os.path.join(example, "node_modules"))
        done = subprocess.run([node(), "index.mjs"], cwd=example, env=self.environment(), capture_output=True,
                              text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("python says 45", done.stdout)
        self.assertIn("gone", done.stdout)

    def test_a_revoked_key_opens_nothing_within_a_second(self):
        listed = json.loads(self.pons.command("key", "ls", "--json").stdout)
        mine = next(each for each in listed["keys"] if each["name"] == "mine")

        def status():
            request = urllib.request.Request(self.url() + "/v2/sandboxes",
                                             headers={"X-API-KEY": self.key})
            try:
                return urllib.request.urlopen(request, timeout=10).status
            except urllib.error.HTTPError as error:
                return error.code

        wait_for(lambda: status() == 200, "the key opens")
        self.assertEqual(self.pons.command("key", "revoke", mine["id"]).returncode, 0)
        begun = time.monotonic()
        wait_for(lambda: status() == 401, "the key is refused", seconds=5)
        self.assertLess(time.monotonic() - begun, 5)
