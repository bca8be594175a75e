-- What stalls us most: by total time times the machines that it happens on, so that one bad machine does not hide what all have.
-- Percentiles are of the stalls that were reported one by one.
SELECT service, culprit, topK(1)(cause)[1] AS cause, sum(s.stalls) AS stalls, uniqExact(host) AS hosts,
  round(sum(duration_ms) / 1000, 3) AS total_s,
  round(quantileExactInclusiveIf(0.5)(duration_ms, is_single), 3) AS p50_ms,
  round(quantileExactInclusiveIf(0.99)(duration_ms, is_single), 3) AS p99_ms,
  min(time) AS first_seen, max(time) AS last_seen
FROM stalls AS s GROUP BY service, culprit
ORDER BY sum(duration_ms) * hosts DESC, service, culprit LIMIT 20;
