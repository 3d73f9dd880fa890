"""The Managed Agents API, driven by the official SDK, unmodified."""

import json
import os
import shutil
import subprocess

from model_world import HERE, node
from session_world import calls, config, play, text
from pons_fixture import PonsTestCase
from warden_client import end_orderly

SUITE = os.path.join(HERE, "managed_agents")


def tool(name, **input):
    return {"name": name, "input": input}


def bash(command, **more):
    return tool("bash", command=command, **more)


def task(agent, words):
    return tool("spawn_agent", agent=agent, task=words)


def judge(seen, result, why):
    return {"when": {"user": seen, "system": "You judge work"},
            "text": json.dumps({"result": result, "explanation": why})}


# More than a dollar of the model that the answers are said to come from.
SPENT = {"input": 1_000, "output": 100_000}

ANSWERS = [
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
    *play("ook around", calls(bash("ls /")), text("Seen.")),
    *play("what do you know", {"when": {"user": "the door is open"}, "text": "I was told."}),
    *play("spend it", calls(bash("true"), usage=SPENT), text("All spent.")),
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
    *play("show uploads", calls(bash("tail -n +1 /mnt/session/uploads/*")), text("Shown.")),
    *play("show uploads again", calls(bash("cat /mnt/session/uploads/two.csv")), text("Shown."), said_before=2),
    *play("show uploads at last", calls(bash("tail -n +1 /mnt/session/uploads/*")), text("Shown."), said_before=4),
    *play("leave something",
          calls(bash("cd /mnt/session/outputs && echo '# Done' > report.md && mkdir -p more && echo 1 > more/raw.bin")),
          text("Left.")),
    *play("say hello", text("Hello."), said_before=2),
    *play("hello", text("Hello.")),
]


class Managed(PonsTestCase):
    def setUp(self):
        super().setUp()
        self.pons = self.start(config(ANSWERS))
        self.addCleanup(end_orderly, self.pons)
        self.key = self.make_key("mine")
        self.pons.command("project", "create", "other")
        self.other_key = self.make_key("theirs", "--project", "other")

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

    def test_threads(self):
        self.run_suite("threads")

    def test_outcomes(self):
        self.run_suite("outcomes")

    def test_memory(self):
        self.run_suite("memory")

    def test_files(self):
        self.run_suite("files")

    def test_resources(self):
        self.run_suite("resources")

    def test_deployments(self):
        self.run_suite("deployments")

    def test_environments(self):
        self.run_suite("environments")

    def test_sessions(self):
        self.run_suite("sessions")


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
