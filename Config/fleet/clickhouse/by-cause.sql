-- Why we stall: time by cause, and its share of all.
SELECT cause, sum(s.stalls) AS stalls, uniqExact(host) AS hosts, round(sum(duration_ms) / 1000, 3) AS total_s,
  round(sum(duration_ms) / sum(sum(duration_ms)) OVER (), 4) AS share
FROM stalls AS s GROUP BY cause ORDER BY total_s DESC, cause;
