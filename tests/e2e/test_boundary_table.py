"""boundary/CASES.md says which test holds which attack: no attack and no test may be missing."""

import glob
import os
import re
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCES = os.path.dirname(os.path.dirname(HERE))

# Those that apply to the way out, by the letter of their chapter.
ATTACKS = {
    "D": "01 02 03 04 05 06 08 09 11 12 14 15 16 19 21 22 23 24 26 27 28 29 30 32",
    "P": "01 02 05 06 08 10 12 13 14 17 18 20 21",
    "H": "01 02 04 06 07 08 10 11 12 13 14",
    "S": "01 02 03 06 08 09 11 12 14 15 16 17 18 19",
    "R": "01 03 04 07 08 10 11 12 13 16 17 18",
    "I": "01 02 04 06 07 08 09 10",
    "T": "01 02 03 04 06 07 08 09 10 13 14",
    "N": "01 02 03 05 06 08 09 10 11 13 15 16 17 18 19",
    "L": "01 03 04 05 06 08 11 12 13 14 15",
    "X": "01 02 03 04 06 07 08 09 10 11 13 15 16 17 18 19",
    "V": "02 03 04 05 06 07 08 09 12 13 14 15 16 17 18",
    "U": "01 02 03 04 05 06 07 09 11 12 13 14",
}


def text_of(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


class Table(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        python = {path: text_of(path) for path in glob.glob(f"{HERE}/test_*.py")}
        cls.tests = {name for text in python.values() for name in re.findall(r"def (test_\w+)\(", text)}
        boundary = {path: text for path, text in python.items() if "/test_boundary_" in path and path != os.path.abspath(__file__)}
        cls.tests |= {os.path.basename(path).removesuffix(".py") for path in boundary}
        boundary[""] = text_of(f"{HERE}/boundary/bodies.py")  # what several of them try
        cls.cases = {name for text in boundary.values() for name in re.findall(r"\"([A-Z]\d\d)\b", text)}
        for path in glob.glob(f"{SOURCES}/src/**/*_test.cc", recursive=True) + glob.glob(f"{SOURCES}/tests/kernel/*_test.cc"):
            cls.tests |= {".".join(each) for each in re.findall(r"TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\s*\)", text_of(path))}
        lines = text_of(f"{HERE}/boundary/CASES.md").splitlines()
        cls.rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if re.match(r"\| [A-Z]\d\d \|", line)]

    def test_every_attack_is_there_once_and_in_order(self):
        wanted = [letter + number for letter, numbers in ATTACKS.items() for number in numbers.split()]
        self.assertEqual([row[0] for row in self.rows], wanted)

    def test_every_attack_names_tests_that_are_there_or_a_reason(self):
        self.assertGreater(len(self.tests), 1000)
        for attack, words, held in self.rows:
            with self.subTest(attack):
                self.assertGreater(len(words), 10)
                named = re.findall(r"`([^`]+)`", held)
                missing = [name for name in named if name not in self.tests and name not in self.cases]
                self.assertEqual(missing, [])
                self.assertTrue(named or len(held) > 10, "neither a test nor a reason")

    def test_every_case_of_the_suite_is_in_the_table(self):
        known = {row[0] for row in self.rows}
        # Those that the collection has lost since.
        self.assertEqual(self.cases - known, {"P03", "P07", "P11"})
