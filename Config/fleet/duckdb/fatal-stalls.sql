-- Stalls that the process did not survive, and what ended it as far as the agent knows.
SELECT service, version, culprit, cause, coalesce(exit_result, exit_signal, '(unknown)') AS ended_by, count(*) AS stalls,
  count(DISTINCT host) AS hosts, round(max(duration_ms), 3) AS longest_ms, max(time) AS last_seen
FROM stalls WHERE event = 'stall.fatal' GROUP BY ALL ORDER BY stalls DESC, service, culprit;
