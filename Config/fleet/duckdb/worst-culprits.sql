-- What stalls us most: by total time times the machines that it happens on, so that one bad machine does not hide what all have.
-- Percentiles are of the stalls that were reported one by one.
SELECT service, culprit, mode(cause) AS cause, sum(stalls)::BIGINT AS stalls, count(DISTINCT host) AS hosts,
  round(sum(duration_ms) / 1000, 3) AS total_s,
  round(quantile_cont(duration_ms, 0.5) FILTER (is_single), 3) AS p50_ms,
  round(quantile_cont(duration_ms, 0.99) FILTER (is_single), 3) AS p99_ms,
  min(time) AS first_seen, max(time) AS last_seen
FROM stalls GROUP BY service, culprit
ORDER BY sum(duration_ms) * count(DISTINCT host) DESC, service, culprit LIMIT 20;
