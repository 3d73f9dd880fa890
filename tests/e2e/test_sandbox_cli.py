"""`pons sandbox`: what the commands ask for, show and refuse, against a warden of canned answers."""

import base64
import fcntl
import json
import os
import pty
import signal
import struct
import subprocess
import termios
import threading

from fake_warden import FakeWarden
from pons_fixture import PATIENCE_SECONDS, PonsTestCase, read_text, wait_for

INFO = {"id": "work", "template": "host", "state": "running", "created_unix_ms": 1}


def out(text, offset=0, stream="output"):
    data = text if isinstance(text, str) else {"base64": base64.b64encode(text).decode()}
    return {"output": {"stream": stream, "offset": offset, "bytes": data}}


def ended(outcome="exit", code=0, **more):
    return {"ended": {"id": "j", "outcome": outcome, "code": code, **more}}


class SandboxTestCase(PonsTestCase):
    def setUp(self):
        super().setUp()
        self.state_dir = f"{self.directory}/state"
        self.warden = FakeWarden(self.state_dir)
        self.addCleanup(self.warden.close)

    def command(self, *words):
        verb, *rest = words
        return [self.binary, "sandbox", verb, "--state-dir", self.state_dir, *rest]

    def sandbox(self, *words, data=None, text=True):
        return subprocess.run(
            self.command(*words),
            **({"stdin": subprocess.DEVNULL} if data is None else {"input": data}),
            capture_output=True,
            text=text,
            timeout=PATIENCE_SECONDS,
            cwd=self.directory,
        )

    def route(self, method, path, answer):
        self.warden.routes[(method, path)] = answer

    def job(self, *lines):
        self.route("POST", "/sandboxes/work/jobs", [{"job": "j"}, *lines])

    def asked_job(self):
        return json.loads(self.warden.asked("POST", "/sandboxes/work/jobs")[-1])


class Usage(SandboxTestCase):
    def test_without_a_running_pons_the_advice_is_to_start_one(self):
        for words in (["ls"], ["exec", "work", "--", "true"], ["run", "host", "--", "true"], ["rm", "x"]):
            done = self.run_pons("sandbox", words[0], "--state-dir", f"{self.directory}/none", *words[1:])
            self.assertIn("pons up", done.stderr, words)
            self.assertEqual(done.returncode, 125 if words[0] in ("exec", "run") else 1, words)

    def test_wrong_usage_has_its_own_exit_code_and_asks_nothing(self):
        for words in (
            ["exec", "work"],
            ["exec", "work", "--usr", "x", "--", "ls"],
            ["exec", "work", "-c", "ls", "--", "ls"],
            ["exec", "work", "surplus", "--", "ls"],
            ["exec", "work", "--timeout", "soon", "--", "ls"],
            ["run"],
            ["rm"],
            ["rm", "--all", "work"],
            ["cp", "a", "b"],
            ["cp", "a:b", "c:d"],
            ["rollback", "work"],
        ):
            done = self.sandbox(*words)
            self.assertEqual(done.returncode, 2, words)
            self.assertNotEqual(done.stderr, "", words)
        self.assertEqual(self.warden.requests, [])

    def test_help_of_every_command_has_an_example(self):
        commands = "run create ls exec shell cp logs checkpoint rollback commit fork pause resume rm top inspect"
        for command in commands.split():
            done = self.run_pons("sandbox", command, "--help")
            self.assertEqual(done.returncode, 0, command)
            self.assertIn(f"pons sandbox {command}", done.stdout.split("EXAMPLES")[1], command)

    def test_a_sandbox_that_is_not_there_is_said_with_where_to_look(self):
        done = self.sandbox("inspect", "nobody")
        self.assertEqual(done.returncode, 1)
        self.assertIn("pons sandbox ls", done.stderr)

    def test_create_understands_sizes_and_times(self):
        self.route("POST", "/sandboxes", (201, INFO))
        done = self.sandbox(
            "create", "debian", "--id", "work", "--memory", "1G", "--cpu", "150", "--idle", "5m", "-e", "A=b=c"
        )
        self.assertEqual((done.returncode, done.stdout), (0, "work\n"), done.stderr)
        asked = json.loads(self.warden.asked("POST", "/sandboxes")[0])
        self.assertEqual(asked["template"], "debian")
        self.assertEqual(asked["environment"], {"A": "b=c"})
        self.assertEqual(asked["limits"]["memory_bytes"], 1 << 30)
        self.assertEqual(asked["limits"]["cpu_percent"], 150)
        self.assertEqual(asked["limits"]["idle_max_ms"], 300_000)
        for wrong in ("1X", "-1", "99999999999G", "1GG"):
            self.assertEqual(self.sandbox("create", "--memory", wrong).returncode, 2, wrong)

    def test_small_commands_ask_for_what_they_say(self):
        self.route("POST", "/sandboxes/work/checkpoints", (201, {"name": "c1"}))
        self.route("POST", "/sandboxes/work/checkpoints/c1/rollback", (204, None))
        self.route("POST", "/sandboxes/work/checkpoints/c1/commit", (204, None))
        self.route("GET", "/sandboxes/work", (200, {**INFO, "limits": {"pids": 77}}))
        self.route("POST", "/sandboxes/work/fork", (201, {**INFO, "id": "copy"}))
        self.route("POST", "/sandboxes/work/pause", (200, {**INFO, "state": "paused"}))
        self.route("POST", "/sandboxes/work/resume", (200, INFO))
        self.route("DELETE", "/sandboxes/work", (204, None))
        self.assertEqual(self.sandbox("checkpoint", "work").stdout, "c1\n")
        self.assertEqual(self.sandbox("fork", "work").stdout, "copy\n")
        self.assertEqual(json.loads(self.warden.asked("POST", "/sandboxes/work/fork")[0])["limits"]["pids"], 77)
        for words in (["rollback", "work", "c1"], ["commit", "work", "c1"], ["pause", "work"], ["resume", "work"]):
            self.assertEqual(self.sandbox(*words).returncode, 0, words)
        self.assertEqual(self.sandbox("rm", "work", "--json").stdout, '{"removed":["work"]}\n')

    def test_busy_writers_are_named(self):
        error = {"error": {"type": "conflict", "message": "busy_writers: pid 7 writes /data"}}
        self.route("POST", "/sandboxes/work/checkpoints", (409, error))
        done = self.sandbox("checkpoint", "work")
        self.assertEqual(done.returncode, 1)
        self.assertIn("busy_writers: pid 7 writes /data", done.stderr)

    def test_tables_show_figures_and_obey_nothing(self):
        hostile = {**INFO, "id": "\x1b[2Jx", "template": "\x07t"}
        self.route("GET", "/sandboxes", (200, {"sandboxes": [INFO, hostile]}))
        self.route("GET", "/sandboxes/work/metrics", (200, {"memory_bytes": 1048576, "cpu_usec": 5, "pids": 3}))
        for words in (["ls"], ["top", "--once"]):
            done = self.sandbox(*words)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("1.0 MiB", done.stdout)
            self.assertNotIn("\x1b", done.stdout)
            self.assertEqual(len(json.loads(self.sandbox(*words, "--json").stdout)["sandboxes"]), 2)


class Jobs(SandboxTestCase):
    def test_output_and_errors_go_where_they_belong(self):
        self.job(out("one\n"), out("oops\n", 0, "error"), out(b"\xff\x00two", 4), ended(code=3))
        done = self.sandbox("exec", "work", "-u", "root", "--", "prog", "-x", "--", "--json", text=False)
        self.assertEqual(done.stdout, b"one\n\xff\x00two")
        self.assertEqual(done.stderr, b"oops\n")
        self.assertEqual(done.returncode, 3)
        self.assertEqual(self.asked_job()["argv"], ["prog", "-x", "--", "--json"])
        self.assertEqual(self.asked_job()["user"], "root")
        self.assertFalse(self.asked_job()["input_open"])

    def test_words_of_the_command_need_no_dashes_before_them(self):
        self.job(ended())
        self.assertEqual(self.sandbox("exec", "work", "ls", "-l", "--json").returncode, 0)
        self.assertEqual(self.asked_job()["argv"], ["ls", "-l", "--json"])

    def test_every_outcome_has_a_status_and_words(self):
        for outcome, code, status, words in (
            ("exit", 0, 0, ""),
            ("exit", 255, 255, ""),
            ("signal", 15, 143, "signal 15"),
            ("timeout", 9, 124, "time limit"),
            ("oom", 9, 137, "out of memory"),
            ("output_limit", 9, 125, "more than it may"),
            ("interrupted", 0, 125, "look before you retry"),
        ):
            self.job(ended(outcome, code))
            done = self.sandbox("exec", "work", "--", "x")
            self.assertEqual(done.returncode, status, outcome)
            self.assertIn(words, done.stderr)

    def test_transactions_say_when_they_undid(self):
        self.job(ended(code=1, rolled_back=True))
        done = self.sandbox("exec", "work", "--transaction", "--", "x")
        self.assertEqual(done.returncode, 1)
        self.assertIn("undone", done.stderr)
        self.assertEqual(self.asked_job()["transaction"], "rollback_on_failure")

    def test_piped_input_arrives_whole_and_ends(self):
        closed = threading.Event()
        path = "/sandboxes/work/jobs/j/input"

        def lines(query, body):
            yield {"job": "j"}
            closed.wait(PATIENCE_SECONDS)
            yield ended()

        self.route("POST", "/sandboxes/work/jobs", lines)
        self.route("POST", path, (204, None))
        self.route("DELETE", path, lambda query, body: (closed.set(), (204, None))[1])
        data = os.urandom(300_000)
        done = self.sandbox("exec", "work", "--", "cat", data=data, text=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(b"".join(self.warden.asked("POST", path)), data)

    def test_a_cut_stream_goes_on_where_it_was(self):
        self.job(out("abc"), out("E", 0, "error"), None)
        seen = []

        def attach(query, body):
            seen.append(query)
            return [{"job": "j"}, out("def", 3), ended(code=4)]

        self.route("GET", "/sandboxes/work/jobs/j", attach)
        done = self.sandbox("exec", "work", "--", "x")
        self.assertEqual((done.stdout, done.returncode), ("abcdef", 4), done.stderr)
        self.assertEqual(seen, [{"output": "3", "error": "1"}])

    def test_run_ends_its_sandbox_whatever_happens(self):
        made = []

        def create(query, body):
            made.append(json.loads(body))
            identity = made[-1]["id"]
            self.route("POST", f"/sandboxes/{identity}/jobs", answers.pop(0))
            self.route("DELETE", f"/sandboxes/{identity}", (204, None))
            return (201, {**INFO, "id": identity})

        answers = [[{"job": "j"}, out("hi\n"), ended(code=7)], (500, {"error": {"type": "io", "message": "no"}})]
        self.route("POST", "/sandboxes", create)
        done = self.sandbox("run", "host", "--memory", "64M", "-e", "A=1", "--", "echo", "hi")
        self.assertEqual((done.stdout, done.returncode), ("hi\n", 7), done.stderr)
        self.assertEqual(made[0]["limits"]["memory_bytes"], 64 << 20)
        self.assertEqual(self.sandbox("run", "host", "--", "x").returncode, 125)
        for request in made:
            self.assertEqual(len(self.warden.asked("DELETE", f"/sandboxes/{request['id']}")), 1)

    def test_the_first_interrupt_goes_to_the_job_and_the_second_leaves_it(self):
        released = threading.Event()
        self.addCleanup(released.set)

        def lines(query, body):
            yield {"job": "j"}
            yield out("started\n")
            released.wait(PATIENCE_SECONDS)

        self.route("POST", "/sandboxes/work/jobs", lines)
        self.route("POST", "/sandboxes/work/jobs/j/signal", (204, None))
        process = subprocess.Popen(
            self.command("exec", "work", "--", "x"), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )
        self.addCleanup(process.kill)
        self.assertEqual(process.stdout.readline(), b"started\n")
        process.send_signal(signal.SIGINT)
        asked = wait_for(lambda: self.warden.asked("POST", "/sandboxes/work/jobs/j/signal"), "a signal")
        self.assertEqual(asked, [b'{"signal":2}'])
        self.assertIsNone(process.poll())
        process.send_signal(signal.SIGINT)
        errors = process.communicate(timeout=PATIENCE_SECONDS)[1]
        self.assertEqual(process.returncode, 130)
        self.assertIn(b"pons sandbox logs -f work j", errors)

    def test_a_reader_that_leaves_ends_the_command(self):
        self.job(*[out("x" * 60_000, 60_000 * i) for i in range(50)], ended())
        self.route("POST", "/sandboxes/work/jobs/j/signal", (204, None))
        process = subprocess.Popen(self.command("exec", "work", "--", "x"), stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE)
        process.stdout.read(1)
        process.stdout.close()
        self.assertEqual(process.wait(PATIENCE_SECONDS), 141)

    def test_detached_jobs_are_shown_by_logs(self):
        self.job(ended())
        self.assertEqual(self.sandbox("exec", "-d", "work", "--", "x").stdout, "j\n")
        jobs = [{"id": "old"}, {"id": "j", "outcome": "running", "output_bytes": 5}]
        self.route("GET", "/sandboxes/work/jobs", (200, {"jobs": jobs}))

        def attach(query, body):
            yield {"job": "j"}
            yield out("hello"[int(query["output"]):], int(query["output"]))
            yield ended(code=9)

        self.route("GET", "/sandboxes/work/jobs/j", attach)
        done = self.sandbox("logs", "work")
        self.assertEqual((done.stdout, done.returncode), ("hello", 0), done.stderr)
        self.assertEqual(self.sandbox("logs", "work", "j", "--from", "2").stdout, "llo")
        self.assertEqual(self.sandbox("logs", "-f", "work", "j").returncode, 9)
        self.assertIn("no job nope", self.sandbox("logs", "work", "nope").stderr)

    def test_json_is_one_event_per_line(self):
        self.job(out(b"\xff"), ended(code=2))
        done = self.sandbox("exec", "work", "--json", "--", "x")
        events = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual(events[0]["output"]["bytes"], {"base64": "/w=="})
        self.assertEqual(events[1]["ended"]["code"], 2)
        self.assertEqual(done.returncode, 2)


class Copies(SandboxTestCase):
    def serve_tree(self, listings, contents):
        def stat(query, body):
            kind = "directory" if query["path"] in listings else "file"
            return (200, {"path": query["path"], "kind": kind, "mode": 0o644})

        def files(query, body):
            return (200, {"files": [{"path": query["path"], "kind": "directory"}, *listings[query["path"]]]})

        self.route("GET", "/sandboxes/work/stat", stat)
        self.route("GET", "/sandboxes/work/files", files)
        self.route("GET", "/sandboxes/work/file", lambda query, body: (200, contents[query["path"]]))

    def test_a_file_goes_in_and_out_as_it_is(self):
        data = os.urandom(100_000)
        with open(f"{self.directory}/data", "wb") as file:
            file.write(data)
        os.chmod(f"{self.directory}/data", 0o750)
        self.route("PUT", "/sandboxes/work/file", (200, {"path": "/tmp/data"}))
        self.route("GET", "/sandboxes/work/stat", (200, {"path": "/tmp", "kind": "directory"}))
        done = self.sandbox("cp", "data", "work:/tmp")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("1 file, 97.7 KiB", done.stderr)
        target = [request for request in self.warden.requests if request[0] == "PUT"][0]
        self.assertIn("path=/tmp/data&", target[1])
        self.assertIn("mode=0750", target[1])
        self.assertEqual(target[2], data)
        self.serve_tree({}, {"/x/out": data})
        self.assertEqual(self.sandbox("cp", "work:/x/out", "got").returncode, 0)
        with open(f"{self.directory}/got", "rb") as file:
            self.assertEqual(file.read(), data)
        self.assertEqual(self.sandbox("cp", "work:/x/out", "-", text=False).stdout, data)
        self.sandbox("cp", "-", "work:/in", data=b"piped", text=False)
        self.assertEqual(self.warden.asked("PUT", "/sandboxes/work/file")[-1], b"piped")

    def test_a_missing_local_file_is_not_mistaken_for_a_missing_pons(self):
        done = self.sandbox("cp", "nothing-here", "work:/tmp/x")
        self.assertEqual(done.returncode, 1)
        self.assertIn("nothing-here", done.stderr)
        self.assertNotIn("pons up", done.stderr)

    def test_a_tree_comes_out_without_links_and_special_bits(self):
        self.serve_tree(
            {
                "/d": [
                    {"path": "/d/a", "kind": "file", "mode": 0o6777},
                    {"path": "/d/sub", "kind": "directory"},
                    {"path": "/d/link", "kind": "link", "link_target": "/etc/passwd"},
                ],
                "/d/sub": [{"path": "/d/sub/b", "kind": "file", "mode": 0o644}],
            },
            {"/d/a": b"A", "/d/sub/b": b"B"},
        )
        self.assertIn("-r", self.sandbox("cp", "work:/d", "copy").stderr)
        done = self.sandbox("cp", "-r", "work:/d", "copy", "--json")
        self.assertEqual(json.loads(done.stdout), {"files": 2, "bytes": 2, "skipped": 1}, done.stderr)
        self.assertEqual(read_text(f"{self.directory}/copy/sub/b"), "B")
        self.assertEqual(os.stat(f"{self.directory}/copy/a").st_mode & 0o7022, 0)
        self.assertFalse(os.path.lexists(f"{self.directory}/copy/link"))

    def test_hostile_names_write_nothing(self):
        names = "/d/../evil /evil /d/.. /d/x/../../evil ../evil /d//evil /d/sub/evil /dx".split()
        for count, name in enumerate([*names, "/d/a\0b"]):
            self.serve_tree({"/d": [{"path": name, "kind": "file"}]}, {name: b"evil"})
            done = self.sandbox("cp", "-r", "work:/d", f"copy{count}")
            self.assertEqual(done.returncode, 1, name)
            self.assertEqual(os.listdir(f"{self.directory}/copy{count}"), [], name)
            self.assertFalse(os.path.exists(f"{self.directory}/evil"), name)

    def test_links_that_lie_in_the_target_are_not_followed(self):
        os.mkdir(f"{self.directory}/copy")
        os.mkdir(f"{self.directory}/outside")
        victim = self.write_file("victim", "precious")
        os.symlink(victim, f"{self.directory}/copy/a")
        os.symlink(f"{self.directory}/outside", f"{self.directory}/copy/sub")
        os.makedirs(f"{self.directory}/base")
        os.rename(f"{self.directory}/copy", f"{self.directory}/base/d")
        for entry in ({"path": "/d/a", "kind": "file"}, {"path": "/d/sub", "kind": "directory"}):
            self.serve_tree({"/d": [entry], "/d/sub": [{"path": "/d/sub/b", "kind": "file"}]},
                            {"/d/a": b"evil", "/d/sub/b": b"evil"})
            self.assertEqual(self.sandbox("cp", "-r", "work:/d", "base").returncode, 1, entry)
        self.assertEqual(read_text(victim), "precious")
        self.assertEqual(os.listdir(f"{self.directory}/outside"), [])

    def test_a_tree_goes_in_without_following_links(self):
        os.makedirs(f"{self.directory}/tree/sub")
        self.write_file("tree/sub/b", "B")
        os.symlink("/etc/passwd", f"{self.directory}/tree/link")
        self.route("POST", "/sandboxes/work/directory", (200, {"path": "/x", "kind": "directory"}))
        self.route("PUT", "/sandboxes/work/file", (200, {"path": "/x"}))
        done = self.sandbox("cp", "-r", "tree", "work:/new", "--json")
        self.assertEqual(json.loads(done.stdout), {"files": 1, "bytes": 1, "skipped": 1}, done.stderr)
        paths = [target for method, target, body in self.warden.requests if method == "PUT"]
        self.assertEqual(len(paths), 1)
        self.assertIn("path=/new/sub/b&", paths[0])


class Shell(SandboxTestCase):
    def open_shell(self):
        main, other = pty.openpty()
        self.addCleanup(os.close, main)
        self.addCleanup(os.close, other)
        fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 111, 0, 0))
        before = termios.tcgetattr(other)
        process = subprocess.Popen(self.command("shell", "work"), stdin=other, stdout=other, stderr=other,
                                   start_new_session=True, env={**os.environ, "TERM": "xterm"},
                                   preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return main, other, before, process

    def is_raw(self, terminal):
        return not termios.tcgetattr(terminal)[3] & (termios.ICANON | termios.ECHO | termios.ISIG)

    def serve_shell(self):
        over = threading.Event()
        self.addCleanup(over.set)

        def lines(query, body):
            yield {"job": "j"}
            yield out("$ ")
            over.wait(PATIENCE_SECONDS)
            yield ended(code=5)

        self.route("POST", "/sandboxes/work/jobs", lines)
        self.route("POST", "/sandboxes/work/jobs/j/input", (204, None))
        self.route("POST", "/sandboxes/work/jobs/j/resize", (204, None))
        return over

    def test_keys_go_inside_the_size_follows_and_the_terminal_is_put_back(self):
        over = self.serve_shell()
        main, other, before, process = self.open_shell()
        wait_for(lambda: self.is_raw(other), "raw mode")
        os.write(main, b"\x03ls\r\x1b[A")
        inputs = lambda: b"".join(self.warden.asked("POST", "/sandboxes/work/jobs/j/input"))
        wait_for(lambda: inputs() == b"\x03ls\r\x1b[A", "the keys")
        fcntl.ioctl(main, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 200, 0, 0))
        wait_for(
            lambda: b'{"rows":50,"columns":200}' in self.warden.asked("POST", "/sandboxes/work/jobs/j/resize"),
            "the new size",
        )
        self.assertEqual(self.asked_job()["terminal"], {"rows": 33, "columns": 111})
        self.assertEqual(self.asked_job()["environment"]["TERM"], "xterm")
        over.set()
        self.assertEqual(process.wait(PATIENCE_SECONDS), 5)
        self.assertEqual(termios.tcgetattr(other), before)

    def test_the_terminal_is_put_back_when_the_person_is_gone(self):
        for number in (signal.SIGTERM, signal.SIGHUP):
            self.serve_shell()
            main, other, before, process = self.open_shell()
            wait_for(lambda: self.is_raw(other), "raw mode")
            process.send_signal(number)
            self.assertEqual(process.wait(PATIENCE_SECONDS), 128 + number)
            self.assertEqual(termios.tcgetattr(other), before)

    def test_the_terminal_is_put_back_when_the_warden_talks_nonsense(self):
        self.route("POST", "/sandboxes/work/jobs", [{"job": "j"}, {"nonsense": 1}])
        self.route("POST", "/sandboxes/work/jobs/j/resize", (204, None))
        main, other, before, process = self.open_shell()
        self.assertEqual(process.wait(PATIENCE_SECONDS), 125)
        self.assertEqual(termios.tcgetattr(other), before)
