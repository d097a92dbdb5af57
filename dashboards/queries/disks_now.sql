-- Every disk's rates over the last six seconds.
SELECT device,
       toFloat64(max(read_bytes) - min(read_bytes)) / greatest(0.001, (max(ms) - min(ms)) / 1000) AS read_rate,
       toFloat64(max(written_bytes) - min(written_bytes)) / greatest(0.001, (max(ms) - min(ms)) / 1000) AS write_rate,
       toUInt64(argMax(in_flight, ms)) AS in_flight
FROM (
    SELECT device, toUnixTimestamp64Milli(ts) AS ms, assumeNotNull(read_bytes) AS read_bytes,
           assumeNotNull(written_bytes) AS written_bytes, ifNull(in_flight, 0) AS in_flight
    FROM storage_samples
    WHERE ts > now64(3) - INTERVAL 6 SECOND AND kind = 'disk' AND read_bytes IS NOT NULL AND written_bytes IS NOT NULL)
GROUP BY device ORDER BY device
