"""Runs in the sandbox: HTTP/2 by hand, so that every frame can be wrong.

A step is one of
  ["headers", stream, [[name, value], …], {"end", "padding", "split"}]   split: bytes in each frame of the block
  ["data", stream, text, {"end", "padding", "size"}]                     size: bytes in each frame
  ["frame", kind, flags, stream, text]
  ["repeat", times, [step, …]]                                           stream 0 in them: a new one each time
  ["pause", seconds]
"""

import base64
import select
import socket
import ssl
import struct
import time

import hpack

DATA, HEADERS, PRIORITY, RESET, SETTINGS, PUSH, PING, GOAWAY, WINDOW, CONTINUATION = range(10)
END_STREAM, ACK, END_HEADERS, PADDED = 1, 1, 4, 8
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def frame(kind, flags, stream, payload=b""):
    return struct.pack("!I", len(payload))[1:] + struct.pack("!BBI", kind, flags, stream) + payload


class Over(Exception):
    """The connection, with the reason."""


class Talk:
    def __init__(self, stream, ask):
        self.stream = stream
        self.ask = ask
        self.encoder, self.decoder = hpack.Encoder(), hpack.Decoder()
        self.decoder.max_header_list_size = 1 << 20
        self.input = b""
        self.block = b""
        self.streams = {}  # by number: what came
        self.window, self.windows, self.first_window = 65535, {}, 65535
        self.frame_bytes = 16384
        self.goaway = None
        self.newest = -1
        self.deadline = time.monotonic() + ask.get("seconds", 5)

    # ---- out

    def send(self, data):
        self.stream.settimeout(max(0.1, self.deadline - time.monotonic()))
        try:
            self.stream.sendall(data)
        except (ConnectionError, ssl.SSLError) as error:
            self.read_rest()
            raise Over("closed") from error

    def number(self, stream):
        """0 stands for a new one in a first step, and for the newest afterwards."""
        if stream == 0:
            return self.newest
        self.newest = max(self.newest, stream)
        return stream

    def send_headers(self, stream, fields, end=True, padding=0, split=0):
        if stream == 0:
            self.newest += 2
        stream = self.number(stream)
        fields = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in fields]
        block = self.encoder.encode(fields, huffman=self.ask.get("huffman", False))
        self.streams.setdefault(stream, {"head": None, "body": b"", "trailers": None, "end": None})
        pieces = [block[i : i + split] for i in range(0, len(block), split)] if split else [block]
        flags = END_STREAM if end else 0
        first = pieces[0]
        if padding:
            flags |= PADDED
            first = bytes([padding]) + first + bytes(padding)
        out = frame(HEADERS, flags | (END_HEADERS if len(pieces) == 1 else 0), stream, first)
        for i, piece in enumerate(pieces[1:], 2):
            out += frame(CONTINUATION, END_HEADERS if i == len(pieces) else 0, stream, piece)
        self.send(out)

    def send_data(self, stream, text, end=True, padding=0, size=0):
        stream = self.number(stream)
        data = text.encode("latin-1")
        self.windows.setdefault(stream, self.first_window)
        while True:
            cost = padding + 1 if padding else 0
            while min(self.window, self.windows[stream]) <= cost or select.select([self.stream], [], [], 0)[0]:
                self.receive()
                if self.streams[stream]["end"] is not None:
                    return
            room = min(self.window, self.windows[stream], size or self.frame_bytes, self.frame_bytes - cost) - cost
            piece, data = data[: max(1, room)], data[max(1, room) :]
            self.window -= len(piece) + cost
            self.windows[stream] -= len(piece) + cost
            flags = (END_STREAM if end and not data else 0) | (PADDED if padding else 0)
            self.send(frame(DATA, flags, stream, (bytes([padding]) + piece + bytes(padding)) if padding else piece))
            if not data:
                return

    def do(self, step):
        kind, *words = step
        if kind == "headers":
            self.send_headers(words[0], words[1], **(words[2] if len(words) > 2 else {}))
        elif kind == "data":
            self.send_data(words[0], words[1], **(words[2] if len(words) > 2 else {}))
        elif kind == "frame":
            self.send(frame(words[0], words[1], self.newest if words[2] == -1 else words[2], words[3].encode("latin-1")))
        elif kind == "pause":
            time.sleep(words[0])
        elif kind == "repeat":
            for _ in range(words[0]):
                for each in words[1]:
                    self.do(each)
                if select.select([self.stream], [], [], 0)[0]:
                    self.receive()

    # ---- in

    def read_rest(self):
        """What the other side said before it closed."""
        self.stream.settimeout(1)
        try:
            while True:
                self.receive()
        except (Over, OSError):
            pass

    def receive(self):
        self.stream.settimeout(max(0.05, self.deadline - time.monotonic()))
        try:
            piece = self.stream.recv(65536)
        except (TimeoutError, socket.timeout) as error:
            raise Over("silent") from error
        except (ConnectionError, ssl.SSLError, OSError) as error:
            raise Over(type(error).__name__) from error
        if not piece:
            raise Over("closed")
        self.input += piece
        while len(self.input) >= 9:
            size = int.from_bytes(self.input[:3], "big")
            if len(self.input) < 9 + size:
                break
            kind, flags, stream = struct.unpack("!BBI", self.input[3:9])
            payload, self.input = self.input[9 : 9 + size], self.input[9 + size :]
            self.take(kind, flags, stream & 0x7FFFFFFF, payload)

    def answer(self, data):
        if not self.ask.get("mute"):
            self.send(data)

    def take(self, kind, flags, number, payload):
        stream = self.streams.get(number)
        if kind == SETTINGS and not flags & ACK:
            for i in range(0, len(payload), 6):
                key, value = struct.unpack("!HI", payload[i : i + 6])
                if key == 4:
                    for each in self.windows:
                        self.windows[each] += value - self.first_window
                    self.first_window = value
            self.answer(frame(SETTINGS, ACK, 0))
        elif kind == PING and not flags & ACK:
            self.answer(frame(PING, ACK, 0, payload))
        elif kind == WINDOW:
            step = int.from_bytes(payload, "big")
            if number == 0:
                self.window += step
            elif number in self.windows:
                self.windows[number] += step
        elif kind == GOAWAY:
            self.goaway = int.from_bytes(payload[4:8], "big")
        elif kind in (HEADERS, CONTINUATION):
            if kind == HEADERS:
                self.block, self.last = b"", flags & END_STREAM
            self.block += payload
            if flags & END_HEADERS:
                fields = [(str(n), str(v)) for n, v in self.decoder.decode(self.block)]
                if stream is not None:
                    self.take_fields(stream, fields)
        elif stream is not None and kind == DATA:
            stream["body"] += payload[1 : len(payload) - payload[0]] if flags & PADDED else payload
            if payload and not self.ask.get("hold_window"):
                step = struct.pack("!I", len(payload))
                self.answer(frame(WINDOW, 0, 0, step) + (b"" if flags & END_STREAM else frame(WINDOW, 0, number, step)))
            if flags & END_STREAM:
                stream["end"] = "whole"
        elif stream is not None and kind == RESET:
            stream["end"] = stream["end"] or f"reset {int.from_bytes(payload, 'big')}"

    def take_fields(self, stream, fields):
        if stream["head"] is None or stream["head"][0][1].startswith("1"):
            stream["head"] = fields
        else:
            stream["trailers"] = fields
        if self.last:
            stream["end"] = "whole"

    # ---- all of it

    def run(self):
        end = "whole"
        try:
            settings = self.ask.get("settings", "").encode("latin-1")
            self.send(PREFACE + frame(SETTINGS, 0, 0, settings))
            for step in self.ask["steps"]:
                self.do(step)
            wanted = self.ask.get("wanted")
            while any(stream["end"] is None for stream in self.streams.values()) if wanted is None else wanted != self.goaway:
                self.receive()
        except Over as over:
            end = str(over)
        if self.goaway:
            end = f"goaway {self.goaway}"
        return end


def as_text(stream):
    """In the form that HTTP/1.1 would have, for those who look through it."""
    if stream["head"] is None:
        return b""
    status = dict(stream["head"]).get(":status")
    lines = [f"HTTP/1.1 {status} -"] + [f"{name}: {value}" for name, value in stream["head"] if not name.startswith(":")]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + stream["body"]


def talk(stream, ask):
    one = Talk(stream, ask)
    try:
        end = one.run()
    except OSError as error:
        end = type(error).__name__
    streams = [
        {"text": base64.b64encode(as_text(each)).decode(), "end": each["end"], "trailers": dict(each["trailers"] or ())}
        for _, each in sorted(one.streams.items())[:20]]
    first = min(one.streams, default=None)
    if first is None:
        return b"", end, *streams
    if end == "whole":
        end = one.streams[first]["end"] or end
    return as_text(one.streams[first]), end, *streams
