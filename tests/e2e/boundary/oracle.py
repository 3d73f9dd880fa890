"""Every form in which a secret could be somewhere."""

import base64
import re
import urllib.parse
import zlib


def forms(secret):
    """Name and bytes of each form of the secret that is looked for."""
    raw = secret.encode()
    found = {
        "raw": raw,
        "reversed": raw[::-1],
        "lower": raw.lower(),
        "hex": raw.hex().encode(),
        "HEX": raw.hex().upper().encode(),
        "percent": b"".join(b"%%%02x" % byte for byte in raw),
        "PERCENT": b"".join(b"%%%02X" % byte for byte in raw),
        "percent, minimal": urllib.parse.quote(secret, safe="").encode(),
        "json": b"".join(b"\\u%04x" % byte for byte in raw),
        "entities": b"".join(b"&#%d;" % byte for byte in raw),
        "utf-16le": secret.encode("utf-16-le"),
        "utf-16be": secret.encode("utf-16-be"),
    }
    for shift in range(3):
        # Only the letters that do not depend on what stands before and behind.
        text = base64.b64encode(bytes(shift) + raw)
        piece = text[(0, 2, 3)[shift] : len(text) // 4 * 4 - 4]
        found[f"base64 at {shift}"] = piece
        found[f"base64url at {shift}"] = piece.replace(b"+", b"-").replace(b"/", b"_")
    for shift in range(5):
        text = base64.b32encode(bytes(shift) + raw)
        found[f"base32 at {shift}"] = text[(0, 2, 4, 5, 7)[shift] : len(text) // 8 * 8 - 8]
    return found


# How gzip and zlib begin. Brotli and Zstandard are only ever stored here (codings.py), and then found as they are.
PACKED = re.compile(rb"\x1f\x8b|\x78[\x01\x5e\x9c\xda]")


def unpacked(data):
    """What is in the data when it is a compressed stream, at any place where one begins."""
    for begin in PACKED.finditer(data):
        try:
            yield zlib.decompressobj(47).decompress(data[begin.start() : begin.start() + (1 << 20)], 1 << 20)
        except zlib.error:
            pass


def find_secret(secret_forms, data):
    """The form that is in the data, or nothing."""
    for text in (data, *unpacked(data)):
        for name, form in secret_forms.items():
            if form in text:
                return name
    return None


class Watched:
    """A file that grows: each look is at what is new, and a little before it."""

    OVERLAP = 1024

    def __init__(self, path):
        self.path = path
        self.seen = 0

    def read_new(self):
        try:
            with open(self.path, "rb") as file:
                file.seek(max(0, self.seen - self.OVERLAP))
                data = file.read()
                self.seen = file.tell()
                return data
        except FileNotFoundError:
            return b""
