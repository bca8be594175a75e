-- Report lines as a table, for the other files of this folder:
--
--   duckdb <<'END'
--   SET VARIABLE reports = '/var/log/stalld/stalls.jsonl*';
--   .read load.sql
--   .read worst-culprits.sql
--   END
--
-- Files may be many (a glob, or a list of them) and compressed (.gz). Keys that are not named here are left alone, so lines of later
-- versions load, too.

CREATE OR REPLACE TABLE reports AS
-- Delivery is at least once: a line that came twice is one, and of stall.fatal there is one for each stall.
SELECT DISTINCT ON (stall.id, CASE WHEN event.name = 'stall.fatal' THEN 0 ELSE stall.sequence END)
  "@timestamp" AS time, event.name AS event, host.name AS host, service.name AS service, service.version AS version,
  stall.id AS stall_id, stall.sequence AS sequence, stall.cause AS cause, stall.duration_ms AS duration_ms,
  -- Those that were counted because there were too many have no responsible function.
  coalesce(stall.culprit, '(unknown)') AS culprit, coalesce(stall.fingerprint, '(none)') AS fingerprint,
  stall.suppressed.count AS suppressed, stall.evidence.lock_kind AS lock_kind, process.executable.path AS executable,
  process.exit_signal AS exit_signal, process.exit_result AS exit_result, threads
FROM read_json(getvariable('reports'), format = 'newline_delimited', maximum_object_size = 65536, columns = {
  '@timestamp': 'TIMESTAMP',
  event: 'STRUCT(name VARCHAR)',
  stall: 'STRUCT(id VARCHAR, sequence UBIGINT, duration_ms DOUBLE, cause VARCHAR, culprit VARCHAR, fingerprint VARCHAR,
    suppressed STRUCT(count UBIGINT), evidence STRUCT(lock_kind VARCHAR))',
  process: 'STRUCT(executable STRUCT(path VARCHAR), exit_signal VARCHAR, exit_result VARCHAR)',
  service: 'STRUCT(name VARCHAR, version VARCHAR)',
  host: 'STRUCT(name VARCHAR)',
  threads: 'STRUCT(role VARCHAR, stack STRUCT(symbol VARCHAR, module VARCHAR)[])[]'
});

-- One row for each stall that is over, and one for each summary of stalls that were counted: never started and ongoing,
-- which report the same stall.
CREATE OR REPLACE VIEW stalls AS
SELECT *, coalesce(suppressed, 1) AS stalls, suppressed IS NULL AS is_single
FROM reports WHERE event IN ('stall.ended', 'stall.fatal', 'stall.suppressed');
