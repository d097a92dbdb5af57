-- A quantile of a service's latencies, as contador's API tells it, in microseconds: the true one is between low and high; that
-- of what the requests are a sample of is between ci_low and ci_high with 95 % confidence. Parameters: service, metric, model
-- ('' for all), q (over 0 and under 1), from and to (Unix seconds), max_ratio (1.1). Whole windows of roll-ups are read where
-- they have everything that was stored, rows where they don't. Rows are kept for 14 days: before, times are multiples of 300.
WITH
    intDiv({from:UInt32}, 10) * 10 AS first, intDiv({to:UInt32} + 9, 10) * 10 AS last,
    toUInt32(round({q:Float64} * 1e6)) AS ppm, ppm / 1e6 AS share, (1000000 - ppm) / 1e6 AS rest,
    -- Up to when roll-ups are whole.
    (SELECT if(uniqExact(level) = 3, toUInt32(greatest(0, least(min(mark), toUnixTimestamp(now()) - 960))), 0)
     FROM (SELECT level, toUnixTimestamp(argMax(watermark, pass)) AS mark FROM rollups GROUP BY level)) AS mark,
    -- Five minutes that have changed since, by whomever: roll-ups leave out the whole window.
    late AS (
        SELECT DISTINCT toUInt32(intDiv(toUInt32(window), 300) * 300) AS window_5m FROM latency
        WHERE mark > 0 AND stored >= toDateTime64(mark, 3, 'UTC')
          AND window >= toDateTime(first, 'UTC') AND window < toDateTime(least(last, mark), 'UTC')),
    late_1h AS (SELECT DISTINCT toUInt32(intDiv(window_5m, 3600) * 3600) FROM late),
    late_1d AS (SELECT DISTINCT toUInt32(intDiv(window_5m, 86400) * 86400) FROM late),
    parts AS (
        SELECT toUInt32(window) AS w, lo, hi, n, censored,
               toUInt32(intDiv(w, 300) * 300) AS w_5m, toUInt32(intDiv(w, 3600) * 3600) AS w_1h,
               w_5m >= first AND w_5m + 300 <= least(last, mark)
                   AND w_5m GLOBAL NOT IN (SELECT window_5m FROM late) AS whole
        FROM latency FINAL
        WHERE service = {service:String} AND metric = {metric:String} AND ({model:String} = '' OR model = {model:String})
          AND window >= toDateTime(first, 'UTC') AND window < toDateTime(last, 'UTC') AND NOT whole
        UNION ALL
        SELECT toUInt32(window) AS w, lo, hi, n, censored, w AS w_5m, toUInt32(intDiv(w, 3600) * 3600) AS w_1h,
               w_1h >= first AND w_1h + 3600 <= least(last, mark)
                   AND w_1h GLOBAL NOT IN late_1h AS whole
        FROM latency_5m FINAL
        WHERE service = {service:String} AND metric = {metric:String} AND ({model:String} = '' OR model = {model:String})
          AND w >= first AND w + 300 <= least(last, mark)
          AND w GLOBAL NOT IN (SELECT window_5m FROM late) AND NOT whole
        UNION ALL
        SELECT toUInt32(window) AS w, lo, hi, n, censored, w AS w_5m, w AS w_1h,
               toUInt32(intDiv(w, 86400) * 86400) >= first
                   AND toUInt32(intDiv(w, 86400) * 86400) + 86400 <= least(last, mark)
                   AND toUInt32(intDiv(w, 86400) * 86400) GLOBAL NOT IN late_1d AS whole
        FROM latency_1h FINAL
        WHERE service = {service:String} AND metric = {metric:String} AND ({model:String} = '' OR model = {model:String})
          AND w >= first AND w + 3600 <= least(last, mark) AND w GLOBAL NOT IN late_1h AND NOT whole
        UNION ALL
        SELECT toUInt32(window) AS w, lo, hi, n, censored, w AS w_5m, w AS w_1h, false AS whole
        FROM latency_1d FINAL
        WHERE service = {service:String} AND metric = {metric:String} AND ({model:String} = '' OR model = {model:String})
          AND w >= first AND w + 86400 <= least(last, mark) AND w GLOBAL NOT IN late_1d),
    aborted AS (SELECT sum(censored) AS censored FROM parts),
    sums AS (
        SELECT l, h, sum(c) AS c FROM parts ARRAY JOIN lo AS l, hi AS h, n AS c GROUP BY l, h),
    -- Cells in ascending order of their lower edges, and upper edges in theirs.
    whole_time AS (
        SELECT arraySort(groupArray((l, h, c))) AS cells, arraySort(groupArray((h, c))) AS uppers, sum(c) AS total
        FROM sums),
    -- The rank of the quantile, and ranks whose tails are at most 2.5 %: the binomial distribution from its mode outward.
    ranked AS (
        SELECT cells, uppers, total, toUInt64(greatest(1, intDiv(toUInt128(ppm) * total + 999999, 1000000))) AS rank,
               toInt64(least(total, intDiv((toUInt128(total) + 1) * ppm, 1000000))) AS mode, toInt64(total) AS n,
               toInt64(ceil(10 * sqrt(n * share * rest))) + 60 AS reach,
               arrayMap(x -> exp(x), arrayCumSum(arrayMap(
                   i -> log((mode - i + 1) / ((n - (mode - i)) * (share / rest))), range(1, least(mode, reach) + 1)))) AS below,
               arrayMap(x -> exp(x), arrayCumSum(arrayMap(
                   i -> log((n - mode - i + 1) * (share / rest) / (mode + i)), range(1, least(n - mode, reach) + 1)))) AS above,
               0.025 * (arraySum(below) + 1 + arraySum(above)) AS most,
               mode - arrayCount((term, sum) -> arraySum(below) - (sum - term) > most, below, arrayCumSum(below)) AS rank_low,
               mode + 1 + arrayCount((term, sum) -> arraySum(above) - (sum - term) > most, above, arrayCumSum(above))
                   AS rank_high
        FROM whole_time),
    edges AS (
        SELECT total, rank, cells, arrayCumSum(arrayMap(cell -> cell.3, cells)) AS lower_sums,
               arrayCumSum(arrayMap(cell -> cell.2, uppers)) AS upper_sums,
               arrayFirstIndex(sum -> sum >= rank, lower_sums) AS at,
               cells[at].1 AS lower, uppers[arrayFirstIndex(sum -> sum >= rank, upper_sums)].1 AS upper,
               if(rank_low > 0, cells[arrayFirstIndex(sum -> sum >= rank_low, lower_sums)].1, NULL) AS sure_low,
               if(rank_high <= n, uppers[arrayFirstIndex(sum -> sum >= rank_high, upper_sums)].1, inf) AS sure_high
        FROM ranked)
SELECT if(total = 0, NULL, lower) AS low, if(total = 0 OR isInfinite(upper), NULL, upper) AS high,
       if(total = 0 OR isInfinite(upper), NULL, greatest(lower, least(upper, cells[at].1 + (least(cells[at].2, upper) - cells[at].1)
           * ((rank - (lower_sums[at] - cells[at].3)) / cells[at].3)))) AS point,
       if(total = 0, NULL, sure_low) AS ci_low, if(total = 0 OR isInfinite(sure_high), NULL, sure_high) AS ci_high,
       multiIf(total = 0, 'no_traffic', censored > total - rank, 'censored', total < ceil(log(0.05) / log(greatest(share, rest))), 'too_few',
               NOT (upper <= lower * {max_ratio:Float64} OR upper = lower), 'unresolved', 'ok') AS state,
       total AS n
FROM edges CROSS JOIN aborted
