"""Modules that tests report frames of: a program's own, and such as a hostile user would make.

    build PATH ID FUNCTION      a program with debug information whose code is FUNCTION's, and whose build ID is ID
    strip PATH                  takes its debug information away, and leaves the name of a separate file (.gnu_debuglink)
    debug PATH ID FUNCTION      a separate debug file
    bomb PATH ID SIZE           its debug information unpacks to SIZE bytes
    symbols PATH ID COUNT       it has COUNT symbols
    frame PATH                  a frame in the function, as in a report: a list of one
"""
import json
import os
import struct
import subprocess
import sys
import tempfile
import zlib

SOURCE = """
volatile int count;
__attribute__((noinline)) int FUNCTION(int x) { for (int i = 0; i < x; i++) count += i; return count; }
int main(void) { return FUNCTION(1); }
"""


def build(path, build_id, function):
    with tempfile.TemporaryDirectory() as place:
        source = place + "/source.c"
        with open(source, "w") as file:
            file.write(SOURCE)
        # A path of the same length for all: the code lies at the same offset.
        subprocess.run(["gcc", "-g", "-O1", "-DFUNCTION=" + function, "-Wl,--build-id=0x" + build_id, "-o", place + "/out", source], check=True)
        with open(place + "/out", "rb") as file:
            replace(path, file.read())


def replace(path, data):
    """As a build does it: another file, not other bytes in the same one."""
    with open(path + ".new", "wb") as file:
        file.write(data)
    os.chmod(path + ".new", 0o755)
    os.rename(path + ".new", path)


def strip(path):
    name = os.path.basename(path) + ".debug"
    with tempfile.TemporaryDirectory() as place:
        subprocess.run(["objcopy", "--only-keep-debug", path, place + "/" + name], check=True)
        subprocess.run(["objcopy", "--strip-all", "--add-gnu-debuglink=" + place + "/" + name, path], check=True)


def debug(path, build_id, function):
    build(path, build_id, function)
    subprocess.run(["objcopy", "--only-keep-debug", path], check=True)


def patch(path, change):
    """Gives sections other contents, which are appended to the file: `change` maps a name to (contents, flags) or None."""
    with open(path, "rb") as file:
        data = bytearray(file.read())
    (headers,), (size, count, names) = struct.unpack_from("<Q", data, 40), struct.unpack_from("<HHH", data, 58)
    strings = struct.unpack_from("<Q", data, headers + names * size + 24)[0]
    for index in range(count):
        at = headers + index * size
        name = struct.unpack_from("<I", data, at)[0]
        text = bytes(data[strings + name:data.index(0, strings + name)]).decode()
        replacement = change(text)
        if replacement is None:
            continue
        contents, flags = replacement
        data += bytes(-len(data) % 16)
        struct.pack_into("<Q", data, at + 8, struct.unpack_from("<Q", data, at + 8)[0] | flags)
        struct.pack_into("<QQ", data, at + 24, len(data), len(contents))
        data += contents
    replace(path, bytes(data))


def deflated_zeros(size):
    """A zlib stream of `size` zero bytes: one piece, repeated."""
    piece = 1 << 24
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    once = packer.compress(bytes(piece)) + packer.flush(zlib.Z_FULL_FLUSH)
    count = max(size // piece, 1)
    check = (count * piece % 65521) << 16 | 1
    return count * piece, b"\x78\xda" + once * count + b"\x03\x00" + struct.pack(">I", check)


def bomb(path, build_id, size):
    build(path, build_id, "forged_bomb")
    length, packed = deflated_zeros(int(size))
    contents = struct.pack("<IIQQ", 1, 0, length, 1) + packed
    patch(path, lambda name: (contents, 0x800) if name == ".debug_info" else None)


def symbols(path, build_id, count):
    build(path, build_id, "forged_symbol")
    # Functions at addresses that jump about, so that they have to be sorted; each block lies a MiB behind the one before.
    count_of_block, mebibyte = 1 << 16, 1 << 20
    block = int.from_bytes(b"".join(struct.pack("<IBBHQQ", 1, 0x12, 0, 1, 0x1000 + n * 7919 % mebibyte, 16) for n in range(count_of_block)), "little")
    step = int.from_bytes(struct.pack("<IBBHQQ", 0, 0, 0, 0, mebibyte, 0) * count_of_block, "little")
    contents = bytearray(24)
    for number in range(int(count) // count_of_block):
        contents += (block + number * step).to_bytes(24 * count_of_block, "little")
    patch(path, lambda name: (contents, 0) if name == ".symtab" else None)


def frame(path):
    table = subprocess.run(["nm", path], check=True, capture_output=True, text=True).stdout
    main = [line.split() for line in table.splitlines()]
    address = next(int(a, 16) for a, kind, name in (row for row in main if len(row) == 3) if kind == "T" and name.endswith(("_work", "_name")))
    notes = subprocess.run(["readelf", "-n", path], check=True, capture_output=True, text=True).stdout
    build_id = notes.split("Build ID:")[1].split()[0]
    print(json.dumps([{"module": path, "build_id": build_id, "offset": hex(address + 4)}], separators=(",", ":")))


globals()[sys.argv[1]](*sys.argv[2:])
