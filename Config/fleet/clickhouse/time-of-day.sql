-- When we stall: by the hour (UTC), and what most of that hour's time went to.
WITH hours AS (
  SELECT toHour(time) AS hour, service, culprit, sum(s.stalls) AS stalls, sum(duration_ms) AS total
  FROM stalls AS s GROUP BY hour, service, culprit
)
SELECT hour, sum(h.stalls) AS stalls, round(sum(total) / 1000, 3) AS total_s, argMax(concat(service, ' ', culprit), total) AS worst,
  round(max(total) / 1000, 3) AS worst_s
FROM hours AS h GROUP BY hour ORDER BY hour;
