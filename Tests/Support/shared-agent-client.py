"""Clients of an agent that several users share, honest and hostile ones, and what an outsider can see of the agent.

    report FIRST       hands in numbered reports, as a host does: keeps what is not acknowledged, and connects again
    flood FIRST        sends numbered reports over many connections as fast as the agent reads, and keeps nothing
    hold               opens as many connections as it can, and keeps them
    storm              connects and leaves, as fast as it can
    spin               takes processor time, and nothing else: what the others are compared with
    say                sends the lines of standard input on one connection, and prints the answers
    lease FILE...      lets nobody else open its files (a write lease): who does is held up until the kernel breaks it
    observe            asks /healthz and the control socket, and adds up the memory of the agent's processes

They run until SIGTERM (or --limit), and print a line of JSON then; until then, `acknowledged N` from time to time.

    compare RESULT DIRECTORY    which reports that `report` saw acknowledged are not in the files of a directory
    names FIRST DIRECTORY       how often which function is the first frame of the reports of that first number
"""
import argparse
import collections
import fcntl
import json
import re
import selectors
import signal
import socket
import sys
import time

from shared_agent_view import health, lines, memory, problems

stopped = False


def stop(*_):
    global stopped
    stopped = True


# MARK: Lines


def identity(first, number):
    return "%016x%016x" % (first, number)


def report(first, number, service, frames, filler=0, event="stall.ended"):
    line = {
        "@timestamp": time.strftime("%Y-%m-%dT%H:%M:%S.999999999Z", time.gmtime()), "log.level": "warn", "message": "main loop blocked for 312 ms",
        "event": {"name": event, "schema": "1.0"},
        "stall": {"id": identity(first, number), "sequence": 1, "threshold_ms": 250, "duration_ms": 312.5, "cause": "sleep", "evidence": {}, "samples": 1},
        "loop": {"name": "main", "kind": "loop", "phase": "after-waiting"},
        "process": {"pid": 1, "executable": {"path": "/usr/bin/web"}}, "service": {"name": service}, "host": {"name": "node"},
        "stack": frames + [{"symbol": "f%d" % n, "module": "/usr/bin/web", "offset": hex(4096 + n)} for n in range(filler)],
    }
    return (json.dumps(line, separators=(",", ":")) + "\n").encode()


def connect(path):
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(5)
    connection.connect(path)
    connection.setblocking(False)
    return connection


class Answers:
    """What the agent has said on one connection."""

    def __init__(self):
        self.acknowledged, self.errors, self.rest = 0, [], b""

    def read(self, connection):
        """False at the end of the connection."""
        try:
            data = connection.recv(65536)
        except (BlockingIOError, InterruptedError):
            return True
        except OSError:
            return False
        *lines, self.rest = (self.rest + data).split(b"\n")
        for line in lines:
            if line.startswith(b'{"acknowledged":'):
                self.acknowledged = int(line[16:-1])
            elif line.startswith(b'{"error"'):
                self.errors.append(line.decode())
        return bool(data)


# MARK: Clients


class Host:
    """Hands in reports, and keeps each until it is acknowledged."""

    window = 2000

    def __init__(self, arguments):
        self.a = arguments
        self.frames = json.loads(arguments.frames)
        self.kept = collections.deque()  # [number, time of its making]
        self.sent = self.base = 0  # of those kept: sent on this connection; acknowledged by it before
        self.connection, self.answers, self.out = None, Answers(), b""
        self.connections, self.done, self.errors, self.retry = 0, [], [], 0

    def frames_of(self, number):
        """With --wander the same function at other places, so that an answer that is kept is not enough."""
        further = min(number // 8, 20) if self.a.wander else 0
        return [frame | {"offset": hex(int(frame["offset"], 16) + further)} for frame in self.frames]

    def open(self, now):
        if now < self.retry:
            return
        self.retry = now + 0.1
        try:
            self.connection = connect(self.a.socket)
        except OSError:
            return
        self.connections += 1
        self.answers, self.out, self.sent, self.base = Answers(), b"", 0, 0

    def close(self, now):
        self.connection.close()
        self.connection = None
        self.errors += self.answers.errors
        self.retry = now + 0.1

    def turn(self, now):
        if self.connection is None:
            self.open(now)
        if self.connection is None:
            return time.sleep(0.01)
        while not self.out and self.sent < len(self.kept):
            number = self.kept[self.sent][0]
            self.out = report(self.a.first, number, self.a.service, self.frames_of(number), self.a.filler, self.a.event)
            self.sent += 1
            self.write()
        self.write()
        wait = min(max(self.due - time.monotonic(), 0), 0.05)
        with selectors.DefaultSelector() as selector:
            selector.register(self.connection, selectors.EVENT_READ)
            ready = selector.select(wait)
        if not ready:
            return
        alive, now = self.answers.read(self.connection), time.monotonic()
        while self.base < self.answers.acknowledged and self.kept:
            number, made = self.kept.popleft()
            self.done.append((number, made, now))
            self.base += 1
            self.sent -= 1
        if not alive:
            self.close(now)

    def write(self):
        if not self.out or self.connection is None:
            return
        try:
            self.out = self.out[self.connection.send(self.out):]
        except (BlockingIOError, InterruptedError):
            pass
        except OSError:
            # What it has said before it left is read first.
            self.out = b""

    def run(self):
        number, self.due, said, end = 0, time.monotonic(), 0, None
        while True:
            now = time.monotonic()
            over = stopped or (number == self.a.count and not self.a.stay)
            if over and end is None:
                end = now + self.a.patience
            if over and (not self.kept or now > end):
                break
            if not over and now >= self.due:
                if number != self.a.count and len(self.kept) < self.window:
                    number += 1
                    self.kept.append([number, now])
                self.due = max(self.due + self.a.every / 1000, now - 0.1)
            elif over:
                self.due = now + 0.05
            self.turn(now)
            if now > said + 0.1:
                said = now
                print("acknowledged", len(self.done), flush=True)
        waits = sorted((then - made) * 1000 for _, made, then in self.done) or [0]
        # The first report waits for the connection, and so do those that are made meanwhile.
        first = self.done[0][2] if self.done else 0
        settled = sorted((then - made) * 1000 for _, made, then in self.done if made > first) or [0]
        print(json.dumps({
            "first": self.a.first, "sent": number, "acknowledged": len(self.done), "kept": len(self.kept), "connections": self.connections,
            "errors": (self.errors + self.answers.errors)[:5], "median": waits[len(waits) // 2], "p99": waits[len(waits) * 99 // 100], "longest": waits[-1],
            "connecting": (first - self.done[0][1]) * 1000 if self.done else 0, "settled_p99": settled[len(settled) * 99 // 100],
            "reports": self.done}))


def flood(a):
    selector, streams, number, closed, finished = selectors.DefaultSelector(), {}, 0, 0, 0
    frames, end, said, errors = json.loads(a.frames), time.monotonic() + a.limit, 0, collections.Counter()
    template = report(a.first, 0, a.service, frames, a.filler)
    if a.keys:
        template = b"{" + b"".join(b'"%x":0,' % n for n in range(a.keys)) + template[1:]
    place = template.index(identity(a.first, 0).encode()) + 16
    head, tail = template[:place], template[place + 16:]
    while not stopped and time.monotonic() < end:
        while len(streams) < a.connections:
            try:
                connection = connect(a.socket)
            except OSError:
                break
            streams[connection] = [b"", Answers()]
            selector.register(connection, selectors.EVENT_READ | selectors.EVENT_WRITE)
        for key, events in selector.select(0.05):
            connection, stream = key.fileobj, streams[key.fileobj]
            alive = True
            if events & selectors.EVENT_READ:
                alive = stream[1].read(connection)
            if alive and events & selectors.EVENT_WRITE:
                if not stream[0]:
                    stream[0] = b"".join(head + b"%016x" % n + tail for n in range(number + 1, number + 1 + a.lines))
                    number += a.lines
                try:
                    stream[0] = stream[0][connection.send(stream[0]):]
                except (BlockingIOError, InterruptedError):
                    pass
                except OSError:
                    alive = stream[1].read(connection) and False
            if not alive:
                closed += 1
                finished += stream[1].acknowledged
                errors.update(stream[1].errors)
                selector.unregister(connection)
                connection.close()
                del streams[connection]
        if time.monotonic() > said + 0.1:
            said = time.monotonic()
            print("acknowledged", finished + closed + sum(s[1].acknowledged for s in streams.values()), flush=True)
    total = finished + sum(s[1].acknowledged for s in streams.values())
    print(json.dumps({"sent": number, "acknowledged": total, "closed": closed, "errors": [e for e, _ in errors.most_common(5)]}))


def hold(a):
    held, closed, refused, end = {}, 0, 0, time.monotonic() + a.limit
    selector, said = selectors.DefaultSelector(), 0
    while not stopped and time.monotonic() < end:
        more = True
        while more and len(held) < 19000 and not stopped:
            try:
                connection = connect(a.socket)
            except OSError:
                refused, more = refused + 1, False
                time.sleep(0.02)
                continue
            held[connection] = Answers()
            selector.register(connection, selectors.EVENT_READ)
            more = len(held) % 64 != 0
        for key, _ in selector.select(0.01):
            if not held[key.fileobj].read(key.fileobj):
                selector.unregister(key.fileobj)
                key.fileobj.close()
                del held[key.fileobj]
                closed += 1
        if time.monotonic() > said + 0.1:
            said = time.monotonic()
            print("acknowledged", len(held), flush=True)
    print(json.dumps({"held": len(held), "closed": closed, "refused": refused}))


def storm(a):
    count, failed, said, end = 0, 0, 0, time.monotonic() + a.limit
    while not stopped and time.monotonic() < end:
        connection = socket.socket(socket.AF_UNIX)
        connection.setblocking(False)
        try:
            connection.connect(a.socket)
            count += 1
        except OSError:
            failed += 1
        connection.close()
        if count % 1000 == 0 and time.monotonic() > said + 0.1:
            said = time.monotonic()
            print("acknowledged", count, flush=True)
    print(json.dumps({"connections": count, "failed": failed}))


def spin(a):
    count, said, end = 0, 0, time.monotonic() + a.limit
    while not stopped and time.monotonic() < end:
        count += 1
        if count % 1000 == 0 and time.monotonic() > said + 0.1:
            said = time.monotonic()
            print("acknowledged", count, flush=True)
    print(json.dumps({"turns": count}))


def say(a):
    connection, answers = connect(a.socket), Answers()
    lines, end = sys.stdin.buffer.read(), time.monotonic() + a.limit
    count, begun = lines.count(b"\n"), time.monotonic()
    connection.settimeout(a.limit)
    try:
        connection.sendall(lines)
    except OSError:
        pass
    connection.settimeout(0.05)
    while answers.acknowledged < count and time.monotonic() < end and answers.read(connection):
        pass
    print(json.dumps({"sent": count, "acknowledged": answers.acknowledged, "errors": answers.errors, "seconds": time.monotonic() - begun}))


def lease(a):
    end, files = time.monotonic() + a.limit, []
    # SIGIO asks to let go.
    signal.signal(signal.SIGIO, signal.SIG_IGN)
    for path in a.files:
        files.append(open(path, "r+b"))
        fcntl.fcntl(files[-1], fcntl.F_SETLEASE, fcntl.F_WRLCK)
    while not stopped and time.monotonic() < end:
        print("acknowledged", len(files), flush=True)
        time.sleep(0.2)
    print(json.dumps({"leases": len(files)}))


# MARK: What an outsider sees


def observe(a):
    seen, peak, said = [], 0, 0
    while not stopped:
        now = time.monotonic()
        code, words = health(a.metrics), problems(a.control)
        seen.append((now, code, words))
        peak = max(peak, memory(a.group))
        print("acknowledged", len(seen), json.dumps([code, words]), flush=True)
        time.sleep(0.05)
    print(json.dumps({"seen": seen, "memory": peak}))


ID = re.compile(rb'"id":"([0-9a-f]{32})"')


def compare(a):
    with open(a.result) as file:
        result = json.loads(file.read().splitlines()[-1])
    found = collections.Counter(match[1].decode() for line in lines(a.directory) if (match := ID.search(line)))
    wanted = [identity(result["first"], number) for number, made, _ in result["reports"] if made >= a.since]
    missing = [name for name in wanted if name not in found]
    print(json.dumps({
        "acknowledged": len(wanted), "missing": len(missing), "which": missing[:3], "doubled": sum(found[name] > 1 for name in wanted),
        "found": sum(count for name, count in found.items() if name.startswith("%016x" % result["first"]))}))


def names(a):
    count = collections.Counter()
    for line in set(lines(a.directory)):
        if ('"id":"%016x' % a.first).encode() in line:
            frame = json.loads(line)["stack"][0]
            count[frame.get("symbol", "")] += 1
            if a.forged.encode() in line:
                count[a.forged] += 1
    print(json.dumps(count))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    modes = parser.add_subparsers(dest="mode", required=True)
    for mode in ["report", "flood", "hold", "storm", "spin", "say", "lease", "observe", "compare", "names"]:
        p = modes.add_parser(mode)
        if mode in ("report", "flood", "names"):
            p.add_argument("first", type=int)
        if mode == "lease":
            p.add_argument("files", nargs="+")
        if mode == "compare":
            p.add_argument("result")
        if mode in ("compare", "names"):
            p.add_argument("directory")
        p.add_argument("--socket", default="/run/stalld/stalld.sock")
        p.add_argument("--metrics", default="/run/stalld/metrics.sock")
        p.add_argument("--control", default="/run/stalld/control.sock")
        p.add_argument("--group", default="/sys/fs/cgroup/system.slice/stalld.service")
        p.add_argument("--service", default="web")
        p.add_argument("--frames", default="[]")
        p.add_argument("--forged", default="forged_")
        p.add_argument("--event", default="stall.ended")
        p.add_argument("--stay", action="store_true", help="stays connected when all are acknowledged")
        p.add_argument("--wander", action="store_true")
        p.add_argument("--filler", type=int, default=3)
        p.add_argument("--lines", type=int, default=32, help="lines of one write")
        p.add_argument("--keys", type=int, default=0, help="members more in each line")
        p.add_argument("--connections", type=int, default=1)
        p.add_argument("--count", type=int, default=-1)
        p.add_argument("--every", type=float, default=10, help="milliseconds")
        p.add_argument("--patience", type=float, default=20, help="seconds that are waited for the last acknowledgements")
        p.add_argument("--limit", type=float, default=60, help="seconds")
        p.add_argument("--since", type=float, default=0)
    a = parser.parse_args()
    signal.signal(signal.SIGTERM, stop)
    if a.mode == "report":
        Host(a).run()
    else:
        globals()[a.mode](a)


main()
