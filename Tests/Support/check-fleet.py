"""Asks the ten questions of a stall review, and compares the answers with what is worked out from the lines here, and with what was planted.

    check-fleet.py duckdb|clickhouse LINES

Prints one line for each fault, and exits with 1 if there was one.
"""

import collections
import datetime
import json
import pathlib
import statistics
import sys
import tempfile

FLEET = pathlib.Path(__file__).resolve().parents[2] / "Config/fleet"
PARAMETERS = {"service": "orders", "release": "2.4.0", "before": "2.3.0", "after": "2.4.0"}


class DuckDB:
    def __init__(self, path):
        import duckdb

        self.connection = duckdb.connect()
        for name, value in {"reports": path, **PARAMETERS}.items():
            self.connection.execute(f"SET VARIABLE {name} = '{value}'")
        self.connection.execute((FLEET / "duckdb/load.sql").read_text())

    def ask(self, question):
        result = self.connection.execute((FLEET / f"duckdb/{question}.sql").read_text())
        names = [column[0] for column in result.description]
        return [dict(zip(names, row)) for row in result.fetchall()]


class ClickHouse:
    def __init__(self, path):
        from chdb import session

        self.session = session.Session()
        self.session.query("CREATE DATABASE review")
        self.session.query("USE review")
        for statement in statements((FLEET / "clickhouse/schema.sql").read_text()):
            self.session.query(statement)
        for name, value in PARAMETERS.items():
            self.session.query(f"SET param_{name} = '{value}'")
        # In two parts: the lines that come twice come to each once, and are merged only when they are asked for.
        with open(path, encoding="utf-8") as file, tempfile.TemporaryDirectory() as scratch:
            lines = file.readlines()
            for first in (0, 1):
                part = pathlib.Path(scratch, f"part{first}.jsonl")
                part.write_text("".join(lines[first::2]), encoding="utf-8")
                self.session.query(f"INSERT INTO stall_lines SELECT line FROM file('{part}', 'LineAsString', 'line String')")

    def ask(self, question):
        (statement,) = statements((FLEET / f"clickhouse/{question}.sql").read_text())
        rows = str(self.session.query(statement, "JSONEachRow")).splitlines()
        return [json.loads(row) for row in rows]


def statements(text):
    lines = [line for line in text.splitlines() if not line.startswith("--")]
    return [part for part in "\n".join(lines).split(";") if part.strip()]


class Review:
    """The answers, worked out plainly."""

    def __init__(self, path):
        seen = {}
        with open(path, encoding="utf-8") as file:
            for line in file:
                report = json.loads(line)
                seen[report["stall"]["id"], report["stall"]["sequence"]] = report
        self.reports = list(seen.values())
        self.stalls = [r for r in self.reports if r["event"]["name"] in ("stall.ended", "stall.fatal", "stall.suppressed")]

    @staticmethod
    def count(report):
        return report["stall"].get("suppressed", {}).get("count", 1)

    @staticmethod
    def is_single(report):
        return "suppressed" not in report["stall"]

    def groups(self, key, reports=None):
        groups = collections.defaultdict(list)
        for report in self.stalls if reports is None else reports:
            groups[key(report)].append(report)
        return groups

    def sums(self, group):
        return {
            "stalls": sum(map(self.count, group)), "hosts": len({host(r) for r in group}),
            "total_s": round(sum(map(milliseconds, group)) / 1000, 3),
        }

    def percentile(self, group, fraction):
        values = sorted(milliseconds(r) for r in group if self.is_single(r))
        if not values:
            return None
        place = fraction * (len(values) - 1)
        low = int(place)
        high = min(low + 1, len(values) - 1)
        return round(values[low] + (values[high] - values[low]) * (place - low), 3)

    def worst_culprits(self):
        rows = []
        for (name, function), group in self.groups(lambda r: (service(r), culprit(r))).items():
            rows.append({
                "service": name, "culprit": function, **self.sums(group), "p50_ms": self.percentile(group, 0.5),
                "p99_ms": self.percentile(group, 0.99), "cause": statistics.mode(cause(r) for r in group),
                "first_seen": min(moment(r) for r in group), "last_seen": max(moment(r) for r in group),
            })
        return sorted(rows, key=lambda row: -row["total_s"] * row["hosts"])[:20]

    def new_since_release(self):
        mine = [r for r in self.stalls if service(r) == "orders"]
        since = {}
        for report in self.reports:
            if service(report) == "orders":
                since[version(report)] = min(since.get(version(report), "9"), moment(report))
        known = {culprit(r) for r in mine if since[version(r)] < since["2.4.0"]}
        fresh = [r for r in mine if version(r) == "2.4.0" and culprit(r) not in known]
        return [
            {"culprit": function, **self.sums(group), "cause": cause(group[0]), "first_seen": min(map(moment, group))}
            for function, group in self.groups(culprit, fresh).items()
        ]

    def by_cause(self):
        all_time = sum(map(milliseconds, self.stalls))
        rows = [
            {"cause": word, **self.sums(group), "share": round(sum(map(milliseconds, group)) / all_time, 4)}
            for word, group in self.groups(cause).items()
        ]
        return sorted(rows, key=lambda row: -row["total_s"])

    def by_host(self):
        groups = self.groups(lambda r: (service(r), host(r)))
        totals = collections.defaultdict(list)
        for (name, _), group in groups.items():
            totals[name].append(sum(map(milliseconds, group)))
        rows = []
        for (name, machine), group in groups.items():
            sums = self.sums(group)
            ratio = sum(map(milliseconds, group)) / statistics.median(totals[name])
            total = {function: sum(map(milliseconds, some)) for function, some in self.groups(culprit, group).items()}
            rows.append({
                "host": machine, "service": name, "stalls": sums["stalls"], "total_s": sums["total_s"], "times_median": round(ratio, 2),
                "worst": max(total, key=total.get),
            })
        return sorted(rows, key=lambda row: (-row["times_median"], row["host"]))[:20]

    def regressions(self):
        mine = [r for r in self.stalls if service(r) == "orders"]
        hosts = {v: len({host(r) for r in self.reports if service(r) == "orders" and version(r) == v}) for v in ("2.3.0", "2.4.0")}
        rows = []
        for function, group in self.groups(culprit, mine).items():
            split = {v: [r for r in group if version(r) == v] for v in hosts}
            each = {v: round(sum(map(milliseconds, split[v])) / hosts[v], 3) for v in hosts}
            rows.append({
                "culprit": function, "before_ms_per_host": each["2.3.0"], "after_ms_per_host": each["2.4.0"],
                "change_ms_per_host": round(each["2.4.0"] - each["2.3.0"], 3),
                "before_p95_ms": self.percentile(split["2.3.0"], 0.95), "after_p95_ms": self.percentile(split["2.4.0"], 0.95),
            })
        return sorted(rows, key=lambda row: -row["change_ms_per_host"])

    def lock_holders(self):
        def key(report):
            (holder,) = [t for t in report["threads"] if t["role"] == "lock_holder"]
            own = [f for f in holder["stack"] if f["module"] == report["process"]["executable"]["path"]]
            return service(report), report["stall"]["evidence"]["lock_kind"], own[0]["symbol"], culprit(report)

        locked = [r for r in self.stalls if cause(r) == "lock" and self.is_single(r)]
        return [
            {"service": k[0], "lock_kind": k[1], "holder": k[2], "waits_in": k[3], **self.sums(group)}
            for k, group in self.groups(key, locked).items()
        ]

    def worst_p99(self):
        rows = []
        for name, group in self.groups(service, [r for r in self.stalls if self.is_single(r)]).items():
            rows.append({
                "service": name, "stalls": len(group), "p50_ms": self.percentile(group, 0.5), "p99_ms": self.percentile(group, 0.99),
                "max_ms": max(map(milliseconds, group)),
            })
        return sorted(rows, key=lambda row: -row["p99_ms"])

    def time_of_day(self):
        rows = []
        for hour, group in sorted(self.groups(lambda r: int(moment(r)[11:13])).items()):
            culprits = self.groups(lambda r: service(r) + " " + culprit(r), group)
            total = {name: sum(map(milliseconds, some)) for name, some in culprits.items()}
            worst = max(total, key=total.get)
            sums = self.sums(group)
            rows.append({
                "hour": hour, "stalls": sums["stalls"], "total_s": sums["total_s"], "worst": worst, "worst_s": round(total[worst] / 1000, 3)})
        return rows

    def most_repeated(self):
        counted = [r for r in self.stalls if not self.is_single(r)]
        rows = []
        for (name, function), group in self.groups(lambda r: (service(r), culprit(r)), counted).items():
            sums = self.sums(group)
            rows.append({
                "service": name, "culprit": function, "counted": sums["stalls"], "hosts": sums["hosts"], "total_s": sums["total_s"],
                "mean_ms": round(sum(map(milliseconds, group)) / sums["stalls"], 3),
            })
        return sorted(rows, key=lambda row: -row["counted"])

    def fatal_stalls(self):
        fatal = [r for r in self.stalls if r["event"]["name"] == "stall.fatal"]
        return [
            {
                "service": k[0], "version": k[1], "culprit": k[2], "cause": k[3], "ended_by": k[4], "stalls": len(group),
                "hosts": len({host(r) for r in group}), "longest_ms": max(map(milliseconds, group)), "last_seen": max(map(moment, group)),
            }
            for k, group in self.groups(
                lambda r: (service(r), version(r), culprit(r), cause(r), r["process"]["exit_result"]), fatal).items()
        ]


def milliseconds(report):
    return report["stall"]["duration_ms"]


def host(report):
    return report["host"]["name"]


def service(report):
    return report["service"]["name"]


def version(report):
    return report["service"]["version"]


def culprit(report):
    return report["stall"]["culprit"]


def cause(report):
    return report["stall"]["cause"]


def moment(report):
    return report["@timestamp"]


# What is known of the lines because it was planted (PLANTS in generate-reports.py): the first rows.
PLANTED = {
    "worst-culprits": [{"service": "orders", "culprit": "Ledger.flush() -> ()", "stalls": 2400, "hosts": 400}],
    "new-since-release": [{"culprit": "PriceCache.rebuild() -> ()"}],
    "by-cause": [{"cause": "running"}],
    "by-host": [{"host": "media-0007"}, {"host": "gateway-0042", "worst": "AccessLog.write(_:) -> ()"}],
    "regressions": [{"culprit": "OrderIndex.scan() -> ()"}],
    "lock-holders": [{"holder": "AuditLog.write(_:) -> ()", "waits_in": "Ledger.flush() -> ()", "stalls": 2400}],
    "worst-p99": [{"service": "media"}],
    "most-repeated": [{"service": "gateway", "culprit": "TLSHandshake.verify() -> ()", "hosts": 200}],
    "fatal-stalls": [{"culprit": "ReportExport.render() -> ()", "ended_by": "oom-kill", "stalls": 7, "hosts": 7}],
    "time-of-day": [{"hour": 0}, {"hour": 1}, {"hour": 2}, {"hour": 3, "worst": "billing Snapshot.copy() -> ()"}],
}
# Rows that there are: everything else is no answer.
NUMBERS_OF_ROWS = {"new-since-release": 1, "lock-holders": 1, "most-repeated": 1, "fatal-stalls": 1, "time-of-day": 24}


def is_same(expected, found):
    if isinstance(expected, (int, float)) and not isinstance(expected, bool):
        # The last digit may be rounded the other way: sums are made in another order.
        return found is not None and abs(float(found) - expected) <= 0.0015 + abs(expected) * 1e-9
    if isinstance(expected, str) and expected[:2] == "20" and expected.endswith("Z"):
        text = found.isoformat() if isinstance(found, datetime.datetime) else str(found).replace(" ", "T")
        return text[:26] == expected[:26]
    return expected == found


def main():
    engine = {"duckdb": DuckDB, "clickhouse": ClickHouse}[sys.argv[1]](sys.argv[2])
    review = Review(sys.argv[2])
    faults = 0
    for question, planted in PLANTED.items():
        try:
            found = engine.ask(question)
        except Exception as error:
            print(f"{question}: {str(error)[:500]}")
            faults += 1
            continue
        expected = getattr(review, question.replace("-", "_"))()
        for answers, name in ((expected, "the lines"), (planted, "what was planted")):
            for number, row in enumerate(answers):
                got = found[number] if number < len(found) else {}
                different = [key for key in row if not is_same(row[key], got.get(key))]
                if different:
                    faults += 1
                    print(f"{question}, row {number + 1}, by {name}: " + "; ".join(f"{k} is {got.get(k)!r}, not {row[k]!r}" for k in different))
        if len(found) != len(expected) or len(found) != NUMBERS_OF_ROWS.get(question, len(found)):
            faults += 1
            print(f"{question}: {len(found)} rows")
    sys.exit(1 if faults else 0)


main()
