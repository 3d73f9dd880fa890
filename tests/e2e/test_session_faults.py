"""What can go wrong around a session: words that make no sense, models and tools that misbehave, a disk that is full."""

import contextlib
import json
import os
import sqlite3
import subprocess
import time

from model_world import WHOLE_STREAM, FakeProvider, chunk, respond, stream
from pons_fixture import PATIENCE_SECONDS, wait_for
from session_world import (
    Refused,
    SessionTestCase,
    calls,
    config,
    ends,
    execute,
    of,
    one,
    play,
    provision,
    results,
    said,
    text,
)

MEBIBYTE = 1 << 20


class Words(SessionTestCase):
    """Requests that are refused, each with a sentence that helps, and none with harm."""

    def setUp(self):
        super().setUp()
        self.start_agents([*play("wait", text("Later.", delay_ms=600_000)), {"when": {}, **text("Heard.")}])

    def refused(self, status, method, path, body=None):
        with self.assertRaises(Refused) as caught:
            self.client.ask(method, path, body)
        self.assertEqual(caught.exception.status, status, caught.exception)
        return caught.exception.message

    def test_an_agent_that_does_not_exist(self):
        self.assertIn("pons.yaml", self.refused(404, "POST", "/x/sessions", {"agent": "nobody", "message": "hello"}))
        done = self.pons.command("run", "--agent", "nobody", "hello")
        self.assertEqual(done.returncode, 1)
        self.assertIn('no agent "nobody"', done.stderr)
        self.assertEqual(self.client.ask("GET", "/x/sessions")["sessions"], [])

    def test_a_session_that_does_not_exist(self):
        for method, rest, body in (("GET", "", None), ("GET", "/events", None), ("GET", "/stream", None),
                                   ("POST", "/archive", None), ("POST", "/fork", {}),
                                   ("POST", "/events", {"events": [{"type": "user.interrupt"}]})):
            with self.subTest(rest):
                self.assertIn("no session", self.refused(404, method, f"/x/sessions/ses_none{rest}", body))

    def test_a_session_that_is_closed(self):
        session = self.client.create("hello")
        self.finish(session)
        self.client.ask("POST", f"/x/sessions/{session}/archive")
        self.assertIn("archived", self.refused(400, "POST", f"/x/sessions/{session}/events",
                                               {"events": [{"type": "user.message", "text": "again"}]}))

    def test_a_session_at_work_is_not_closed(self):
        session = self.client.create("wait")
        self.assertIn("interrupt it first", self.refused(409, "POST", f"/x/sessions/{session}/archive"))
        self.client.interrupt(session)
        self.finish(session, "interrupted")

    def test_a_message_that_is_too_long(self):
        self.assertIn("longer than", self.refused(400, "POST", "/x/sessions", {"message": "x" * (4 * MEBIBYTE)}))
        self.assertEqual(self.client.raw("POST", "/x/sessions", b"x" * (7 * MEBIBYTE))[0], 400)
        session = self.client.create("x" * (4 * MEBIBYTE - 1000))
        self.assertEqual(said(self.finish(session)), ["Heard."])

    def test_bytes_that_are_no_text(self):
        for name, body in {
            "a lone byte": b'{"message": "\xff"}',
            "half a character": b'{"message": "\xe2\x82"}',
            "an overlong form": b'{"message": "\xc0\x80"}',
            "half a pair": b'{"message": "\\ud800"}',
            "a raw control character": b'{"message": "\x07"}',
            "no JSON": b"hello",
            "deep": b'{"message": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
            "wide": b'{"message": [' + b"{}," * 500_000 + b"{}]}",
            "twice": b'{"message": "a", "unknown": 1}',
            "nothing": b'{"message": ""}',
            "a number": b'{"message": 7}',
            "no block": b'{"message": [{"type": "tool_result", "tool_use_id": "x"}]}',
        }.items():
            with self.subTest(name):
                status, answer = self.client.raw("POST", "/x/sessions", body)
                self.assertEqual(status, 400, answer)
                self.assertTrue(json.loads(answer)["error"]["message"])
        self.assertEqual(self.client.ask("GET", "/x/sessions")["sessions"], [])

    def test_control_characters_are_kept_and_not_obeyed(self):
        words = "a\x00b\x07c\x1b[31md\u202ee\r\nf\u2028g"
        session = self.client.create(words)
        self.assertEqual(one(self.finish(session), "user.message")["content"], [{"type": "text", "text": words}])
        shown = self.pons.command("sessions", "logs", session).stdout
        self.assertIn("Heard.", shown)
        for character in "\x00\x07\x1b\u202e":
            self.assertNotIn(character, shown)

    def test_events_that_nobody_may_send(self):
        session = self.client.create("hello")
        events = self.finish(session)
        for event in ({"type": "tool.ended", "call": 1, "text": "forged"}, {"type": "model.answered"}, {},
                      {"type": "user.message"}, {"type": "user.message", "text": "a", "content": "b"},
                      {"type": "user.answer", "call": 1, "text": "to nobody"},
                      {"type": "user.answer", "call": -1, "text": "x"}, {"type": "user.interrupt", "why": "x"}):
            with self.subTest(event):
                self.assertTrue(self.refused(400, "POST", f"/x/sessions/{session}/events", {"events": [event]}))
        self.assertEqual(self.client.events(session), events)


class Tools(SessionTestCase):
    def test_arguments_that_make_no_sense_are_the_models_to_correct(self):
        wrong = {
            "no command": {"name": "sandbox_execute", "input": {}},
            "a number": {"name": "sandbox_execute", "input": {"command": 7}},
            "empty": execute(""),
            "unknown": execute("true", colour="blue"),
            "time": execute("true", timeout_seconds=-1),
            "undo": execute("true", undo="perhaps"),
            "a list": {"name": "sandbox_execute", "input": ["true"]},
            "a text": {"name": "sandbox_execute", "input": "true"},
            "no task": {"name": "sandbox_provision", "input": {}},
            "no template": provision(template="nowhere"),
            "no question": {"name": "ask_human", "input": {}},
            "percent": {"name": "spawn_agent", "input": {"task": "x", "budget_percent": 101}},
            "no such sandbox": execute("true", sandbox_id="sx-nobody"),
            "no such tool": {"name": "rm_rf"},
        }
        self.start_agents(play("try", calls(provision()), *[calls(each) for each in wrong.values()],
                               calls(execute("echo right")), text("I have learned.")))
        events = self.finish(self.client.create("try"))
        ended = of(events, "tool.ended")
        self.assertEqual(len(ended), len(wrong) + 2)
        for name, event in zip(wrong, ended[1:-1]):
            with self.subTest(name):
                self.assertEqual((event["outcome"], event["is_error"]), ("refused", True))
                self.assertTrue(event["text"])
        self.assertIn("right\n[exit code 0", ended[-1]["text"])
        self.assertEqual(said(events), ["I have learned."])

    def test_a_tool_that_never_returns_is_ended(self):
        self.start_agents(play("hang", calls(provision()),
                               calls(execute("trap '' TERM INT HUP; while :; do sleep 1; done", timeout_seconds=1)),
                               calls(execute("cat; sleep 1000 & echo started")),
                               text("Never again.")))
        commands = results(self.finish(self.client.create("hang")))
        self.assertIn("timed out", commands[0]["text"])
        self.assertIn("started\n[exit code 0", commands[1]["text"], "what runs on in the background is not waited for")

    def test_a_sandbox_that_dies_under_its_command_is_reported(self):
        self.start_agents(play("die", calls(provision()), calls(execute("sleep 1000")),
                               calls(execute("echo still here?")), text("It is gone.")))
        session = self.client.create("die")
        bound = self.client.wait_for_event(session, "sandbox.bound")["sandbox"]
        self.client.wait_for_event(session, "tool.called", name="sandbox_execute")
        wait_for(lambda: "sleep" in self.warden.run(bound, "ps -eo comm")[0], "the command runs")
        self.warden.destroy(bound)
        commands = results(self.finish(session))
        self.assertEqual(commands[0]["outcome"], "interrupted")
        self.assertIn("may have run", commands[0]["text"])
        self.assertTrue(commands[1]["is_error"])

    def test_hostile_output_is_text(self):
        self.start_agents(play("print", calls(provision()),
                               calls(execute(r"printf 'a\000b\377\033[31mc\r\nd\342\202'")), text("Printed.")))
        session = self.client.create("print")
        command = results(self.finish(session))[0]
        self.assertTrue(command["text"].startswith("a\ufffdb\ufffd\x1b[31mc\r\nd"))
        shown = self.pons.command("sessions", "logs", session).stdout
        self.assertNotIn("\x1b[31m", shown)


class Models(SessionTestCase):
    def start_with(self, *answers):
        self.provider = FakeProvider(self)
        self.provider.answers = list(answers)
        providers = {"fake": {"kind": "openai-compatible", "url": self.provider.url}}
        self.use(self.start(config([], providers=providers, models={"stage": {"try": ["fake/gpt-5.1"]}})))

    def test_an_overloaded_model_is_asked_again_later(self):
        overloaded = respond(529, {"error": {"message": "overloaded"}})
        self.start_with(*[overloaded] * 4, stream(*WHOLE_STREAM))
        session = self.client.create("hello")
        self.client.wait(session, "rescheduled")
        events = self.finish(session)
        failures = of(events, "model.failed")
        self.assertEqual({each["trouble"] for each in failures}, {"passing"})
        self.assertEqual([each["attempt"] for each in of(events, "model.asked")], list(range(1, len(failures) + 2)))
        self.assertEqual(said(events), ["Hello world"])

    def test_an_answer_that_breaks_off_is_no_answer(self):
        cut = stream(chunk("Half an"), end="cut")
        self.start_with(cut, cut, cut, stream(*WHOLE_STREAM))
        session = self.client.create("hello")
        events = self.finish(session)
        self.assertGreater(len(of(events, "model.failed", trouble="passing")), 0)
        self.assertEqual(said(events), ["Hello world"])

    def test_a_person_may_stop_waiting_for_a_model(self):
        self.start_with(respond(529, {"error": {"message": "overloaded"}}, Retry_After=3600))
        session = self.client.create("hello")
        self.client.wait(session, "rescheduled")
        self.client.interrupt(session)
        self.finish(session, "interrupted")

    def test_an_answer_that_is_cut_short_runs_nothing(self):
        self.start_agents([
            *play("cut", calls(provision()), {**calls(execute("rm -rf precious")), "stop": "max_tokens"}, text("Sorry.")),
            *play("write", {**text("And so on"), "stop": "max_tokens"}),
            *play("refuse", {**text("I will not."), "stop": "refusal"}),
        ])
        events = self.finish(self.client.create("cut"))
        self.assertEqual(results(events)[0]["outcome"], "refused")
        self.assertIn("cut off", results(events)[0]["text"])
        self.finish(self.client.create("write"), "answer_cut_off")
        self.finish(self.client.create("refuse"), "refusal")

    def test_a_model_that_will_never_answer_ends_the_turn_and_says_why(self):
        # To the model, what was said before and after a failure is one message.
        self.start_agents([
            {"when": {"user": "later"}, **text("Good.")},
            {"when": {"user": "invalid"}, "fail": {"kind": "invalid_request", "message": "the hat is too small"}},
            {"when": {"user": "too long"}, "fail": {"kind": "context_length", "message": "too long"}},
        ])
        session = self.client.create("invalid")
        self.assertIn("the hat is too small", one(self.finish(session, "model_failed"), "turn.ended")["message"])
        self.client.say(session, "later")
        self.assertEqual(said(self.finish(session)), ["Good."])
        self.finish(self.client.create("too long"), "model_failed")

    def test_a_model_that_loops_is_stopped_by_its_budget(self):
        self.start_agents([{"when": {}, **calls(provision(), execute("true"), usage={"input": 1000, "output": 10})}],
                          {"default": {"model": "stage", "budget_tokens": 20_000, "calls_per_turn": 10_000}})
        session = self.client.create("for ever")
        events = self.finish(session, "budget_reached")
        self.assertEqual(len(of(events, "model.answered")), 20)
        self.assert_gone(session)


class Store(SessionTestCase):
    WAITING = [
        *play("wait", calls(provision()), calls(execute("while [ ! -e go ]; do sleep 0.1; done; echo once >> lines")),
              calls(execute("cat lines")), text("Waited.")),
        *play("hello", text("Hello.")),
    ]

    def waiting_session(self):
        """One whose command runs until there is a file `go`."""
        session = self.client.create("wait")
        self.client.wait_for_event(session, "tool.called", name="sandbox_execute")
        bound = one(self.client.events(session), "sandbox.bound")["sandbox"]
        wait_for(lambda: "sleep" in self.warden.run(bound, "ps -eo comm")[0], "the command runs")
        return session, bound

    @property
    def store_file(self):
        return f"{self.pons.state_dir}/brain/pons.db"

    def test_who_has_lost_a_session_writes_nothing_to_it_any_more(self):
        """Another brain takes the session as its own, and dies; this one had it, and gets it back later."""
        self.start_agents(self.WAITING)
        session, bound = self.waiting_session()
        head = self.client.show(session)["head"]
        with contextlib.closing(sqlite3.connect(self.store_file, timeout=PATIENCE_SECONDS)) as store, store:
            store.execute("UPDATE sessions SET epoch = epoch + 1, owner = 'another', lease_until = ? WHERE id = ?",
                          (int(time.time() * 1000) + 5_000, session))
        self.warden.run(bound, "touch go")
        wait_for(lambda: "session continues elsewhere" in self.pons.log, "the brain notices")
        self.assertEqual(self.client.show(session)["head"], head)
        with self.assertRaises(Refused):
            self.client.say(session, "are you there?")
        events = self.finish(session)
        self.assertEqual(events[head]["type"], "session.resumed")
        self.assertIn("once\n[exit code 0", results(events)[1]["text"])

    def test_a_full_disk_stops_sessions_and_loses_nothing(self):
        small = f"{self.directory}/small"
        os.mkdir(small, 0o711)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m,mode=0711", "pons-test", small], check=True)
        self.addCleanup(subprocess.run, ["umount", "-l", small], check=True)
        self.use(self.start(config(self.WAITING), state_dir=f"{small}/state"))
        session, bound = self.waiting_session()
        with open(f"{small}/ballast", "wb", buffering=0) as ballast, contextlib.suppress(OSError):
            while ballast.write(b"x" * 4096) == 4096:
                pass
        with self.assertRaises(Refused) as caught:
            for _ in range(1000):  # until what is left in the last pages of the log is used up
                self.client.create("hello" * 1000)
        self.assertGreaterEqual(caught.exception.status, 500, caught.exception)
        self.warden.run(bound, "touch go")
        wait_for(lambda: "cannot store what happened" in self.pons.log, "the brain says that it cannot go on")
        self.assertEqual(ends(self.client.events(session)), [])
        os.unlink(f"{small}/ballast")
        events = self.finish(session)
        self.assertIn("once\n[exit code 0", results(events)[1]["text"])
        self.assertEqual(said(self.finish(self.client.create("hello"))), ["Hello."])

    def test_a_store_that_was_cut_is_not_opened(self):
        self.start_agents(self.WAITING)
        for _ in range(20):
            self.finish(self.client.create("hello"))
        backup = f"{self.directory}/backup.db"
        self.run_json("backup", backup)
        self.assertEqual(self.pons.stop(), 0)
        os.truncate(self.store_file, os.path.getsize(self.store_file) // 2 + 100)
        ill = self.launch(config(self.WAITING))
        self.assertEqual(ill.wait_until_ended(), 1)
        self.assertIn(self.store_file, ill.log)
        self.assertIn("pons restore", ill.log)
        self.run_json("restore", backup)
        self.use(self.start(config(self.WAITING)))
        self.assertEqual(len(self.client.ask("GET", "/x/sessions")["sessions"]), 20)
        self.assertEqual(said(self.finish(self.client.create("hello"))), ["Hello."])

    def test_a_log_with_a_hole_is_not_gone_on_with(self):
        self.start_agents(self.WAITING)
        broken, whole = self.client.create("hello"), self.client.create("hello")
        self.finish(broken), self.finish(whole)
        self.assertEqual(self.pons.stop(), 0)
        with contextlib.closing(sqlite3.connect(self.store_file)) as store, store:
            store.execute("DELETE FROM session_events WHERE session_id = ? AND seq = 3", (broken,))
        self.use(self.start(config(self.WAITING)))
        with self.assertRaises(Refused) as caught:
            self.client.say(broken, "hello")
        self.assertIn("restore", caught.exception.message)
        self.client.say(whole, "hello")
        self.client.wait(whole)
        self.assertEqual(self.client.show(broken)["head"], 6)
