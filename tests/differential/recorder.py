"""A server that answers every request with what arrived: no more than our own words, read by rules that leave no choice.

The answer's X-Reading is a JSON object in base64: method, target, fields as they came, and the body in base64; or `odd`, when
the bytes are not in the one form that a careful sender uses.
"""

import base64
import json
import re
import socket
import sys
import threading

LINE = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+ [\x21-\x7e]+ HTTP/1\.[01]")
FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\r\n\0]*)")


class Odd(Exception):
    pass


class Recorder:
    """One connection."""

    def __init__(self, stream):
        self.stream = stream
        self.buffer = b""

    def run(self):
        with self.stream:
            try:
                while (request := self.read_request()) is not None:
                    self.answer(request)
            except Odd as odd:
                self.answer({"odd": str(odd)})
            except OSError:
                pass

    def answer(self, record):
        text = base64.b64encode(json.dumps(record).encode())
        self.stream.sendall(b"HTTP/1.1 200 OK\r\nX-Reading: " + text + b"\r\nContent-Length: 0\r\n\r\n")

    def fill(self):
        piece = self.stream.recv(65536)
        if not piece:
            raise OSError("it left")
        self.buffer += piece

    def take_line(self):
        while b"\n" not in self.buffer:
            self.fill()
        line, self.buffer = self.buffer.split(b"\n", 1)
        if not line.endswith(b"\r"):
            raise Odd(f"a line ends with a bare line feed: {line!r}")
        return line[:-1]

    def take(self, count):
        while len(self.buffer) < count:
            self.fill()
        data, self.buffer = self.buffer[:count], self.buffer[count:]
        return data

    def read_request(self):
        if not self.buffer:
            try:
                self.fill()
            except OSError:
                return None
        line = self.take_line()
        if not LINE.fullmatch(line):
            raise Odd(f"no request line: {line!r}")
        fields = []
        while text := self.take_line():
            if not (found := FIELD.fullmatch(text)):
                raise Odd(f"no field: {text!r}")
            fields.append([found[1].decode("latin-1"), found[2].strip(b" \t").decode("latin-1")])
        method, target, _ = line.decode("latin-1").split(" ")
        body = self.read_body([(name.lower(), value) for name, value in fields])
        return {"method": method, "target": target, "fields": fields, "body": base64.b64encode(body).decode()}

    def read_body(self, fields):
        framing = [(name, value) for name, value in fields if name in ("content-length", "transfer-encoding")]
        if len(framing) > 1:
            raise Odd(f"framed twice: {framing}")
        if not framing:
            return b""
        name, value = framing[0]
        if name == "content-length":
            if not re.fullmatch("[0-9]{1,9}", value):
                raise Odd(f"no length: {value}")
            return self.take(int(value))
        if value != "chunked":
            raise Odd(f"no coding: {value}")
        body = b""
        while True:
            size = self.take_line()
            if not re.fullmatch(rb"[0-9A-Fa-f]{1,8}", size):
                raise Odd(f"no size of a chunk: {size!r}")
            if not int(size, 16):
                break
            body += self.take(int(size, 16))
            if self.take(2) != b"\r\n":
                raise Odd("a chunk is longer than its size")
        while self.take_line():
            pass
        return body


def main():
    """On a free port of this machine, which is printed."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
    print(listener.getsockname()[1], flush=True)
    while True:
        stream, _ = listener.accept()
        stream.settimeout(30)
        threading.Thread(target=Recorder(stream).run, daemon=True).start()


if __name__ == "__main__":
    sys.exit(main())
