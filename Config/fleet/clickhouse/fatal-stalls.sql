-- Stalls that the process did not survive, and what ended it as far as the agent knows.
SELECT service, version, culprit, cause,
  multiIf(exit_result <> '', exit_result, exit_signal <> '', exit_signal, '(unknown)') AS ended_by, count() AS stalls,
  uniqExact(host) AS hosts, round(max(duration_ms), 3) AS longest_ms, max(time) AS last_seen
FROM stalls WHERE event = 'stall.fatal' GROUP BY service, version, culprit, cause, ended_by ORDER BY stalls DESC, service, culprit;
