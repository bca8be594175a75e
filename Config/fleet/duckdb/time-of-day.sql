-- When we stall: by the hour (UTC), and what most of that hour's time went to.
WITH hours AS (
  SELECT hour(time) AS hour, service, culprit, sum(stalls)::BIGINT AS stalls, sum(duration_ms) AS total
  FROM stalls GROUP BY ALL
)
SELECT hour, sum(stalls)::BIGINT AS stalls, round(sum(total) / 1000, 3) AS total_s,
  arg_max(service || ' ' || culprit, total) AS worst, round(max(total) / 1000, 3) AS worst_s
FROM hours GROUP BY hour ORDER BY hour;
