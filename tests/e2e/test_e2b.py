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


class E2bAsItComes(SdkTestCase):
    """Nothing is configured that has a default; but a body may be silent for a second only."""

    CONFIG = "limits:\n  body_idle_seconds: 1\n"

    def test_ports_and_slow_writers(self):
        self.run_suite("defaults")


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
        def status(key):
            request = urllib.request.Request(self.url() + "/v2/sandboxes", headers={"X-API-KEY": key})
            try:
                return urllib.request.urlopen(request, timeout=10).status
            except urllib.error.HTTPError as error:
                return error.code

        took = []
        for number in range(3):  # a busy machine may be slow once
            made = json.loads(self.pons.command("key", "create", f"short-{number}", "--json").stdout)
            wait_for(lambda: status(made["key"]) == 200, "the key opens")
            self.assertEqual(self.pons.command("key", "revoke", made["id"]).returncode, 0)
            begun = time.monotonic()
            wait_for(lambda: status(made["key"]) == 401, "the key is refused", seconds=10)
            took.append(time.monotonic() - begun)
        self.assertLess(sorted(took)[1], 1, took)
