"""MCP, both ways in: the official SDK against `/mcp`, and as a desktop client that starts `pons mcp`."""

import json
import os
import signal
import subprocess
import threading

from pons_fixture import PonsTestCase, wait_for
from sandbox_world import Warden
from sdk_fixture import node
from warden_client import end_orderly

HERE = os.path.dirname(os.path.abspath(__file__))
SUITE = os.path.join(HERE, "mcp")


class McpTestCase(PonsTestCase):
    """A Pons with two projects, and the suites of `mcp` as a user of the first one runs them."""

    config = "sandbox:\n  warm_min: 2\n"

    def setUp(self):
        super().setUp()
        self.pons = self.start(self.config)
        self.addCleanup(end_orderly, self.pons)
        self.warden = Warden(self.pons)
        self.key = self.make_key("mine")
        self.pons.command("project", "create", "other")
        self.other_key = self.make_key("theirs", "--project", "other")

    def make_key(self, name, *more):
        done = self.pons.command("key", "create", name, "--json", *more)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)["key"]

    def environment(self):
        return {"PATH": os.environ["PATH"], "HOME": self.directory, "PONS_URL": "http://%s:%d" % self.pons.address,
                "PONS_KEY": self.key, "PONS_OTHER_KEY": self.other_key, "PONS_BINARY": self.binary}

    def run_suite(self, name, on_line=None):
        """`on_line` hears what the suite says to people, and may answer with a line."""
        suite = subprocess.Popen([node(), f"{name}.test.mjs"], cwd=SUITE, env=self.environment(),
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        said = []

        def listen():
            for line in suite.stderr:
                said.append(line)
                if on_line:
                    on_line(line, suite.stdin)

        listener = threading.Thread(target=listen)
        listener.start()
        try:
            output = suite.stdout.read()
            code = suite.wait(timeout=240)
        finally:
            suite.kill()
            listener.join()
            suite.stdin.close()
            suite.stdout.close()
            suite.stderr.close()
        self.assertEqual(code, 0, output[-20_000:] + "".join(said)[-4_000:])
        self.assertNotIn("\n# skipped 1", output)

    def post(self, message, **headers):
        status, body = self.pons.request(
            "/mcp", "POST", {"X-API-Key": self.key, "Content-Type": "application/json", "Accept": "application/json",
                             **headers}, json.dumps(message).encode())
        return status, json.loads(body) if body else None

    def restart_brain(self):
        former = self.pons.role("brain")["pid"]
        os.kill(former, signal.SIGKILL)

        def is_back():
            role = self.pons.role("brain")
            return role["pid"] not in (0, former) and role["state"] == "ready"

        wait_for(is_back, "the brain is back")


class Tools(McpTestCase):
    def test_the_sdk_uses_the_tools_over_http_and_through_the_bridge(self):
        self.run_suite("tools")


class Sessions(McpTestCase):
    def test_sessions_belong_to_a_project_and_end(self):
        self.run_suite("sessions")

    def test_the_end_of_a_bridge_is_the_end_of_its_sandboxes(self):
        lines = [
            {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "2025-11-25"}},
            {"jsonrpc": "2.0", "method": "notifications/initialized"},
            {"jsonrpc": "2.0", "id": 1, "method": "tools/call",
             "params": {"name": "sandbox_provision", "arguments": {"task_description": "t"}}},
        ]
        done = subprocess.run([self.binary, "mcp", "--url", "http://%s:%d" % self.pons.address],
                              input="".join(json.dumps(line) + "\n" for line in lines), capture_output=True, text=True,
                              env={"PATH": os.environ["PATH"], "PONS_API_KEY": self.key}, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        answers = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual([answer["id"] for answer in answers], [0, 1])
        self.assertIn("sandbox_id: sx-", answers[1]["result"]["content"][0]["text"])
        wait_for(lambda: not self.warden.names(), "its sandbox is gone")

    def test_a_key_needs_the_scope(self):
        self.key = self.make_key("narrow", "--scope", "sandboxes")
        status, body = self.post({"jsonrpc": "2.0", "id": 0, "method": "ping"})
        self.assertEqual(status, 403, body)
        self.assertIn("--scope mcp", body["error"]["message"])
        self.key = self.make_key("wide", "--scope", "mcp")
        self.assertEqual(self.post({"jsonrpc": "2.0", "id": 0, "method": "ping"}),
                         (200, {"jsonrpc": "2.0", "id": 0, "result": {}}))

    def test_a_bridge_without_a_key_says_what_is_missing(self):
        done = self.run_pons("mcp")
        self.assertEqual(done.returncode, 1)
        self.assertIn("PONS_API_KEY", done.stderr)
        self.assertEqual(done.stdout, "")


class Restart(McpTestCase):
    def test_a_brain_that_is_killed_forgets_sessions_and_ends_what_they_left(self):
        def on_line(line, stdin):
            if line == "restart the brain\n":
                self.restart_brain()
                stdin.write("done\n")
                stdin.flush()

        self.run_suite("restart", on_line)
        # Kept ones stay; those of forgotten sessions are ended by the process that came after.
        wait_for(lambda: len(self.warden.names()) == 1, "all sandboxes but the kept one are gone")
