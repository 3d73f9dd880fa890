"""nginx and Node as readers of raw bytes, and a comparison of what they read with what came through us."""

import base64
import dataclasses
import json
import os
import pathlib
import re
import subprocess
import sys

from compare_readings import HERE, Nginx, exchange, find_program

# What is about one connection, or would let a request be taken for another one, does not go on; framing is made anew.
LEFT_OUT = {
    "connection", "keep-alive", "proxy-authorization", "proxy-connection", "proxy-authenticate", "te", "trailer",
    "transfer-encoding", "upgrade", "http2-settings", "host", "expect", "content-length", "forwarded", "via", "x-real-ip",
    "alt-used", "early-data", "x-http-method-override", "x-method-override", "x-http-method", "x-original-url",
    "x-rewrite-url", "max-forwards",
}
LEFT_OUT_PREFIXES = ("x-forwarded-", "x-pons-", "sec-websocket-", "x-reading-")

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")  # that every reader knows

# A backend of its own tells what nginx hands on, so that its fields are known as well.
NGINX_CONFIG = """
daemon off;
worker_processes 1;
pid {dir}/pid;
error_log {dir}/error.log crit;
events {{ worker_connections 4096; }}
http {{
  access_log off;
  client_header_timeout 20s;
  client_body_timeout 20s;
  lingering_close off;
  underscores_in_headers on;
  client_body_buffer_size 64k;
  client_body_temp_path {dir}/body;
  proxy_temp_path {dir}/proxy;
  fastcgi_temp_path {dir}/fastcgi;
  uwsgi_temp_path {dir}/uwsgi;
  scgi_temp_path {dir}/scgi;
  server {{
    listen 127.0.0.1:{port};
    location / {{
      proxy_pass http://127.0.0.1:{backend};
      proxy_http_version 1.1;
      proxy_ignore_client_abort on;  # a client that has said all still wants its answers
      proxy_set_header Host $http_host;
      proxy_set_header X-Reading-Host $host;
    }}
  }}
}}
"""


@dataclasses.dataclass
class Request:
    method: str
    target: str
    hosts: list  # every name by which the reader might call its server
    fields: list  # those that are for the server, sorted
    body: bytes
    asks_to_upgrade: bool = False
    odd: str = ""

    @staticmethod
    def of(record):
        if "odd" in record:
            return Request("", "", [], [], b"", odd=record["odd"])
        target = record["target"]
        hosts = [value for name, value in record["fields"] if name.lower() in ("host", "x-reading-host")]
        if absolute := re.match(r"(?i)http://([^/?]*)", target):
            hosts.append(absolute[1])
            target = target[absolute.end() :]
            target = target if target.startswith("/") else "/" + target
        fields = [(name.lower(), value.strip(" \t")) for name, value in record["fields"]]
        kept = [field for field in fields if field[0] not in LEFT_OUT and not field[0].startswith(LEFT_OUT_PREFIXES)]
        return Request(record["method"], target, sorted({same_host(host) for host in hosts}), sorted(kept),
                       base64.b64decode(record["body"]), asks_to_upgrade="upgrade" in dict(fields))

    def known_to_nginx(self):
        """nginx ignores fields whose names have other letters."""
        return [field for field in self.fields if re.fullmatch("[a-z0-9_-]+", field[0])]


def same_host(host):
    return re.sub(":0*80$", "", host.lower()).removesuffix(".")


@dataclasses.dataclass
class Reading:
    requests: list  # None in the place of one that was understood and not let through
    refused: bool = False  # the reader said that it does not read on; otherwise it waits for more, or is through
    closed: bool = False  # with its last answer, because it was asked to

    @staticmethod
    def of(answer):
        """Of all answers on one connection. One that closes it with a refusal refused to read on."""
        reading = Reading([])
        for part in re.split(rb"(?=HTTP/1\.1 [1-5]\d\d )", answer):
            head = part.partition(b"\r\n\r\n")[0] + b"\r\n"
            if not head.startswith(b"HTTP/1.1 ") or head.startswith(b"HTTP/1.1 1"):
                continue
            closes = b"\r\nConnection: close\r\n" in head
            if record := re.search(rb"\r\nX-Reading: ([A-Za-z0-9+/=]+)\r\n", head):
                reading.requests.append(Request.of(json.loads(base64.b64decode(record[1]))))
                reading.closed = closes
            elif closes:
                reading.refused = True
            else:
                reading.requests.append(None)
        while reading.requests and reading.requests[-1] is None:
            reading.requests.pop()
        return reading

    def has_stopped(self, last):
        """Before the last request, with a reason. nginx closes for "Connection: closed", too, and Node takes what follows
        a request for another protocol for that protocol."""
        if self.arrived and self.arrived[-1].target == last:
            return False
        return self.refused or self.closed or self.was_upgraded()

    def was_upgraded(self):
        return any(request.asks_to_upgrade for request in self.arrived)

    @property
    def arrived(self):
        return [request for request in self.requests if request is not None]


class Peers:
    """nginx and Node on ports of this machine, in `directory`."""

    def __init__(self, directory):
        os.chmod(directory, 0o755)  # nginx started by root works with the rights of another user
        self.processes = []
        recorder = self.start([sys.executable, "-B", str(HERE / "recorder.py")])
        self.nginx = Nginx(pathlib.Path(directory), NGINX_CONFIG.replace("{backend}", recorder.stdout.readline().strip()))
        self.processes.append(self.nginx.process)
        node = self.start([find_program("node", "nodejs"), str(HERE / "node_server.js"), "--quiet"])
        self.ports = {"nginx": self.nginx.port, "Node": json.loads(node.stdout.readline())["listening"]}

    def start(self, words):
        self.processes.append(subprocess.Popen(words, stdout=subprocess.PIPE, text=True))
        return self.processes[-1]

    def read(self, data):
        return {name: Reading.of(exchange(port, data, half_close=True)[1]) for name, port in self.ports.items()}

    def end(self):
        for process in self.processes:
            process.terminate()  # nginx ends its workers only when it is asked
            process.wait()
            if process.stdout:
                process.stdout.close()


def differences(ours, theirs, name):
    """Between one request as it arrived and as the peer reads it, in words."""
    # Of "http://host?" nginx makes "/".
    same_target = ours.target == theirs.target or (name == "nginx" and ours.target == "/?" and theirs.target == "/")
    if ours.method != theirs.method or not same_target:
        yield f"{ours.method} {ours.target} arrived, {name} reads {theirs.method} {theirs.target}"
    if ours.hosts != theirs.hosts:
        yield f"for {ours.hosts}, {name} reads {theirs.hosts}"
    if ours.body != theirs.body:
        yield f"body {ours.body!r} arrived, {name} reads {theirs.body!r}"
    mine, others = (each.known_to_nginx() if name == "nginx" else each.fields for each in (ours, theirs))
    if mine != others:
        yield f"fields {mine} arrived, {name} reads {others}"


def judge(ours, peers, last):
    """The broken promises. `ours`: what arrived behind us; `peers`: what each of them reads in the bytes themselves."""
    faults = [f"not in the one form: {request.odd}" for request in ours.arrived if request.odd]
    if faults:
        return faults
    for name, theirs in peers.items():
        for index, (mine, other) in enumerate(zip(ours.requests, theirs.requests)):
            if mine is not None and other is not None:
                faults += [f"request {index}: {words}" for words in differences(mine, other, name)]
        count = f"{len(ours.requests)} requests arrived, {name} reads {len(theirs.requests)}"
        if len(ours.requests) > len(theirs.requests) and not theirs.has_stopped(last):
            faults.append(f"{count} and has no objection")
        is_through = ours.arrived and ours.arrived[-1].target == last
        if is_through and len(theirs.requests) > len(ours.requests):
            faults.append(count)
    # Of the same request, that is. Node knows only some methods, and reads nothing behind an upgrade.
    read = {len(theirs.requests) for theirs in peers.values()}
    unread = ours.requests[max(read) :]
    if len(read) == 1 and unread and unread[0] is not None and unread[0].method in METHODS:
        if not any(map(Reading.was_upgraded, peers.values())):
            faults.append("what everybody else refuses arrived")
    return faults
