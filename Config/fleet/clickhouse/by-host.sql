-- Which machines differ from the others: stalled time beside the median of the machines with the same service (of those that stalled), and
-- what most of it went to.
WITH culprits AS (
  SELECT service, host, culprit, sum(s.stalls) AS stalls, sum(duration_ms) AS total
  FROM stalls AS s GROUP BY service, host, culprit
), hosts AS (
  SELECT service, host, sum(c.stalls) AS stalls, sum(c.total) AS total, argMax(culprit, c.total) AS worst
  FROM culprits AS c GROUP BY service, host
), medians AS (
  SELECT service, quantileExactInclusive(0.5)(total) AS median FROM hosts GROUP BY service
)
SELECT host, service, stalls, round(total / 1000, 3) AS total_s, round(total / median, 2) AS times_median, worst
FROM hosts JOIN medians USING (service) ORDER BY times_median DESC, host LIMIT 20;
