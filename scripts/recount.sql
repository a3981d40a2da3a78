-- Every counter of rewards, days, campaigns and reward-days, recomputed from the rows of the log (docs/counting.md).
-- For DuckDB. Wants a table or view `events` with the columns of `ingest-reader export events` (of CSV: with
-- --no-csv-safe, so that names are as they are), for example
--
--     CREATE VIEW events AS SELECT * FROM read_csv('events.csv', all_varchar = true);
--
-- and makes the views `rewards`, `days`, `campaigns` and `reward_days`, with the columns of the exports of
-- these names. Rows that have expired are in no export of events, and so not in these.

CREATE OR REPLACE TEMP VIEW judged AS
SELECT
    rewardId, businessId, campaign, source, CAST(campaignOverflow AS BOOLEAN) AS campaignOverflow,
    CAST(date AS VARCHAR) AS date, eventType AS type, verdict = 'counted' AS counted,
    viewability IS NOT NULL AS measured, verdict,
    CASE
        WHEN verdict = 'counted' THEN 'counted'
        WHEN verdict = 'not_viewable' AND eventType = 'impression' THEN 'notViewable'
        WHEN verdict = 'invalid_traffic' THEN 'invalid'
        WHEN verdict IN ('duplicate', 'session_repeat') THEN 'duplicate'
        WHEN verdict = 'conflict' THEN 'conflict'
        ELSE 'refused'
    END AS outcome,
    CAST(revenue AS DECIMAL(38, 6)) AS revenue, CAST(spend AS DECIMAL(38, 6)) AS spend,
    CAST(unchecked AS BOOLEAN) AS unchecked, CAST(orphan AS BOOLEAN) AS orphan,
    CAST(overflow AS BOOLEAN) AS overflow
FROM events;

-- part / whole with four decimals, half rounded up, by whole numbers alone.
CREATE OR REPLACE TEMP MACRO rate(part, whole) AS
    CASE WHEN whole > 0
        THEN CAST((CAST(part AS HUGEINT) * 20000 + whole) // (CAST(whole AS HUGEINT) * 2) AS DECIMAL(28, 4)) / 10000
    END;

CREATE OR REPLACE TEMP VIEW recounted AS
SELECT
    GROUPING_ID(rewardId, businessId, date, campaignOverflow) AS grouping, rewardId, businessId, date,
    campaign, source, campaignOverflow,
    min(businessId) AS firstBusinessId, count(DISTINCT businessId) AS businessCount,
    count(*) FILTER (type = 'impression' AND counted) AS impressions,
    count(*) FILTER (type = 'click' AND counted) AS clicks,
    count(*) FILTER (type = 'redemption' AND counted) AS redemptions,
    coalesce(sum(revenue) FILTER (counted), 0) AS revenue,
    coalesce(sum(spend) FILTER (counted), 0) AS spend,
    count(*) FILTER (type = 'impression' AND counted AND measured) AS viewableImpressions,
    count(*) FILTER (type = 'impression' AND verdict IN ('counted', 'undetermined') AND NOT measured)
        AS undeterminedImpressions,
    count(*) FILTER (outcome = 'notViewable') AS notViewableImpressions,
    count(*) FILTER (type = 'impression') AS grossImpressions,
    count(*) FILTER (type = 'impression' AND outcome = 'invalid') AS invalidImpressions,
    count(*) FILTER (type = 'impression' AND outcome = 'duplicate') AS duplicateImpressions,
    count(*) FILTER (type = 'impression' AND outcome = 'conflict') AS conflictImpressions,
    count(*) FILTER (type = 'impression' AND outcome = 'refused') AS refusedImpressions,
    count(*) FILTER (type = 'click') AS grossClicks,
    count(*) FILTER (type = 'click' AND outcome = 'invalid') AS invalidClicks,
    count(*) FILTER (type = 'click' AND outcome = 'duplicate') AS duplicateClicks,
    count(*) FILTER (type = 'click' AND outcome = 'conflict') AS conflictClicks,
    count(*) FILTER (type = 'click' AND outcome = 'refused') AS refusedClicks,
    count(*) FILTER (type = 'redemption') AS grossRedemptions,
    count(*) FILTER (type = 'redemption' AND outcome = 'invalid') AS invalidRedemptions,
    count(*) FILTER (type = 'redemption' AND outcome = 'duplicate') AS duplicateRedemptions,
    count(*) FILTER (type = 'redemption' AND outcome = 'conflict') AS conflictRedemptions,
    count(*) FILTER (type = 'redemption' AND outcome = 'refused') AS refusedRedemptions,
    count(*) FILTER (counted AND unchecked) AS uncheckedEvents,
    count(*) FILTER (type = 'click' AND counted AND orphan) AS orphanClicks,
    count(*) FILTER (type = 'redemption' AND counted AND orphan) AS orphanRedemptions,
    count(*) FILTER (counted AND overflow) AS overflowEvents
FROM judged
GROUP BY GROUPING SETS (
    (rewardId), (businessId, date), (rewardId, businessId, date),
    (rewardId, businessId, campaign, source, campaignOverflow)
);

CREATE OR REPLACE TEMP VIEW rated AS
SELECT
    *, rate(clicks, impressions) AS ctr,
    rate(viewableImpressions + notViewableImpressions,
         viewableImpressions + notViewableImpressions + undeterminedImpressions) AS measuredRate,
    rate(viewableImpressions, viewableImpressions + notViewableImpressions) AS viewableRate
FROM recounted;

CREATE OR REPLACE TEMP VIEW rewards AS
SELECT
    rewardId AS id, firstBusinessId AS businessId,
    * EXCLUDE (grouping, rewardId, businessId, date, campaign, source, campaignOverflow, firstBusinessId)
FROM rated WHERE grouping = 7;

CREATE OR REPLACE TEMP VIEW days AS
SELECT
    businessId || '#' || date AS id,
    * EXCLUDE (grouping, rewardId, campaign, source, campaignOverflow, firstBusinessId, businessCount)
FROM rated WHERE grouping = 9;

CREATE OR REPLACE TEMP VIEW campaigns AS
SELECT
    rewardId AS id, campaignOverflow AS overflow,
    * EXCLUDE (grouping, rewardId, date, campaignOverflow, firstBusinessId, businessCount)
FROM rated WHERE grouping = 2;

CREATE OR REPLACE TEMP VIEW reward_days AS
SELECT
    rewardId AS id,
    * EXCLUDE (grouping, rewardId, campaign, source, campaignOverflow, firstBusinessId, businessCount)
FROM rated WHERE grouping = 1;
