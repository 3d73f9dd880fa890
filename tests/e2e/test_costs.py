"""What an agent costs: told by the gateway, kept by the session, and a budget that ends it."""

import json
import sqlite3

from e2b_client import Door
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
      - when: {user: now and later, turn: 0}
        tools: [{name: sandbox_provision, input: {task_description: the first, keep: true}}]
      - when: {user: now and later, turn: 1}
        delay_ms: 11000
        tools: [{name: sandbox_provision, input: {task_description: the second}}]
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
  builder: {model: priced}
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
            return [row for row in self.usage(self.pons, "--by", "agent") if row["model"] == "sandbox"]

        (row,) = wait_for(charged, "the sandbox that the turn has left is charged")
        self.assertEqual((row["agent"], row["requests"]), ("default", 0))
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

    def own_key(self, kind, name):
        """The key of a project or of an agent, with what of its limits is used."""
        keys = json.loads(self.pons.command("keys", "ls", "--json").stdout)["keys"]
        return next(one for one in keys if (one["kind"], one["name"]) == (kind, name))

    def project_key(self):
        keys = json.loads(self.pons.command("keys", "ls", "--json").stdout)["keys"]
        return next(one for one in keys if one["kind"] == "org")

    def set_limits(self, key, *words):
        done = self.pons.command("keys", "set", key["id"], *words)
        self.assertEqual(done.returncode, 0, done.stderr)

    def door(self):
        return Door(self.pons, json.loads(self.pons.command("key", "create", "test", "--json").stdout)["key"])

    def wait_until_refused(self, door):
        """What a client of E2B's protocol hears when it may have no further sandbox."""
        def refused():
            status, _, body = door.ask("POST", "/v2/sandboxes", {"templateID": "base", "timeout": 300})
            self.assertIn(status, (201, 429), body)
            return json.loads(body)["message"] if status == 429 else None

        return wait_for(refused, "no further sandbox is made", step=0.5)

    def test_a_project_whose_sandboxes_have_used_their_time_gets_no_other(self):
        model_key, door = self.make_key(self.pons), self.door()
        self.set_limits(self.project_key(), "--limit", "20sandbox_seconds/total")
        box = door.create()
        wait_for(lambda: self.project_key()["warnings"], "a warning while it still runs", step=0.2)
        message = self.wait_until_refused(door)
        for words in ("20 sandbox_seconds per total", "pons keys set " + self.project_key()["id"]):
            self.assertIn(words, message)
        self.assertGreaterEqual(self.project_key()["limits"][0]["used"], 20)
        self.assertEqual(box.run("echo still here"), ("still here\n", 0), "what runs stays")
        status, _, body = self.call(self.pons, model_key, model="priced")
        self.assertEqual(status, 429, body)
        # Sandboxes that have ended have used what they have.
        door.require("DELETE", f"/sandboxes/{box.id}")
        wait_for(lambda: self.usage(self.pons), "it is charged")
        self.wait_until_refused(door)
        self.set_limits(self.project_key(), "--no-limits")
        wait_for(lambda: door.ask("POST", "/v2/sandboxes", {"templateID": "base", "timeout": 300})[0] == 201,
                 "without the limit there is another", step=0.5)

    def test_an_agent_whose_sandboxes_have_used_their_time_gets_no_other(self):
        for agent in ("builder", "default"):
            self.run_agent("--agent", agent, "say hello")
        self.set_limits(self.own_key("agent", "builder"), "--limit", "8sandbox_seconds/total")
        _, events = self.run_agent("--agent", "builder", "now and later")
        told = json.dumps(events)
        self.assertIn("8 sandbox_seconds per total", told, "its second one is refused, and it hears why")
        session = next(one for one in self.sessions() if one["agent"] == "builder" and one["ended"] != "end_turn")
        self.assertEqual(session["ended"], "budget_reached", "nor is its model called any more")
        self.assertGreaterEqual(self.own_key("agent", "builder")["limits"][0]["used"], 8)
        # Nobody else is stopped by it.
        done, _ = self.run_agent("take a sandbox")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.door().create()

    def unpaid(self):
        with sqlite3.connect(f"file:{self.pons.state_dir}/brain/pons.db?mode=ro", uri=True) as store:
            return store.execute("SELECT count(*) - count(charged) FROM sandboxes").fetchone()[0]


class SandboxesThatCost(ModelTestCase):
    def test_a_second_of_a_sandbox_has_the_price_that_is_set_and_spent_money_stops_both(self):
        prices = self.write_file("prices.json", json.dumps({"sandbox_second": "0.25"}))
        pons = self.start(CONFIG + f"gateway: {{prices: '{prices}'}}\n")
        self.addCleanup(end_orderly, pons)
        key = self.make_key(pons)
        door = Door(pons, json.loads(pons.command("key", "create", "test", "--json").stdout)["key"])
        root = next(one for one in json.loads(pons.command("keys", "ls", "--json").stdout)["keys"] if one["kind"] == "org")
        self.assertEqual(self.call(pons, key, model="priced")[0], 200)
        done = pons.command("keys", "set", root["id"], "--limit", "3usd/total")
        self.assertEqual(done.returncode, 0, done.stderr)
        box = door.create()

        def refused():
            status, _, body = door.ask("POST", "/v2/sandboxes", {"templateID": "base", "timeout": 300})
            return json.loads(body)["message"] if status == 429 else None

        self.assertIn("$3.0000 per total", wait_for(refused, "the money is spent", step=1))
        # A call costs less than a second, and may still find room; what runs goes on to cost.
        wait_for(lambda: self.call(pons, key, model="priced")[0] == 429, "models have none, either", step=0.5)
        door.require("DELETE", f"/sandboxes/{box.id}")
        rows = wait_for(lambda: [row for row in self.usage(pons) if row["model"] == "sandbox"], "it is charged")
        self.assertEqual(rows[0]["cost_nano_usd"], rows[0]["sandbox_seconds"] * 250_000_000)
