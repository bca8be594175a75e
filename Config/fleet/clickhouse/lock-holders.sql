-- Who holds the locks that loops wait for: the innermost function of the service's own code in the holder's stack.
WITH holders AS (
  SELECT *, JSONExtract(threads, 'Array(Tuple(role String, stack Array(Tuple(symbol String, module String))))') AS all_threads,
    arrayFirst(thread -> thread.role = 'lock_holder', all_threads).stack AS holder_stack,
    arrayFirst(frame -> frame.module = executable AND frame.symbol <> '', holder_stack).symbol AS found
  FROM stalls WHERE cause = 'lock' AND is_single
)
SELECT service, lock_kind, if(found = '', '(unknown)', found) AS holder, culprit AS waits_in, count() AS stalls,
  uniqExact(host) AS hosts, round(sum(duration_ms) / 1000, 3) AS total_s
FROM holders GROUP BY service, lock_kind, holder, waits_in ORDER BY total_s DESC, service, holder, waits_in;
