"""Very many lives of sandboxes in a row: Pons is as large afterwards as before."""

import os

from pons_fixture import PonsTestCase, wait_for
from sandbox_world import Warden, groups, held, rss_bytes, settled

LIVES = int(os.environ.get("PONS_SOAK_LIVES", "100000"))
WARMING_LIVES = 100
GROWTH_BYTES_MAX = 4 << 20
CONFIG = "log:\n  level: error\nsandbox:\n  warm_min: 0\n  warm_max: 0\n"


class Soak(PonsTestCase):
    def live(self, warden, count):
        for number in range(count):
            name = f"s{number}"
            warden.create(name)
            self.assertEqual(warden.run(name, "echo on")[0], "on\n")
            warden.destroy(name)

    def sizes(self, pons):
        return {role: rss_bytes(pons.role_pids()[role]) for role in ("warden", "spawner")} | {
            "supervisor": rss_bytes(pons.pid)
        }

    def test_lives_in_a_row_cost_nothing_that_stays(self):
        pons = self.start(CONFIG)
        warden = Warden(pons)
        self.live(warden, WARMING_LIVES)
        wait_for(lambda: not groups(pons), "the first are gone")
        before, sizes_before = wait_for(lambda: settled(pons), "it is quiet"), self.sizes(pons)
        self.live(warden, LIVES)
        wait_for(lambda: not groups(pons), "all are gone")
        self.assertEqual(wait_for(lambda: settled(pons), "it is quiet"), before)
        sizes = self.sizes(pons)
        print(f"{LIVES} lives: before {sizes_before}, after {sizes}, held {before}")
        for role, size in sizes.items():
            self.assertLess(size - sizes_before[role], GROWTH_BYTES_MAX, role)
        self.assertEqual(pons.stop(), 0)
