"""An agent works with a credential that it never has, and what it says of it does not reach people."""

import json
import re
import sqlite3
import unittest

from boundary.cases import A
from boundary.world import World, enter
from sandbox_world import Warden
from session_world import (
    Client,
    calls,
    config,
    execute,
    one,
    play,
    provision,
    results,
    said,
    text,
)
from pons_fixture import wait_for

SECRET = "GITHUB_TOKEN"
CURL = f'curl -sS -H "Authorization: Bearer $GITHUB_TOKEN" https://{A}/echo'
# What stands for a token of GitHub in a sandbox looks like one.
TOKEN = re.compile(r"ghp_[0-9A-Za-z]{20,}")

FEW, MANY = ({"usage": {"input": tokens, "output": 10}} for tokens in (10, 900))


def setUpModule():
    enter()


class Secrets(unittest.TestCase):
    """The agent's model repeats whatever a command printed, which is the worst that it can do."""

    ANSWERS = [
        # First of all: in the record of a conversation, and in its summary, all else is found that was said in it.
        *play("next", text("On we go.")),
        {"when": {"user": "about to exceed"}, **text("I was told: {user}")},
        *play("show me", calls(provision(keep=True)), calls(execute("echo token=$GITHUB_TOKEN; echo $GITHUB_TOKEN > t")),
              text("It is {tool_result}")),
        *play("use it", calls(provision()), calls(execute(CURL)), text("It said {tool_result}")),
        *play("print much", calls(provision()),
              calls(execute("seq 1 9000; echo token=$GITHUB_TOKEN; seq 1 9000")), text("Printed.")),
        *play("ask", calls(provision()), calls(execute("echo $GITHUB_TOKEN")),
              calls({"name": "ask_human", "input": {"question": "Is {tool_result} yours?"}}), text("Thanks.")),
        *play("remember", calls(provision()), calls(execute("echo $GITHUB_TOKEN")),
              calls({"name": "memory_write", "input": {"path": "/token", "content": "It is {tool_result}"}}),
              calls({"name": "memory_write", "input": {"path": "/name", "content": "It is GITHUB_TOKEN"}}), text("Noted.")),
        *play("fill", calls(provision(keep=True), **FEW), calls(execute("echo $GITHUB_TOKEN"), **FEW), text("Done.", **MANY)),
    ]

    @classmethod
    def setUpClass(cls):
        agents = {"default": {"model": "stage", "environment": "web"},
                  "keeper": {"model": "stage", "environment": "web", "memory": ["notes"]},
                  "forgetful": {"model": "stage", "environment": "web", "context_tokens": 1_000}}
        settings = json.loads(config(cls.ANSWERS, agents))
        cls.world = World(more_config="".join(f"{name}: {json.dumps(value)}\n" for name, value in settings.items()))
        cls.addClassCleanup(cls.world.end)
        cls.pons = cls.world.pons
        made = cls.pons.command("key", "create", "test", "--json")
        cls.client = Client(cls.pons, json.loads(made.stdout)["key"])
        wait_for(lambda: cls.client.raw("GET", "/x/agents")[0] == 200, "the door knows the key")
        cls.warden = Warden(cls.pons)

    def run_session(self, words, **more):
        """Its id, and everything that anybody could have read of it: stream, list, command line."""
        session = self.client.create(**more)
        with self.client.stream(session) as stream:
            self.client.say(session, words)
            heard = stream.until("turn.ended")
        return session, heard

    def seen(self, session, heard):
        """All that people see of the session, as text."""
        views = [json.dumps(heard), json.dumps(self.client.events(session)), json.dumps(self.client.show(session))]
        for words in (("logs",), ("logs", "--all"), ("logs", "--json"), ("show",)):
            done = self.pons.command("sessions", *words, session)
            self.assertEqual(done.returncode, 0, done.stderr)
            views.append(done.stdout)
        return "\n".join(views)

    def stub(self, session):
        """What the agent has in place of the secret, as the log has it: for the agent, and for nobody else."""
        with sqlite3.connect(f"file:{self.pons.state_dir}/brain/pons.db?mode=ro", uri=True) as store:
            bodies = "".join(row[0] for row in store.execute(
                "SELECT body FROM session_events WHERE session_id = ? ORDER BY seq", (session,)))
        found = set(TOKEN.findall(bodies))
        self.assertNotIn(self.world.secrets[SECRET], found)
        return found

    def check_nothing_leaked(self, session, heard, stubs=1):
        """Not the secret, nor any of the stubs that the agent has read."""
        seen = self.seen(session, heard)
        known = self.stub(session)
        self.assertEqual(len(known), stubs)
        for stub in known:
            self.assertNotIn(stub, seen)
        self.assertIsNone(self.world.find_leak(seen.encode()))
        self.world.check_growing_files()
        self.world.check_everything_kept()

    def test_what_stands_for_a_secret_is_crossed_out_and_an_event_says_so(self):
        session, heard = self.run_session("show me")
        events = self.client.events(session)
        command = results(events)[0]
        self.assertRegex(command["text"], r"token=xxx_x{20,}")
        self.assertEqual(command["redacted"], [SECRET])
        message = one(events, "agent.message")
        self.assertRegex(message["text"], r"It is token=xxx_x{20,}")
        self.assertEqual(message["redacted"], [SECRET])
        (stub,) = self.stub(session)
        # The agent itself has the stub: it stands in the sandbox, and in what the model was sent.
        bound = one(events, "sandbox.bound")["sandbox"]
        self.assertEqual(self.warden.run(bound, "cat t")[0].strip(), stub)
        self.check_nothing_leaked(session, heard)

    def test_a_crossed_out_output_is_not_called_different_when_it_is_run_again(self):
        session, _ = self.run_session("show me")
        command = results(self.client.events(session))[0]
        done = self.pons.command("replay", session, "--through", "host", "--json")
        answer = json.loads(done.stdout)
        self.assertEqual((done.returncode, answer["commands"], answer["different"]), (0, [], 0), answer)
        (skipped,) = answer["skipped"]
        self.assertEqual(skipped["seq"], command["call"])
        self.assertIn("credential", skipped["why"])

    def test_the_stub_works_and_a_host_that_shows_the_secret_shows_it_to_nobody(self):
        session, heard = self.run_session("use it")
        events = self.client.events(session)
        self.assertFalse(results(events)[0].get("is_error"), results(events))
        self.assertIn("Bearer xxx_x", results(events)[0]["text"])
        self.assertIn("Bearer xxx_x", said(events)[0])
        self.assertEqual(one(events, "agent.message")["redacted"], [SECRET])
        self.check_nothing_leaked(session, heard)

    def test_all_of_an_output_is_crossed_out_as_its_part_is(self):
        session, heard = self.run_session("print much")
        command = results(self.client.events(session))[0]
        self.assertNotIn("token=", command["text"])
        whole = self.client.output(session, command["full"]).decode()
        self.assertRegex(whole, r"9000\ntoken=xxx_x{20,}\n1\n")
        self.assertEqual(command["redacted"], [SECRET])
        self.check_nothing_leaked(session, heard, stubs=0)

    def test_a_question_to_a_person_is_crossed_out(self):
        session = self.client.create("ask")
        self.client.wait(session, "waits_for_person")
        call = one(self.client.events(session), "tool.called", name="ask_human")
        self.assertRegex(call["input"]["question"], r"Is xxx_x{20,}")
        self.client.answer(session, call["seq"], "no")
        self.client.wait(session)
        self.check_nothing_leaked(session, [])

    def test_memory_keeps_nothing_that_stands_for_a_secret(self):
        session, heard = self.run_session("remember", agent="keeper")
        stub, name = results(self.client.events(session), "memory_write")
        self.assertEqual(stub["outcome"], "refused")
        self.assertIn(f"holds the credential {SECRET}", stub["text"])
        self.assertFalse(name.get("is_error"), name)
        self.check_nothing_leaked(session, heard)
        listed = self.pons.command("memory", "ls", "notes", "--json")
        self.assertEqual(listed.returncode, 0, listed.stderr)
        self.assertIn("/name", listed.stdout)
        self.assertNotIn("/token", listed.stdout)

    def test_a_summary_is_for_the_model(self):
        session, _ = self.run_session("fill", agent="forgetful")
        with self.client.stream(session, after=self.client.show(session)["head"]) as stream:
            self.client.say(session, "next")
            heard = stream.until("turn.ended")
        summary = one(self.client.events(session), "context.summarised")
        self.assertRegex(summary["summary"], r"I was told: [^$]*\$GITHUB_TOKEN[^$]*result: xxx_x{20,}")
        self.assertEqual(summary["redacted"], [SECRET])
        self.check_nothing_leaked(session, heard)

    def test_pons_run_prints_none_of_it(self):
        done = self.pons.command("run", "show me")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("credentials are crossed out", done.stdout)
        self.assertRegex(done.stdout, r"It is token=xxx_x{20,}")
        session = self.client.ask("GET", "/x/sessions")["sessions"][0]["id"]
        for stub in self.stub(session):
            self.assertNotIn(stub, done.stdout)

    # ---- clients of MCP have the same sandboxes

    def post_mcp(self, method, params=None, session=None):
        """The session's name, and the result."""
        connection = self.client.connection()
        try:
            headers = {"X-API-Key": self.client.key, "Content-Type": "application/json", "Accept": "application/json"}
            if session:
                headers["Mcp-Session-Id"] = session
            message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params or {}}
            connection.request("POST", "/mcp", json.dumps(message), headers)
            response = connection.getresponse()
            answer = json.loads(response.read())
            self.assertIn("result", answer)
            return response.headers["Mcp-Session-Id"], answer["result"]
        finally:
            connection.close()

    def run_over_mcp(self, session, command):
        _, result = self.post_mcp("tools/call", {"name": "sandbox_execute", "arguments": {"command": command}}, session)
        return result["content"][0]["text"]

    def begin_mcp(self):
        session, _ = self.post_mcp("initialize", {"protocolVersion": "2025-11-25"})
        self.post_mcp("tools/call", {"name": "sandbox_provision", "arguments": {"task_description": "t"}}, session)
        return session

    def test_a_client_of_mcp_sees_neither_the_secret_nor_what_stands_for_it(self):
        session = self.begin_mcp()
        shown = self.run_over_mcp(session, "echo token=$GITHUB_TOKEN")
        self.assertRegex(shown, r"token=xxx_x{20,}\n\[exit code 0")
        much = self.run_over_mcp(session, "echo token=$GITHUB_TOKEN; seq 1 9000; echo token=$GITHUB_TOKEN")
        self.assertRegex(much, r"^token=xxx_x{20,}")
        used = self.run_over_mcp(session, CURL)
        self.assertIn("Bearer xxx_x", used)
        for text_shown in (shown, much, used):
            self.assertIsNone(TOKEN.search(text_shown))
            self.assertIsNone(self.world.find_leak(text_shown.encode()))

    def test_inside_a_sandbox_mcp_answers_and_has_no_tools(self):
        session = self.begin_mcp()

        def ask(method, params, options):
            message = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
            return self.run_over_mcp(session, "curl -sS -H 'Content-Type: application/json' -H 'Accept: application/json' "
                                     f"{options} -d '{message}' http://tools.pons.internal/mcp")

        self.assertIn('"name":"pons"', ask("initialize", {"protocolVersion": "2025-11-25"}, "-D head"))
        known = """-H "$(grep -i mcp-session-id head | tr -d '[:cntrl:]')" """
        self.assertIn('"tools":[]', ask("tools/list", {}, known))
        self.assertIn("no such tool", ask("tools/call", {"name": "sandbox_provision"}, known))
