"""What an agent costs: told by the gateway, kept by the session, and a budget that ends it."""

import json
import sqlite3

from model_world import ModelTestCase
from pons_fixture import wait_for
from warden_client import end_orderly

CONFIG = """
providers:
  stage:
    kind: scripted
    answers:
      - when: {user: fail once}
        text: never to its end
        chunk_bytes: 4
        fail: {kind: overloaded, after: 2}
      - when: {tool_result: sandbox_id}
        text: "I have one."
      - when: {user: a sandbox}
        tools: [{name: sandbox_provision, input: {task_description: look around}}]
      - text: "Hello, {user}."
        usage: {input: 1000, output: 100}
models:
  priced: {try: [stage/claude-sonnet-4-5]}
agents:
  default: {model: priced}
  thrifty: {model: priced, budget_microdollars: 1}
"""
# claude-sonnet-4-5: $3 and $15 for a million tokens
COST_NANO = 1000 * 3_000 + 100 * 15_000


class Costs(ModelTestCase):
    def setUp(self):
        super().setUp()
        self.pons = self.start(CONFIG)
        self.addCleanup(end_orderly, self.pons)

    def run_agent(self, *words):
        done = self.pons.command("run", "--json", *words)
        events = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        return done, events

    def sessions(self):
        done = self.pons.command("sessions", "ls", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)["sessions"]

    def show(self, session):
        done = self.pons.command("sessions", "show", session, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def spent(self, agent):
        return sum(row["cost_nano_usd"] for row in self.usage(self.pons, "--agent", agent))

    def test_usage_is_told_for_each_agent(self):
        for agent in ("default", "thrifty", "default"):
            self.run_agent("--agent", agent, "say hello")
        self.assertEqual((self.spent("default"), self.spent("thrifty"), self.spent("nobody")), (2 * COST_NANO, COST_NANO, 0))
        key = json.loads(self.pons.command("key", "create", "test", "--json").stdout)["key"]

        def told(query):
            status, body = self.pons.request("/x/usage" + query, headers={"Authorization": f"Bearer {key}"})
            self.assertEqual(status, 200, body)
            return {row["agent"]: row["cost_nano_usd"] for row in json.loads(body)["usage"]}

        self.assertEqual(told("?by=agent"), {"default": 2 * COST_NANO, "thrifty": COST_NANO})
        self.assertEqual(told("?agent=thrifty"), {"thrifty": COST_NANO})
        self.assertEqual(told(""), {None: 3 * COST_NANO}, "the project, its agents in it")
        shown = self.pons.command("usage", "--by", "agent").stdout
        self.assertIn("thrifty", shown)
        # A limit on its key stops the agent, and no other.
        keys = json.loads(self.pons.command("keys", "ls", "--json").stdout)["keys"]
        own = next(one for one in keys if (one["kind"], one["name"]) == ("agent", "thrifty"))
        done = self.pons.command("keys", "set", own["id"], "--limit", "0requests/total")
        self.assertEqual(done.returncode, 0, done.stderr)
        for agent, cost in (("thrifty", COST_NANO), ("default", 3 * COST_NANO)):
            self.run_agent("--agent", agent, "say hello")
            self.assertEqual(self.spent(agent), cost)

    def test_a_session_knows_what_its_answers_cost(self):
        self.run_agent("say hello")
        (session,) = self.sessions()
        shown = self.show(session["id"])
        self.assertEqual((shown["ended"], shown["usage"]["cost_nano_usd"]), ("end_turn", COST_NANO), shown)
        # The public door tells the same, and the ledger has it, too.
        key = json.loads(self.pons.command("key", "create", "test", "--json").stdout)["key"]
        status, body = self.pons.request("/x/sessions/" + session["id"], headers={"Authorization": f"Bearer {key}"})
        self.assertEqual((status, json.loads(body)["usage"]["cost_nano_usd"]), (200, COST_NANO), body)
        (row,) = self.usage(self.pons, "--by", "agent")
        self.assertEqual((row["agent"], row["model"], row["cost_nano_usd"]), ("default", "claude-sonnet-4-5", COST_NANO))

    def test_a_budget_in_money_ends_the_turn_that_would_go_beyond_it(self):
        self.run_agent("--agent", "thrifty", "say hello")
        (session,) = self.sessions()
        self.assertEqual(session["ended"], "end_turn")  # the answer that spent it is still given
        self.run_agent("--session", session["id"], "and again")
        shown = self.show(session["id"])
        self.assertEqual((shown["ended"], shown["usage"]["cost_nano_usd"]), ("budget_reached", COST_NANO), shown)

    def test_an_answer_that_broke_off_is_paid_for_by_its_session(self):
        self.run_agent("--agent", "thrifty", "fail once")
        (session,) = self.sessions()
        shown = self.show(session["id"])
        # Its next try would go beyond the budget.
        self.assertEqual(shown["ended"], "budget_reached", shown)
        self.assertGreater(shown["usage"]["cost_nano_usd"], 0)
        self.assertEqual(shown["usage"]["cost_nano_usd"], self.spent("thrifty"))

    def test_the_time_of_an_agents_sandbox_is_charged_once(self):
        done, _ = self.run_agent("take a sandbox")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

        def charged():
            return [row for row in self.usage(self.pons) if row["model"] == "sandbox"]

        (row,) = wait_for(charged, "the sandbox that the turn has left is charged")
        self.assertEqual(row["requests"], 0)
        self.assertGreaterEqual(row["sandbox_seconds"], 1)
        # A brain that died before it had marked it tells of it again, and nothing is charged twice.
        seconds = row["sandbox_seconds"]
        wait_for(lambda: self.unpaid() == 0, "the brain knows")
        self.assertEqual(self.pons.stop(), 0)
        with sqlite3.connect(f"{self.pons.state_dir}/brain/pons.db") as store:
            store.execute("UPDATE sandboxes SET charged = NULL")
        self.pons = self.start(CONFIG)
        self.addCleanup(end_orderly, self.pons)
        wait_for(lambda: self.unpaid() == 0, "the brain has told of it again")
        self.assertEqual([row["sandbox_seconds"] for row in charged()], [seconds])

    def unpaid(self):
        with sqlite3.connect(f"file:{self.pons.state_dir}/brain/pons.db?mode=ro", uri=True) as store:
            return store.execute("SELECT count(*) - count(charged) FROM sandboxes").fetchone()[0]
