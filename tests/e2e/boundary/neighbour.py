"""Whether somebody is served beside a flood as beside one who only calculates."""

import signal
import statistics
import threading

ASKED = 20  # times
# Far from a promise, and beyond what a busy machine does to one half of a test. Without shares a neighbour waits for all of a
# flood, or for each of its pieces.
RATIO, SLACK_SECONDS = 4, 0.1
SLACK_SECONDS_ONCE = 2


class Neighbour:
    """`serve` sends a request that is answered as it should be, and returns the seconds that it took."""

    def __init__(self, test, serve):
        self.test = test
        self.serve = serve
        # What a flood costs is more than its share of the processors: that is taken here as well.
        job = test.sandbox.start("echo begun; exec python3 -c 'while True: pass'", seconds=60)
        identity = next(job)["job"]
        next(job)
        self.alone = self.ask()
        test.sandbox.signal(identity, signal.SIGKILL)
        list(job)

    def ask(self):
        return [self.serve() for _ in range(ASKED)]

    def ask_while(self, flood):
        """For as long as the function `flood` takes, and at least some times."""
        work = threading.Thread(target=flood)
        work.start()
        times = []
        while work.is_alive() or len(times) < 3:
            times.append(self.serve())
        work.join()
        return times

    def tell(self, times):
        waited, alone = ([1000 * pick(each) for pick in (statistics.median, max)] for each in (times, self.alone))
        return (f"the neighbour waited {waited[0]:.0f} ms, {waited[1]:.0f} ms at most; beside one who calculates {alone[0]:.0f} ms and "
                f"{alone[1]:.0f} ms")

    def assert_undisturbed(self, times):
        for of, slack in ((statistics.median, SLACK_SECONDS), (max, SLACK_SECONDS_ONCE)):
            self.test.assertLess(of(times), RATIO * of(self.alone) + slack, (sorted(times), sorted(self.alone)))
