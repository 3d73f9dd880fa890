"""What a sandbox may not reach it asks for, and the people of its session answer as they allow a tool."""

import json
import unittest

from boundary.world import enter
from managed_world import ManagedWorld
from pons_fixture import wait_for
from session_world import Client, SessionTestCase, calls, execute, of, one, play, provision, results, text
from test_managed import bash

HOST = "plain.example.net"
OTHER = "attacker.example.org"
ASK = "curl -sS --max-time 20 -H 'content-type: application/json' http://tools.pons.internal/access-requests"
PROXY = "curl -sS --max-time 20 -x http://127.0.0.1:3128"


def ask_for(host, reason="the build needs it"):
    return f"{ASK} -d '" + json.dumps({"host": host, "reason": reason}) + "'"


def ask_and_wait(host):
    """Until the people of the session have it before them."""
    return until(f"{ask_for(host)} | grep -E 'asked|denied'")


def until(command):
    return f"for i in $(seq 300); do {command} && break; sleep 0.1; done"


REFUSED = f"{PROXY} http://{HOST}:443/"


def reached(host):
    return f"curl -sSf --max-time 20 https://{host}/echo -w '\\n%{{http_code}}' 2>/dev/null"


def setUpModule():
    enter()


def told(what, *answers, said_before=1):
    """What the agent does when it has heard what a person decided."""
    return play(what, *answers, said_before=said_before)


class ManagedAccess(ManagedWorld):
    ANSWERS = [
        *told(f"has allowed your sandbox to reach {HOST}", text("Fetched.")),
        *told(f"has allowed your sandbox to reach {OTHER}", calls(bash(reached(OTHER))), text("Rested.")),
        *told("has allowed your sandbox to reach private.example.net",
              calls(bash(f"{PROXY} http://private.example.net:443/; {PROXY} http://10.1.2.3:443/")), text("It stays closed.")),
        {"when": {"user": "has not allowed your sandbox"}, **text("I do without.")},
        *play("fetch and wait", calls(bash(f"{REFUSED}; {ask_for(HOST)}; {ask_for(HOST, 'again')}; {until(reached(HOST))}"))),
        *play("ask and be refused", calls(bash(f"{ask_for(HOST)}; {until(ask_for(HOST) + ' | grep -v pending')}; {REFUSED}"))),
        *play("ask and rest", calls(bash(ask_and_wait(OTHER)))),
        *play("ask and be interrupted", calls(bash(f"{ask_for(HOST)}; sleep 1000"))),
        *play("ask for what leads inside",
              calls(bash(f"{ask_for('10.1.2.3')}; {ask_for('gateway.pons.internal')}; {ask_and_wait('private.example.net')}"))),
        *play("over restarts", calls(provision()),
              calls(execute(f"{ask_for(OTHER)}; {until(f'curl -sSf --max-time 20 https://{OTHER}/ >/dev/null 2>&1 && echo reached')}"))),
    ]
    AGENTS = {"default": {"model": "stage", "environment": "web"}}

    def requests(self):
        done = self.pons.command("egress", "requests", "--all", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)["requests"]

    def wait_for_statuses(self, *statuses):
        wait_for(lambda: sorted(each["status"] for each in self.requests()) == sorted(statuses), f"requests are {statuses}")

    def test_people_of_the_session_answer(self):
        self.run_suite("access")
        recorded = [event for event in self.world.events() if event["kind"] == "access_request"]
        self.assertTrue({"pending", "allowed", "denied", "withdrawn"} <= {event["status"] for event in recorded}, recorded)
        self.assertFalse([each for each in self.requests() if each["status"] == "pending" and each["host"] == HOST])

    # ---- one session, seen from beside it

    def begin(self):
        client = Client(self.pons, self.make_key("mine"))
        wait_for(lambda: client.raw("GET", "/x/agents")[0] != 401, "the door knows the key")
        session = client.create("over restarts")
        client.wait(session, "waits_at_work")
        return client, session, one(client.events(session), "access.asked")

    def finish(self, client, session, outcome):
        client.wait(session)
        events = client.events(session)
        self.assertEqual([event["outcome"] for event in of(events, "access.ended")], [outcome])
        return results(events)[0]["text"]

    def test_it_survives_restarts(self):
        client, session, asked = self.begin()
        for role in ("egress", "brain"):
            SessionTestCase.kill_role(self, role)
        wait_for(lambda: client.raw("GET", "/x/agents")[0] == 200, "the brain answers")
        client.wait(session, "waits_at_work")
        client.send(session, {"type": "user.decision", "call": asked["seq"], "allow": True})
        self.assertIn("reached", self.finish(client, session, "allowed"))
        self.assertEqual(len(of(client.events(session), "access.asked")), 1)
        # What was allowed is so after another restart, and to nobody else.
        other = client.create("over restarts")
        client.wait(other, "waits_at_work")
        SessionTestCase.kill_role(self, "egress")
        client.wait(other, "waits_at_work")
        client.interrupt(other)
        client.wait(other)
        self.wait_for_statuses("allowed", "withdrawn")

    def test_the_operator_may_answer_first(self):
        client, session, asked = self.begin()
        done = self.pons.command("egress", "requests", "allow", asked["request"])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("reached", self.finish(client, session, "allowed"))
        late = self.pons.command("egress", "requests", "deny", asked["request"])
        self.assertEqual(late.returncode, 1)
        self.assertIn("allowed", late.stdout)

    def test_what_the_operator_closes_waits_for_nobody(self):
        client, session, asked = self.begin()
        self.assertEqual(self.pons.command("egress", "requests", "close", asked["request"]).returncode, 0)
        wait_for(lambda: of(client.events(session), "access.ended"), "the session has heard of it")
        client.interrupt(session)
        self.finish(client, session, "withdrawn")


if __name__ == "__main__":
    unittest.main()
