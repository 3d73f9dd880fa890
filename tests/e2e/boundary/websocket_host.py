"""A host's side of a WebSocket, and frames for both sides."""

import base64
import hashlib
import os
import struct
import time
import zlib

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10


def frame(opcode, payload, final=True, reserved=0, masked=False):
    size = len(payload)
    head = bytes([(0x80 if final else 0) | reserved | opcode])
    mask = 0x80 if masked else 0
    if size < 126:
        head += bytes([mask | size])
    elif size < 65536:
        head += struct.pack("!BH", mask | 126, size)
    else:
        head += struct.pack("!BQ", mask | 127, size)
    if not masked:
        return head + payload
    key = os.urandom(4)
    long_key = (key * (size // 4 + 1))[:size]
    covered = (int.from_bytes(payload, "big") ^ int.from_bytes(long_key, "big")).to_bytes(size, "big")
    return head + key + covered


def deflated(payload):
    """As permessage-deflate has it: without the four bytes at the end."""
    packer = zlib.compressobj(wbits=-15)
    return (packer.compress(payload) + packer.flush(zlib.Z_SYNC_FLUSH))[:-4]


def read_frames(data):
    """(opcode, payload) of each whole frame; of either side."""
    while len(data) >= 2:
        opcode, size, at = data[0] & 15, data[1] & 127, 2
        if size == 126:
            size, at = int.from_bytes(data[2:4], "big"), 4
        elif size == 127:
            size, at = int.from_bytes(data[2:10], "big"), 10
        key = data[at : at + 4] if data[1] & 128 else b""
        at += len(key)
        if len(data) < at + size:
            return
        payload = data[at : at + size]
        yield opcode, bytes(byte ^ key[i % 4] for i, byte in enumerate(payload)) if key else payload
        data = data[at + size :]


class Socket:
    def __init__(self, talk):
        self.talk = talk

    def send(self, opcode, payload, **more):
        self.talk.stream.sendall(frame(opcode, payload, **more))

    def receive(self):
        while True:
            for opcode, payload in read_frames(self.talk.buffer):
                self.talk.buffer = self.talk.buffer[len(frame(opcode, payload, masked=True)) :]
                # Unmasked: whoever looks for something must see it.
                self.talk.record.bytes_at(self.talk.address, payload)
                return opcode, payload
            self.talk.fill()


def serve_socket(talk, words):
    key = talk.fields.get("sec-websocket-key", "")
    accept = base64.b64encode(hashlib.sha1((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()).decode()
    lines = ["HTTP/1.1 101 Switching Protocols", "Upgrade: websocket", "Connection: Upgrade", f"Sec-WebSocket-Accept: {accept}"]
    if words.get("extension"):
        lines.append("Sec-WebSocket-Extensions: permessage-deflate")
    if words.get("protocol"):
        lines.append("Sec-WebSocket-Protocol: " + words["protocol"].replace("SECRET", talk.secret.decode()))
    if words.get("field"):
        lines.append("X-Seen: " + talk.secret.decode())
    talk.stream.sendall("\r\n".join(lines).encode() + b"\r\n\r\n")
    socket = Socket(talk)
    greet(socket, words.get("say"), talk.secret)
    while True:
        opcode, payload = socket.receive()
        if opcode == CLOSE:
            return socket.send(CLOSE, payload)
        if opcode in (TEXT, BINARY, CONTINUATION):
            socket.send(opcode or TEXT, payload)


def greet(socket, what, secret):
    """The first words, which hold the secret in one way or another."""
    middle = len(secret) // 2
    if what in ("text", "binary"):
        socket.send(TEXT if what == "text" else BINARY, b"you are " + secret)
    elif what == "base64":
        socket.send(TEXT, base64.b64encode(b"you are " + secret))
    elif what == "fragments":
        socket.send(TEXT, b"you are " + secret[:middle], final=False)
        socket.send(PING, b"between")
        socket.send(CONTINUATION, secret[middle:])
    elif what == "letters":
        for byte in secret:
            socket.send(TEXT, bytes([byte]))
    elif what == "two messages":
        socket.send(TEXT, b"you are " + secret[:middle])
        socket.send(TEXT, secret[middle:])
    elif what == "ping":
        socket.send(PING, secret)
    elif what == "close":
        socket.send(CLOSE, struct.pack("!H", 1000) + secret)
    elif what == "deflated":
        socket.send(TEXT, deflated(b"you are " + secret), reserved=0x40)
    elif what == "large":
        socket.send(BINARY, bytes(1_500_000) + secret + bytes(1_500_000))
    elif what == "too large":
        socket.send(BINARY, bytes(5_000_000) + secret)
    elif what == "raw":
        socket.talk.stream.sendall(b"HTTP/1.1 200 OK\r\n\r\n" + secret)
    elif what == "ticks":
        while True:
            socket.send(TEXT, b"tick")
            time.sleep(0.05)
