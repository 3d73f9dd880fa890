#!/usr/bin/env python3
"""Writes ../unicode_tables.inc from the Unicode database of this Python:

    python3 src/memory/data/unicode_tables.py > src/memory/unicode_tables.inc
"""
import sys
import unicodedata

LAST = sys.maxunicode + 1
HANGUL = range(0xAC00, 0xD7A4)  # composed by a rule, not by a table


def is_surrogate(code):
    return 0xD800 <= code <= 0xDFFF


def ranges(value_of):
    """(first, last, value) of neighbours with the same value other than 0."""
    found = []
    for code in range(LAST):
        value = 0 if is_surrogate(code) else value_of(code)
        if not value:
            continue
        if found and found[-1][1] == code - 1 and found[-1][2] == value:
            found[-1][1] = code
        else:
            found.append([code, code, value])
    return found


def is_changed_alone(code):
    """NFC_Quick_Check=No: never stands in normalised text."""
    return 1 if unicodedata.normalize("NFC", chr(code)) != chr(code) else 0


def pairs():
    """(first, second, composed) of every character that NFC makes out of two."""
    for code in range(LAST):
        if is_surrogate(code) or code in HANGUL or is_changed_alone(code):
            continue
        parts = unicodedata.decomposition(chr(code)).split()
        if len(parts) == 2 and not parts[0].startswith("<"):
            yield int(parts[0], 16), int(parts[1], 16), code


def write(name, kind, rows):
    print(f"constexpr {kind} {name}[] = {{")
    line = "   "
    for row in rows:
        text = " {" + ", ".join(f"{n:#x}" for n in row) + "},"
        if len(line) + len(text) > 100:
            print(line)
            line = "   "
        line += text
    print(line + "\n};")


print(f"// Unicode {unicodedata.unidata_version}; written by data/unicode_tables.py.\n// clang-format off")
write("kClasses", "ClassRange", ranges(lambda code: unicodedata.combining(chr(code))))
write("kNeverNormalised", "CodeRange", [r[:2] for r in ranges(is_changed_alone)])
write("kFormat", "CodeRange",
      [r[:2] for r in ranges(lambda code: 1 if unicodedata.category(chr(code)) == "Cf" else 0)])
write("kPairs", "Pair", sorted(pairs()))
print("// clang-format on")
