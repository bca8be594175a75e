-- What became worse, or better, from one release to the next: stalled time per machine that ran it, and the 95th percentile.
--   SET VARIABLE service = 'web'; SET VARIABLE before = '2.3.0'; SET VARIABLE after = '2.4.0';
-- Both are to have been out for about as long; otherwise divide by days, too.
WITH hosts AS (
  SELECT count(DISTINCT host) FILTER (version = getvariable('before')) AS before,
    count(DISTINCT host) FILTER (version = getvariable('after')) AS after
  FROM reports WHERE service = getvariable('service')
)
SELECT culprit,
  round(coalesce(sum(duration_ms) FILTER (version = getvariable('before')), 0) / any_value(hosts.before), 3) AS before_ms_per_host,
  round(coalesce(sum(duration_ms) FILTER (version = getvariable('after')), 0) / any_value(hosts.after), 3) AS after_ms_per_host,
  round(after_ms_per_host - before_ms_per_host, 3) AS change_ms_per_host,
  round(quantile_cont(duration_ms, 0.95) FILTER (is_single AND version = getvariable('before')), 3) AS before_p95_ms,
  round(quantile_cont(duration_ms, 0.95) FILTER (is_single AND version = getvariable('after')), 3) AS after_p95_ms
FROM stalls, hosts
WHERE service = getvariable('service') AND version IN (getvariable('before'), getvariable('after'))
GROUP BY culprit ORDER BY change_ms_per_host DESC, culprit;
