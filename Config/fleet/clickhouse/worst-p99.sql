-- Whose stalls are the longest: the 99th percentile by service.
SELECT service, count() AS stalls, round(quantileExactInclusive(0.5)(duration_ms), 3) AS p50_ms,
  round(quantileExactInclusive(0.99)(duration_ms), 3) AS p99_ms, round(max(duration_ms), 3) AS max_ms
FROM stalls WHERE is_single GROUP BY service ORDER BY p99_ms DESC, service;
