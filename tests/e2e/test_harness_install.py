"""`pons harness`: packages of a registry become templates, and nothing but what was pinned does.

The registry is ours, on loopback, and serves one tiny package; the long variant installs a real harness from the
registry that this machine's npm knows.
"""

import json
import os
import signal
import socket
import subprocess
import unittest

import pons_fixture
import warden_client
from harness_world import Registry, integrity_of, package_of
from warden_client import end_orderly

LONG = os.environ.get("PONS_TEST_LONG") == "1"


class InstallCase(pons_fixture.PonsTestCase):
    def setUp(self):
        super().setUp()
        self.pons = self.start()
        self.addCleanup(end_orderly, self.pons)
        self.warden = warden_client.Warden(self.pons)
        self.home = f"{self.directory}/home"
        os.mkdir(self.home)

    def environment(self):
        return {"PATH": os.environ["PATH"], "HOME": self.home, "npm_config_registry": self.registry.url,
                "npm_config_fetch_retries": "0", "no_proxy": "127.0.0.1"}

    def harness(self, *arguments, environment=None):
        return subprocess.run([self.binary, "harness", *arguments, "--state-dir", self.pons.state_dir],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=3600,
                              cwd=self.directory, check=False, env=environment or self.environment())

    def templates(self):
        return {info["name"]: info for info in self.warden.ask("GET", "/templates")["templates"]}

    def layers(self):
        path = f"{self.pons.state_dir}/spawner/layers"
        return sorted(name for name in os.listdir(path) if len(name) == 64 or name.startswith(".tmp"))

    def run_in(self, template, *argv):
        sandbox = self.warden.create(template=template)
        try:
            return sandbox.run(argv=list(argv))
        finally:
            sandbox.destroy()


class TinyHarness(InstallCase):
    PROGRAM = "/opt/harness/node_modules/@tiny/tool/bin/tool"

    def setUp(self):
        super().setUp()
        self.registry = Registry(self)
        with open("/bin/ls", "rb") as file:
            self.program = file.read()
        self.publish("1.0.0")

    def publish(self, version, extra=b"", served=None):
        """Puts it into the registry and, if nothing else is served, into the recipe."""
        archive = package_of({"bin/tool": (self.program, 0o600), "package.json": (b"{}", 0o666),
                              "LICENSE": (b"do as you like", 0o644), "left/out": (extra, 0o4777)})
        helper = package_of({"index.js": (b"helps", 0o644)})
        self.registry.packages["@tiny/tool", version] = archive if served is None else served
        self.registry.packages["helper", "2.0.0"] = helper
        recipe = {
            "protocol": "acp", "licence": "as you like", "program": "node_modules/@tiny/tool/bin/tool",
            "packages": [
                {"name": "@tiny/tool", "version": version, "integrity": integrity_of(archive), "keep": ["bin/"]},
                {"name": "helper", "version": "2.0.0", "integrity": integrity_of(helper)}],
            "tools": "mcp", "session": "theirs", "memory_mb": 64, "brain": {}, "sandbox": {}}
        self.recipe = recipe
        self.recipes = self.write_file("recipes.json", json.dumps({"tiny": recipe}))

    def tiny(self, verb, *arguments, **options):
        names = () if verb == "ls" else ("tiny",)
        return self.harness(verb, *names, *arguments, "--recipes", self.recipes, **options)

    def install(self, *arguments):
        done = self.tiny("install", *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def listed(self):
        done = self.tiny("ls", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return {entry["name"]: entry for entry in json.loads(done.stdout)["harnesses"]}, done.stderr

    def test_a_harness_is_installed_listed_used_and_removed(self):
        before = self.layers()
        self.assertIsNone(self.listed()[0]["tiny"]["installed_version"])
        done = self.install()
        self.assertIn("licence: as you like", done.stderr)
        self.assertIn("tiny 1.0.0", done.stdout)
        self.assertEqual(os.listdir(self.home), [])
        entry = self.listed()[0]["tiny"]
        self.assertEqual((entry["installed_version"], entry["as_tested"]), ("1.0.0", True))
        self.assertEqual(entry["placements"], ["brain", "sandbox"])
        self.assertIn("1.0.0", self.tiny("ls").stdout)

        self.assertEqual(self.tiny("rm").returncode, 0)
        self.assertEqual(set(self.templates()), {"host"})
        self.assertEqual(self.layers(), before)
        self.assertEqual(self.tiny("rm").returncode, 1)

    def test_beside_the_brain_there_is_the_program_and_no_other(self):
        self.install()
        job = self.run_in("harness-tiny", self.PROGRAM, "-A1R", "/opt/harness")
        self.assertEqual((job.outcome, job.code), ("exit", 0), job)
        names = set(job.text.split())
        self.assertLessEqual({"LICENSE", "package.json", "tool", "index.js"}, names)
        self.assertFalse({"left", "out", "link"} & names, "what is not kept is there")
        job = self.run_in("harness-tiny", self.PROGRAM, "-ld", "/workspace", "/home/user", "/tmp", "/opt", self.PROGRAM)
        self.assertEqual(job.code, 0, job)
        rights = {line.split()[-1]: line.split() for line in job.text.splitlines()}
        self.assertEqual(rights["/workspace"][2:4], ["user", "user"])
        self.assertEqual(rights[self.PROGRAM][0], "-rwxr-xr-x")
        self.assertEqual(rights[self.PROGRAM][2:4], ["root", "root"])
        self.assertEqual(rights["/opt"][0], "drwxr-xr-x")
        self.assertEqual(rights["/tmp"][0], "drwxrwxrwt")
        for shell in ("/bin/sh", "/bin/bash", "/usr/bin/env"):
            self.assertNotEqual(self.run_in("harness-tiny", self.PROGRAM, shell).code, 0)

    def test_in_a_sandbox_it_lies_on_top_of_another_template(self):
        self.install()
        job = self.run_in("host+harness-tiny-packages", "/bin/sh", "-c", f"{self.PROGRAM} -d {self.PROGRAM} && id -un")
        self.assertEqual((job.code, job.text), (0, f"{self.PROGRAM}\nuser\n"), job)

        def is_warm():
            sandbox = self.warden.create(template="host+harness-tiny-packages")
            warm = sandbox.info()["warm"]
            sandbox.destroy()
            return warm

        pons_fixture.wait_for(is_warm, "sandboxes of a stack in use wait ready")
        with self.assertRaises(warden_client.Refused) as refused:
            self.warden.create(template="host+harness-huge-packages")
        self.assertEqual(refused.exception.status, 404)
        self.assertIn("harness-huge-packages", refused.exception.message)

    def test_recipes_of_the_configuration_are_known(self):
        config = self.write_file("own.yaml", json.dumps({"harnesses": {"mine": self.recipe}}))
        done = self.harness("install", "mine", "--config", config)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("harness-mine", self.templates())
        listed = json.loads(self.harness("ls", "--json", "--config", config).stdout)["harnesses"]
        self.assertEqual([entry["installed_version"] for entry in listed if entry["name"] == "mine"], ["1.0.0"])
        self.assertEqual(self.harness("rm", "mine").returncode, 1, "without the configuration nobody knows it")
        self.assertEqual(self.harness("rm", "mine", "--config", config).returncode, 0)

    def test_while_a_sandbox_has_it_nothing_of_it_goes(self):
        self.install()
        before = self.layers(), self.templates()
        for name in ("harness-tiny", "host+harness-tiny-packages"):
            sandbox = self.warden.create(template=name)
            for arguments in (("rm",), ("install", "--again")):
                refused = self.tiny(*arguments)
                self.assertEqual(refused.returncode, 1)
                self.assertIn(sandbox.id, refused.stderr)
            self.assertEqual((self.layers(), self.templates()), before)
            sandbox.destroy()
        self.install("--again")

    def test_a_new_version_replaces_the_old_one_when_it_is_whole(self):
        self.install()
        before = self.layers()
        self.assertIn("installed already", self.install().stdout)
        self.publish("1.1.0", served=package_of({"bin/tool": (self.program + b"more", 0o755)}))
        entries, warning = self.listed()
        self.assertFalse(entries["tiny"]["as_tested"])
        self.assertIn("1.1.0", warning)
        refused = self.tiny("install")
        self.assertEqual(refused.returncode, 1)
        self.assertIn("@tiny/tool@1.1.0", refused.stderr)
        self.assertIn("SHA-512", refused.stderr)
        self.assertEqual(self.layers(), before)
        self.assertEqual(self.listed()[0]["tiny"]["installed_version"], "1.0.0")

        self.publish("1.1.0")
        self.install()
        self.assertEqual(self.listed()[0]["tiny"]["installed_version"], "1.1.0")
        self.assertEqual(len(self.layers()), len(before))

    def test_a_tampered_archive_leaves_nothing(self):
        before = self.layers()
        self.publish("1.0.0", served=package_of({"bin/tool": (b"#!/bin/sh\nevil", 0o755)}))
        refused = self.tiny("install")
        self.assertEqual(refused.returncode, 1)
        self.assertIn("@tiny/tool@1.0.0", refused.stderr)
        self.assertNotIn("helper", refused.stderr.split("SHA-512")[0].split("archive of")[1])
        self.assertEqual((self.layers(), set(self.templates())), (before, {"host"}))

    def test_an_interrupted_install_leaves_nothing(self):
        before = self.layers()
        self.registry.packages["@tiny/tool", "1.0.0"] = None
        process = subprocess.Popen(
            [self.binary, "harness", "install", "tiny", "--recipes", self.recipes, "--state-dir", self.pons.state_dir],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=self.directory, env=self.environment())
        self.assertTrue(self.registry.hangs.wait(pons_fixture.PATIENCE_SECONDS))
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=pons_fixture.PATIENCE_SECONDS)
        self.assertEqual(process.returncode, 1)
        self.assertIn("interrupted", errors)
        self.assertEqual((self.layers(), set(self.templates())), (before, {"host"}))

    def test_what_cannot_be_installed_says_why(self):
        unknown = self.harness("install", "nothing")
        self.assertEqual(unknown.returncode, 1)
        self.assertIn("claude-code, codex, opencode, pi", unknown.stderr)
        without = self.tiny("install", environment={**self.environment(), "PATH": self.home})
        self.assertEqual(without.returncode, 1)
        self.assertIn("apt install npm", without.stderr)
        del self.registry.packages["helper", "2.0.0"]
        missing = self.tiny("install")
        self.assertEqual(missing.returncode, 1)
        self.assertIn("E404", missing.stderr)
        with socket.create_server(("127.0.0.1", 0)) as taken:
            nobody = f"http://127.0.0.1:{taken.getsockname()[1]}/"
        refused = self.tiny("install", environment={**self.environment(), "npm_config_registry": nobody})
        self.assertEqual(refused.returncode, 1)
        self.assertIn("ECONNREFUSED", refused.stderr)
        self.assertEqual(set(self.templates()), {"host"})


if LONG:
    class RealHarness(InstallCase):
        def environment(self):
            return dict(os.environ)

        def test_codex_runs_in_both_placements(self):
            done = self.harness("install", "codex")
            self.assertEqual(done.returncode, 0, done.stderr)
            listed = json.loads(self.harness("ls", "--json").stdout)["harnesses"]
            codex = next(entry for entry in listed if entry["name"] == "codex")
            self.assertTrue(codex["as_tested"])
            program = "/opt/harness/node_modules/@openai/codex/vendor/x86_64-unknown-linux-musl/bin/codex"
            version = codex["tested_version"].split("-")[0]
            for template in ("harness-codex", "host+harness-codex-packages"):
                job = self.run_in(template, program, "--version")
                self.assertEqual((job.outcome, job.code), ("exit", 0), job)
                self.assertIn(version, job.text)
            self.assertEqual(self.harness("rm", "codex").returncode, 0)
            self.assertEqual(set(self.templates()), {"host"})


if __name__ == "__main__":
    unittest.main()
