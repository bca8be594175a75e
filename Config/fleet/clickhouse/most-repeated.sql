-- What repeats most: stalls that were counted, not reported one by one.
SELECT service, culprit, sum(suppressed) AS counted, uniqExact(host) AS hosts, round(sum(duration_ms) / 1000, 3) AS total_s,
  round(sum(duration_ms) / sum(suppressed), 3) AS mean_ms
FROM stalls WHERE NOT is_single GROUP BY service, culprit ORDER BY counted DESC, service, culprit LIMIT 20;
