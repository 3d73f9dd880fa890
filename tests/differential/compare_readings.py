#!/usr/bin/env python3
"""Sends the byte sequences of readings.txt to nginx, to Node and to read_http, and compares what each of them read.

Promises (each is checked for every sequence):
  - A request that we read is read with the same method, target and body by nginx and by Node, or refused by them.
  - When we accept all of the bytes, whoever else does so sees the same number of requests.
  - We never accept what both of them refuse.
  - Our verdict is the one that readings.txt states, and where we refuse what one of them accepts, it says why.

Usage: compare_readings.py path/to/read_http [-v]
"""

import collections
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).parent
DEADLINE_SECONDS = 20

Case = collections.namedtuple("Case", "name expected stricter data")
# end: "clean", "incomplete" or "refused"
Reading = collections.namedtuple("Reading", "requests end")

NGINX_CONFIG = """
daemon off;
worker_processes 1;
pid {dir}/pid;
error_log {dir}/error.log;
events {{ worker_connections 1024; }}
http {{
  # Everything nginx read of a request, and what it answered.
  log_format reading escape=json
    '{{"port":$remote_port,"status":$status,"method":"$request_method","target":"$request_uri","body":"$request_body"}}';
  access_log {dir}/access.log reading;
  keepalive_timeout 1s;  # also ends a connection on which nothing more comes
  client_header_timeout 1s;
  client_body_timeout 1s;
  lingering_close off;  # a request is logged before its connection closes
  client_body_buffer_size 64k;
  client_body_in_single_buffer on;
  client_body_temp_path {dir}/body;
  proxy_temp_path {dir}/proxy;
  fastcgi_temp_path {dir}/fastcgi;
  uwsgi_temp_path {dir}/uwsgi;
  scgi_temp_path {dir}/scgi;
  server {{
    listen 127.0.0.1:{port};
    # nginx reads a body only where something wants it; what it would hand on is taken by itself.
    location / {{ proxy_pass http://unix:{dir}/backend.sock:/; }}
  }}
  server {{
    listen unix:{dir}/backend.sock;
    access_log off;
    return 200 ok;
  }}
}}
"""


def load_cases(path):
    """A case is `case:`, `we:` and maybe `stricter:` lines, then lines of bytes with \\r \\n \\t \\xNN and {text*count}."""
    cases = []
    for block in re.split(r"\n\s*\n", path.read_text(encoding="ascii")):
        fields, data = {}, b""
        for line in block.splitlines():
            if line.startswith("#"):
                continue
            if line.startswith("|"):
                text = re.sub(r"\{([^{}*]+)\*(\d+)\}", lambda m: m[1] * int(m[2]), line[1:])
                data += text.encode("ascii").decode("unicode_escape").encode("latin-1")
            else:
                key, _, value = line.partition(": ")
                fields[key] = value
        if data:
            cases.append(Case(fields["case"], fields["we"], fields.get("stricter", ""), data))
    return cases


def find_program(name, package):
    path = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/bin")
    if path is None:
        sys.exit(f"FAILED: {name} is not installed; install the Debian packages nginx-light and nodejs ({package})")
    return path


def exchange(port, data, half_close=False):
    """Sends the bytes, reads until the server closes, and returns our port and what was answered."""
    answer = b""
    with socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_SECONDS) as connection:
        own_port = connection.getsockname()[1]
        try:
            connection.sendall(data)
            if half_close:
                connection.shutdown(socket.SHUT_WR)
            while part := connection.recv(65536):
                answer += part
        except ConnectionError:
            pass  # a server that refuses may reset
        return own_port, answer


class Node:
    def __init__(self, directory):
        self.facts = collections.defaultdict(list)
        self.changed = threading.Condition()
        program = [find_program("node", "nodejs"), str(HERE / "node_server.js")]
        self.process = subprocess.Popen(program, stdout=subprocess.PIPE, text=True, cwd=directory)
        self.port = json.loads(self.process.stdout.readline())["listening"]
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self):
        for line in self.process.stdout:
            fact = json.loads(line)
            with self.changed:
                self.facts[fact["port"]].append(fact)
                self.changed.notify_all()

    def read(self, data):
        own_port, answer = exchange(self.port, data)
        with self.changed:
            self.changed.wait_for(lambda: any("closed" in fact for fact in self.facts[own_port]), DEADLINE_SECONDS)
            facts = self.facts.pop(own_port)
        requests = [(fact["method"], fact["target"], fact["body"]) for fact in facts if "method" in fact]
        errors = [fact["error"] for fact in facts if "error" in fact]
        if errors == ["ERR_HTTP_REQUEST_TIMEOUT"]:
            return Reading(requests, "incomplete")
        # Some refusals (a missing Host) Node answers by itself and tells nobody.
        refused = errors or re.search(rb"HTTP/1\.1 [45]\d\d ", answer)
        return Reading(requests, "refused" if refused else "clean")


class Nginx:
    def __init__(self, directory, config=NGINX_CONFIG):
        self.directory = directory
        self.config = config
        for _ in range(3):  # somebody else may take the free port first
            if self._start():
                return
        sys.exit("FAILED: nginx does not start: " + (directory / "error.log").read_text())

    def _start(self):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        config = self.directory / "nginx.conf"
        config.write_text(self.config.format(dir=self.directory, port=self.port))
        program = [find_program("nginx", "nginx-light"), "-p", str(self.directory)]
        self.process = subprocess.Popen(program + ["-e", str(self.directory / "error.log"), "-c", str(config)])
        give_up = time.monotonic() + DEADLINE_SECONDS
        while time.monotonic() < give_up and self.process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return self.process.poll() is None
            except OSError:
                time.sleep(0.02)
        self.process.kill()
        self.process.wait()
        return False

    def read(self, data):
        """nginx logs a request before it closes the connection, so the log has all of ours when exchange() returns. Its
        last line may be half of somebody else's."""
        own_port, _ = exchange(self.port, data)
        requests, end = [], "clean"
        *lines, _ = (self.directory / "access.log").read_text(encoding="latin-1").split("\n")
        for line in lines:
            entry = json.loads(line)
            if entry["port"] != own_port:
                continue
            if entry["status"] == 200:
                requests.append((entry["method"], entry["target"], entry["body"].encode("latin-1").hex()))
            else:
                end = "incomplete" if entry["status"] in (408, 499) else "refused"
        return Reading(requests, end)


def read_ours(program, data):
    output = subprocess.run([program], input=data, stdout=subprocess.PIPE, check=True).stdout
    verdict = json.loads(output)
    requests = [(request["method"], request["target"], request["body"]) for request in verdict["requests"]]
    expected = f"refuse {verdict['status']}" if verdict["end"] == "refused" else verdict["end"]
    return Reading(requests, verdict["end"]), expected.replace("clean", "accept")


def same_request(ours, theirs):
    """Node and nginx hand an absolute target on in their own way: nginx without scheme and authority."""
    method, target, body = ours
    shortened = re.sub(r"^https?://[^/?]*", "", target, flags=re.IGNORECASE) or "/"
    return theirs in ((method, target, body), (method, shortened, body))


def judge(case, ours, stated, readings):
    """The broken promises, in words."""
    faults = []
    if stated != case.expected:
        faults.append(f"we: {stated}, and readings.txt says: {case.expected}")
    for name, theirs in readings.items():
        for index, (mine, other) in enumerate(zip(ours.requests, theirs.requests)):
            if not same_request(mine, other):
                faults.append(f"request {index}: we read {mine}, {name} read {other}")
        if ours.end == theirs.end == "clean" and len(ours.requests) != len(theirs.requests):
            faults.append(f"we read {len(ours.requests)} requests, {name} read {len(theirs.requests)}")
    if ours.end == "clean" and all(theirs.end == "refused" for theirs in readings.values()):
        faults.append("we accept what everybody else refuses")
    accepted_by = [name for name, theirs in readings.items() if theirs.end == "clean"]
    if ours.end == "refused" and accepted_by and not case.stricter:
        faults.append(f"we refuse what {' and '.join(accepted_by)} accept: readings.txt must say why")
    return faults


def read_all(program, cases):
    """For each case what we read, and what nginx and Node do. Every connection to these ends with a wait, so many are
    open at a time."""
    with tempfile.TemporaryDirectory(prefix="readings-") as name:
        directory = pathlib.Path(name)
        os.chmod(directory, 0o755)  # nginx started by root works with the rights of another user
        servers = []
        try:
            servers.append(nginx := Nginx(directory))
            servers.append(node := Node(directory))
            data = [case.data for case in cases]
            with concurrent.futures.ThreadPoolExecutor(72) as pool:
                by_nginx, by_node = pool.map(nginx.read, data), pool.map(node.read, data)
                ours = [read_ours(program, sequence) for sequence in data]
                return [(*our, {"nginx": a, "Node": b}) for our, a, b in zip(ours, by_nginx, by_node)]
        finally:
            for server in servers:
                server.process.terminate()
                server.process.wait()


def main():
    program, verbose = sys.argv[1], "-v" in sys.argv
    cases = load_cases(HERE / "readings.txt")
    results = read_all(program, cases)

    failed = 0
    for case, (ours, stated, readings) in zip(cases, results):
        faults = judge(case, ours, stated, readings)
        failed += bool(faults)
        if faults or verbose:
            print(f"{'FAILED' if faults else 'ok'} {case.name}: we {stated} {ours.requests}")
            for name, theirs in readings.items():
                print(f"    {name}: {theirs.end} {theirs.requests}")
        for fault in faults:
            print(f"    -> {fault}")
    print(f"{len(cases)} byte sequences, {failed} failed")
    sys.exit(1 if failed or len(cases) < 60 else 0)


if __name__ == "__main__":
    main()
