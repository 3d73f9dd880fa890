"""Byte sequences on which readers of HTTP/1.1 might disagree, made anew from a seed.

Each begins as one of the sequences in readings.txt, or is put together from parts that are known to be read in more than
one way; then some are damaged a little. All end with one more request: a reader that lost its place does not see it, or
sees it somewhere else.
"""

import random
import re

from compare_readings import HERE, load_cases

LAST = b"/last"

# The first of each kind is the good one; the others are read in more than one way, or by some readers only.
METHODS = [b"GET"] * 4 + [b"POST"] * 6 + [b"PUT", b"HEAD", b"OPTIONS", b"DELETE", b"PATCH", b"get", b"GETT", b"G ET"]
VERSIONS = [
    b"HTTP/1.1", b"HTTP/1.0", b"HTTP/1.2", b"HTTP/2.0", b"http/1.1", b"HTTP/1.1 ", b"HTTP/01.1", b"HTTP/1.10", b"",
]
TARGETS = [
    b"/1", b"/1?a=b", b"/1?", b"/", b"//1", b"/1//2", b"/./1", b"/1/../2", b"/1/%2e%2e/2", b"/1/..;/2", b"/1%2f2",
    b"/1%5c2", b"/1\\2", b"/1#2", b"/1?a#b", b"/1%00", b"/1%0d%0a", b"/1%", b"/1%zz", b"/1;a=b", b"/1?a=b&c=d;e",
    b"/1 2", b"/1\t", b"*", b"1", b"?", b"", b"/\xc3\xa9", b"http://{H}/1", b"HTTP://{H}/1", b"http://{H}",
    b"http://{H}?a", b"http://{H}:80/1", b"http://{H}:81/1", b"http://x@{H}/1", b"http://{H}@x/1", b"http://x/1",
    b"https://{H}/1", b"http:/1", b"http:///1", b"//{H}/1", b"{H}:80",
]
HOSTS = [
    b"Host: {H}", b"Host: {H}:80", b"Host: {H}.", b"host:{H}", b"HOST:\t{H} ", b"Host: {H}:81", b"Host: {H}:",
    b"Host: {H}:080", b"Host: x", b"Host: x@{H}", b"Host: {H}/x", b"Host: {H}\r\nHost: {H}", b"Host: {H}\r\nHost: x",
    b"Host : {H}", b"Host:\r\n {H}", b"Hos\xf4t: {H}", b"Host: {H}, x", b"Host: \"{H}\"", b"Host: READER.example.net",
    b"X: y", b"Host: {H}#", b"Host: {H}?", b"Host: {H}%20",
]
LENGTHS = [
    b"%d", b"0%d", b"+%d", b"-%d", b"%d ", b"\t%d", b"%d, %d", b"%d,", b" ,%d", b"0x%x", b"%d.0", b"%d;a", b"%de0",
    b"\"%d\"", b"%d %d", b"%d\r\n %d", b"1844674407370955161%d", b"%d\x0b", b"\xa0%d", b"0b%d", b"%d_0", b"",
]
LENGTH_NAMES = [
    b"Content-Length: ", b"content-length:", b"Content-Length : ", b"Content-Length\t:", b"Content_Length: ",
    b" Content-Length: ", b"Content-Length:\r\n ", b"Content-Length\x00: ", b"Content\x0b-Length: ",
    b"CONTENT-LENGTH:\t", b"X: y\rContent-Length: ", b"X: y\nContent-Length: ",
]
CODINGS = [
    b"Transfer-Encoding: chunked", b"transfer-encoding:chunked", b"Transfer-Encoding: CHUNKED",
    b"Transfer-Encoding:\tchunked", b"Transfer-Encoding: chunked ", b"Transfer-Encoding : chunked",
    b"Transfer-Encoding\t: chunked", b"Transfer-Encoding: xchunked", b"Transfer-Encoding: chunked, identity",
    b"Transfer-Encoding: identity", b"Transfer-Encoding: identity, chunked", b"Transfer-Encoding: gzip, chunked",
    b"Transfer-Encoding: chunked, chunked", b"Transfer-Encoding: ,chunked", b"Transfer-Encoding: chunked,",
    b"Transfer-Encoding: \"chunked\"", b"Transfer-Encoding: chunked;a=b", b"Transfer-Encoding: \x0bchunked",
    b"Transfer-Encoding: chun\x00ked", b"Transfer-Encoding: chunked\x00", b"Transfer_Encoding: chunked",
    b"Transfer-Encoding:\r\n chunked", b"Transfer-Encoding: x\r\n chunked", b" Transfer-Encoding: chunked",
    b"X: y\r\n Transfer-Encoding: chunked", b"X: y\rTransfer-Encoding: chunked", b"X: y\nTransfer-Encoding: chunked",
    b"Transfer-Encoding\x0b: chunked", b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
    b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", b"Transfer-Encoding\r\n: chunked",
    b"Transfer-Encoding:", b"TE: chunked", b"Transfer-Encoding: \xe2\x84\xaa", b"Transfer-\xc5\xbfncoding: chunked",
    b"Transfer-Encoding: chunKed\xa0",
]
FIELDS = [
    b"X: y", b"X:", b"X: \t ", b"X: a, b", b"X: \xc3\xa9", b"X: a\tb", b"Accept: */*", b"Cookie: a=b",
    b"Cookie: a=b\r\nCookie: c=d", b"Connection: keep-alive", b"Connection: close", b"Connection: Content-Length",
    b"Connection: close, X", b"Connection: X", b"Keep-Alive: x", b"Connection: Transfer-Encoding",
    b"Proxy-Connection: keep-alive", b"Expect: 100-continue", b"Upgrade: h2c", b"Upgrade: websocket",
    b"Connection: upgrade\r\nUpgrade: h2c", b"Connection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13",
    b"Trailer: X", b"TE: trailers", b"X-Forwarded-For: 1.2.3.4", b"X-Forwarded-Host: x", b"Forwarded: for=x",
    b"Via: 1.1 x", b"X-HTTP-Method-Override: DELETE", b"X-Original-URL: /x", b"Max-Forwards: 0", b"Range: bytes=0-1",
    b"Content-Encoding: identity", b"Content-Type: text/plain", b"X_Y: z", b"X.Y: z", b"X!: z", b"Alt-Used: x",
    b"Early-Data: 1", b"Proxy-Authorization: x", b"Upgrade-Insecure-Requests: 1",
]
BAD_FIELDS = [
    b"Expect: x", b"X(: z", b": y", b"X", b"X : y", b"X\t: y", b" X: y", b"X: y\r\n z", b"X: y\r\n\tz", b"X: a\x00b",
    b"X: a\x01b", b"X: a\x7fb", b"X: a\rb", b"X: a\nb", b"X: y\r", b"\x00: y", b"X\x00Y: z", b"X\xe9: y",
    b"GET /2 HTTP/1.1",
]
SIZES = [
    b"%x", b"0%x", b"%X", b"000000000000000000%x", b"0x%x", b"+%x", b"-%x", b" %x", b"%x ", b"%x\t", b"%x;a",
    b"%x;a=b", b"%x;a=\"b\"", b"%x;a=\"\r\n\"", b"%x ;a", b"%x;\x00", b"%x;a\nb", b"%x\x0b", b"1000000000000000%x",
    b"ffffffffffffffff%x", b"%x,", b"%x_", b"", b"%xg", b"%x\r",
]
ENDS = [b"\r\n", b"\n", b"\r", b"\r\r\n", b"\n\r\n", b"", b"\r\n\r\n"]
TRAILERS = [
    b"", b"A: b\r\n", b"Content-Length: 5\r\n", b"Transfer-Encoding: chunked\r\n", b"Host: x\r\n",
    b"GET /2 HTTP/1.1\r\n", b" A: b\r\n", b"A: b\n", b"A : b\r\n", b"A\r\n", b"A: b\x00\r\n",
]
BODIES = [
    b"", b"a", b"hello", b"0\r\n\r\n", b"5\r\nhello\r\n0\r\n\r\n", b"GET /smuggled HTTP/1.1\r\nHost: {H}\r\n\r\n",
    b"\r\n", b"x=y&z=1",
]
NOISE = [
    b"\r", b"\n", b"\r\n", b"\x00", b"\t", b" ", b"\x0b", b"\x0c", b"\x1f", b"\x7f", b"\x85", b"\xa0", b"\xff", b":",
    b",", b";", b"%", b"#", b"?", b"/", b"//", b"/../", b"\\", b"@", b"\"", b"0", b"\r\n ", b"\r\n\r\n",
    b"Content-Length: 3\r\n", b"Transfer-Encoding: chunked\r\n",
]


class HostileRequests:
    """An endless, repeatable series for a server that calls itself `host`."""

    def __init__(self, seed, host):
        self.random = random.Random(seed)
        self.host = host.encode()
        seeds = [case.data for case in load_cases(HERE / "readings.txt") if len(case.data) < 4096]
        self.seeds = [re.sub(rb"(Host: |http://)a(?=[\r/?])", rb"\g<1>{H}", seed) for seed in seeds]

    def chance(self, odds):
        return self.random.random() < odds

    def next(self):
        if self.chance(0.2):
            data = self.random.choice(self.seeds)
        else:
            data = b"".join(self.message() for _ in range(self.random.choice((1, 1, 1, 1, 2))))
        for _ in range(self.random.choice((0, 0, 0, 0, 0, 0, 1, 1, 2))):
            data = self.damage(data)
        data += b"GET " + LAST + b" HTTP/1.1\r\nHost: {H}\r\nConnection: close\r\n\r\n"
        return data.replace(b"{H}", self.host)

    # ---- a message out of parts

    def message(self):
        pick = self.random.choice
        body = pick(BODIES).replace(b"{H}", self.host)
        first = b" ".join(self.one_of(*each) for each in ((METHODS, 0.7), (TARGETS, 0.2), (VERSIONS, 0.1)))
        lines = [self.one_of(HOSTS, 0.1)]
        lines += [pick(BAD_FIELDS if self.chance(0.15) else FIELDS) for _ in range(pick((0, 0, 1, 1, 2)))]
        data = body
        kind = self.random.random()
        if kind < 0.4:
            lines.append(self.length_of(body))
        elif kind < 0.8:
            lines.append(self.one_of(CODINGS, 0.25))
            data = self.chunked(body)
        elif kind < 0.85:
            lines += [self.length_of(body), pick(CODINGS)]
            data = self.chunked(body) if self.chance(0.5) else body
        else:
            data = b""
        self.random.shuffle(lines)
        head = first + self.one_of(ENDS, 0.05) + b"".join(line + self.one_of(ENDS, 0.03) for line in lines)
        return head + b"\r\n" + data

    def length_of(self, body):
        return self.one_of(LENGTH_NAMES, 0.15) + self.number(LENGTHS, 0.25, len(body))

    def chunked(self, body):
        out = b""
        middle = self.random.randrange(len(body) + 1)
        for piece in filter(None, (body[:middle], body[middle:])):
            out += self.number(SIZES, 0.1, len(piece)) + self.one_of(ENDS, 0.05) + piece + self.one_of(ENDS, 0.05)
        return out + self.number(SIZES, 0.1, 0) + b"\r\n" + self.one_of(TRAILERS, 0.3) + self.one_of(ENDS, 0.05)

    def one_of(self, forms, odds):
        """The first is the good one; another with these odds."""
        return self.random.choice(forms) if self.chance(odds) else forms[0]

    def number(self, forms, odds, value):
        form = self.one_of(forms, odds)
        return form % ((value,) * form.count(b"%"))

    # ---- damage

    def damage(self, data):
        at = self.random.randrange(len(data) + 1)
        to = min(len(data), at + self.random.choice((1, 1, 2, 8)))
        return self.random.choice((
            lambda: data[:at] + self.random.choice(NOISE) + data[at:],
            lambda: data[:at] + self.random.choice(NOISE) + data[to:],
            lambda: data[:at] + data[to:],
            lambda: data[:to] + data[at:],
            lambda: data[:at] + bytes([self.random.randrange(256)]) + data[at + 1 :],
            lambda: self.in_lines(data),
        ))()

    def in_lines(self, data):
        lines = data.split(b"\r\n")
        i, j = (self.random.randrange(len(lines)) for _ in range(2))
        what = self.random.randrange(4)
        if what == 0:
            lines[i], lines[j] = lines[j], lines[i]
        elif what == 1:
            lines.insert(i, lines[j])
        elif what == 2:
            lines[i] = lines[i].swapcase()
        else:
            lines.insert(i, self.random.choice(FIELDS + BAD_FIELDS + CODINGS))
        return b"\r\n".join(lines)
