"""Harnesses that do what they should not: one agent, which does as its recipe tells it. Nothing is downloaded."""

import json
import unittest

from harness_world import assert_kept, fake_recipe, harness, install_fakes, try_harness
from pons_fixture import LONG, wait_for
from sandbox_world import Refused
from session_world import SessionTestCase, config, of, said

# An interrupt ends whatever is under way within five seconds, and moments.
INTERRUPT_SECONDS = 20
ANSWERS = [
    # Whoever was not there has been told that somebody was to talk.
    {"when": {"user": "hello"}, "text": "Here I am."},
    {"when": {"user": "talk"}, "text": "x " * 2000, "chunk_bytes": 2, "chunk_ms": 100},
]


class FakeCase(SessionTestCase):
    modes = ()

    def start_fakes(self):
        """A Pons with a harness for each mode, by its name, and an agent for each and each placement."""
        recipes = {mode: fake_recipe("" if mode == "good" else mode) for mode in self.modes}
        agents = {"default": {"model": "stage"}, **{mode: {"model": "stage", "harness": mode} for mode in self.modes},
                  **{f"{mode}-inside": {"model": "stage", "harness": mode, "placement": "sandbox"} for mode in self.modes}}
        self.use(self.start(config(ANSWERS, agents, harnesses=recipes)))
        install_fakes(self, self.pons, *self.modes)

    def cell_of(self, session):
        return next((name for name in self.sandboxes_of(session) if name.startswith("hx-")), None)

    def running_jobs(self, session):
        cell = self.cell_of(session)
        if not cell:
            return []
        while True:
            try:
                jobs = json.loads(self.warden.ask("GET", f"/sandboxes/{cell}/jobs"))["jobs"]
                break
            except Refused as refused:
                self.assertEqual(refused.status, 409)
            self.warden.ask("POST", f"/sandboxes/{cell}/resume")  # it is frozen where nobody needs it
        return [job["id"] for job in jobs if job["id"].startswith("harness-") and job["outcome"] == "running"]

    def interrupt(self, session):
        """The turn is over in time, and the process with it."""
        self.client.interrupt(session)
        shown = self.client.wait(session, seconds=INTERRUPT_SECONDS)
        self.assertEqual(shown["ended"], "interrupted")


class Suite(FakeCase):
    modes = ("good", "offers-more", "asks-names", "obeys", "forgets", "careless")

    def test_one_that_does_all_well_keeps_every_promise_and_others_do_not(self):
        self.start_fakes()
        told = try_harness(self, self.pons, "good")
        assert_kept(self, told)
        self.assertEqual({each["place"] for each in told["promises"]}, {"brain", "sandbox"})
        # Each story finds the one that breaks what it is about.
        for mode, story, promise in (
                ("offers-more", "tools", "the model is offered the tools that are allowed, and no others"),
                ("asks-names", "walls", "no name is asked for but gateway.pons.internal and tools.pons.internal"),
                ("obeys", "orders", "files of a project give it no orders, in three processes"),
                ("forgets", "task", "a second turn remembers the first"),
                ("careless", "sleep", "the command of that tool is dead")):
            with self.subTest(mode):
                told = try_harness(self, self.pons, mode, "--story", story)
                self.assertIn(promise, [each["promise"] for each in told["promises"] if not each["kept"]])

    def test_the_command_says_what_it_cannot_try(self):
        self.start_fakes()
        done = harness(self, self.pons, "test", "nobody")
        self.assertEqual(done.returncode, 1)
        self.assertIn("nobody knows", done.stderr)
        done = harness(self, self.pons, "test", "codex")
        self.assertEqual(done.returncode, 1)
        self.assertIn("pons harness install codex", done.stderr)
        done = harness(self, self.pons, "test", "good", "--story", "nothing")
        self.assertEqual(done.returncode, 1)
        self.assertIn('no story "nothing"', done.stderr)
        # Another version than the recipe's is said, and tried.
        other = self.write_file("other.yaml", json.dumps({"harnesses": {"good": fake_recipe("", "1.1.0")}}))
        done = harness(self, self.pons, "test", "good", "--story", "pieces", config=other)
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        self.assertIn('installed as "1.0.0" and was tested as "1.1.0"', done.stderr)
        self.assertIn("text comes in pieces before it is whole", done.stdout)


class Faults(FakeCase):
    modes = ("good", "garbage", "hangs", "never-idle", "deaf", "forks", "fills")

    def test_whatever_one_does_its_session_can_be_ended_and_others_go_on(self):
        self.start_fakes()
        for name in sorted(dir(self)):
            if name.startswith("story_"):
                with self.subTest(name.removeprefix("story_").replace("_", " ")):
                    getattr(self, name)()
                    session = self.client.create("hello", agent="good")
                    self.assertEqual(said(self.finish(session)), ["Here I am."], "another session is as well as before")

    def story_garbage_is_a_failure(self):
        for agent in ("garbage", "garbage-inside"):
            session = self.client.create("hello", agent=agent)
            failed = self.client.wait_for_event(session, "model.failed")
            self.assertIn("harness", failed["message"])
            self.interrupt(session)

    def story_one_that_hangs_at_its_start_can_be_left(self):
        session = self.client.create("hello", agent="hangs")
        wait_for(lambda: self.running_jobs(session), "it is started", step=0.05)
        self.interrupt(session)
        wait_for(lambda: not self.running_jobs(session), "its process is gone", INTERRUPT_SECONDS)
        if LONG:
            session = self.client.create("hello", agent="hangs")
            failed = wait_for(lambda: of(self.client.events(session), "model.failed"), "it is given up", 180, 0.5)
            self.assertTrue(failed[0]["message"])
            self.interrupt(session)

    def story_one_that_is_never_idle_is_killed_by_an_interrupt(self):
        session = self.client.create("hello", agent="never-idle")
        with self.client.stream(session, after=0) as stream:
            stream.until("agent.delta")
        self.interrupt(session)
        wait_for(lambda: not self.running_jobs(session), "its process is gone", INTERRUPT_SECONDS)

    def story_one_that_ignores_an_interrupt_is_killed_in_both_places(self):
        for agent in ("deaf", "deaf-inside"):
            session = self.client.create("talk for long", agent=agent)
            with self.client.stream(session, after=0) as stream:
                stream.until("agent.delta")
            self.interrupt(session)
            wait_for(lambda: not self.running_jobs(session), "its process is gone", INTERRUPT_SECONDS)
            self.client.say(session, "hello")
            self.assertEqual(said(self.finish(session))[-1], "Here I am.", "a new process answers")

    def story_children_are_bounded_and_leave_room_for_the_next_process(self):
        session = self.client.create("hello", agent="forks")
        self.assertEqual(said(self.finish(session))[-1], "Here I am.")
        cell = self.cell_of(session)
        used = json.loads(self.warden.ask("GET", f"/sandboxes/{cell}/metrics"))
        self.assertLessEqual(used["pids"], used["pids_max"])
        for job in self.running_jobs(session):
            self.warden.ask("POST", f"/sandboxes/{cell}/jobs/{job}/signal", {"signal": 9})
        self.client.say(session, "hello again")
        self.assertEqual(said(self.finish(session))[-1], "Here I am.")

    def story_a_full_disk_is_its_own(self):
        session = self.client.create("hello", agent="fills")
        shown = self.client.wait(session, seconds=180)
        self.assertIn(shown["ended"], ("end_turn", "retries_exhausted", "model_failed"))


class NotInstalled(SessionTestCase):
    def test_what_is_not_installed_says_how(self):
        self.start_agents([{"text": "hi"}], agents={
            "default": {"model": "stage", "harness": "codex"},
            "inside": {"model": "stage", "harness": "codex", "placement": "sandbox"}})
        for agent in ("default", "inside"):
            session = self.client.create("hello", agent=agent)
            events = self.finish(session, "model_failed")
            self.assertIn("pons harness install codex", of(events, "turn.ended")[0]["message"])

    def test_an_unknown_word_is_refused_at_the_start(self):
        path = self.write_file("pons.yaml", config([{"text": "hi"}],
                                                   agents={"default": {"model": "stage", "harness": "codx"}}))
        done = self.run_pons("config", "check", "--config", path)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("did you mean codex?", done.stderr)


del FakeCase

if __name__ == "__main__":
    unittest.main()
