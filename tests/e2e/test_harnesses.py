"""Other people's agents in the model's place: `pons harness test` tells of each promise (src/trial), here for the programs that
are real and come from the npm registry. Codex and Pons itself are tried each time; the others are large, and are tried with
PONS_TEST_LONG=1. Beside it stands what needs clients, people, or a second look at the same Pons.
"""

import json
import os
import time
import unittest

from harness_world import assert_kept, harness, try_harness
from pons_fixture import LONG, wait_for
from session_world import Refused, SessionTestCase, config, of, said

HARNESSES = os.environ.get("PONS_HARNESSES", "codex,pi,claude-code,opencode" if LONG else "codex").split(",")

SECRET = "of-the-provider-alone"
# What stands before the names of our tools, as each of them tells its model.
PREFIX = {"codex": "", "pi": "", "claude-code": "mcp__pons__", "opencode": "pons_"}


def answers(name):
    prefix = PREFIX[name]

    def ours(name, **input):
        return {"name": prefix + name, "input": input}

    return [
        {"when": {"user": "ask somebody", "tool_result": "blue"}, "text": "It is blue."},
        {"when": {"user": "ask somebody"}, "tools": [ours("ask_human", question="Which colour?")]},
        {"when": {"user": "by hand", "tool_result": "api-7"}, "text": "It printed api-7."},
        {"when": {"user": "by hand"}, "tools": [ours("bash", command="echo api-7")]},
        # Whoever was not there has been told.
        {"when": {"user": "proof-7"}, "text": "The file says proof-7."},
        {"when": {"user": "the file", "tool_result": "proof-7"}, "text": "The file says proof-7."},
        {"when": {"user": "the file", "tool_result": "sandbox_id"},
         "tools": [ours("sandbox_execute", command="echo proof-7 > proof.txt; cat proof.txt")]},
        {"when": {"user": "the file"}, "text": "Looking.",
         "tools": [ours("sandbox_provision", task_description="it")]},
        {"text": "Nobody expected this."},
    ]


class HarnessCase(SessionTestCase):
    harness = "codex"

    def test_whoever_answers(self):
        """One Pons for all of it: a harness is large."""
        self.use(self.start(config(answers(self.harness), agents={
            "default": {"model": "stage", "harness": self.harness},
            "inside": {"model": "stage", "harness": self.harness, "placement": "sandbox"},
        }, providers={
            "stage": {"kind": "scripted", "answers": answers(self.harness)},
            "other": {"kind": "openai-compatible", "url": "http://127.0.0.1:1/v1", "key_env": "KEY"},
        }), environment={"KEY": SECRET}))
        done = harness(self, self.pons, "install", self.harness)
        self.assertEqual(done.returncode, 0, done.stderr)
        for name in sorted(dir(self)):
            if name.startswith("story_"):
                with self.subTest(name.removeprefix("story_").replace("_", " ")):
                    getattr(self, name)()

    def cell_of(self, session):
        return next(name for name in self.sandboxes_of(session) if name.startswith("hx-"))


class Story:
    """What holds for each of them."""

    def story_each_promise_is_kept_in_both_places(self):
        told = try_harness(self, self.pons, self.harness, *(["--long"] if LONG else []))
        assert_kept(self, told)
        self.assertEqual({each["place"] for each in told["promises"]}, {"brain", "sandbox"})

    def story_the_key_of_the_provider_is_not_where_it_lives(self):
        session = self.client.create("Write the file.")
        self.finish(session)
        home = self.everything_in(self.cell_of(session))
        self.assertTrue(home)
        self.assertNotIn(SECRET.encode(), home)

    def everything_in(self, cell):
        """Its home, as far as it can be copied out."""
        copy = f"{self.directory}/home-of-{cell}"
        self.pons.command("sandbox", "cp", "-r", f"{cell}:/home/user", copy)
        found = b""
        for directory, _, files in os.walk(copy):
            for name in files:
                with open(os.path.join(directory, name), "rb") as file:
                    found += file.read()
        return found

    def story_a_brain_that_dies_in_the_middle_of_a_tool_runs_nothing_twice(self):
        session = self.client.create("Write the file.")
        self.client.wait_for_event(session, "tool.called", name="sandbox_execute")
        self.kill_role("brain")
        events = self.finish(session)
        self.assertEqual(said(events)[-1], "The file says proof-7.")
        self.assertEqual(len(of(events, "tool.called", name="sandbox_execute")), 1)

    def story_the_api_of_agents_is_the_same_and_its_policies_hold(self):
        def post(path, body):
            return self.client.ask("POST", f"/v1/{path}", body)

        ask = {"enabled": True, "permission_policy": {"type": "always_ask"}}
        agent = post("agents", {"name": "a", "model": "stage", "metadata": {"harness": self.harness},
                                "tools": [{"type": "agent_toolset_20260401", "default_config": ask}]})
        environment = post("environments", {"name": f"e-{time.time()}", "config": {"type": "cloud"}})
        session = post("sessions", {"agent": agent["id"], "environment_id": environment["id"], "initial_events": [
            {"type": "user.message", "content": [{"type": "text", "text": "Do it by hand."}]}]})["id"]

        def events(kind):
            found = self.client.ask("GET", f"/v1/sessions/{session}/events?limit=100")["data"]
            return [each for each in found if each["type"] == kind]

        asked = wait_for(lambda: events("session.status_idle"), "a person is asked", step=0.05)
        self.assertEqual(asked[0]["stop_reason"]["type"], "requires_action")
        used = events("agent.tool_use")
        self.assertEqual([(each["name"], each["evaluated_permission"]) for each in used], [("bash", "ask")])
        post(f"sessions/{session}/events", {"events": [
            {"type": "user.tool_confirmation", "tool_use_id": used[0]["id"], "result": "allow"}]})
        said_last = wait_for(lambda: events("agent.message"), "it answers", step=0.05)
        self.assertEqual(said_last[-1]["content"][0]["text"], "It printed api-7.")
        self.assertIn("api-7", json.dumps(events("agent.tool_result")))
        with self.assertRaises(Refused) as refused:
            post("agents", {"name": "b", "model": "stage", "metadata": {"harness": "nobody"}})
        self.assertEqual(refused.exception.status, 400)

    def story_wherever_it_lives_it_can_ask_a_person(self):
        for agent in ("default", "inside"):
            session = self.client.create("Please ask somebody.", agent=agent)
            self.client.wait(session, "waits_for_person")
            asked = of(self.client.events(session), "tool.called", name="ask_human")
            self.client.answer(session, asked[0]["seq"], "blue")
            self.assertEqual(said(self.finish(session))[-1], "It is blue.")


class Native(SessionTestCase):
    def test_pons_itself_keeps_the_same_promises(self):
        pons = self.start()
        told = try_harness(self, pons, "native", *(["--long"] if LONG else []))
        assert_kept(self, told)
        self.assertEqual({each["place"] for each in told["promises"]}, {"native"})


for _name in HARNESSES:
    _class = f"{_name.replace('-', '').capitalize()}"
    globals()[_class] = type(_class, (Story, HarnessCase), {"harness": _name})
del HarnessCase

if __name__ == "__main__":
    unittest.main()
