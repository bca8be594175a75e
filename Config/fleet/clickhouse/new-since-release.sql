-- What a release brought: stalls of {release} that no version which was out before it has had, not even on machines
-- that got the release late.
--   clickhouse-client --param_service=web --param_release=2.4.0 --queries-file new-since-release.sql
WITH versions AS (
  SELECT version, min(time) AS since FROM stall_reports WHERE service = {service:String} GROUP BY version
), known AS (
  SELECT DISTINCT fingerprint FROM stalls WHERE service = {service:String} AND version IN (
    SELECT version FROM versions WHERE version <> {release:String}
      AND since < (SELECT since FROM versions WHERE version = {release:String}))
)
SELECT culprit, topK(1)(cause)[1] AS cause, sum(s.stalls) AS stalls, uniqExact(host) AS hosts,
  round(sum(duration_ms) / 1000, 3) AS total_s, min(time) AS first_seen
FROM stalls AS s
WHERE service = {service:String} AND version = {release:String} AND fingerprint NOT IN (SELECT fingerprint FROM known)
GROUP BY fingerprint, culprit ORDER BY total_s DESC, culprit;
