"""A host in another language: sends numbered reports to the agent, and says on standard output how many it was told have arrived.

    agent-client.py SOCKET FIRST

A window of fifty reports is under way at a time. It goes on until it is killed.
"""
import socket
import sys

path, first = sys.argv[1], int(sys.argv[2])
connection = socket.socket(socket.AF_UNIX)
connection.connect(path)
sent = acknowledged = 0
received = b""
LINE = (
    '{"@timestamp":"2026-11-21T10:00:00.000000000Z","log.level":"warn","message":"m","event":{"name":"stall.ended","schema":"1.0"},'
    '"stall":{"id":"%032x","sequence":1,"threshold_ms":250,"duration_ms":312.5,"cause":"lock","evidence":{},"samples":1},'
    '"loop":{"name":"main","kind":"loop","phase":"after-waiting"},"process":{"pid":1,"executable":{"path":"/x"}},'
    '"service":{"name":"web"},"host":{"name":"node"},"stack":[%s]}\n'
)
FRAMES = ",".join('{"module":"/x","offset":"0x%x"}' % n for n in range(1, 60))
while True:
    while sent < acknowledged + 50:
        connection.sendall((LINE % (first + sent, FRAMES)).encode())
        sent += 1
    data = connection.recv(4096)
    if not data:
        break
    received += data
    *lines, received = received.split(b"\n")
    for line in lines:
        if line.startswith(b'{"acknowledged":'):
            acknowledged = int(line[16:-1])
            print(acknowledged, flush=True)
