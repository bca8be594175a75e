"""What an outsider sees of an agent: its answers, its memory, its files. Used by shared-agent-client.py."""
import glob
import gzip
import json
import os
import resource
import socket


def ask(path, request, is_whole=lambda answer: False):
    """The answer of a Unix socket: until it is whole, or the other side closes; None if nobody answers."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(2)
        try:
            connection.connect(path)
            connection.sendall(request)
            answer = b""
            while not is_whole(answer) and (data := connection.recv(65536)):
                answer += data
            return answer
        except OSError:
            return None


def health(path):
    """The status of /healthz; 0 if nobody answers."""
    words = (ask(path, b"GET /healthz HTTP/1.0\r\n\r\n") or b"").split()
    return int(words[1]) if len(words) > 1 else 0


def problems(path):
    """What the control socket says is wrong, and of which output; None if nobody answers."""
    answer = ask(path, b'{"status":{}}\n', is_whole=lambda answer: answer.endswith(b"\n"))
    if not answer or not answer.endswith(b"\n"):
        return None
    status = json.loads(answer)
    return status["problems"] + [o["target"] + ": " + o["state"] for o in status["outputs"] if o["state"] != "ok"]


def memory(group):
    total = 0
    try:
        processes = open(group + "/cgroup.procs").read().split()
    except OSError:
        return 0
    for process in processes:
        try:
            total += int(open("/proc/%s/statm" % process).read().split()[1]) * resource.getpagesize()
        except OSError:
            pass
    return total


def names_in(directory):
    found = {path for path in glob.glob(directory + "/**/stalls.jsonl*", recursive=True) if os.path.isfile(path)}
    # What is being compressed is there twice.
    return {path for path in found if not (path.endswith(".gz") and path[:-3] in found)}


def lines(directory):
    """Of all files; read again if one was renamed or compressed meanwhile."""
    while True:
        before, result = names_in(directory), []
        try:
            for path in sorted(before):
                with (gzip.open if path.endswith(".gz") else open)(path, "rb") as file:
                    result += file
        except FileNotFoundError:
            continue
        if names_in(directory) == before:
            return result
