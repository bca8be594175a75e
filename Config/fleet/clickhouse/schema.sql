-- Report lines in ClickHouse: lines go in as they are, and come out as rows.
--
--   clickhouse-client --multiquery < schema.sql
--   clickhouse-client --query 'INSERT INTO stall_lines FORMAT LineAsString' < stalls.jsonl
--
-- A shipper inserts into stall_lines, too: Vector by its clickhouse sink, with the line as the field `line`. Keys that are not named here are left
-- alone, so lines of later versions load, too.

CREATE TABLE stall_lines (line String) ENGINE = Null;

-- Delivery is at least once: rows with the same key are one, and of stall.fatal there is one for each stall.
CREATE TABLE stall_reports (
  time DateTime64(9, 'UTC'), event LowCardinality(String), host LowCardinality(String), service LowCardinality(String),
  version LowCardinality(String), stall_id FixedString(32), sequence UInt64, cause LowCardinality(String), duration_ms Float64,
  culprit String, fingerprint String, suppressed UInt64, lock_kind LowCardinality(String), executable LowCardinality(String),
  exit_signal LowCardinality(String), exit_result LowCardinality(String), threads String CODEC(ZSTD), message String CODEC(ZSTD),
  stack String CODEC(ZSTD)
) ENGINE = ReplacingMergeTree
PARTITION BY toYYYYMM(time)
ORDER BY (service, stall_id, sequence)
-- TTL toDateTime(time) + INTERVAL 90 DAY
;

CREATE MATERIALIZED VIEW stall_lines_to_reports TO stall_reports AS
SELECT parseDateTime64BestEffort(JSONExtractString(line, '@timestamp'), 9, 'UTC') AS time,
  JSONExtractString(line, 'event', 'name') AS event, JSONExtractString(line, 'host', 'name') AS host,
  JSONExtractString(line, 'service', 'name') AS service, JSONExtractString(line, 'service', 'version') AS version,
  JSONExtractString(line, 'stall', 'id') AS stall_id,
  if(event = 'stall.fatal', 0, JSONExtractUInt(line, 'stall', 'sequence')) AS sequence,
  JSONExtractString(line, 'stall', 'cause') AS cause, JSONExtractFloat(line, 'stall', 'duration_ms') AS duration_ms,
  JSONExtractString(line, 'stall', 'culprit') AS culprit, JSONExtractString(line, 'stall', 'fingerprint') AS fingerprint,
  JSONExtractUInt(line, 'stall', 'suppressed', 'count') AS suppressed,
  JSONExtractString(line, 'stall', 'evidence', 'lock_kind') AS lock_kind,
  JSONExtractString(line, 'process', 'executable', 'path') AS executable,
  JSONExtractString(line, 'process', 'exit_signal') AS exit_signal, JSONExtractString(line, 'process', 'exit_result') AS exit_result,
  JSONExtractRaw(line, 'threads') AS threads, JSONExtractString(line, 'message') AS message, JSONExtractRaw(line, 'stack') AS stack
FROM stall_lines
WHERE JSONExtractString(line, 'event', 'name') LIKE 'stall.%';

-- One row for each stall that is over, and one for each summary of stalls that were counted: never started and ongoing,
-- which report the same stall.
CREATE VIEW stalls AS
SELECT * REPLACE (if(culprit = '', '(unknown)', culprit) AS culprit, if(fingerprint = '', '(none)', fingerprint) AS fingerprint),
  greatest(suppressed, 1) AS stalls, suppressed = 0 AS is_single
FROM stall_reports FINAL
WHERE event IN ('stall.ended', 'stall.fatal', 'stall.suppressed');
