"""MCP inside sandboxes: each has the memory of the session that it belongs to, and nothing of any other's."""

import json
import os
import signal

from pons_fixture import wait_for
from session_world import SessionTestCase, calls, execute, play, provision, text

# Speaks MCP to tools.pons.internal, with whatever fields it is told to add.
CLIENT = """
import json, sys, urllib.request
method, params, fields = json.loads(sys.argv[1])
session = None
def post(message):
    global session
    head = {"content-type": "application/json", "accept": "application/json", **fields}
    if session: head["mcp-session-id"] = session
    request = urllib.request.Request("http://tools.pons.internal/mcp", json.dumps(message).encode(), head)
    answer = urllib.request.urlopen(request, timeout=20)
    session = session or answer.headers.get("mcp-session-id")
    return json.loads(answer.read() or b"null")
post({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25"}})
print(json.dumps(post({"jsonrpc": "2.0", "id": 2, "method": method, "params": params})))
"""


class Cells(SessionTestCase):
    def setUp(self):
        super().setUp()
        self.start_agents([*play("machine", calls(provision(keep=True)), calls(execute("echo here")), text("Made."))], {
            "knowing": {"model": "stage", "environment": "out", "memory": ["notes"]},
            "reading": {"model": "stage", "environment": "out", "memory": [{"store": "notes", "access": "read_only"}]},
            "plain": {"model": "stage", "environment": "out"},
        }, environments={"out": {"mode": "list", "allow": [{"host": "example.com"}]}})

    def sandbox_of(self, agent):
        """A session of that agent, and its sandbox."""
        session = self.client.create("machine", agent=agent)
        self.finish(session)
        (sandbox,) = self.sandboxes_of(session)
        return session, sandbox

    def ask(self, sandbox, method, params=None, **fields):
        """What the tools answer to a program in that sandbox."""
        words = json.dumps([method, params or {}, {name.replace("_", "-"): value for name, value in fields.items()}])
        done = self.exec_in(sandbox, ["python3", "-c", CLIENT, words])
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return json.loads(done.stdout.splitlines()[-1])

    def exec_in(self, sandbox, words):
        # Words behind `--` are the command's own: options of ours stand before them.
        return self.run_pons("sandbox", "exec", "--state-dir", self.pons.state_dir, sandbox, "--", *words)

    def names(self, sandbox, **fields):
        return [tool["name"] for tool in self.ask(sandbox, "tools/list", **fields)["result"]["tools"]]

    def call(self, sandbox, tool, **arguments):
        answer = self.ask(sandbox, "tools/call", {"name": tool, "arguments": arguments})
        if "error" in answer:
            return answer["error"]["message"], True
        return answer["result"]["content"][0]["text"], answer["result"].get("isError", False)

    def notes(self):
        (store,) = self.client.ask("GET", "/v1/memory_stores")["data"]
        return {note["path"]: self.client.ask("GET", f"/x/memory/stores/{store['id']}/notes/{note['id']}")
                for note in self.client.ask("GET", f"/v1/memory_stores/{store['id']}/memories")["data"]}

    def test_a_sandbox_has_its_sessions_memory_and_what_it_writes_is_not_trusted(self):
        session, sandbox = self.sandbox_of("knowing")
        self.assertEqual(set(self.names(sandbox)),
                         {"memory_search", "memory_read", "memory_list", "memory_write", "memory_delete"})
        said, is_error = self.call(sandbox, "memory_write", path="/a.md", content="from a program")
        self.assertFalse(is_error, said)
        self.assertEqual(self.notes()["/a.md"]["provenance"], "untrusted")
        said, _ = self.call(sandbox, "memory_read", path="/a.md")
        self.assertIn("from a program", said)
        (store,) = self.client.ask("GET", "/v1/memory_stores")["data"]
        (version,) = self.client.ask("GET", f"/v1/memory_stores/{store['id']}/memory_versions")["data"]
        self.assertEqual(version["created_by"], {"type": "session_actor", "session_id": session})

    def test_a_sandbox_makes_no_sandboxes(self):
        _, sandbox = self.sandbox_of("knowing")
        said, is_error = self.call(sandbox, "sandbox_provision", task_description="more")
        self.assertTrue(is_error)
        self.assertIn("no such tool", said)

    def test_a_store_that_is_read_only_stays_so(self):
        _, sandbox = self.sandbox_of("reading")
        self.assertNotIn("memory_write", self.names(sandbox))
        _, is_error = self.call(sandbox, "memory_write", path="/a.md", content="x")
        self.assertTrue(is_error)
        self.assertEqual(self.notes(), {})

    def test_another_sandbox_cannot_reach_them_and_a_forged_field_gains_nothing(self):
        session, sandbox = self.sandbox_of("knowing")
        self.call(sandbox, "memory_write", path="/a.md", content="x")
        _, other = self.sandbox_of("plain")
        self.assertEqual(self.names(other), [])
        for fields in ({"x_pons_sandbox": sandbox}, {"X_Pons_Sandbox": sandbox, "x_pons_project": "default"},
                       {"x_pons_for": session, "authorization": "Bearer " + self.client.key}):
            self.assertEqual(self.names(other, **fields), [])
        said, is_error = self.call(other, "memory_read", path="/a.md")
        self.assertTrue(is_error)
        self.assertIn("no such tool", said)

    def test_an_mcp_session_of_one_sandbox_is_none_of_another(self):
        _, sandbox = self.sandbox_of("knowing")
        _, other = self.sandbox_of("knowing")
        script = CLIENT.replace("print(json.dumps(post", "print(session); sys.exit(0)\nprint(json.dumps(post")
        done = self.exec_in(sandbox, ["python3", "-c", script, json.dumps(["tools/list", {}, {}])])
        known = done.stdout.strip()
        self.assertTrue(known)
        stolen = CLIENT.replace("session = None", f"session = {known!r}", 1)
        done = self.exec_in(other, ["python3", "-c", stolen, json.dumps(["tools/list", {}, {}])])
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("404", done.stderr + done.stdout)

    def test_after_a_restart_of_the_brain_the_tools_are_back(self):
        _, sandbox = self.sandbox_of("knowing")
        self.assertTrue(self.names(sandbox))
        self.kill_brain()
        wait_for(lambda: self.exec_in(sandbox, ["python3", "-c", CLIENT, json.dumps(["tools/list", {}, {}])])
                 .returncode == 0, "the tools answer")

    def kill_brain(self):
        former = self.pons.role("brain")["pid"]
        os.kill(former, signal.SIGKILL)
        wait_for(lambda: self.pons.role("brain")["pid"] not in (0, former)
                 and self.pons.role("brain")["state"] == "ready", "the brain is back")
