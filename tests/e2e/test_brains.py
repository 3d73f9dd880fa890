"""Two brains on one database share their sessions, and what one leaves the other takes up."""

import json
import time

from brains_world import PASSWORD, BrainsTestCase
from pons_fixture import LONG, wait_for
from session_world import calls, config, execute, of, play, provision, results, said, text

SLOW = "echo begun; sleep 4; echo done"


class Sharing(BrainsTestCase):
    def test_what_is_said_to_one_reaches_a_session_that_the_other_has_and_both_show_it(self):
        answers = [calls(provision(keep=True)), calls(execute("echo kept > file; sleep 2")), text("One."),
                   calls(execute("cat file")), text("Two.")]
        self.start_two(config([{"when": {"turn": i}, **answer} for i, answer in enumerate(answers)]))
        one, two = self.clients
        session = one.create("first")
        one.wait_for_event(session, "tool.called", name="sandbox_execute")
        with two.stream(session) as stream:
            seq = two.say(session, "a word in between", dedupe="once")
            self.assertEqual(two.say(session, "a word in between", dedupe="once"), seq, "said twice, it is there once")
            heard = [content for _, content in stream.until("turn.ended")]
        events = one.events(session)
        self.assertEqual([event["seq"] for event in heard if "seq" in event],
                         [event["seq"] for event in events][:len(heard)])
        self.assertEqual(of(events, "user.message")[1]["seq"], seq)
        # The sandbox that was kept is on the first machine: the session goes on there, whoever is asked.
        two.say(session, "second")
        one.wait(session)
        events = self.check(session)
        self.assertIn("kept", results(events)[-1]["text"])
        self.assertEqual(of(events, "session.resumed"), [])
        self.assertEqual({event["node"] for event in of(events, "sandbox.bound")}, {self.nodes[0].node})
        self.assertEqual(self.sql("SELECT DISTINCT node FROM sandboxes"), self.nodes[0].node)

    def test_a_session_without_sandboxes_goes_on_wherever_something_is_said(self):
        self.start_two(config([{"text": "Yes."}]))
        one, two = self.clients
        session = one.create("hello")
        one.wait(session)
        two.say(session, "again")
        two.wait(session)
        self.assertEqual(said(self.check(session)), ["Yes.", "Yes."])

    def test_an_end_is_heard_on_the_other_machine(self):
        self.start_two(config([{"text": "Yes."}]))
        one, two = self.clients
        agent = one.ask("POST", "/v1/agents", {"name": "worker", "model": "stage"})["id"]
        environment = one.ask("POST", "/v1/environments", {"name": "plain"})["id"]
        for end, last in (("archive", "session.status_terminated"), ("delete", "session.deleted")):
            session = one.ask("POST", "/v1/sessions", {"agent": agent, "environment_id": environment})["id"]
            path = f"/v1/sessions/{session}"
            one.ask("POST", f"{path}/events", {"events": [{"type": "user.message", "content": "hello"}]})
            wait_for(lambda path=path: one.ask("GET", path)["status"] == "idle", "it rests")
            with two.stream(session, path="/v1/sessions/%s/events/stream") as stream:
                one.ask("POST" if end == "archive" else "DELETE", f"{path}/archive" if end == "archive" else path)
                self.assertEqual([kind for kind, _ in stream], [last], "and the stream ends")
            status, _ = two.raw("POST", f"{path}/events", json.dumps(
                {"events": [{"type": "user.message", "content": "more"}]}))
            self.assertEqual(status, 409 if end == "archive" else 404)

    def test_a_refusal_comes_back_from_the_other_machine(self):
        self.start_two(config(play("go", calls(provision()), calls(execute("sleep 60")), text("Done."))))
        one, two = self.clients
        session = one.create("go")
        one.wait_for_event(session, "tool.called", name="sandbox_execute")
        status, body = two.raw("POST", f"/x/sessions/{session}/events", json.dumps(
            {"events": [{"type": "user.answer", "call": 1, "text": "to nothing"}]}))
        self.assertEqual(status, 400, body)
        self.assertIn("nobody waits for an answer", body.decode())
        self.assertEqual(two.interrupt(session) > 0, True)
        self.assertEqual(one.wait(session)["ended"], "interrupted")

    def test_keys_and_projects_of_one_are_those_of_the_other(self):
        self.start_two(config([{"text": "Yes."}]))
        one, two = self.nodes
        made = json.loads(two.command("key", "create", "ci", "--json").stdout)
        client = type(self.clients[0])(one, made["key"])
        wait_for(lambda: client.raw("GET", "/x/agents")[0] == 200, "a key of the other is good")
        one.command("key", "revoke", made["id"])
        client = type(self.clients[0])(two, made["key"])
        wait_for(lambda: client.raw("GET", "/x/agents")[0] == 401, "a key that the other has revoked is not")

    def test_who_does_not_mean_to_share_is_refused_and_refuses_others(self):
        whole = json.loads(config([{"text": "Yes."}]))
        self.start_node("a", json.dumps(whole))
        alone = self.launch(json.dumps({"store": {**self.store(), "others": "refused"}, **whole}),
                            state_dir=f"{self.directory}/b", environment={"DATABASE_PASSWORD": PASSWORD})
        self.assertNotEqual(alone.wait_until_ended(120), 0)
        self.assertIn("store.others", alone.output + alone.log)

    def test_a_copy_of_a_state_directory_is_found_out(self):
        one, _ = self.start_two(config([{"text": "Yes."}]))
        third = self.start_node("c", config([{"text": "Yes."}]))
        third.stop()
        with open(f"{third.state_dir}/brain/node", "w", encoding="ascii") as file:
            file.write(one.node + "\n")
        pons = self.launch(json.dumps({"store": self.store()}), state_dir=third.state_dir, binary=third.binary,
                           environment={"DATABASE_PASSWORD": self.postgres.password})
        self.assertNotEqual(pons.wait_until_ended(120), 0)
        self.assertIn(f"another Pons uses this database as node {one.node}", pons.output + pons.log)

    def check(self, session):
        events = self.clients[0].events(session)
        self.check_log(events)
        self.assertEqual(events, self.clients[1].events(session))
        return events


class TakingOver(BrainsTestCase):
    def test_sessions_of_a_brain_that_is_silent_go_on_elsewhere_and_it_writes_nothing_more(self):
        self.start_two(config([
            *play("go", calls(provision()), calls(execute(SLOW)), text("It may have run.")),
            *play("talk", text("Hello."))]))
        one, two = self.clients
        session = one.create("go")
        one.wait_for_event(session, "tool.called", name="sandbox_execute")
        pid = self.freeze_brain(self.nodes[0])
        begun = time.monotonic()
        resumed = two.wait_for_event(session, "session.resumed")
        took = time.monotonic() - begun
        print(f"takeover_s={took:.1f}", flush=True)
        self.assertEqual(resumed["node"], self.nodes[1].node)
        two.wait(session)
        events = two.events(session)
        self.check_log(events)
        ended = results(events)[0]
        self.assertEqual(ended["outcome"], "interrupted")
        self.assertIn("may have run", ended["text"])
        self.assertEqual(said(events), ["It may have run."])
        self.thaw(pid)
        # What the frozen one was about to write is refused; its sandbox ends, and it serves again.
        wait_for(lambda: not self.sandboxes_of(session), "the sandbox that was left behind is ended")
        self.assertEqual(one.events(session), events)
        other = one.create("talk")
        self.assertEqual(said(self.client.events(other)) or one.wait(other)["status"] and said(one.events(other)), ["Hello."])

    def test_a_brain_that_is_started_again_at_once_keeps_its_sessions_and_sandboxes(self):
        self.start_two(config(play("go", calls(provision()), calls(execute(SLOW)), text("Done."))))
        one, _ = self.clients
        session = one.create("go")
        one.wait_for_event(session, "tool.called", name="sandbox_execute")
        self.kill_role("brain")
        wait_for(lambda: one.raw("GET", f"/x/sessions/{session}")[0] == 200, "it answers again")
        one.wait(session)
        events = one.events(session)
        self.assertEqual([event["node"] for event in of(events, "session.resumed")], [self.nodes[0].node])
        self.assertEqual(results(events)[0]["text"].split()[:2], ["begun", "done"])

    def test_an_installation_that_is_gone_for_good_leaves_its_sessions_to_the_other(self):
        self.start_two(config([
            *play("first", calls(provision(keep=True)), text("Kept.")),
            *play("second", calls(execute("true")), calls(provision()), calls(execute("echo new")), text("Anew."),
                  said_before=2)]))
        one, two = self.clients
        session = one.create("first")
        one.wait(session)
        self.nodes[0].destroy()
        events = None
        seq = wait_for(lambda: self.try_to_say(two, session, "second"), "the other one has it")
        self.assertGreater(seq, 0)
        two.wait(session)
        events = two.events(session)
        self.check_log(events)
        outcomes = [(event["outcome"], event["text"]) for event in results(events)]
        self.assertEqual(outcomes[0][0], "refused", "the sandbox of the lost machine is not there")
        self.assertIn("new", outcomes[1][1])

    @staticmethod
    def try_to_say(client, session, words):
        try:
            return client.say(session, words, dedupe=words)
        except (AssertionError, OSError):
            return None


class Schedules(BrainsTestCase):
    def test_each_tick_of_a_deployment_is_one_run_with_two_brains(self):
        self.start_two(config([{"text": "Yes."}]))
        client = self.clients[0]

        def post(path, body):
            status, answer = client.raw("POST", path, json.dumps(body), **{"anthropic-beta": "managed-agents-2026-04-01"})
            self.assertEqual(status, 200, answer)
            return json.loads(answer)

        agent = post("/v1/agents", {"name": "clock", "model": "stage"})
        environment = post("/v1/environments", {"name": "plain", "config": {"type": "cloud"}})
        for i in range(5):
            post("/v1/deployments", {
                "name": f"every minute {i}", "agent": agent["id"], "environment_id": environment["id"],
                "initial_events": [{"type": "user.message", "content": [{"type": "text", "text": "tick"}]}],
                "schedule": {"type": "cron", "expression": "* * * * *", "timezone": "UTC"}})
        minutes = 3 if LONG else 1
        wait_for(lambda: int(self.sql("SELECT count(*) FROM deployment_runs WHERE state = 'started'")) >= 5 * minutes,
                 "all have run", seconds=70 * minutes + 60, step=1)
        runs = self.sql("SELECT count(*), count(DISTINCT (deployment_id, scheduled_at)), count(DISTINCT session_id) "
                        "FROM deployment_runs WHERE state = 'started'").split("|")
        self.assertEqual(len(set(runs)), 1, runs)
        self.assertEqual(self.sql("SELECT count(*) FROM sessions"), runs[0])


if __name__ == "__main__":
    import unittest
    unittest.main()
