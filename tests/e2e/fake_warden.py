"""A warden made of canned answers, on the control socket of a state directory that no Pons runs on.

What it is asked is noted, and what it answers is up to the test: also what no honest warden would say.
"""

import http.server
import json
import os
import socketserver
import threading
import urllib.parse


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def address_string(self):
        return "unix"

    def log_message(self, *arguments):
        pass

    def answer(self):
        warden = self.server.warden
        length = int(self.headers.get("Content-Length") or 0)
        body = self.read_chunks() if self.headers.get("Transfer-Encoding") else self.rfile.read(length)
        url = urllib.parse.urlsplit(self.path)
        request = (self.command, url.path)
        warden.requests.append((self.command, self.path, body))
        routes = warden.routes
        route = routes.get(request, routes.get((self.command, "*")))
        query = dict(urllib.parse.parse_qsl(url.query, keep_blank_values=True))
        if callable(route):
            route = route(query, body)
        if route is None:
            return self.send(404, {"error": {"type": "not_found", "message": f"there is no {url.path}"}})
        if isinstance(route, tuple):
            return self.send(*route)
        return self.stream(route)

    do_GET = do_POST = do_PUT = do_DELETE = answer

    def read_chunks(self):
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def send(self, status, body):
        data = body if isinstance(body, bytes) else json.dumps(body).encode() if body is not None else b""
        self.send_response(status)
        if status != 204:
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def stream(self, lines):
        """Lines of JSON, each when the iterable gives it; a None cuts the answer off."""
        self.send_response(200)
        self.send_header("Content-Type", "application/x-ndjson")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for line in lines:
            if line is None:
                self.close_connection = True
                return
            data = json.dumps(line).encode() + b"\n"
            try:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
            except OSError:
                self.close_connection = True
                return
        self.wfile.write(b"0\r\n\r\n")


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request, client_address):
        """A client that left before its answer is what some tests are about."""


class FakeWarden:
    """`routes` maps (METHOD, path) to (status, body), to a list of JSON lines, or to a function of query and body."""

    def __init__(self, state_dir):
        os.makedirs(f"{state_dir}/run", exist_ok=True)
        self.requests = []
        self.routes = {}
        self.server = Server(f"{state_dir}/run/warden.sock", Handler)
        self.server.warden = self
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02})
        self.thread.start()

    def close(self):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()

    def asked(self, method, path):
        return [body for m, target, body in self.requests if m == method and target.split("?")[0] == path]
