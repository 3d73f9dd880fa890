"""The Managed Agents API, driven by the official SDK, unmodified."""

import hashlib
import json
import os
import shutil
import subprocess

from model_world import HERE, node
from session_world import SessionTestCase, calls, config, play, text
from pons_fixture import PonsTestCase, wait_for
from warden_client import end_orderly

SUITE = os.path.join(HERE, "managed_agents")


def tool(name, **input):
    return {"name": name, "input": input}


def bash(command, **more):
    return tool("bash", command=command, **more)


# Of which memory must not hold a word.
PASSWORD = "zx8Q2vLm4Tn6Rk1Wp9Yc3Hd7"


def remember(path, content):
    return tool("memory_write", path=path, content=content)


def task(agent, words):
    return tool("spawn_agent", agent=agent, task=words)


def judge(seen, result, why):
    return {"when": {"user": seen, "system": "You judge work"},
            "text": json.dumps({"result": result, "explanation": why})}


# More than a dollar of the model that the answers are said to come from.
SPENT = {"input": 1_000, "output": 100_000}

ANSWERS = [
    *play("remember the colour", calls(remember("/colour.md", "the colour is zinnober")),
          calls(tool("memory_read", path="/colour.md")), text("Remembered.")),
    *play("remember the password", calls(remember("/password.md", "it is " + PASSWORD)), text("Not remembered.")),
    *play("fetch and remember", calls(bash("echo the colour is zinnober")),
          calls(remember("/from-outside.md", "the colour is zinnober")), text("Remembered.")),
    *play("look it up", calls(tool("memory_read", path="/from-outside.md")),
          calls(remember("/after/reading.md", "I read it")), text("Seen."), said_before=1),
    {"when": {"user": "which colour", "system": "zinnober"}, **text("It is zinnober.")},
    {"when": {"user": "which colour"}, **text("I do not know.")},
    *play("use the machine",
          text("I will look.", **calls(bash("mkdir -p /tmp/work && cd /tmp/work && pwd"))),
          calls(tool("write", file_path="/tmp/work/notes.txt", content="one two\nthree\n")),
          calls(tool("read", file_path="/tmp/work/notes.txt")),
          calls(tool("edit", file_path="/tmp/work/notes.txt", old_string="one two", new_string="one 2")),
          calls(bash("cat notes.txt")),
          calls(tool("glob", pattern="**/*.txt", path="/tmp/work")),
          calls(tool("grep", pattern="^one", path="/tmp/work")),
          text("The machine works.")),
    *play("look again", calls(bash("pwd; cat notes.txt")), text("Still there."), said_before=8),
    *play("dangerous", calls(bash("echo denied"), bash("echo allowed")), text("One was denied.")),
    *play("weather", calls(tool("get_weather", city="Paris")), text("It is sunny.")),
    *play("slowly", text("one two three four five six seven eight nine ten", chunk_bytes=6, chunk_ms=30)),
    *play("for ever", calls(bash("sleep 1000")), text("never said")),
    *play("look around once more", calls(bash("ls /workspace")), text("Seen."), said_before=2),
    *play("ook around", calls(bash("ls /")), text("Seen.")),
    *play("what do you know", {"when": {"user": "the door is open"}, "text": "I was told."}),
    *play("spend it", calls(bash("true"), usage=SPENT), text("All spent.")),
    *play("write a note", calls(tool("write", file_path="note.txt", content="from the worker\n")),
          calls(bash("cat note.txt")), text("The note is written.")),
    # Agents of agents.
    *play("delegate the listing", calls(bash("echo shared > /tmp/of-both")),
          calls(task("helper", "list the listing please")), text("The helper did it.")),
    *play("list the listing", calls(bash("cat /tmp/of-both")), text("The helper has seen it.")),
    *play("delegate with care", calls(task("helper", "act carefully")), text("It was done with care.")),
    *play("act carefully", calls(bash("echo careful")), calls(tool("get_weather", city="Paris")),
          text("Done with care, sunny.")),
    *play("delegate endlessly", calls(task("helper", "work endlessly")), text("It was stopped.")),
    *play("work endlessly", calls(bash("sleep 1000")), text("never said")),
    *play("ask around", calls(task("advisor", "give advice"), tool("spawn_agent", task="give advice", system="a sage")),
          text("Asked.")),
    *play("give advice", text("Think twice.")),
    # Work that is judged; the judge reads the record of all of it.
    judge("A blue door", "satisfied", "it is blue"),
    judge("A red door", "needs_revision", "it is red"),
    {"when": {"user": "not be judged again"}, "text": "It stays grey."},
    {"when": {"user": "it is red", "turn": 1}, "text": "A blue door."},
    judge("A grey door", "needs_revision", "it is grey"),
    {"when": {"user": "it is grey"}, "text": "A grey door, again."},
    *play("paint a door", text("A red door.")),
    *play("never good", text("A grey door.")),
    *play("fetch a page", calls(tool("web_fetch", url="http://elsewhere.example.net/")), text("It was refused.")),
    *play("show uploads", calls(bash("tail -n +1 /mnt/session/uploads/*")), text("Shown.")),
    *play("show uploads again", calls(bash("cat /mnt/session/uploads/two.csv")), text("Shown."), said_before=2),
    *play("show uploads at last", calls(bash("tail -n +1 /mnt/session/uploads/*")), text("Shown."), said_before=4),
    *play("hash the data", calls(bash("sha256sum < /data/deep/er/data.bin")), text("Hashed.")),
    *play("change the data", calls(bash("echo mine > /data/deep/er/data.bin && cat /data/deep/er/data.bin")),
          text("Changed."), said_before=2),
    *play("read the data", calls(bash("cat /data/deep/er/data.bin")), text("Read."), said_before=4),
    *play("hash the new data", calls(bash("sha256sum < /data/deep/er/data.bin")), text("Hashed."), said_before=6),
    *play("share the data", calls(task("helper", "hash what is shared")), text("The helper did it.")),
    *play("hash what is shared", calls(bash("sha256sum < /data/deep/er/data.bin")), text("The helper has hashed it.")),
    *play("think hard", text("Thought.", thinking="one, two, three, four, five", chunk_bytes=5, chunk_ms=30)),
    *play("something bad", text("", stop="refusal")),
    *play("hello again", text("Hello again."), said_before=1),
    *play("hello", text("Hello.")),
]

# Models that fail, each in its own way.
ILL = {"too-many": "rate_limit", "too-busy": "overloaded", "broken": "upstream", "hopeless": "invalid_request"}


def with_ill_models(settings):
    settings = json.loads(settings)
    for name, kind in ILL.items():
        settings["providers"][name] = {"kind": "scripted", "answers": [{"fail": {"kind": kind}}]}
        settings["models"][name] = {"try": [f"{name}/claude-sonnet-4-5"]}
    return json.dumps(settings)


class Managed(PonsTestCase):
    def setUp(self):
        super().setUp()
        self.pons = self.start(with_ill_models(config(ANSWERS)))
        self.addCleanup(end_orderly, self.pons)
        self.key = self.make_key("mine")
        self.pons.command("project", "create", "other")
        self.other_key = self.make_key("theirs", "--project", "other")
        self.keep_secret("MEMORY_TOKEN", PASSWORD)

    def keep_secret(self, name, value):
        done = subprocess.run([self.pons.binary, "vault", "set", name, "--bind", "host=api.example.com", "--state-dir",
                               self.pons.state_dir], input=value, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)

    def make_key(self, name, *more):
        done = self.pons.command("key", "create", name, "--json", *more)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)["key"]

    def run_suite(self, name):
        done = subprocess.run(
            [node(), "--test", f"{name}.test.mjs"],
            cwd=SUITE,
            env={"PATH": os.environ["PATH"], "HOME": self.directory, "PONS_URL": "http://%s:%d" % self.pons.address,
                 "PONS_KEY": self.key, "PONS_OTHER_KEY": self.other_key},
            capture_output=True,
            text=True,
            timeout=240,
        )
        self.assertEqual(done.returncode, 0, done.stdout[-20_000:] + done.stderr[-4_000:])
        self.assertNotIn("\n# skipped 1", done.stdout)

    def test_agents(self):
        self.run_suite("agents")

    def test_events(self):
        self.run_suite("events")

    def test_work(self):
        self.run_suite("work")

    def test_threads(self):
        self.run_suite("threads")

    def test_outcomes(self):
        self.run_suite("outcomes")

    def test_memory(self):
        self.run_suite("memory")

    def test_remembering(self):
        self.run_suite("remembering")

    def test_files(self):
        self.run_suite("files")

    def test_sources(self):
        self.run_suite("sources")

    def test_resources(self):
        self.run_suite("resources")

    def test_files_on_the_command_line(self):
        path, back = os.path.join(self.directory, "a b.bin"), os.path.join(self.directory, "back.bin")
        data = os.urandom(20 << 20)
        with open(path, "wb") as file:
            file.write(data)
        put = self.pons.command("files", "put", path, "--type", "text/x-own", "--expires", "2h")
        self.assertEqual(put.returncode, 0, put.stderr)
        self.assertIn("sending it", put.stderr)
        id = put.stdout.strip()
        listed = self.pons.command("files", "ls", "--json")
        [shown] = json.loads(listed.stdout)["data"]
        self.assertEqual([shown[key] for key in ("id", "filename", "mime_type", "size_bytes")],
                         [id, "a b.bin", "text/x-own", len(data)])
        self.assertIsNotNone(shown["expires_at"])
        got = self.pons.command("files", "get", id, back)
        self.assertEqual(got.returncode, 0, got.stderr)
        with open(back, "rb") as file:
            self.assertEqual(hashlib.sha256(file.read()).digest(), hashlib.sha256(data).digest())
        self.assertEqual(self.pons.command("files", "get", id, back).returncode, 1, "it is there already")
        self.assertEqual(self.pons.command("files", "get", id, "--project", "other", back + "2").returncode, 1)
        self.assertEqual(sorted(os.listdir(self.directory)).count("back.bin2"), 0)
        self.assertEqual(self.pons.command("files", "rm", id).returncode, 0)
        self.assertEqual(json.loads(self.pons.command("files", "ls", "--json").stdout)["data"], [])
        piped = subprocess.run([self.pons.binary, "files", "put", "-", "--name", "piped", "--state-dir", self.pons.state_dir],
                               input=data[:1000], capture_output=True, timeout=60)
        self.assertEqual(piped.returncode, 0, piped.stderr)
        out = subprocess.run([self.pons.binary, "files", "get", piped.stdout.decode().strip(), "--state-dir",
                              self.pons.state_dir], capture_output=True, timeout=60)
        self.assertEqual(out.stdout, data[:1000])

    def test_deployments(self):
        self.run_suite("deployments")

    def test_environments(self):
        self.run_suite("environments")

    def test_sessions(self):
        self.run_suite("sessions")

    def test_ends(self):
        self.run_suite("ends")

    def test_helpers(self):
        self.run_suite("helpers")


class Furniture(SessionTestCase):
    """Files of a session, and what becomes of them when roles and machines die."""

    PATH = "/data/deep/er/data.bin"

    def upload(self, data):
        form = b"--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"data.bin\"\r\n\r\n" + data + b"\r\n--b--\r\n"
        status, answer = self.client.raw("POST", "/v1/files", form, **{"Content-Type": "multipart/form-data; boundary=b"})
        self.assertEqual(status, 200, answer)
        return json.loads(answer)["id"]

    def make_session(self, *resources):
        agent = self.client.ask("POST", "/v1/agents", {
            "name": "worker", "model": "stage", "tools": [{"type": "agent_toolset_20260401"}]})
        environment = self.client.ask("POST", "/v1/environments", {
            "name": "plain", "config": {"type": "cloud", "networking": {"type": "limited"}}})
        return self.client.ask("POST", "/v1/sessions", {
            "agent": agent["id"], "environment_id": environment["id"], "resources": list(resources)})["id"]

    def results(self, session):
        events = self.client.ask("GET", f"/v1/sessions/{session}/events?limit=1000")["data"]
        return [event["content"][0]["text"] for event in events if event["type"] == "agent.tool_result"]

    def turn(self, session, words):
        """What the tool came to."""
        before = len(self.results(session))
        self.client.ask("POST", f"/v1/sessions/{session}/events",
                        {"events": [{"type": "user.message", "content": [{"type": "text", "text": words}]}]})
        wait_for(lambda: len(self.results(session)) > before, "the tool has ended")
        wait_for(lambda: self.client.ask("GET", f"/v1/sessions/{session}")["status"] == "idle", "it rests")
        return self.results(session)[-1]

    def test_a_file_is_there_to_its_last_byte_also_in_a_machine_that_is_made_again(self):
        self.start_agents(ANSWERS)
        data = os.urandom(5_000_001)
        file = self.upload(data)
        session = self.make_session({"type": "file", "file_id": file, "mount_path": self.PATH})
        digest = hashlib.sha256(data).hexdigest()
        self.assertIn(digest, self.turn(session, "hash the data"))
        self.assertIn("mine", self.turn(session, "change the data"))
        # What the agent has made of it stays, whoever serves the session.
        self.kill_role("brain")
        self.assertIn("mine", self.turn(session, "read the data"))
        machine, = self.sandboxes_of(session)
        self.warden.destroy(machine)
        wait_for(lambda: machine not in self.warden.names(), "the machine is gone")
        self.assertIn(digest, self.turn(session, "hash the new data"))


class Quickstart(PonsTestCase):
    def test_it_runs_as_it_stands_and_without_any_provider(self):
        pons = self.start()
        self.addCleanup(end_orderly, pons)
        example = os.path.join(self.directory, "quickstart")
        shutil.copytree(os.path.join(HERE, "..", "..", "examples", "managed-agents"), example,
                        ignore=shutil.ignore_patterns("node_modules"))
        os.symlink(os.path.join(SUITE, "node_modules"), os.path.join(example, "node_modules"))
        environment = {"PATH": os.environ["PATH"], "HOME": self.directory, "ANTHROPIC_API_KEY": pons.token,
                       "ANTHROPIC_BASE_URL": "http://%s:%d" % pons.address}
        done = subprocess.run([node(), "index.mjs"], cwd=example, env=environment, capture_output=True, text=True,
                              timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("uses bash", done.stdout)
        self.assertIn("a machine of my own", done.stdout)
        self.assertIn("agent: Done.", done.stdout)
        self.assertIn("rests: end_turn", done.stdout)
