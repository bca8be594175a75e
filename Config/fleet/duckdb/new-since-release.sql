-- What a release brought: stalls of $release that no version which was out before it has had, not even on machines
-- that got the release late.
--   SET VARIABLE service = 'web'; SET VARIABLE release = '2.4.0';
WITH versions AS (
  SELECT version, min(time) AS since FROM reports WHERE service = getvariable('service') GROUP BY version
), known AS (
  SELECT DISTINCT fingerprint FROM stalls JOIN versions USING (version)
  WHERE service = getvariable('service') AND version <> getvariable('release')
    AND since < (SELECT since FROM versions WHERE version = getvariable('release'))
)
SELECT culprit, mode(cause) AS cause, sum(stalls)::BIGINT AS stalls, count(DISTINCT host) AS hosts,
  round(sum(duration_ms) / 1000, 3) AS total_s, min(time) AS first_seen
FROM stalls
WHERE service = getvariable('service') AND version = getvariable('release') AND fingerprint NOT IN (FROM known)
GROUP BY fingerprint, culprit ORDER BY total_s DESC, culprit;
