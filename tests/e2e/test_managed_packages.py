"""Packages of the Managed Agents API's environments, from where this machine gets its own."""

import json
import os
import socket
import subprocess
import urllib.parse

from model_world import node
from pons_fixture import PonsTestCase, read_text, wait_for
from session_world import SessionTestCase, calls, config, play, text
from test_managed import SUITE, bash
from warden_client import end_orderly

APT_PACKAGE = "hello"  # small, needs nothing but libc
APT_SAYS = "Hello, world!"
LONG_ENOUGH = 300

ANSWERS = [
    *play("use the packages", calls(bash("hello")),
          calls(bash("node -p \"[require('is-number')('7'), require('is-number/package.json').version].join(' ')\"")),
          calls(bash("id -un")), text("Used.")),
    *play("try the packages", calls(bash("true")), text("Tried.")),
]


def registries():
    """The URLs that the machine's own apt and npm get packages from."""
    asked = subprocess.run(["npm", "config", "get", "registry"], capture_output=True, text=True, timeout=60, check=True)
    sources = subprocess.run(["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"],
                             capture_output=True, text=True, timeout=60, check=True)
    return {asked.stdout.strip(), *sources.stdout.split()}


def rules():
    """What a build may reach. The registry of a closed network has a private address, and only a rule that names it
    leads there."""
    allow = []
    for url in sorted(map(urllib.parse.urlsplit, registries())):
        port = url.port or (443 if url.scheme == "https" else 80)
        addresses = {found[4][0] for found in socket.getaddrinfo(url.hostname, port, type=socket.SOCK_STREAM)}
        allow.append({"host": url.hostname, "ports": [port], "methods": ["GET", "HEAD"], "addresses": sorted(addresses)})
    return {"mode": "list", "allow": allow}


def settings():
    return config(ANSWERS, environments={"registries": rules()}, packages={"network": "registries"})


class ManagedPackages(PonsTestCase):
    def make_key(self, name, *more):
        done = self.pons.command("key", "create", name, "--json", *more)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)["key"]

    def test_packages(self):
        self.pons = self.start(settings())
        self.addCleanup(end_orderly, self.pons)
        key = self.make_key("mine")
        self.pons.command("project", "create", "other")
        done = subprocess.run(
            [node(), "--test", "packages.test.mjs"],
            cwd=SUITE,
            env={"PATH": os.environ["PATH"], "HOME": self.directory, "PONS_URL": "http://%s:%d" % self.pons.address,
                 "PONS_KEY": key, "PONS_OTHER_KEY": self.make_key("theirs", "--project", "other"),
                 "PONS_APT_PACKAGE": APT_PACKAGE, "PONS_APT_SAYS": APT_SAYS},
            capture_output=True, text=True, timeout=LONG_ENOUGH)
        self.assertEqual(done.returncode, 0, done.stdout[-20_000:] + done.stderr[-4_000:] + self.pons.log[-4_000:])
        self.assertNotIn("\n# skipped 1", done.stdout)


class PackagesAndCrashes(SessionTestCase):
    """What is built goes on, whoever dies; and goes when nobody wants it."""

    def templates(self):
        return {each["name"]: each for each in self.run_json("template", "ls")["templates"]
                if each["name"].startswith("packages.")}

    def make(self, **packages):
        return self.client.ask("POST", "/v1/environments", {
            "name": "e", "config": {"type": "cloud", "packages": packages}})["id"]

    def state(self, environment):
        return self.client.ask("GET", f"/x/environments/{environment}/build")["state"]

    def test_a_build_outlives_the_brain_and_the_warden_and_ends_with_the_last_environment(self):
        self.use(self.start(settings()))
        environment = self.make(npm=["is-number@7.0.0"])
        wait_for(lambda: any("pons.packages" in each["labels"] for each in self.warden_sandboxes()), "it is begun")
        self.kill_role("brain")
        self.kill_role("warden")
        wait_for(lambda: self.state(environment) == "ready", "it is built", LONG_ENOUGH, step=0.1)
        name, info = self.templates().popitem()
        self.assertEqual(info["kind"], "packages")
        self.assertIn("npm: is-number@7.0.0 on host", info["source"])
        shown = self.pons.command("environments", "show", environment)
        self.assertIn("packages: ready", shown.stdout)
        self.assertEqual([each for each in self.warden_sandboxes() if "pons.packages" in each["labels"]], [])
        same = self.make(npm=["is-number@7.0.0"])
        self.client.ask("POST", f"/v1/environments/{environment}/archive")
        wait_for(lambda: self.state(same) == "ready", "the other one has it", step=0.1)
        self.assertEqual(list(self.templates()), [name])
        self.client.ask("DELETE", f"/v1/environments/{same}")
        wait_for(lambda: not self.templates(), "it is removed", step=0.1)

    def warden_sandboxes(self):
        return json.loads(self.warden.ask("GET", "/sandboxes"))["sandboxes"]
