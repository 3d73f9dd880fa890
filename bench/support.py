"""What the benchmarks share."""
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time


def root():
    return os.path.realpath(os.path.join(os.path.dirname(__file__), ".."))


def require(*programs):
    for program in programs:
        if shutil.which(program) is None:
            sys.exit(f"bench: {program} is not installed; run this through ./dev bench")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """A server process on the first core, ready when its port answers."""

    def __init__(self, command, port):
        self.port = port
        self.process = subprocess.Popen(["taskset", "-c", "0", *command])
        deadline = time.monotonic() + 10
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 0.2).close()
                return
            except OSError:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    self.stop()
                    sys.exit(f"bench: {command[0]} did not start")
                time.sleep(0.02)

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


def microseconds(text):
    """Of a time as wrk writes it."""
    value, unit = re.fullmatch(r"([\d.]+)(us|ms|s|m)", text).groups()
    return float(value) * {"us": 1, "ms": 1000, "s": 1_000_000, "m": 60_000_000}[unit]


def wrk_result(out):
    """Of what wrk prints with --latency."""
    return {"rps": float(re.search(r"Requests/sec:\s+([\d.]+)", out)[1]),
            "p50": microseconds(re.search(r"^\s+50%\s+(\S+)", out, re.MULTILINE)[1]),
            "p99": microseconds(re.search(r"^\s+99%\s+(\S+)", out, re.MULTILINE)[1])}


class Warden(http.client.HTTPConnection):
    """The socket by which sandboxes are asked for."""

    def __init__(self, state, template):
        super().__init__("pons", timeout=300)
        self.path = f"{state}/run/warden.sock"
        self.template = template

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)

    def ask(self, method, target, body=None):
        self.request(method, target, None if body is None else json.dumps(body))
        response = self.getresponse()
        data = response.read()
        if response.status >= 300:
            raise SystemExit(f"bench: {method} {target}: {data.decode()}")
        return data

    def create(self, **fields):
        return json.loads(self.ask("POST", "/sandboxes", {"template": self.template, **fields}))["id"]

    def shell(self, sandbox, line):
        """What the line writes."""
        answer = self.ask("POST", f"/sandboxes/{sandbox}/jobs", {"argv": ["sh", "-c", line]})
        lines = [json.loads(each) for each in answer.splitlines() if each]
        end = lines[-1].get("ended", {})
        if end.get("outcome") != "exit" or end.get("code") != 0:
            raise SystemExit(f"bench: {line}: {answer.decode()}")
        return "".join(each["output"]["bytes"] for each in lines if "output" in each)


class Pons:
    """A Pons that ends with the block it is used in. `settings` as in pons.yaml."""

    program = f"{root()}/build/release/pons"

    def __init__(self, directory, state, settings):
        self.config = os.path.join(directory, "pons.yaml")
        with open(self.config, "w") as file:
            file.write("".join(f"{name}: {json.dumps(value)}\n" for name, value in
                               {"listen": "127.0.0.1:0", "state_dir": state, **settings}.items()))
        self.log = open(os.path.join(directory, "log"), "a")
        self.process = subprocess.Popen([self.program, "up", "--config", self.config], stdout=self.log, stderr=self.log)
        deadline = time.monotonic() + 20
        while not self.status().get("ready"):
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.__exit__()
                sys.exit("bench: Pons did not start")
            time.sleep(0.05)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.log.close()

    def status(self):
        asked = subprocess.run([self.program, "status", "--json", "--config", self.config], capture_output=True)
        return json.loads(asked.stdout) if asked.returncode == 0 else {}

    def pids(self):
        status = self.status()
        return {"supervisor": status["pid"], **{role["role"]: role["pid"] for role in status["roles"]}}
