"""Vaults of the Managed Agents API: the official SDK keeps secrets that only their hosts get to see."""

import base64
import os
import subprocess
import unittest

from boundary.internet import HOSTS
from boundary.world import enter, random_secret
from managed_world import ManagedWorld
from session_world import calls, play, text
from test_managed import bash, tool

SEEN = "seen.example.net"
CURL = "curl -sS --max-time 20 -w '\\n%{http_code}'"


def setUpModule():
    enter()


class ManagedVaults(ManagedWorld):
    ANSWERS = [
        *play("use the credential",
              calls(bash("echo $${SEEN_TOKEN:-none}")),
              calls(bash('printf %s "$SEEN_TOKEN" | sha256sum; echo "$${#SEEN_TOKEN} characters"')),
              calls(bash(f'{CURL} -H "X-Own: key=$SEEN_TOKEN" https://{SEEN}/echo')),
              calls(bash(f'{CURL} -u "me:$SEEN_TOKEN" https://{SEEN}/echo')),
              calls(bash(f'{CURL} -d "token=$SEEN_TOKEN" https://{SEEN}/echo')),
              calls(bash(f'{CURL} -H "X-Own: $SEEN_TOKEN" https://plain.example.net/echo')),
              text("Used.")),
        *play("post the credential", calls(bash(f'{CURL} -d "words=$SEEN_TOKEN" https://{SEEN}/echo')), text("Posted.")),
        *play("call once", calls(bash(f'{CURL} -H "X-Once: $SEEN_TOKEN" https://{SEEN}/echo')), text("Once.")),
        *play("call again", calls(bash(f'{CURL} -H "X-Once: $SEEN_TOKEN" https://{SEEN}/echo')), text("Again."),
              said_before=2),
        *play("look at it", calls(bash('printf %s "$SEEN_TOKEN" | sha256sum')), text("Looked.")),
        *play("read the repository", calls(bash("cd /workspace/repo && git log --format=%s && cat words.txt && cat .git/config")),
              calls(bash("cd /workspace/old && git log --format=%s")),
              calls(bash('cd /workspace && echo "stub: $GITHUB_TOKEN"; '
                         'grep -rlF -e "$GITHUB_TOKEN" repo old && echo found || echo nowhere')), text("Read.")),
        *play("ask who I am", calls(tool("seen__whoami")), text("Asked.")),
    ]

    def setUp(self):
        super().setUp()
        self.secret = random_secret()

    def received(self, host):
        try:
            with open(f"{self.world.directory}/bytes-{HOSTS[host]}", "rb") as file:
                return file.read()
        except FileNotFoundError:
            return b""

    def git(self, *words, cwd):
        done = subprocess.run(["git", "-c", "user.name=x", "-c", "user.email=x@example.com", *words], cwd=cwd, check=True,
                              capture_output=True, text=True,
                              env={"PATH": os.environ["PATH"], "HOME": cwd, "GIT_CONFIG_NOSYSTEM": "1"})
        return done.stdout.strip()

    def make_repository(self):
        """Where nobody comes without a name and a password. The id of its first commit."""
        root = f"{self.world.directory}/git/private"
        source = f"{root}/source"
        os.makedirs(source)
        self.git("init", "-q", "-b", "main", cwd=source)
        for words in ("first", "second"):
            with open(f"{source}/words.txt", "w", encoding="utf-8") as file:
                file.write(f"these are the {words} words\n")
            self.git("add", ".", cwd=source)
            self.git("commit", "-q", "-m", words, cwd=source)
        self.git("clone", "-q", "--bare", "source", "repo.git", cwd=root)
        return self.git("rev-parse", "HEAD~", cwd=source)

    def run_suite(self, name, **more):
        super().run_suite(name, PONS_SECRET_VALUE=self.secret, **more)

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
        self.assertIn(f"x-own: key={self.secret}".lower(), received.lower())
        self.assertIn(f"words={self.secret}", received)
        self.assertEqual(received.lower().count(f"x-once: {self.secret}".lower()), 1,
                         "once, and not again when it was archived")
        self.check_nothing_leaked()

    def test_repositories_are_cloned_with_a_token_of_a_vault(self):
        self.run_suite("repositories", PONS_FIRST_COMMIT=self.make_repository())
        basic = base64.b64encode(f"x-access-token:{self.secret}".encode())
        self.assertIn(b"Basic " + basic, self.received("github.com"))
        self.check_nothing_leaked()

    def test_servers_of_others_get_the_token_that_is_for_them(self):
        self.run_suite("bearers")
        received = self.received(SEEN).decode("latin-1")
        self.assertIn(f"bearer {self.secret}".lower(), received.lower())
        self.check_nothing_leaked()


if __name__ == "__main__":
    unittest.main()
