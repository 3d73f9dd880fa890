"""Two machines on one: ours, where the candidates run, and the internet behind a veth pair, which answers as the host.

enter() starts the calling program again in a network and a mount namespace of its own; all of it ends with them.
"""
import os
import socket
import struct
import subprocess
import sys
import tempfile
import time

HOST, ADDRESS, NAME_SERVER = "api.example.com", "93.184.216.34", "9.9.9.9"
OUR_SIDE, THEIR_SIDE = "198.41.0.1", "198.41.0.2"
INSIDE = "PONS_BENCH_INSIDE"

# One that answers; uploads are read to their end and thrown away.
UPSTREAM = """
worker_processes 1; daemon off; pid {dir}/upstream.pid; error_log {dir}/upstream.log crit;
events {{ worker_connections 4096; }}
http {{
  access_log off; map_hash_bucket_size 256; keepalive_requests 1000000000; server_tokens off; sendfile off; output_buffers 4 64k;
  client_body_temp_path {dir}/u1; proxy_temp_path {dir}/u2; fastcgi_temp_path {dir}/u3;
  uwsgi_temp_path {dir}/u4; scgi_temp_path {dir}/u5;
  client_max_body_size 0; client_body_buffer_size 1m;
  ssl_certificate {dir}/host.pem; ssl_certificate_key {dir}/host.key; ssl_session_tickets off;
  server {{
    listen {address}:443 ssl;
    location = /json {{ default_type application/json; return 200 '{body}'; }}
    location = /blob {{ root {dir}/files; default_type application/octet-stream; }}
    location = /upload {{ proxy_pass http://127.0.0.1:81; proxy_pass_request_body off; proxy_set_header Content-Length ""; }}
    location = /seen {{ default_type text/plain; return 200 $http_authorization_seen; }}
  }}
  map $http_authorization $http_authorization_seen {{ "Bearer {secret}" real; default other; }}
  server {{ listen 127.0.0.1:81; location / {{ return 200 'taken'; }} }}
}}
"""


def run(*words, **options):
    return subprocess.run(words, check=True, capture_output=True, text=True, **options).stdout


def enter():
    """Returns in the new namespaces."""
    if os.environ.pop(INSIDE, None):
        run("ip", "link", "set", "lo", "up")
        return
    if os.geteuid() != 0:
        sys.exit("bench egress: needs root, for namespaces and sandboxes")
    os.environ[INSIDE] = "1"
    os.execvp("unshare", ["unshare", "--net", "--mount", "--propagation", "private", sys.executable, *sys.argv])


def start(command):
    """A process that does not outlive this one."""
    return subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "--", *command], stdin=subprocess.DEVNULL,
                            stdout=subprocess.DEVNULL)


def make_certificates(directory, host):
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30"]
    run("openssl", "req", "-x509", *key, "-subj", "/CN=Authority of the benchmark", "-keyout", "authority.key",
        "-out", "authority.pem", "-addext", "basicConstraints=critical,CA:TRUE", cwd=directory)
    run("openssl", "req", "-x509", *key, "-subj", f"/CN={host}", "-CA", "authority.pem", "-CAkey", "authority.key",
        "-addext", f"subjectAltName=DNS:{host}", "-addext", "basicConstraints=CA:FALSE",
        "-keyout", "host.key", "-out", "host.pem", cwd=directory)


def answer_names():
    """A name server that knows one host, without IPv6."""
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind((NAME_SERVER, 53))
    while True:
        query, client = server.recvfrom(1500)
        end = query.index(0, 12) + 5
        is_v4 = query[end - 4 : end - 2] == b"\0\1"
        answer = struct.pack("!HHHLH4s", 0xC00C, 1, 1, 300, 4, socket.inet_aton(ADDRESS)) if is_v4 else b""
        head = query[:2] + struct.pack("!HHHHH", 0x8580, 1, 1 if is_v4 else 0, 0, 0)
        server.sendto(head + query[12:end] + answer, client)


class Internet:
    """The namespace behind the line, its name server and its one host."""

    def __init__(self, directory, body, secret):
        self.processes = []
        make_certificates(directory, HOST)
        keeper = self.start(["unshare", "--net", "sleep", "infinity"])
        own = os.readlink("/proc/self/ns/net")
        while os.readlink(f"/proc/{keeper.pid}/ns/net") == own:
            time.sleep(0.01)
        self.inside = ["nsenter", f"--net=/proc/{keeper.pid}/ns/net"]
        run("ip", "link", "add", "pons0", "type", "veth", "peer", "name", "net0", "netns", str(keeper.pid))
        run("ip", "address", "add", f"{OUR_SIDE}/30", "dev", "pons0")
        run("ip", "link", "set", "pons0", "up")
        run("ip", "route", "add", "default", "via", THEIR_SIDE)
        for words in (["link", "set", "lo", "up"], ["address", "add", f"{THEIR_SIDE}/30", "dev", "net0"],
                      ["address", "add", f"{ADDRESS}/32", "dev", "lo"], ["address", "add", f"{NAME_SERVER}/32", "dev", "lo"],
                      ["link", "set", "net0", "up"]):
            run(*self.inside, "ip", *words)
        self.cover(directory, "/etc/resolv.conf", f"nameserver {NAME_SERVER}\n")
        with open(f"{directory}/authority.pem", encoding="ascii") as file:
            self.cover(directory, "/etc/ssl/certs/ca-certificates.crt", file.read())
        self.start([*self.inside, sys.executable, __file__])
        with open(f"{directory}/upstream.conf", "w", encoding="ascii") as file:
            file.write(UPSTREAM.format(dir=directory, address=ADDRESS, body=body, secret=secret))
        self.start([*self.inside, "taskset", "-c", "1", "nginx", "-c", f"{directory}/upstream.conf"])
        wait_for_port(ADDRESS, 443)

    def start(self, command):
        self.processes.append(start(command))
        return self.processes[-1]

    def cover(self, directory, path, text):
        """In this namespace, the file is another one."""
        source = tempfile.mktemp(dir=directory)
        with open(source, "w", encoding="ascii") as file:
            file.write(text)
        os.chmod(source, 0o644)
        run("mount", "--bind", source, path)

    def end(self):
        for process in reversed(self.processes):
            process.terminate()
            process.wait()


def wait_for_port(address, port, seconds=20):
    deadline = time.monotonic() + seconds
    while True:
        try:
            return socket.create_connection((address, port), 0.5).close()
        except OSError:
            if time.monotonic() > deadline:
                sys.exit(f"bench egress: nobody listens on {address}:{port}")
            time.sleep(0.05)


if __name__ == "__main__":
    answer_names()
