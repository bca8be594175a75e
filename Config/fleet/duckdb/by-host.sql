-- Which machines differ from the others: stalled time beside the median of the machines with the same service (of those that stalled), and
-- what most of it went to.
WITH culprits AS (
  SELECT service, host, culprit, sum(stalls)::BIGINT AS stalls, sum(duration_ms) AS total FROM stalls GROUP BY ALL
), hosts AS (
  SELECT service, host, sum(stalls)::BIGINT AS stalls, sum(total) AS total, arg_max(culprit, total) AS worst
  FROM culprits GROUP BY service, host
)
SELECT host, service, stalls, round(total / 1000, 3) AS total_s,
  round(total / median(total) OVER (PARTITION BY service), 2) AS times_median, worst
FROM hosts ORDER BY times_median DESC, host LIMIT 20;
