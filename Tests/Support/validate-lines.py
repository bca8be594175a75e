"""Validates report lines against the JSON Schema that is named as the first argument.

Prints one line for each fault of the lines on standard input, and exits with 1 if there was one.

With --serve as the second argument it validates one text after another: each is the number of its bytes in a line of its own, and the bytes;
each answer is the faults and an empty line.
"""

import json
import sys

import jsonschema

with open(sys.argv[1], encoding="utf-8") as file:
    schema = json.load(file)
# That of the schema's draft; before jsonschema 4.0, of an earlier one, which does not judge what stands beside a reference.
Validator = jsonschema.validators.validator_for(schema)
Validator.check_schema(schema)
validator = Validator(schema)


def faults(lines):
    for number, line in enumerate(lines, start=1):
        if len(line) > 8000:
            yield f"line {number}: {len(line)} bytes"
        try:
            document = json.loads(line)
        except ValueError as error:
            yield f"line {number}: {error}: {line[:200]!r}"
            continue
        for error in validator.iter_errors(document):
            yield f"line {number}: {'/'.join(map(str, error.absolute_path))}: {error.message[:300]}"


if sys.argv[2:] == ["--serve"]:
    while size := sys.stdin.buffer.readline():
        text = sys.stdin.buffer.read(int(size))
        for fault in faults(text.splitlines(keepends=True)):
            print(fault.replace("\n", " "))
        print(flush=True)
else:
    found = 0
    for fault in faults(sys.stdin.buffer):
        found += 1
        print(fault)
    sys.exit(1 if found else 0)
