"""How long an honest service waits for its acknowledgements, alone and beside a user who floods the agent; needs root.

    agent-flood.py SOCKET CONNECTIONS SECONDS

The service sends a report each 5 ms. The other user, 1, sends as fast as it can on so many connections of several processes.
"""
import os
import select
import signal
import socket
import sys
import time

path, connections, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
FRAMES = ",".join('{"module":"/x","offset":"0x%x"}' % n for n in range(1, 30))
LINE = (
    '{"@timestamp":"%s","log.level":"warn","message":"m","event":{"name":"stall.ended","schema":"1.0"},'
    '"stall":{"id":"%%032x","sequence":1,"threshold_ms":250,"duration_ms":312.5,"cause":"lock","evidence":{},"samples":1},'
    '"loop":{"name":"main","kind":"loop","phase":"after-waiting"},"process":{"pid":1,"executable":{"path":"/x"}},'
    '"service":{"name":"web"},"host":{"name":"node"},"stack":[%s]}\n'
) % (time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), FRAMES)


def connect():
    s = socket.socket(socket.AF_UNIX)
    s.connect(path)
    return s


def flood(part, count):
    os.setgroups([])
    os.setgid(1)
    os.setuid(1)
    own = [connect() for _ in range(count)]
    for s in own:
        s.setblocking(False)
    number = (part + 1) << 64
    rest = [b""] * count
    while True:
        # It waits for the agent alone, and takes no processor from it.
        ready = select.select([], own, [])[1]
        for index, s in [pair for pair in enumerate(own) if pair[1] in ready]:
            if not rest[index]:
                rest[index] = b"".join((LINE % (number + n)).encode() for n in range(50))
                number += 50
            try:
                rest[index] = rest[index][s.send(rest[index]) :]
            except BlockingIOError:
                pass
            except OSError:
                own[index] = connect()
                own[index].setblocking(False)
                rest[index] = b""
            try:
                s.recv(65536)
            except OSError:
                pass


def honest(first):
    s = connect()
    s.settimeout(60)
    times, number, end = [], 0, time.monotonic() + seconds
    received = b""
    while time.monotonic() < end:
        begin = time.monotonic()
        s.sendall((LINE % (first + number)).encode())
        number += 1
        while b'{"acknowledged":%d}' % number not in received:
            received = (received + s.recv(4096))[-4096:]
        times.append((time.monotonic() - begin) * 1000)
        time.sleep(max(0, 0.005 - (time.monotonic() - begin)))
    times.sort()
    return "%d reports, median %.2f ms, p99 %.2f ms, longest %.2f ms" % (
        len(times), times[len(times) // 2], times[len(times) * 99 // 100], times[-1])


first = int(time.time()) << 40
print("alone:  ", honest(first), flush=True)
children = []
for part in range(4):
    child = os.fork()
    if not child:
        flood(part + int(time.time()), connections // 4)
    children.append(child)
time.sleep(1)
try:
    print("flooded:", honest(first + (1 << 39)), flush=True)
finally:
    for child in children:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
