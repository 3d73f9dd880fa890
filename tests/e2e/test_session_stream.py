"""Whoever follows a session hears all of it once, in its order, and its words while they are being said."""

import contextlib
import http.client
import time

from pons_fixture import raise_descriptor_limit
from sandbox_world import rss_bytes
from session_world import Client, Refused, SessionTestCase, calls, execute, of, play, provision, said, text

FOLLOWERS = 1_000
# One key may have seven eighths of the connections as streams.
LIMITS = {"connections": 1_200}
STREAMS_OF_KEY_MAX = 1_050
MANAGED = "/v1/sessions/%s/events/stream"


def numbered(heard):
    return [content for _, content in heard if "seq" in content]


class Followers(SessionTestCase):
    def test_whoever_comes_again_hears_the_rest_and_nothing_twice(self):
        self.start_agents(play("work", calls(provision()), *[calls(execute(f"echo {i}")) for i in range(10)],
                               text("Worked.")))
        session = self.client.create("work")
        heard = []
        while not of(heard, "turn.ended"):
            last = heard[-1]["seq"] if heard else None
            with self.client.stream(session, last_event_id=last) as stream:
                for _, (_, content) in zip(range(7), stream):
                    if "seq" in content:
                        heard.append(content)
                    if content.get("type") == "turn.ended":
                        break
        self.assertEqual(heard, self.client.events(session))
        with self.client.stream(session, after=heard[-2]["seq"]) as stream:
            self.assertEqual(numbered(stream.until("turn.ended")), heard[-1:])

    def test_words_are_heard_while_the_model_speaks(self):
        """It never ends its answer, so whatever is heard of it is heard before."""
        self.start_agents(play("speak", text("These are my words.", chunk_bytes=4, end="hang")))
        session = self.client.create()
        with self.client.stream(session) as stream:
            self.client.say(session, "speak")
            heard = ""
            while "my words" not in heard:
                kind, content = next(stream)
                self.assertNotEqual(kind, "model.answered")
                heard += content["text"] if kind == "agent.delta" else ""
        self.client.interrupt(session)
        self.finish(session, "interrupted")

    def test_who_comes_while_the_model_speaks_hears_it_too(self):
        self.start_agents(play("speak", text("one " * 1000, chunk_bytes=4, chunk_ms=50)))
        session = self.client.create("speak")
        self.client.wait_for_event(session, "model.asked")
        with self.client.stream(session) as stream:
            kind, content = stream.until("agent.delta")[-1]
            self.assertIn("one", content["text"])
        self.client.interrupt(session)
        self.finish(session, "interrupted")

    def test_a_follower_survives_the_death_of_the_brain_by_coming_again(self):
        self.start_agents(play("work", calls(provision()), calls(execute("while [ ! -e go ]; do sleep 0.1; done")),
                               text("Worked.")))
        session = self.client.create("work")
        bound = self.client.wait_for_event(session, "sandbox.bound")["sandbox"]
        self.client.wait_for_event(session, "tool.called", name="sandbox_execute")
        with self.client.stream(session) as stream:
            heard = numbered(stream.until("sandbox.bound"))
            self.kill_role("brain")
            try:
                for heard_before_the_end in stream:
                    heard += numbered([heard_before_the_end])
            except (OSError, http.client.HTTPException):
                pass  # it breaks off
        self.assertEqual(of(heard, "turn.ended"), [])
        self.warden.run(bound, "touch go")
        while not of(heard, "turn.ended"):
            with self.client.stream(session, last_event_id=heard[-1]["seq"]) as stream:
                heard += numbered(stream.until("turn.ended"))
        self.assertEqual(heard, self.client.events(session))
        self.assertEqual(said(heard), ["Worked."])


class Crowds(SessionTestCase):
    def follow(self, session, count, **how):
        everyone = contextlib.ExitStack()
        self.addCleanup(everyone.close)
        return [everyone.enter_context(self.client.stream(session, **how)) for _ in range(count)]

    def managed_session(self):
        agent = self.client.ask("POST", "/v1/agents", {"name": "a", "model": "stage"})["id"]
        place = self.client.ask("POST", "/v1/environments", {"name": "e", "config": {"type": "self_hosted"}})["id"]
        return self.client.ask("POST", "/v1/sessions", {"agent": agent, "environment_id": place})["id"]

    def say_managed(self, session, words):
        content = [{"type": "text", "text": words}]
        self.client.ask("POST", f"/v1/sessions/{session}/events", {"events": [{"type": "user.message", "content": content}]})
        self.client.wait(session)

    def test_a_thousand_clients_of_the_api_cost_little_however_long_the_conversation(self):
        """And a key that opens more and more streams is told to stop."""
        raise_descriptor_limit(self)
        self.start_agents([{"when": {}, **text("Noted.", usage={"input": 10, "output": 10})}], limits=LIMITS)
        session = self.managed_session()
        self.say_managed(session, "x" * 500_000)
        brain = self.pons.role_pids()["brain"]
        before = rss_bytes(brain)
        followers = self.follow(session, FOLLOWERS, path=MANAGED)
        self.assertLess(rss_bytes(brain) - before, 250 << 20)
        self.say_managed(session, "and")
        for follower in followers:
            heard = [kind for kind, _ in follower.until("session.status_idle")]
            self.assertEqual((heard[0], heard.count("agent.message")), ("user.message", 1))
        with self.assertRaises(Refused) as refused:
            self.follow(session, STREAMS_OF_KEY_MAX - FOLLOWERS + 1, path=MANAGED)
        self.assertEqual(refused.exception.status, 429)
        self.client_of().show(session)  # others are let in

    def test_a_stream_ends_with_its_key(self):
        self.start_agents(play("hello", text("Hello.")))
        for path in ("/x/sessions/%s/stream", MANAGED):
            made = self.run_json("key", "create", "leaked")
            leaked = Client(self.pons, made["key"])
            session = self.managed_session()
            with leaked.stream(session, path=path) as stream, self.client.stream(session, path=path) as good:
                self.run_json("key", "revoke", made["id"])
                revoked = time.monotonic()
                with contextlib.suppress(OSError, http.client.HTTPException):
                    for _ in stream:
                        pass
                self.assertLess(time.monotonic() - revoked, 1)
                self.say_managed(session, "hello")
                good.until("session.status_idle" if path == MANAGED else "turn.ended")

    def test_a_thousand_followers_hear_all_of_it(self):
        raise_descriptor_limit(self)
        self.start_agents(play("hello", text("Hello.")), limits=LIMITS)
        session = self.client.create()
        followers = self.follow(session, FOLLOWERS)
        self.client.say(session, "hello")
        events = self.finish(session)
        for follower in followers:
            self.assertEqual(numbered(follower.until("turn.ended")), events)

    def say_much(self, session):
        for _ in range(15):
            self.client.say(session, "x" * 1_000_000)
            self.client.wait(session)
        return self.finish(session)

    def test_who_does_not_read_is_not_remembered_for(self):
        """Twenty who take nothing are owed fifteen megabytes each; later one of them takes all of it."""
        self.start_agents([{"when": {}, **text("Noted.", usage={"input": 10, "output": 10})}])
        brain = self.pons.role_pids()["brain"]
        self.say_much(self.client.create())  # what a session of this size takes by itself
        before = rss_bytes(brain)
        session = self.client.create()
        followers = self.follow(session, 20)
        events = self.say_much(session)
        # One event is on its way to each of them, in several forms; three hundred megabytes are owed.
        self.assertLess(rss_bytes(brain) - before, 150 << 20)
        heard = []
        while len(heard) < len(events):
            heard += numbered([next(followers[7])])
        self.assertEqual(heard, events)
