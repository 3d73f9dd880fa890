"""Sessions of agents, as a person has them: a brain that thinks without hands, and hands that live for one task."""

import contextlib
import hashlib
import json
import os
import pty
import shutil
import signal
import socket
import sqlite3
import subprocess
import threading
import time

from model_world import FakeProvider, stream
from pons_fixture import PATIENCE_SECONDS, WEAKENED_DIR, Instance, wait_for
from sandbox_world import Warden
from session_world import (
    SessionTestCase,
    ask_human,
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
    spawn_agent,
    text,
)


class DevRun(Instance):
    """A Pons that was started by ./dev of a checkout."""

    def __init__(self, case, setup, program, checkout, environment):
        self.case = case
        self.user = None
        self.binary = program
        self.state_dir = f"{checkout}/state"
        self.output_file = f"{checkout}/output"
        self.log_file = f"{checkout}/log"
        config_file = case.write_file("checkout/pons.yaml", setup)
        with open(self.output_file, "wb") as output, open(self.log_file, "wb") as log:
            self.process = subprocess.Popen(
                [f"{checkout}/dev", "run", "--config", config_file, "--listen", "127.0.0.1:0"],
                stdin=subprocess.DEVNULL, stdout=output, stderr=log, env=environment, start_new_session=True)


class Story(SessionTestCase):
    """The pattern, from beginning to end."""

    def test_a_question_needs_no_sandbox_and_a_task_has_one_for_as_long_as_it_takes(self):
        self.start_agents([
            *play("capital", text("Paris.")),
            *play("release notes",
                  calls(provision()),
                  calls(execute("printf 'one\\ntwo\\n' > notes.txt")),
                  calls(execute("cat notes.txt")),
                  calls(execute("grep three notes.txt")),
                  text("There is no third line; I will write it.", **calls(execute("echo three >> notes.txt"))),
                  calls(execute("wc -l < notes.txt")),
                  text("The notes have three lines now."),
                  said_before=1),
        ])

        session = self.client.create("What is the capital of France?")
        events = self.finish(session)
        self.assertEqual(said(events), ["Paris."])
        self.assertEqual(of(events, "tool.called"), [], "the brain needs no hands to answer a question")
        self.assertEqual(self.warden.names(), set(), "no sandbox was made")

        self.client.say(session, "Complete the release notes.")
        events = self.finish(session)
        self.assertEqual(len(of(events, "sandbox.bound")), 1)
        commands = results(events)
        self.assertEqual([bool(each.get("is_error")) for each in commands], [False, False, True, False, False])
        self.assertIn("one\ntwo\n[exit code 0", commands[1]["text"])
        self.assertIn("[exit code 1", commands[2]["text"])
        self.assertIn("3\n[exit code 0", commands[4]["text"])
        self.assertEqual(said(events)[1:],
                         ["There is no third line; I will write it.", "The notes have three lines now."])
        self.assertEqual(ends(events), ["end_turn", "end_turn"])

        bound = one(events, "sandbox.bound")["sandbox"]
        one(events, "sandbox.released", sandbox=bound)
        self.assert_gone(session)
        self.assertEqual(self.warden.names(), set(), "the sandbox is gone with its task")

    def test_the_same_by_pons_run(self):
        self.start_agents([
            *play("how many", calls(provision()), calls(execute("echo 42")), text("There are 42.")),
            *play("break", calls(provision()), calls(execute("exit 3")), {"fail": {"kind": "invalid_request"}}),
        ])
        done = self.pons.command("run", "how many are there?")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"sandbox_execute  echo 42  \[exit code 0")
        self.assertIn("There are 42.", done.stdout)
        self.assertRegex(done.stdout, r"\d+ ms  model")
        self.assertIn("3 model calls, 2 tool calls", done.stdout)
        self.assertEqual(self.pons.command("run", "-q", "how many?").stdout, "There are 42.\n")
        failed = self.pons.command("run", "break it")
        self.assertEqual(failed.returncode, 1, failed.stdout)
        lines = self.pons.command("run", "--json", "how many?").stdout.splitlines()
        self.assertEqual(json.loads(lines[-1])["type"], "turn.ended")


    def test_a_task_in_a_session_shows_its_own_turn(self):
        """And not one that somebody else had there while it was on its way."""
        self.start_agents([*play("begin", text("Begun.")), *play("between", text("Not yours."), said_before=1),
                           *play("mine", text("Yours."), said_before=2)])
        session = self.client.create("begin")
        self.finish(session)
        path = f"{self.pons.state_dir}/run/brain.sock"
        with self.brain_behind(path, lambda: (self.client.say(session, "between"), self.client.wait(session))):
            done = self.pons.command("run", "-q", "--session", session, "mine")
        self.assertEqual((done.returncode, done.stdout), (0, "Yours.\n"), done.stderr)
        self.assertEqual(said(self.finish(session)), ["Begun.", "Not yours.", "Yours."])

    @contextlib.contextmanager
    def brain_behind(self, path, before_post):
        """Every connection to the brain goes through here; before the first POST gets there, something happens."""
        os.rename(path, f"{path}.behind")
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(path)
        listener.listen()
        happened = threading.Event()
        ends = []

        def pump(source, sink):
            with contextlib.suppress(OSError):
                while piece := source.recv(65536):
                    if piece.startswith(b"POST ") and not happened.is_set():
                        happened.set()
                        before_post()
                    sink.sendall(piece)
                sink.shutdown(socket.SHUT_WR)

        def serve():
            with contextlib.suppress(OSError):
                while True:
                    client, _ = listener.accept()
                    brain = socket.socket(socket.AF_UNIX)
                    brain.connect(f"{path}.behind")
                    ends.extend((client, brain))
                    for source, sink in ((client, brain), (brain, client)):
                        threading.Thread(target=pump, args=(source, sink), daemon=True).start()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            listener.close()
            thread.join()
            for end in ends:
                end.close()
            os.rename(f"{path}.behind", path)
        self.assertTrue(happened.is_set())


class FirstRun(SessionTestCase):
    def test_a_key_in_the_environment_says_which_model_agents_ask(self):
        for variable, model in (("ANTHROPIC_API_KEY", "claude-sonnet-4-5"), ("OPENAI_API_KEY", "gpt-5.1"), ("", "demo")):
            with self.subTest(variable):
                self.use(self.start_beside(model, environment={variable: "sk-of-a-test"} if variable else {}))
                (agent,) = self.client.ask("GET", "/x/agents")["agents"]
                self.assertEqual((agent["name"], agent["model"]), ("default", model))


class FirstTask(SessionTestCase):
    """`./dev run`, but for what it builds and installs: from a checkout whose program is there."""

    ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

    def dev_run(self, setup="", **environment):
        """What was printed when the task that it ends with is over; Pons still runs."""
        checkout = f"{self.directory}/checkout"
        os.makedirs(f"{checkout}/build/release")
        shutil.copy(f"{self.ROOT}/dev", checkout)
        program = f"{checkout}/build/release/pons"
        os.link(self.binary, program)
        self.write_file("checkout/build/release/build.ninja", "")
        os.makedirs(f"{checkout}/tools")
        for name, answer in (("dpkg-query", "echo installed"), ("cmake", "exit 0")):
            self.write_file(f"checkout/tools/{name}", f"#!/bin/sh\n{answer}\n")
            os.chmod(f"{checkout}/tools/{name}", 0o755)
        self.pons = DevRun(self, setup, program, checkout,
                           {"PATH": f"{checkout}/tools:{os.environ['PATH']}", **environment})
        self.addCleanup(self.pons.destroy)
        wait_for(lambda: "The next one is yours:" in self.pons.output, "the first task is over", step=0.1)
        return self.pons.output

    def test_it_ends_with_an_agent_at_work(self):
        output = self.dev_run()
        self.assertRegex(output, r"sandbox_provision")
        self.assertRegex(output, r"sandbox_execute  echo .Hello from.*\[exit code 0")
        self.assertIn("Done. I took a sandbox, ran one command in it", output)
        self.assertIn(f"build/release/pons run --state-dir {self.pons.state_dir}", output)
        listed = json.loads(self.pons.command("sessions", "ls", "--json").stdout)["sessions"]
        self.assertEqual([each["ended"] for each in listed], ["end_turn"])
        self.assertEqual(self.pons.stop(), 0)

    def test_its_agent_asks_the_provider_with_the_key_of_the_environment(self):
        provider = FakeProvider(self)
        provider.answers = [stream(*(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in (
            {"type": "message_start", "message": {"id": "m", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5",
                                                  "content": [], "usage": {"input_tokens": 1, "output_tokens": 1}}},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "A real model speaks."}},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 5}},
            {"type": "message_stop"})))]
        # What the variable alone brings about, but for where that provider is.
        setup = json.dumps({"providers": {"anthropic": {"kind": "anthropic", "key_env": "ANTHROPIC_API_KEY",
                                                        "url": provider.url.removesuffix("/v1")}}})
        output = self.dev_run(setup, ANTHROPIC_API_KEY="sk-of-a-test")
        self.assertIn("A real model speaks.", output)
        (request,) = provider.requests
        self.assertEqual(request["fields"]["x-api-key"], "sk-of-a-test")
        asked = json.loads(request["body"])
        self.assertEqual(asked["model"], "claude-sonnet-4-5")
        self.assertIn("Take a sandbox, look around in it", json.dumps(asked["messages"]))
        self.assertEqual(self.pons.stop(), 0)


class Hands(SessionTestCase):
    def test_calls_of_one_answer_run_side_by_side(self):
        """Each of the two ends only when the other has begun."""
        meet = "touch {0}; for i in $(seq 600); do [ -e {1} ] && exit 0; sleep 0.1; done; exit 1"
        self.start_agents(play("both", calls(provision()),
                               calls(execute(meet.format("a", "b")), execute(meet.format("b", "a"))),
                               text("Done.")))
        commands = results(self.finish(self.client.create("both at once")))
        self.assertEqual([bool(each.get("is_error")) for each in commands], [False, False])

    def test_a_session_has_as_many_sandboxes_as_it_wants(self):
        # The model would read the names; a script must know them: of the session, the question, and the call in its answer.
        first, second = (f"sx-{hashlib.sha256(f'pair:3:{call}'.encode()).hexdigest()[:24]}" for call in (0, 1))
        self.start_agents(play("two", calls(provision(), provision()),
                               calls(execute("echo mine > f", sandbox_id=first)),
                               calls(execute("cat f", sandbox_id=first), execute("cat f", sandbox_id=second)),
                               text("Two.")))
        events = self.finish(self.client.create("two sandboxes", id="pair"))
        self.assertEqual({each["sandbox"] for each in of(events, "sandbox.bound")}, {first, second})
        self.assertEqual({each["sandbox"] for each in of(events, "sandbox.released")}, {first, second})
        commands = results(events)
        self.assertIn("mine\n[exit code 0", commands[1]["text"])
        self.assertIn("[exit code 1", commands[2]["text"])

    def test_a_command_waits_for_the_sandbox_of_the_same_answer(self):
        self.start_agents(play("at once", calls(provision(), execute("echo ready")), text("Done.")))
        commands = results(self.finish(self.client.create("at once")))
        self.assertIn("ready\n[exit code 0", commands[0]["text"])

    def test_a_kept_sandbox_is_there_in_the_next_turn_and_goes_with_the_session(self):
        self.start_agents([
            *play("begin", calls(provision(keep=True)), calls(execute("echo kept > note")), text("Begun.")),
            *play("go on", calls(execute("cat note")), text("It is there."), said_before=3),
        ])
        session = self.client.create("begin")
        bound = one(self.finish(session), "sandbox.bound")
        self.assertTrue(bound["kept"])
        self.assertEqual(self.sandboxes_of(session), {bound["sandbox"]})
        self.client.say(session, "go on")
        events = self.finish(session)
        self.assertIn("kept\n[exit code 0", results(events)[-1]["text"])
        self.assertEqual(self.sandboxes_of(session), {bound["sandbox"]})
        self.client.ask("POST", f"/x/sessions/{session}/archive")
        one(self.client.events(session), "sandbox.released", sandbox=bound["sandbox"])
        self.assert_gone(session)
        self.assertEqual(self.run_json("replay", session)["divergences"], [])

    def test_the_sandbox_is_there_before_the_model_has_said_all_of_its_call(self):
        """The model writes its arguments so slowly that only an interrupt ends the answer."""
        self.start_agents(play("slowly", calls(provision(), chunk_bytes=1, chunk_ms=600_000)))
        session = self.client.create("slowly")
        wait_for(lambda: self.sandboxes_of(session), "a sandbox is made while the model still speaks")
        self.assertEqual(of(self.client.events(session), "model.answered"), [])
        self.client.interrupt(session)
        self.finish(session, "interrupted")
        self.assert_gone(session)

    def test_a_sandbox_that_comes_too_late_is_not_kept(self):
        """It is wanted, not wanted any more, and only then made."""
        self.start_agents([*play("slowly", text("I will.", **calls(provision(), chunk_ms=600_000))),
                           *play("at once", text("I will.", **calls(provision())))])
        for words, begun in (("slowly", "agent.delta"), ("at once", "tool.called")):
            with self.subTest(words):
                session = self.client.create()
                self.pause_role("warden")
                with self.client.stream(session) as stream:
                    self.client.say(session, words)
                    stream.until(begun)
                time.sleep(0.5)  # now it has asked for it
                self.client.interrupt(session)
                self.finish(session, "interrupted")
                self.resume_role("warden")
                time.sleep(0.5)  # now it is made
                self.assert_gone(session)

    def test_output_that_is_too_long_is_cut_for_the_model_and_kept_for_people(self):
        self.start_agents(play("much", calls(provision()), calls(execute("seq 1 20000; echo the end")), text("Much.")))
        session = self.client.create("print much")
        command = results(self.finish(session))[0]
        self.assertTrue(command["text"].startswith("1\n2\n"))
        self.assertIn("are left out here", command["text"])
        self.assertRegex(command["text"], r"the end\n\[exit code 0; .* of output, shortened\]$")
        self.assertLess(len(command["text"]), 30_000)
        whole = "".join(f"{i}\n" for i in range(1, 20001)) + "the end\n"
        self.assertEqual(self.client.output(session, command["full"]).decode(), whole)
        self.assertEqual(command["full_bytes"], len(whole))

    def test_ten_megabytes_of_output_do_no_harm(self):
        """What comes faster than it is read may be lost before it is kept; then the result says so."""
        size = 10_000_000
        self.start_agents(play("flood", calls(provision()),
                               calls(execute(f"head -c {size} /dev/zero | tr '\\0' 'x'")), text("Much.")))
        session = self.client.create("flood me")
        command = results(self.finish(session))[0]
        self.assertLess(len(command["text"]), 30_000)
        whole = self.client.output(session, command["full"])
        self.assertEqual(whole, b"x" * len(whole))
        self.assertEqual(len(whole) < size, "were not kept" in command["text"])

    def test_the_model_learns_that_a_command_was_taken_back(self):
        self.start_agents(play("try", calls(provision()),
                               calls(execute("echo first > f")),
                               calls(execute("echo second > f; exit 1", undo="on_failure")),
                               calls(execute("echo third > f", undo="always")),
                               calls(execute("cat f")),
                               text("Tried.")))
        commands = results(self.finish(self.client.create("try it")))
        self.assertNotIn("taken back", commands[0]["text"])
        self.assertIn("[exit code 1; ", commands[1]["text"])
        self.assertIn("changes to files were taken back", commands[1]["text"])
        self.assertIn("changes to files were taken back", commands[2]["text"])
        self.assertIn("first\n[exit code 0", commands[3]["text"])


class People(SessionTestCase):
    def test_an_agent_asks_a_person_and_waits_without_work(self):
        self.start_agents(play("deploy", text("One question.", **calls(ask_human("Which colour?"))),
                               text("Deployed.")))
        session = self.client.create("deploy it")
        self.client.wait(session, "waits_for_person")
        call = one(self.client.events(session), "tool.called")
        self.assertEqual(call["input"], {"question": "Which colour?"})
        self.client.answer(session, call["seq"], "blue")
        self.assertEqual(said(self.finish(session)), ["One question.", "Deployed."])

    def test_the_question_outlives_the_brain_and_is_answered_on_the_command_line(self):
        self.start_agents(play("deploy", calls(ask_human("Which colour?")), text("Deployed.")))
        asked = self.pons.command("run", "deploy it")
        self.assertEqual(asked.returncode, 3, asked.stdout + asked.stderr)
        self.assertIn("Which colour?", asked.stdout + asked.stderr)
        session = self.run_json("sessions", "ls")["sessions"][0]["id"]
        self.kill_role("brain")
        answered = self.pons.command("sessions", "answer", session, "green")
        self.assertEqual(answered.returncode, 0, answered.stderr)
        self.assertEqual(one(self.finish(session), "user.answer")["text"], "green")
        again = self.pons.command("sessions", "answer", session, "red")
        self.assertEqual(again.returncode, 1)
        self.assertIn("asked nothing", again.stderr)

    def test_of_two_questions_each_gets_its_own_answer(self):
        self.start_agents(play("deploy", calls(ask_human("Which colour?"), ask_human("Which size?")), text("Deployed.")))
        session = self.client.create("deploy it")
        self.client.wait(session, "waits_for_person")
        colour, size = (call["seq"] for call in of(self.client.events(session), "tool.called"))
        which = self.pons.command("sessions", "answer", session, "green")
        self.assertEqual(which.returncode, 1)
        self.assertIn(f"--call {colour}  Which colour?", which.stderr)
        self.assertIn(f"--call {size}  Which size?", which.stderr)
        for words in (("green", "--call", str(colour)), ("large",)):
            answered = self.pons.command("sessions", "answer", session, *words)
            self.assertEqual(answered.returncode, 0, answered.stderr)
        answers = {each["call"]: each["text"] for each in of(self.finish(session), "user.answer")}
        self.assertEqual(answers, {colour: "green", size: "large"})

    def test_a_question_at_the_end_of_a_long_log_is_answered(self):
        self.start_agents([*play("deploy", calls(ask_human("Which colour?")), text("Deployed."), said_before=300),
                           {"when": {}, **calls({"name": "no_such_tool"})}],
                          {"default": {"model": "stage", "calls_per_turn": 1_000}})
        session = self.client.create("deploy it")
        self.client.wait(session, "waits_for_person")
        self.assertGreater(self.client.show(session)["head"], 1_000, "more than any page holds")
        answered = self.pons.command("sessions", "answer", session, "green")
        self.assertEqual(answered.returncode, 0, answered.stderr)
        self.assertEqual(one(self.finish(session), "user.answer")["text"], "green")

    def test_an_interrupt_ends_the_turn_while_the_model_speaks(self):
        # To the model, what was said before and after an interrupt is one message.
        self.start_agents([*play("short", text("Yes.")),
                           *play("long", text("word " * 100, chunk_bytes=5, chunk_ms=5_000))])
        session = self.client.create("a long answer")
        self.client.wait_for_event(session, "model.asked")
        self.client.interrupt(session)
        events = self.finish(session, "interrupted")
        one(events, "model.failed", trouble="interrupted")
        self.client.say(session, "a short one")
        self.assertEqual(said(self.finish(session)), ["Yes."])

    def test_an_interrupt_ends_the_command_that_runs(self):
        self.start_agents([
            *play("wait", calls(provision(keep=True)), calls(execute("echo $$ > pid; exec sleep 1000"))),
            *play("look", calls(execute("kill -0 $(cat pid) 2>&1")), text("It is gone."), said_before=2),
        ])
        session = self.client.create("wait for ever")
        self.client.wait_for_event(session, "tool.called", name="sandbox_execute")
        bound = one(self.client.events(session), "sandbox.bound")["sandbox"]
        wait_for(lambda: self.warden.run(bound, "cat pid")[0].strip(), "the command runs")
        self.assertEqual(self.pons.command("sessions", "interrupt", session).returncode, 0)
        command = results(self.finish(session, "interrupted"))[0]
        self.assertEqual(command["outcome"], "interrupted")
        self.assertIn("It may have run", command["text"])
        wait_for(lambda: self.warden.run(bound, "kill -0 $(cat pid)")[1]["code"] != 0, "the command is ended")
        self.client.say(session, "look")
        self.assertTrue(results(self.finish(session))[-1]["is_error"])

    def test_an_interrupt_while_nothing_runs_changes_nothing(self):
        self.start_agents(play("hello", text("Hello.")))
        session = self.client.create("hello")
        self.finish(session)
        self.client.interrupt(session)
        self.assertEqual(ends(self.finish(session)), ["end_turn"])

    def test_what_is_said_meanwhile_is_heard_next(self):
        self.start_agents([
            {"when": {"user": "and blue", "turn": 2}, **text("Red and blue.")},
            *play("red", calls(provision()), calls(execute("while [ ! -e go ]; do sleep 0.1; done"))),
        ])
        session = self.client.create("red, please")
        bound = self.client.wait_for_event(session, "sandbox.bound")["sandbox"]
        self.client.wait_for_event(session, "tool.called", name="sandbox_execute")
        self.client.say(session, "and blue")
        self.warden.run(bound, "touch go")
        self.assertEqual(said(self.finish(session)), ["Red and blue."])

    def test_the_same_message_twice_is_one(self):
        self.start_agents(play("hello", text("Hello.")))
        session = self.client.create()
        first = self.client.say(session, "hello", dedupe="m1")
        self.finish(session)
        self.assertEqual(self.client.say(session, "hello", dedupe="m1"), first)
        self.assertEqual(len(of(self.finish(session), "user.message")), 1)


class Terminal(SessionTestCase):
    """Where a person sits: questions are answered as they come, and Ctrl-C is heard."""

    def open_terminal(self, *words):
        ours, theirs = pty.openpty()
        self.addCleanup(os.close, ours)
        process = subprocess.Popen([self.binary, *words, "--state-dir", self.pons.state_dir], stdin=theirs, stdout=theirs,
                                   stderr=theirs, env={"PATH": os.environ["PATH"], "NO_COLOR": "1"}, start_new_session=True)
        os.close(theirs)
        self.addCleanup(process.wait, PATIENCE_SECONDS)
        self.addCleanup(process.kill)
        os.set_blocking(ours, False)
        shown = bytearray()

        def read():
            with contextlib.suppress(BlockingIOError, OSError):
                while piece := os.read(ours, 65_536):
                    shown.extend(piece)
            return shown.decode(errors="replace")

        return process, ours, read

    def test_questions_are_answered_where_they_are_asked(self):
        self.start_agents(play("deploy", calls(ask_human("Which colour?")), calls(ask_human("Which size?")),
                               text("Deployed.")))
        process, keys, read = self.open_terminal("run", "deploy it")
        for question, answer in (("Which colour?", b"green\n"), ("Which size?", b"large\n")):
            wait_for(lambda: question in read() and read().rstrip(" ").endswith(">"), f"it asks {question}")
            os.write(keys, answer)
        self.assertEqual(process.wait(PATIENCE_SECONDS), 0, read())
        self.assertIn("Deployed.", read())
        session = self.run_json("sessions", "ls")["sessions"][0]["id"]
        self.assertEqual([each["text"] for each in of(self.client.events(session), "user.answer")], ["green", "large"])

    def test_the_first_interrupt_stops_the_agent_and_the_second_only_leaves(self):
        self.start_agents(play("long", text("word " * 100, chunk_bytes=5, chunk_ms=5_000)))
        process, _, read = self.open_terminal("run", "a long answer")
        wait_for(lambda: "word" in read(), "it speaks")
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(PATIENCE_SECONDS), 130, read())
        session = self.run_json("sessions", "ls")["sessions"][0]["id"]
        self.finish(session, "interrupted")

    def test_an_interrupt_is_heard_while_it_waits_for_an_answer(self):
        self.start_agents(play("deploy", calls(ask_human("Which colour?")), text("Deployed.")))
        process, _, read = self.open_terminal("run", "deploy it")
        wait_for(lambda: read().rstrip(" ").endswith(">"), "it asks")
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(PATIENCE_SECONDS), 130, read())

    def test_a_log_is_followed_to_the_end_of_the_turn(self):
        self.start_agents(play("deploy", calls(ask_human("Which colour?")), text("Deployed.")))
        session = self.client.create("deploy it")
        self.client.wait(session, "waits_for_person")
        process, _, read = self.open_terminal("sessions", "logs", "-f", session)
        wait_for(lambda: "Which colour?" in read(), "what has been said is shown")
        self.assertIsNone(process.poll())
        self.client.answer(session, one(self.client.events(session), "tool.called")["seq"], "blue")
        wait_for(lambda: "Deployed." in read(), "what is said now is shown")
        replayed = self.pons.command("sessions", "replay", session)
        self.assertEqual(replayed.returncode, 0, replayed.stdout + replayed.stderr)


class Limits(SessionTestCase):
    def test_an_agent_of_an_agent_has_a_share_of_its_budget(self):
        usage = {"usage": {"input": 100, "output": 100}}
        self.start_agents([
            *play("delegate", calls(spawn_agent("count the sheep", budget_percent=50), **usage), text("Seven.", **usage)),
            *play("sheep", calls(provision(), **usage), calls(execute("echo 7"), **usage), text("7 sheep", **usage)),
        ], {"default": {"model": "stage", "budget_tokens": 10_000}})
        session = self.client.create("delegate this")
        events = self.finish(session)
        self.assertIn("7 sheep", one(events, "tool.ended")["text"])
        child = next(each for each in self.client.ask("GET", "/x/sessions")["sessions"] if each.get("parent") == session)
        created = one(self.client.events(child["id"]), "session.created")
        self.assertEqual(created["agent"]["budget_tokens"], (10_000 - 200) // 2)
        self.assertEqual(created["agent"]["depth"], 1)
        used = self.client.show(session)["usage"]
        self.assertEqual(used["input_tokens"] + used["output_tokens"], 5 * 200, "what the other used is counted, too")
        self.assert_gone(child["id"])

    def test_an_agent_of_an_agent_stops_with_it(self):
        self.start_agents([
            *play("delegate", calls(spawn_agent("sleep")), text("Never.")),
            *play("sleep", calls(provision()), calls(execute("sleep 1000")), text("Never.")),
        ])
        session = self.client.create("delegate this")

        def child_at_work():
            for each in self.client.ask("GET", "/x/sessions")["sessions"]:
                if each.get("parent") == session and of(self.client.events(each["id"]), "sandbox.bound"):
                    return each["id"]
            return None

        child = wait_for(child_at_work, "the other agent is at work")
        self.client.interrupt(session)
        self.finish(session, "interrupted")
        self.finish(child, "interrupted")
        self.assert_gone(child)

    def test_a_conversation_that_fills_the_window_is_summarised_and_goes_on(self):
        full = {"usage": {"input": 900, "output": 10}}
        self.start_agents([
            {"when": {"user": "about to exceed"}, **text("SUMMARY: the word is plover.")},
            *play("remember", text("I will.", **full)),
            *play("what is the word", text("It is in your summary."), text("It is further up.")),
        ], {"default": {"model": "stage", "context_tokens": 1_000}})
        session = self.client.create("remember plover")
        self.finish(session)
        self.client.say(session, "what is the word?")
        events = self.finish(session)
        one(events, "context.summarised")
        self.assertEqual(len(of(events, "model.asked", purpose="summary")), 1)
        self.assertEqual(len(of(events, "user.message")), 2, "what was said is kept")
        self.assertEqual(said(events), ["I will.", "It is in your summary."])

    def test_a_budget_ends_the_turn(self):
        usage = {"usage": {"input": 400, "output": 100}}
        self.start_agents(play("spend", *[calls(provision(), **usage)] * 20),
                          {"default": {"model": "stage", "budget_tokens": 1_400}})
        session = self.client.create("spend all")
        events = self.finish(session, "budget_reached")
        self.assertEqual(len(of(events, "model.answered")), 3)
        self.assert_gone(session)
        self.client.say(session, "more")
        self.assertEqual(len(of(self.finish(session, "budget_reached"), "model.answered")), 3)

    def test_a_model_is_asked_so_often_in_a_turn_and_no_more(self):
        self.start_agents([{"when": {}, **calls(execute("true"))}],
                          {"default": {"model": "stage", "calls_per_turn": 7}})
        events = self.finish(self.client.create("for ever"), "call_limit")
        self.assertEqual(len(of(events, "model.asked")), 7)

    def test_a_command_that_takes_too_long_is_ended(self):
        self.start_agents(play("sleep", calls(provision()),
                               calls(execute("echo begun; sleep 1000", timeout_seconds=1)), text("It took too long.")))
        command = results(self.finish(self.client.create("sleep")))[0]
        self.assertTrue(command["is_error"])
        self.assertIn("begun\n[timed out, and was ended", command["text"])


class Records(SessionTestCase):
    ANSWERS = [
        *play("work", calls(provision()), calls(execute("echo one")), calls(execute("nproc; id -un")), text("Worked.")),
        *play("again", text("Once more."), said_before=2),
        *play("hello", text("Hello.")),
    ]

    def test_a_copy_goes_on_from_a_point_without_what_came_later(self):
        self.start_agents(self.ANSWERS)
        session = self.client.create("work")
        events = self.finish(session)
        at = results(events)[0]["seq"]
        done = self.pons.command("sessions", "fork", session, "--at", str(at))
        self.assertEqual(done.returncode, 0, done.stderr)
        copy = done.stdout.strip()
        copied = self.client.events(copy)
        self.assertEqual(copied[:at], events[:at])
        self.assertEqual(copied[at]["type"], "session.forked")
        self.assertEqual((copied[at]["from"], copied[at]["at"]), (session, at))
        self.client.say(copy, "again")
        self.assertEqual(said(self.finish(copy)), ["Once more."])
        self.assertEqual(self.client.events(session), events, "the original is as it was")

    def test_a_copy_has_the_files_of_its_point_and_leaves_the_originals_alone(self):
        look = (calls(execute("cat f; echo copy > f")), text("Seen."))
        self.start_agents([
            *play("work", calls(provision(keep=True)), calls(execute("echo one > f")), calls(execute("echo two > f")),
                  text("Worked.")),
            *play("look", *look, said_before=2),
            *play("look", *look, said_before=4),
        ], agents={"default": {"model": "stage", "checkpoints": True}})
        session = self.client.create("work")
        events = self.finish(session)
        for at, content in ((results(events)[0]["seq"], "one\n"), (events[-1]["seq"], "two\n")):
            copy = self.client.ask("POST", f"/x/sessions/{session}/fork", {"at": at})["id"]
            self.client.say(copy, "look")
            seen = results(self.finish(copy))[-1]["text"]
            self.assertIn(content + "[exit code 0", seen, f"at {at}")
        self.assertEqual(len(self.warden.names()), 3, "the original and two copies, all of them kept")

    def test_a_copy_does_without_a_sandbox_whose_files_of_then_are_gone(self):
        self.start_agents([
            *play("work", calls(provision(keep=True)), calls(execute("echo one > f")), calls(execute("echo two > f")),
                  text("Worked.")),
            *play("look", calls(execute("cat f")), text("Nothing there."), said_before=2),
        ])
        session = self.client.create("work")
        at = results(self.finish(session))[0]["seq"]
        copy = self.client.ask("POST", f"/x/sessions/{session}/fork", {"at": at})["id"]
        self.client.say(copy, "look")
        self.assertIn("There is no sandbox", results(self.finish(copy))[-1]["text"])

    def test_an_archived_session_is_closed_and_can_be_read(self):
        self.start_agents(self.ANSWERS)
        session = self.client.create("hello")
        events = self.finish(session)
        self.assertEqual(self.pons.command("sessions", "archive", session).returncode, 0)
        self.assertIsNotNone(self.client.show(session)["archived_unix_ms"])
        *before, end = self.client.events(session)
        self.assertEqual((before, end["type"]), (events, "session.archived"))
        refused = self.pons.command("run", "--session", session, "hello")
        self.assertEqual(refused.returncode, 1)
        self.assertIn("archived", refused.stderr)
        self.assertEqual(self.run_json("sessions", "ls")["sessions"], [])
        self.assertEqual([each["id"] for each in self.run_json("sessions", "ls", "-a")["sessions"]], [session])

    def test_lists_are_the_callers_own_newest_first_and_in_pages(self):
        self.start_agents(self.ANSWERS)
        self.run_json("project", "create", "web")
        theirs = self.client_of(project="web")
        other = theirs.create("hello", title="theirs")
        made = [self.client.create("hello", title=f"number {i}") for i in range(5)]
        for session in made:
            self.finish(session)
        listed, before = [], ""
        while page := self.client.ask("GET", f"/x/sessions?limit=2&before={before}")["sessions"]:
            listed += [each["id"] for each in page]
            before = listed[-1]
        self.assertEqual(sorted(listed), sorted(made))
        shown = {each["id"]: each for each in self.client.ask("GET", "/x/sessions")["sessions"]}
        self.assertEqual({shown[each]["title"] for each in made}, {f"number {i}" for i in range(5)})
        self.assertEqual([each["id"] for each in theirs.ask("GET", "/x/sessions")["sessions"]], [other])

    def test_sessions_of_another_project_do_not_exist(self):
        self.start_agents(self.ANSWERS)
        self.run_json("project", "create", "web")
        theirs = self.client_of(project="web")
        session = self.client.create("work")
        full = self.finish(session)
        self.assertTrue(full)
        for method, rest, body in (
            ("GET", "", None), ("GET", "/events", None), ("GET", "/stream", None), ("POST", "/fork", b"{}"),
            ("POST", "/archive", None), ("GET", "/outputs/" + "0" * 64, None),
            ("POST", "/events", b'{"events": [{"type": "user.interrupt"}]}'),
        ):
            with self.subTest(method=method, rest=rest):
                status, answer = theirs.raw(method, f"/x/sessions/{session}{rest}", body)
                self.assertEqual(status, 404, answer)
        self.assertEqual(self.client.events(session), full)
        limited = self.client_of(scopes=["sandboxes"])
        self.assertEqual(limited.raw("GET", "/x/sessions")[0], 403)
        self.assertEqual(self.client.raw("POST", f"/x/sessions/{session}/replay")[0], 403)

    def test_a_hundred_recorded_sessions_are_decided_today_as_they_were(self):
        self.start_agents([
            *play("work", calls(provision()), calls(execute("echo $RANDOM"), execute("exit 1")), text("Worked.")),
            *play("hello", text("Hello.")),
            *play("ask", calls(ask_human("really?")), text("Good.")),
            *play("cut", {**text("And so on"), "stop": "max_tokens"}),
            *play("odd", calls({"name": "no_such_tool"}, execute("x", nonsense=1)), text("Odd.")),
            {"when": {"user": "fail"}, "fail": {"kind": "invalid_request", "message": "no"}},
        ])
        words = ("work", "hello", "ask", "cut", "odd", "fail", "work, then stop", "hello", "hello", "hello")
        made = [(word, self.client.create(word)) for word in words * 10]
        for word, session in made:
            if word == "ask":
                self.client.wait(session, "waits_for_person")
                self.client.answer(session, one(self.client.events(session), "tool.called")["seq"], "yes")
            if "stop" in word:
                self.client.interrupt(session)
            self.client.wait(session)
        for word, session in made:
            done = self.pons.command("replay", session, "--json")
            answer = json.loads(done.stdout)
            self.assertEqual((done.returncode, answer["divergences"]), (0, []), (word, done.stderr))
            self.assertEqual(answer["events"], self.client.show(session)["head"])

    def test_a_log_that_this_version_would_not_have_written_is_shown_with_the_difference(self):
        self.start_agents(self.ANSWERS)
        session = self.client.create("hello")
        message = one(self.finish(session), "agent.message")
        with contextlib.closing(sqlite3.connect(f"{self.pons.state_dir}/brain/pons.db", timeout=30)) as store, store:
            changed = store.execute("UPDATE session_events SET body = replace(body, 'Hello.', 'Good day.') "
                                    "WHERE session_id = ? AND seq = ?", (session, message["seq"]))
            self.assertEqual(changed.rowcount, 1)
        done = self.pons.command("replay", session)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertRegex(done.stdout, rf"DIFF +{message['seq']}\n +expected .*Hello\..*\n +found .*Good day\.")
        self.assertIn("1 divergences", done.stdout)
        answer = json.loads(self.pons.command("replay", session, "--json").stdout)
        self.assertEqual([each["seq"] for each in answer["divergences"]], [message["seq"]])

    def test_a_program_that_decides_otherwise_is_found_out(self):
        setup = config([*play("cut", text("It is", stop="max_tokens")), *play("hello", text("Hello."))])
        self.use(self.start(setup))
        cut, whole = self.client.create("cut"), self.client.create("hello")
        end = one(self.finish(cut, "answer_cut_off"), "turn.ended")
        self.finish(whole)
        for session in (cut, whole):
            done = self.pons.command("replay", session)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(self.pons.stop(), 0)
        other = self.start(setup, binary=self.copy_program(f"{WEAKENED_DIR}/pons_with_other_decide"))
        done = other.command("replay", cut)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertRegex(done.stdout, rf"DIFF +{end['seq']}\n +expected turn.ended .*end_turn.*\n +found +.*answer_cut_off")
        done = other.command("replay", whole)
        self.assertEqual(done.returncode, 0, "the rule plays no part in it: " + done.stdout)

    def test_commands_are_run_again_at_another_warden(self):
        self.start_agents([
            *play("work", calls(provision()), calls(execute("echo one > f")), calls(execute("ls", nonsense=1)),
                  calls(execute("cat f; exit 4")), text("Done.")),
        ])
        session = self.client.create("work")
        events = self.finish(session)
        other = self.start_beside("other")
        elsewhere = f"{other.state_dir}/run/warden.sock"
        self.pause_role("warden")  # nothing of it happens here
        done = self.pons.command("replay", session, "--through", elsewhere, "--json")
        self.resume_role("warden")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        answer = json.loads(done.stdout)
        self.assertEqual([each["command"] for each in answer["commands"]], ["echo one > f", "cat f; exit 4"])
        self.assertEqual([each["same"] for each in answer["commands"]], [True, True], answer)
        refused = results(events)[1]
        self.assertEqual([(each["seq"], each["tool"]) for each in answer["skipped"]],
                         [(refused["call"], "sandbox_execute")])
        self.assertEqual(Warden(other).names(), set(), "nothing is left there")
        nobody = self.pons.command("replay", session, "--through", "/nowhere/warden.sock")
        self.assertEqual(nobody.returncode, 1)
        self.assertIn("/nowhere/warden.sock", nobody.stderr)

    def test_commands_are_run_again_elsewhere_and_compared(self):
        self.start_agents([
            *play("same", calls(provision()), calls(execute("echo one > f")), calls(execute("cat f; exit 4")), text("Done.")),
            *play("differs", calls(provision()), calls(execute("cat /proc/sys/kernel/random/uuid")), text("Done.")),
        ])
        same, differs = self.client.create("same"), self.client.create("differs")
        self.finish(same), self.finish(differs)
        done = self.pons.command("replay", same, "--through", "host", "--json")
        answer = json.loads(done.stdout)
        self.assertEqual((done.returncode, answer["different"], len(answer["commands"])), (0, 0, 2), answer)
        done = self.pons.command("replay", differs, "--through", "host")
        self.assertEqual(done.returncode, 1)
        self.assertIn("DIFF", done.stdout)
        self.assertIn("1 of them different", done.stdout)
        self.assertEqual(self.warden.names(), set())

    def test_outputs_are_compared_to_their_middle_and_told_apart_by_line_exit_code_and_time(self):
        self.start_agents(play("work", calls(provision()),
                               calls(execute("seq 1 20000; cat /proc/sys/kernel/random/uuid; seq 1 20000")),
                               calls(execute("seq 1 30000")), calls(execute("echo one; exit 4")), text("Done.")))
        session = self.client.create("work")
        changed, _, last = results(self.finish(session))
        with contextlib.closing(sqlite3.connect(f"{self.pons.state_dir}/brain/pons.db", timeout=30)) as store, store:
            store.execute("UPDATE session_events SET body = replace(body, '[exit code 4', '[exit code 3') "
                          "WHERE session_id = ? AND seq = ?", (session, last["seq"]))
        done = self.pons.command("replay", session, "--through", "host", "--json")
        self.assertEqual(done.returncode, 1, done.stderr)
        first, second, third = json.loads(done.stdout)["commands"]
        self.assertEqual([each["same"] for each in (first, second, third)], [False, True, False])
        self.assertEqual(first["then"].splitlines()[:-1], first["now"].splitlines()[:-1], "what the model was shown")
        self.assertNotEqual(first["then_sha256"], first["now_sha256"])
        uuid = "[0-9a-f-]{36}"
        self.assertRegex(first["diff"], rf"^@@ -19998,7 \+19998,7 @@\n 19998\n 19999\n 20000\n-{uuid}\n\+{uuid}\n 1\n 2\n 3\n$")
        self.assertIn(first["diff"].splitlines()[4][1:], self.client.output(session, changed["full"]).decode())
        self.assertEqual((third["then_exit_code"], third["now_exit_code"]), (3, 4))
        self.assertNotIn("diff", third)
        for each in (first, second, third):
            self.assertIsInstance(each["then_ms"], int)
            self.assertIsInstance(each["now_ms"], int)
        shown = self.pons.command("replay", session, "--through", "host").stdout
        self.assertRegex(shown, rf"DIFF .*\n  then: exit code 0.*, \d+ ms\n  now:  exit code 0.*, \d+ ms\n  @@ .*\n(   \d+\n){{3}}  -{uuid}\n  \+{uuid}\n")
        self.assertRegex(shown, r"then: exit code 3, \d+ ms\n  now:  exit code 4, \d+ ms\n3 commands")
        self.assertLess(len(shown), 2_000, "not the whole texts")

    def test_what_was_interrupted_is_skipped_and_what_cannot_be_run_is_told(self):
        self.start_agents([
            *play("stop", calls(provision()), calls(execute("touch f; sleep 600")), text("Done.")),
            *play("work", calls(provision()), calls(execute("echo one")), calls(execute("echo two")), text("Done.")),
        ])
        stopped, worked = self.client.create("stop"), self.client.create("work")
        call = self.client.wait_for_event(stopped, "tool.called", name="sandbox_execute")
        self.client.interrupt(stopped)
        self.finish(stopped, "interrupted"), self.finish(worked)
        done = self.pons.command("replay", stopped, "--through", "host", "--json")
        answer = json.loads(done.stdout)
        self.assertEqual((done.returncode, answer["commands"]), (0, []), answer)
        (skipped,) = answer["skipped"]
        self.assertEqual(skipped["seq"], call["seq"])
        self.assertIn("interrupted", skipped["why"])
        done = self.pons.command("replay", worked, "--through", "nowhere-to-be-found", "--json")
        answer = json.loads(done.stdout)
        self.assertEqual((done.returncode, answer["failed"], answer["different"]), (1, 2, 0), answer)
        for each in answer["commands"]:
            self.assertIn("nowhere-to-be-found", each["error"])
        done = self.pons.command("replay", worked, "--through", "nowhere-to-be-found")
        self.assertRegex(done.stdout, r"FAIL .*echo one\n.*\n  it could not be run: .*nowhere-to-be-found")

    def test_a_comparison_that_a_person_interrupts_leaves_no_sandbox(self):
        self.start_agents(play("slow", calls(provision()), calls(execute("echo one")), calls(execute("sleep 5")), text("Done.")))
        session = self.client.create("slow")
        slept = results(self.finish(session))[1]["call"]
        replay = subprocess.Popen(
            [self.pons.binary, "replay", session, "--through", "host", "--json", "--state-dir", self.pons.state_dir],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, cwd=self.directory)
        self.addCleanup(replay.kill)

        def sleeping():
            listed = json.loads(self.warden.ask("GET", "/sandboxes"))["sandboxes"]
            return next((each for each in listed if each["id"].startswith("replay-") and each.get("jobs_running")), None)

        box = wait_for(sleeping, "a command is run again", step=0.01)
        self.assertEqual(box["limits"]["idle_max_ms"], 600_000, "where the program is killed, it ends by itself")
        # The first command may still be the one that runs.
        time.sleep(1)
        replay.send_signal(signal.SIGINT)
        answer = json.loads(replay.communicate(timeout=PATIENCE_SECONDS)[0])
        self.assertEqual((replay.returncode, answer["interrupted"]), (130, True), answer)
        self.assertEqual([each["command"] for each in answer["commands"]], ["echo one"])
        self.assertEqual([each["seq"] for each in answer["skipped"]], [slept])
        self.assertEqual(self.warden.names(), set())
