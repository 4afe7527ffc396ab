"""What every group client must show, whatever library it is written in.

A library's program subclasses Member and calls run(). Members join one by one,
one leaves, and records are produced all along; each record must arrive exactly
once and in order, since members commit whatever they have read before they give
a partition away.
"""
import threading
import time

PARTITIONS = 6
LIMIT = 60  # seconds that any one step may take


class Ledger:
    """Every record read by the group."""

    def __init__(self):
        self.lock = threading.Lock()
        self.read = {p: [] for p in range(PARTITIONS)}

    def add(self, member, partition, offset, value):
        with self.lock:
            want = len(self.read[partition])
            assert offset == want, "%s read offset %d of partition %d, the group was at %d" % (member, offset, partition, want)
            self.read[partition].append(value)

    def total(self):
        with self.lock:
            return sum(len(v) for v in self.read.values())


class Member(threading.Thread):
    """One consumer in a thread of its own. A subclass has open(), poll() that
    returns (partition, offset, value) tuples, commit(), assignment() and
    close(), all called on this thread only."""

    def __init__(self, name, ledger):
        super().__init__(name=name, daemon=True)
        self.ledger, self.owned, self.failure = ledger, set(), None
        self.stopping = threading.Event()

    def run(self):
        try:
            self.open()
            while not self.stopping.is_set():
                records = self.poll()
                for record in records:
                    self.ledger.add(self.name, *record)
                if records:
                    self.commit()
                self.owned = set(self.assignment())
            self.close()
            self.owned = set()
        except BaseException as e:  # the main thread raises it again
            self.failure = e

    def leave(self):
        self.stopping.set()
        self.join(LIMIT)
        check(self)
        assert not self.is_alive(), "%s does not end" % self.name


def check(*members):
    for m in members:
        if m.failure is not None:
            raise m.failure


def until(what, condition, *members):
    deadline = time.time() + LIMIT
    while not condition():
        check(*members)
        assert time.time() < deadline, "no %s within %d s: %s" % (what, LIMIT, {m.name: sorted(m.owned) for m in members})
        time.sleep(0.02)
    check(*members)


def balanced(*members):
    """All partitions have one owner, and no member has two more than another."""
    def condition():
        owned = [set(m.owned) for m in members]
        sizes = [len(o) for o in owned]
        return sum(sizes) == PARTITIONS and len(set().union(*owned)) == PARTITIONS and max(sizes) - min(sizes) <= 1
    until("balance of %d members" % len(members), condition, *members)


def run(new_member, produce, committed, count):
    """new_member(name, ledger) makes a Member; produce(start, stop) writes the
    values start to stop, spread over all partitions; committed() returns the
    group's offsets by partition."""
    ledger, third = Ledger(), count // 3

    def start(name):
        m = new_member(name, ledger)
        m.start()
        return m

    def produced(start, stop, *members):
        produce(start, stop)
        until("end of the topic (%d of %d)" % (ledger.total(), stop), lambda: ledger.total() >= stop, *members)

    produce(0, third // 2)
    a = start("a")
    balanced(a)
    produced(third // 2, third, a)
    b = start("b")
    balanced(a, b)
    c = start("c")
    balanced(a, b, c)
    produced(third, 2 * third, a, b, c)
    a.leave()
    balanced(b, c)
    produced(2 * third, count, b, c)
    want = {p: len(v) for p, v in ledger.read.items()}
    until("commit of all", lambda: committed() == want, b, c)
    b.leave()
    c.leave()
    # Whoever comes later finds the group's offsets and nothing to read.
    d = start("d")
    balanced(d)
    time.sleep(1)
    d.leave()
    values = sorted(v for read in ledger.read.values() for v in read)
    assert values == list(range(count)), "%d values, %d different" % (len(values), len(set(values)))
