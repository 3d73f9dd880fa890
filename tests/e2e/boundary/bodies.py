"""Bodies in which a stub or a value hides, and what becomes of them: over every version of HTTP the same."""

import base64
import codecs
import dataclasses
import gzip
import zlib

from .cases import A, B_SEEN, Case
from .codings import brotli, zstandard

UNDECLARED, MISMATCH = "undeclared_position", "credential_endpoint_mismatch"
FORM_TYPE = "Content-Type: application/x-www-form-urlencoded"
TEXT = b'{"a": "b", "note": "'
PARTS = ("Content-Type: multipart/form-data; boundary=b",)


def body_case(name, build, code=UNDECLARED, host=A, fields=(), **more):
    """`build` makes the body out of the stub, once it is known; out of the value in S16."""
    return Case(name, "", "block", host=host, code=code, build=(build, fields), **more)


def made(test, case):
    """The body of a case, as text, and the fields that go with it."""
    build, fields = case.build
    value = test.world.secrets[case.credential] if case.name.startswith("S16") else test.stubs[case.credential]
    return build(value.encode()).decode("latin-1"), fields


def multipart(stub, header=b"", name=b"a.txt", boundary=b"b"):
    return (b"--" + boundary + b"\r\nContent-Disposition: form-data; name=f; filename=" + name + b"\r\n" + header + b"\r\n" + stub
            + b"\r\n--" + boundary + b"--\r\n")


def in_utf7(stub):
    """As a reader of UTF-7 would take it, though letters need not be written like this."""
    return b"+" + base64.b64encode(stub.decode().encode("utf-16-be")).rstrip(b"=") + b"-"


HIDDEN = [
    body_case("S02 body", lambda s: TEXT + s + b'"}'),
    body_case("S02 body of another host", lambda s: s, host=B_SEEN, code=MISMATCH),
    body_case("S06 base64", lambda s: base64.b64encode(b"ab" + s)),
    body_case("S06 base64url", lambda s: base64.urlsafe_b64encode(b"\xff" + s)),
    body_case("S06 base32", lambda s: base64.b32encode(s)),
    body_case("S06 hex", lambda s: s.hex().encode()),
    body_case("S06 HEX", lambda s: s.hex().upper().encode()),
    body_case("S06 hex with separators", lambda s: s.hex(":").encode()),
    body_case("S06 percent", lambda s: b"".join(b"%%%02X" % byte for byte in s)),
    body_case("S06 JSON escapes", lambda s: b"".join(b"\\u%04x" % byte for byte in s)),
    body_case("S06 entities", lambda s: b"".join(b"&#x%x;" % byte for byte in s)),
    body_case("S06 UTF-16", lambda s: s.decode().encode("utf-16-le")),
    body_case("S06 quoted-printable", lambda s: b"".join(b"=%02X" % byte for byte in s)),
    body_case("S08 gzip", lambda s: gzip.compress(TEXT + s), fields=("Content-Encoding: gzip",)),
    body_case("S08 deflate", lambda s: zlib.compress(TEXT + s), fields=("Content-Encoding: deflate",)),
    body_case("S08 br", lambda s: brotli(TEXT + s), fields=("Content-Encoding: br",)),
    body_case("S08 zstd", lambda s: zstandard(TEXT + s), fields=("Content-Encoding: zstd",)),
    body_case("S08 stacked", lambda s: gzip.compress(gzip.compress(TEXT + s)), fields=("Content-Encoding: gzip, gzip",)),
    body_case("S08 in two fields", lambda s: gzip.compress(zlib.compress(TEXT + s)),
              fields=("Content-Encoding: deflate", "Content-Encoding: gzip")),
    body_case("S08 a wrong label", lambda s: gzip.compress(TEXT + s), fields=("Content-Encoding: br",), code="undecodable_body"),
    body_case("S08 an unknown label", lambda s: gzip.compress(TEXT + s), fields=("Content-Encoding: x-own",), code="undecodable_body"),
    body_case("R17 a bomb", lambda s: gzip.compress(bytes(32 << 20)), fields=("Content-Encoding: gzip",), code="undecodable_body"),
    body_case("R17 a bomb in a bomb", lambda s: gzip.compress(gzip.compress(bytes(32 << 20))),
              fields=("Content-Encoding: gzip, gzip",), code="undecodable_body"),
    body_case("R17 a bomb of one byte", lambda s: b"\x28\xb5\x2f\xfd\x00\x68" + b"\x02\x00\x10x" * 10_000,
              fields=("Content-Encoding: zstd",), code="undecodable_body"),
    body_case("S09 multipart", multipart, fields=PARTS),
    body_case("S09 file name", lambda s: multipart(b"x", name=s), fields=PARTS),
    body_case("S09 part header", lambda s: multipart(b"x", header=b"X-A: " + s + b"\r\n"), fields=PARTS),
    body_case("S09 part in base64", lambda s: multipart(base64.encodebytes(b"x" * 40 + s), header=b"Content-Transfer-Encoding: base64\r\n"),
              fields=PARTS),
    body_case("S09 parts in a part", lambda s: multipart(multipart(s, boundary=b"c"), header=b"Content-Type: multipart/mixed; boundary=c\r\n"),
              fields=PARTS),
    body_case("S09 no boundary", multipart, fields=("Content-Type: multipart/form-data",)),
    body_case("X08 a refresh by the client", lambda s: b"grant_type=refresh_token&refresh_token=" + s, fields=(FORM_TYPE,)),
    body_case("S11 behind 60 KB", lambda s: b"x" * 60_000 + s),
    body_case("S16 the real value", lambda s: TEXT + s, code="secret_in_request"),
    body_case("S16 the real value in base64", lambda s: base64.b64encode(s), code="secret_in_request"),
    body_case("S16 the real value to another host", lambda s: s, code="secret_in_request", host=B_SEEN),
]

# What is not looked into (docs/operate/threat-model.md): nothing but the stub gets out, and the stub opens nothing.
UNSEEN = [
    dataclasses.replace(body_case(name, build, fields=fields), expect="swap", code="") for name, build, fields in (
        ("S06 UTF-7", in_utf7, ()),
        ("S12 reversed", lambda s: s[::-1], ()),
        ("S12 rot13", lambda s: codecs.encode(s.decode(), "rot13").encode(), ()),
        ("S12 shifted", lambda s: bytes(byte ^ 0x55 for byte in s), ()),
        ("S12 in two fields", lambda s: b'{"a": "' + s[:20] + b'", "b": "' + s[20:] + b'"}', ()),
        ("S12 base64 of base64", lambda s: base64.b64encode(base64.b64encode(s)), ()),
        ("S12 gzip that does not say so", lambda s: gzip.compress(TEXT + s), ()),
        ("S12 gzip in a part", lambda s: multipart(gzip.compress(s)), PARTS))]
