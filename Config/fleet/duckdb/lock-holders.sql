-- Who holds the locks that loops wait for: the innermost function of the service's own code in the holder's stack.
WITH holders AS (
  SELECT *, list_filter(threads, lambda thread: thread.role = 'lock_holder')[1].stack AS holder
  FROM stalls WHERE cause = 'lock' AND is_single
)
SELECT service, lock_kind,
  coalesce(list_filter(holder, lambda frame: frame.module = executable AND frame.symbol IS NOT NULL)[1].symbol, '(unknown)') AS holder,
  culprit AS waits_in, count(*) AS stalls, count(DISTINCT host) AS hosts, round(sum(duration_ms) / 1000, 3) AS total_s
FROM holders GROUP BY ALL ORDER BY total_s DESC, service, holder, waits_in;
