"""Vaults of the Managed Agents API: the official SDK keeps secrets that only their hosts get to see."""

import json
import os
import subprocess
import unittest

from boundary.internet import HOSTS
from boundary.world import World, enter, random_secret
from model_world import node
from session_world import calls, config, play, text
from test_managed import SUITE, bash

SEEN = "seen.example.net"
CURL = "curl -sS --max-time 20 -w '\\n%{http_code}'"


def setUpModule():
    enter()


class ManagedVaults(unittest.TestCase):
    ANSWERS = [
        *play("use the credential",
              calls(bash("echo ${SEEN_TOKEN:-none}")),
              calls(bash(f'{CURL} -H "X-Own: key=$SEEN_TOKEN" https://{SEEN}/echo')),
              calls(bash(f'{CURL} -u "me:$SEEN_TOKEN" https://{SEEN}/echo')),
              calls(bash(f'{CURL} -d "token=$SEEN_TOKEN" https://{SEEN}/echo')),
              calls(bash(f'{CURL} -H "X-Own: $SEEN_TOKEN" https://plain.example.net/echo')),
              text("Used.")),
        *play("post the credential", calls(bash(f'{CURL} -d "token=$SEEN_TOKEN" https://{SEEN}/echo')), text("Posted.")),
        *play("call once", calls(bash(f'{CURL} -H "X-Own: $SEEN_TOKEN" https://{SEEN}/echo')), text("Once.")),
        *play("call again", calls(bash(f'{CURL} -H "X-Own: $SEEN_TOKEN" https://{SEEN}/echo')), text("Again."),
              said_before=2),
    ]

    def setUp(self):
        settings = json.loads(config(self.ANSWERS))
        self.world = World(more_config="".join(f"{name}: {json.dumps(value)}\n" for name, value in settings.items()))
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

    def test_sessions_work_with_what_they_do_not_have(self):
        self.run_suite("credentials")
        received = self.received(SEEN).decode("latin-1")
        self.assertIn(f"X-Own: key={self.secret}".lower(), received.lower())
        self.assertIn(f"token={self.secret}", received)
        self.assertEqual(received.count(f"X-Own: {self.secret}"), 1, "once, and not again when it was archived")
        self.check_nothing_leaked()


if __name__ == "__main__":
    unittest.main()
