"""How data is packed and written, beyond what the standard library knows."""

import base64
import gzip
import struct
import zlib


def brotli(data):
    """The stream that stores: pieces of up to 64 KiB, as RFC 7932 section 9.2 allows."""
    bits, count = 0, 0
    out = b""

    def put(value, width):
        nonlocal bits, count, out
        bits |= value << count
        count += width
        while count >= 8:
            out += bytes([bits & 255])
            bits >>= 8
            count -= 8

    put(0, 1)  # a window of 16 bits
    for i in range(0, len(data), 65536):
        piece = data[i : i + 65536]
        put(0, 1)  # not the last
        put(0, 2)  # four nibbles of size
        put(len(piece) - 1, 16)
        put(1, 1)  # stored
        if count:
            put(0, 8 - count)
        out += piece
    put(3, 2)  # last, empty
    if count:
        put(0, 8 - count)
    return out


def zstandard(data):
    """One frame of stored blocks."""
    out = struct.pack("<IBB", 0xFD2FB528, 0x00, 0x58)
    blocks = [data[i : i + 65536] for i in range(0, len(data), 65536)] or [b""]
    for i, block in enumerate(blocks):
        out += struct.pack("<I", (len(block) << 3) | (i == len(blocks) - 1))[:3] + block
    return out


def raw_deflate(data):
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


CODINGS = {
    "gzip": gzip.compress,
    "GZIP": gzip.compress,
    "x-gzip": gzip.compress,
    "gzip-twice": lambda data: gzip.compress(b"first\n") + gzip.compress(data),
    "deflate": zlib.compress,
    "raw-deflate": raw_deflate,
    "br": brotli,
    "zstd": zstandard,
    "gzip, br": lambda data: brotli(gzip.compress(data)),
}
ENCODINGS = {
    "base64": base64.b64encode,
    "base64url": base64.urlsafe_b64encode,
    "base64-shifted": lambda data: base64.b64encode(b"x" + data),
    "base32": base64.b32encode,
    "hex": lambda data: data.hex().encode(),
    "HEX": lambda data: data.hex().upper().encode(),
    "percent": lambda data: b"".join(b"%%%02x" % byte for byte in data),
    "json": lambda data: b"".join(b"\\u%04x" % byte for byte in data),
    "entities": lambda data: b"".join(b"&#%d;" % byte for byte in data),
    "utf-16le": lambda data: data.decode("latin-1").encode("utf-16-le"),
    "utf-16be": lambda data: data.decode("latin-1").encode("utf-16-be"),
}
