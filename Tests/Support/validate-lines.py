"""Validates report lines on standard input against the JSON Schema that is named as the first argument.

Prints one line for each fault, and exits with 1 if there was one.
"""

import json
import sys

import jsonschema

with open(sys.argv[1], encoding="utf-8") as file:
    schema = json.load(file)
jsonschema.Draft202012Validator.check_schema(schema)
validator = jsonschema.Draft202012Validator(schema)
faults = 0
for number, line in enumerate(sys.stdin.buffer, start=1):
    if len(line) > 8000:
        faults += 1
        print(f"line {number}: {len(line)} bytes")
    try:
        document = json.loads(line)
    except ValueError as error:
        faults += 1
        print(f"line {number}: {error}: {line[:200]!r}")
        continue
    for error in validator.iter_errors(document):
        faults += 1
        print(f"line {number}: {'/'.join(map(str, error.absolute_path))}: {error.message[:300]}")
sys.exit(1 if faults else 0)
