"""A host of the agent in another language, for units of a booted systemd.

    agent-host.py send SOCKET              hands in the lines of standard input, and prints each answer until all are acknowledged
    agent-host.py deliver SOCKET COUNT     hands in COUNT numbered reports; keeps what is not acknowledged, and connects again
    agent-host.py stall SOCKET ID          tells that a stall has begun, says READY=1 to systemd when the agent has it, and then nothing
"""
import json
import os
import socket
import sys
import time


def report(number, event="stall.ended", sequence=1, **more):
    stack = [{"module": "/usr/bin/web", "offset": hex(4096 + frame)} for frame in range(20)]
    line = {
        "@timestamp": time.strftime("%Y-%m-%dT%H:%M:%S.999999999Z", time.gmtime()), "log.level": "warn", "message": "main loop blocked for 312 ms",
        "event": {"name": event, "schema": "1.0"},
        "stall": {"id": "%032x" % number, "sequence": sequence, "threshold_ms": 250, "duration_ms": 312.5, "cause": "sleep", "evidence": {}, "samples": 1},
        "loop": {"name": "main", "kind": "loop", "phase": "after-waiting"},
        "process": {"pid": 1, "executable": {"path": "/usr/bin/web"}}, "service": {"name": "web"}, "host": {"name": "node"}, "stack": stack,
    }
    return (json.dumps(line | more, separators=(",", ":")) + "\n").encode()


def answers(connection):
    received = b""
    while data := connection.recv(4096):
        *lines, received = (received + data).split(b"\n")
        yield from lines


def acknowledged(line):
    return int(json.loads(line).get("acknowledged", 0))


def connect(path):
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    return connection


def send(path):
    connection, lines = connect(path), sys.stdin.buffer.readlines()
    connection.sendall(b"".join(lines))
    for answer in answers(connection):
        print(answer.decode(), flush=True)
        if acknowledged(answer) == len(lines):
            return


def deliver(path, count):
    """Fifty are under way at a time, as a host's spool would have them."""
    done = connections = 0
    while done < count:
        try:
            connection = connect(path)
            connections += 1
            first = sent = done

            def fill():
                nonlocal sent
                while sent < min(done + 50, count):
                    connection.sendall(report(1 + sent))
                    sent += 1
                    # Some thousand a second would be over before the first restart.
                    time.sleep(0.001)

            fill()
            for answer in answers(connection):
                done = max(done, first + acknowledged(answer))
                if done == count:
                    break
                fill()
        except OSError:
            time.sleep(0.01)
    print("delivered", done, "over", connections, "connections", flush=True)


def stall(path, number):
    connection = connect(path)
    connection.sendall(report(number, "stall.started"))
    for answer in answers(connection):
        if acknowledged(answer):
            break
    if address := os.environ.get("NOTIFY_SOCKET"):
        manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        manager.connect(address)
        manager.send(b"READY=1")
    time.sleep(3600)


if sys.argv[1] == "send":
    send(sys.argv[2])
elif sys.argv[1] == "deliver":
    deliver(sys.argv[2], int(sys.argv[3]))
else:
    stall(sys.argv[2], int(sys.argv[3]))
