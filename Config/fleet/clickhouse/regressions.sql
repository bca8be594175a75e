-- What became worse, or better, from one release to the next: stalled time per machine that ran it, and the 95th percentile.
--   clickhouse-client --param_service=web --param_before=2.3.0 --param_after=2.4.0 --queries-file regressions.sql
-- Both are to have been out for about as long; otherwise divide by days, too.
WITH
  (SELECT uniqExact(host) FROM stall_reports WHERE service = {service:String} AND version = {before:String}) AS hosts_before,
  (SELECT uniqExact(host) FROM stall_reports WHERE service = {service:String} AND version = {after:String}) AS hosts_after
SELECT culprit,
  round(sumIf(duration_ms, version = {before:String}) / hosts_before, 3) AS before_ms_per_host,
  round(sumIf(duration_ms, version = {after:String}) / hosts_after, 3) AS after_ms_per_host,
  round(after_ms_per_host - before_ms_per_host, 3) AS change_ms_per_host,
  round(quantileExactInclusiveOrNullIf(0.95)(duration_ms, is_single AND version = {before:String}), 3) AS before_p95_ms,
  round(quantileExactInclusiveOrNullIf(0.95)(duration_ms, is_single AND version = {after:String}), 3) AS after_p95_ms
FROM stalls WHERE service = {service:String} AND version IN ({before:String}, {after:String})
GROUP BY culprit ORDER BY change_ms_per_host DESC, culprit;
