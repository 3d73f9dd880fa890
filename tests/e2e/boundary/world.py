"""A Pons, the internet around it, and sandboxes that try to break out.

enter() puts the test's process into a network and a mount namespace of its own; the internet is another namespace
behind a veth pair, so that its addresses are those of another machine.
"""

import base64
import ctypes
import glob
import json
import os
import re
import secrets
import socket
import string
import subprocess
import sys
import tempfile
import threading
import time

from pons_fixture import PonsTestCase, read_text, wait_for
from warden_client import Warden, end_orderly

from . import certificates
from .internet import HOSTS, NAME_SERVER, OUR_SIDE, OUR_SIDE_SIX, THEIR_SIDE, THEIR_SIDE_SIX
from .oracle import Watched, find_secret, forms

HERE = os.path.dirname(os.path.abspath(__file__))
CLONE_NEWNS, CLONE_NEWNET = 0x00020000, 0x40000000

POLICY = {
    "mode": "list",
    "allow": [
        {"host": "api.github.com", "ports": [443, 80, 8443]}, {"host": "github.com"}, {"host": "uploads.github.com"},
        {"host": "other.example.com"}, {"host": "query.example.com"}, {"host": "path.example.com"},
        {"host": "basic.example.com"}, {"host": "any.example.com"},
        {"host": "strict.example.net", "require_stub": True},
        {"host": "*.bad.example.com"},
        {"host": "plain.example.net"}, {"host": "plain.example.net", "ports": [9000], "tcp": True},
        {"host": "seen.example.net", "inspect": True},
        {"host": "private.example.net"}, {"host": "metadata.example.net"}, {"host": "mapped.example.net"},
        {"host": "this-machine.example.net"}, {"host": "mixed.example.net"}, {"host": "alias.example.net"},
        {"host": "nowhere.example.net"}, {"host": "reader.example.net", "inspect": True},
        {"host": "six.example.com"}, {"host": "both.example.com"}, {"host": "six.example.net", "inspect": True},
        {"host": "private-six.example.net"}, {"host": "metadata-six.example.net"}, {"host": "translated.example.net"},
        {"host": "mixed-six.example.net"}, {"host": "this-machine-six.example.net"},
    ],
    "credentials": ["GITHUB_TOKEN", "OTHER_KEY", "QUERY_KEY", "PATH_KEY", "BASIC_KEY", "BAD_HOSTS_KEY", "ANY_KEY", "SIX_KEY"],
}
BINDINGS = {
    "GITHUB_TOKEN": ["--preset", "github"],
    "OTHER_KEY": ["--bind", "host=other.example.com,header=X-Api-Key,format={}"],
    "QUERY_KEY": ["--bind", "host=query.example.com,query=key"],
    "PATH_KEY": ["--bind", "host=path.example.com,position=path"],
    "BASIC_KEY": ["--bind", "host=basic.example.com,format=Basic *:{}", "--bind", "host=basic.example.com,path=/v1/**"],
    "BAD_HOSTS_KEY": ["--bind", "host=*.bad.example.com"],
    "ANY_KEY": ["--bind", "host=any.example.com,header=*"],
    "SIX_KEY": ["--bind", "host=six.example.com", "--bind", "host=both.example.com"],
    "SLACK_TOKEN": ["--preset", "slack"],
    "GITLAB_TOKEN": ["--preset", "gitlab"],
}
# The one that each host may be sent; others get none.
OWNERS = {
    "api.github.com": "GITHUB_TOKEN", "github.com": "GITHUB_TOKEN", "uploads.github.com": "GITHUB_TOKEN",
    "other.example.com": "OTHER_KEY", "query.example.com": "QUERY_KEY", "path.example.com": "PATH_KEY",
    "basic.example.com": "BASIC_KEY", "any.example.com": "ANY_KEY", "slack.com": "SLACK_TOKEN", "gitlab.com": "GITLAB_TOKEN",
    "six.example.com": "SIX_KEY", "both.example.com": "SIX_KEY",
}
PREFIXES = {"GITHUB_TOKEN": "ghp_", "SLACK_TOKEN": "xoxb-", "GITLAB_TOKEN": "glpat-"}


def run(*words):
    subprocess.run(words, check=True, capture_output=True)


def unshare(flags):
    if ctypes.CDLL(None, use_errno=True).unshare(flags) != 0:
        raise OSError(ctypes.get_errno(), "unshare")


def enter():
    """Once in a process, before its first thread."""
    unshare(CLONE_NEWNS | CLONE_NEWNET)
    run("mount", "--make-rprivate", "/")
    run("ip", "link", "set", "lo", "up")


def random_secret(prefix=""):
    letters = string.ascii_letters + string.digits
    while True:
        value = prefix + "".join(secrets.choice(letters) for _ in range(40 - len(prefix)))
        body = value.removeprefix(prefix)
        if any(c.islower() for c in body) and any(c.isupper() for c in body) and any(c.isdigit() for c in body):
            return value


class Internet:
    """The process behind the other end of the line."""

    def __init__(self, directory, protocols):
        self.directory = directory
        good = [host for host in HOSTS if not host.endswith(".bad.example.com")]
        certificates.make_all(directory, [*good, "alias.example.net"])
        self.process = subprocess.Popen(
            ["unshare", "--net", sys.executable, "-B", "-m", "boundary.internet", directory, *protocols],
            cwd=os.path.dirname(HERE), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        own = os.readlink("/proc/self/ns/net")
        wait_for(lambda: os.readlink(f"/proc/{self.process.pid}/ns/net") != own, "the internet has its own namespace")
        run("ip", "link", "add", "pons0", "type", "veth", "peer", "name", "net0", "netns", str(self.process.pid))
        run("ip", "address", "add", f"{OUR_SIDE}/30", "dev", "pons0")
        run("ip", "link", "set", "pons0", "up")
        run("ip", "route", "add", "default", "via", THEIR_SIDE)
        run("ip", "address", "add", f"{OUR_SIDE_SIX}/64", "dev", "pons0", "nodad")
        run("ip", "-6", "route", "add", "default", "via", THEIR_SIDE_SIX)
        if self.process.stdout.readline() != b"ready\n":
            raise AssertionError("the internet does not start")
        self.count = 0

    def new_requests(self):
        """Since the last call. Connections on which nothing was asked do not count."""
        try:
            with open(f"{self.directory}/connections.jsonl", encoding="utf-8") as file:
                lines = file.readlines()
        except FileNotFoundError:
            return []
        new, self.count = lines[self.count :], len(lines)
        return [each for each in map(json.loads, new) if "failed" not in each]

    def received_by(self, *hosts):
        """The files of all bytes that arrived at these hosts."""
        return [f"{self.directory}/bytes-{address}" for host in hosts for address in HOSTS[host].split()]

    def end(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        subprocess.run(["ip", "link", "del", "pons0"], check=False, capture_output=True)


class ThisMachine:
    """A service of the machine that Pons runs on. It serves whoever gets to it: from a sandbox nobody may."""

    def __init__(self):
        self.listeners = [socket.create_server((OUR_SIDE, 80)), socket.create_server((OUR_SIDE_SIX, 80), family=socket.AF_INET6)]
        for listener in self.listeners:
            threading.Thread(target=self.serve, args=(listener,), daemon=True).start()

    def serve(self, listener):
        while True:
            try:
                stream, _ = listener.accept()
                with stream:
                    if stream.recv(65536):
                        stream.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\nthis machine")
            except ConnectionError:
                pass
            except OSError:
                return  # closed

    def end(self):
        for listener in self.listeners:
            listener.shutdown(socket.SHUT_RDWR)
            listener.close()


class Attacker:
    """A program in the sandbox that does what it is told."""

    def __init__(self, sandbox):
        self.sandbox = sandbox
        for name in ("attack.py", "attack_http2.py"):
            sandbox.write(f"/tmp/{name}", read_text(f"{HERE}/{name}").encode())
        self.lines = sandbox.start("exec python3 -u /tmp/attack.py", seconds=600, input_open=True)
        self.job = next(self.lines)["job"]
        self.buffer = ""
        self.environment = self.answer()["environment"]

    def answer(self):
        while "\n" not in self.buffer:
            line = next(self.lines)
            if "ended" in line:
                raise AssertionError(f"the attacker ended: {line} {self.buffer}")
            if line.get("output", {}).get("stream") == "output":
                self.buffer += line["output"]["bytes"]
            elif "output" in line:
                print("in the sandbox:", line["output"]["bytes"], file=sys.stderr)
        text, self.buffer = self.buffer.split("\n", 1)
        return json.loads(text)

    def ask(self, **words):
        status, answer = self.sandbox.warden.raw(
            "POST", f"{self.sandbox.base}/jobs/{self.job}/input", json.dumps(words) + "\n")
        if status >= 300:
            raise AssertionError(answer)
        got = self.answer()
        return Received(base64.b64decode(got["received"]), got["end"], got.get("more"))


def dechunked(data):
    """The body, as far as it came."""
    body = b""
    while b"\r\n" in data:
        size, _, data = data.partition(b"\r\n")
        count = int(size, 16)
        body += data[:count]
        data = data[count + 2 :]
    return body


class Received:
    """What the sandbox got."""

    def __init__(self, data, end, more=None):
        self.data = data
        self.end = end
        self.more = more or {}
        while data.startswith(b"HTTP/1.1 100 "):
            data = data.partition(b"\r\n\r\n")[2]
        head, _, self.body = data.partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        self.status = int(lines[0].split(" ")[1]) if lines[0].startswith("HTTP/1.") else None
        self.fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
        self.code = self.fields.get("x-pons-refused")
        if self.fields.get("transfer-encoding") == "chunked":
            self.body = dechunked(self.body)

    def __repr__(self):
        return f"{self.end}: {self.data[:1500]!r}"


class World:
    """One Pons with one internet. Use it as a context, or call end()."""

    def __init__(self, policy=None, more_config="", protocols=("http/1.1",), name_server=NAME_SERVER):
        self.protocols = protocols  # that hosts agree to speak
        self.name_server = name_server  # that Pons asks
        self.begun = time.time()
        self.case = PonsTestCase()
        self.case.setUp()
        try:
            self.build(policy or POLICY, more_config)
        except BaseException:
            self.case.doCleanups()
            raise

    def build(self, policy, more_config):
        self.directory = tempfile.mkdtemp(prefix="internet-", dir=self.case.directory)
        self.internet = Internet(self.directory, self.protocols)
        self.case.addCleanup(self.internet.end)
        self.case.addCleanup(ThisMachine().end)
        self.cover("/etc/resolv.conf", f"nameserver {self.name_server}\noptions timeout:1 attempts:1\n")
        self.cover("/etc/ssl/certs/ca-certificates.crt", read_text(f"{self.directory}/authority.pem"))
        environments = json.dumps({"web": policy})
        self.pons = self.case.start(f"environments: {environments}\n{more_config}")
        self.case.addCleanup(end_orderly, self.pons)
        self.secrets = {}
        for name, where in BINDINGS.items():
            self.set_secret(name, random_secret(PREFIXES.get(name, "")), where)
        self.warden = Warden(self.pons)
        self.watched = [Watched(self.pons.log_file), Watched(f"{self.directory}/names.log")]
        # The addresses of mixed ones are others'.
        self.watched_hosts = [(host, Watched(path)) for host in HOSTS if not host.startswith("mixed")
                              for path in self.internet.received_by(host)]
        self.audit_seen = 0
        self.probes = 0

    def cover(self, path, text):
        """In this namespace, the file is another one."""
        source = self.case.write_file(os.path.basename(path), text)
        os.chmod(source, 0o644)
        run("mount", "--bind", source, path)
        self.case.addCleanup(run, "umount", path)

    def pons_with_input(self, text, *words):
        done = subprocess.run([self.pons.binary, *words, "--state-dir", self.pons.state_dir], input=text, text=True,
                              capture_output=True, timeout=60, check=False)
        if done.returncode != 0:
            raise AssertionError(f"pons {words}: {done.stdout}{done.stderr}")
        return done.stdout

    def set_secret(self, name, value, where):
        self.pons_with_input(value, "vault", "set", name, *where)
        self.secrets[name] = value
        self.forms = self.forms_of(*self.secrets.values())
        self.forms_by_name = {**getattr(self, "forms_by_name", {}), name: forms(value)}

    @staticmethod
    def forms_of(*values):
        return [forms(value) for value in values]

    def sandbox(self, name, network=None, **more):
        return self.warden.create(id=name, template="host", network=network or {"environment": "web"}, **more)

    def end(self):
        self.case.doCleanups()

    # ---- what was decided

    def audit_files(self):
        return sorted(glob.glob(f"{self.pons.state_dir}/egress/audit/audit-*.jsonl"))

    def events(self):
        """All decisions so far, as `pons audit` prints them."""
        asked = self.pons.command("audit", "export")
        if asked.returncode != 0:
            raise AssertionError(asked.stdout + asked.stderr)
        return [json.loads(line) for line in asked.stdout.splitlines()]

    def last_events(self, after):
        """The same out of the files, without the cost of a command."""
        found = []
        for path in reversed(self.audit_files()):
            with open(path, "rb") as file:
                lines = file.read().splitlines()
            for line in reversed(lines):
                event = json.loads(line) if line.endswith(b"}") else {"seq": after + 1, "kind": "unfinished"}
                if event["seq"] <= after:
                    return found[::-1]
                found.append(event)
        return found[::-1]

    # ---- where no secret may be

    def find_leak(self, data):
        return next((form for each in self.forms if (form := find_secret(each, data))), None)

    def check_growing_files(self):
        for watched in self.watched:
            if form := self.find_leak(watched.read_new()):
                raise AssertionError(f"a secret ({form}) is in {watched.path}")
        for host, watched in self.watched_hosts:
            data = watched.read_new()
            for name, each in self.forms_by_name.items() if data else ():
                if name != OWNERS.get(host) and (form := find_secret(each, data)):
                    raise AssertionError(f"{host} was sent {name} ({form})")
        for path in self.audit_files():
            with open(path, "rb") as file:
                if form := self.find_leak(file.read()):
                    raise AssertionError(f"a secret ({form}) is in the audit log")

    def check_everything_kept(self):
        """All files of Pons, and none is a core file; nor is one where the kernel would put it."""
        pattern = read_text("/proc/sys/kernel/core_pattern").strip()
        if pattern.startswith("/"):
            for path in glob.glob(re.sub("%.", "*", pattern)):
                if os.path.getmtime(path) >= self.begun:
                    raise AssertionError(f"{path} is left")
        for directory, _, names in os.walk(self.pons.state_dir):
            for name in names:
                path = f"{directory}/{name}"
                if os.path.islink(path) or not os.path.isfile(path) or "/templates/" in path:
                    continue
                if name.startswith("core"):
                    raise AssertionError(f"{path} is left")
                with open(path, "rb") as file:
                    if form := self.find_leak(file.read()):
                        raise AssertionError(f"a secret ({form}) is in {path}")

    def check_metrics(self):
        if form := self.find_leak(self.pons.command("egress", "metrics").stdout.encode()):
            raise AssertionError(f"a secret ({form}) is in the metrics")

    def check_inside(self, sandbox):
        """Whatever can be read in the sandbox by the one who works there."""
        gathered = sandbox.run("cat /proc/*/environ /proc/*/cmdline /proc/*/maps /proc/net/* 2>/dev/null; "
                               "find /etc /var /opt /srv /mnt /dev/shm /run /tmp -xdev -type f -newer /tmp/attack.py -print0 2>/dev/null"
                               " | tar --null -T - -cf - 2>/dev/null | head -c 20000000; "
                               "tar -cf - /tmp /root /home /run /var/tmp /dev/shm 2>/dev/null | head -c 20000000", seconds=60)
        if form := self.find_leak(gathered.output):
            raise AssertionError(f"a secret ({form}) is in the sandbox")
