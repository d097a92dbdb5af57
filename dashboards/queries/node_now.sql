-- The node's CPU and memory over the last six seconds.
SELECT node, 1 - (max(idle) - min(idle)) / (max(total) - min(total)) AS cpu_busy,
       toUInt64(argMax(memory_available, ts)) AS memory_available, toUInt64(argMax(memory_total, ts)) AS memory_total
FROM (
    SELECT node, ts, ifNull(memory_available, 0) AS memory_available, ifNull(memory_total, 0) AS memory_total,
           toFloat64(ifNull(cpu_idle_ms, 0) + ifNull(cpu_iowait_ms, 0)) AS idle,
           idle + toFloat64(ifNull(cpu_user_ms, 0) + ifNull(cpu_nice_ms, 0) + ifNull(cpu_system_ms, 0)
               + ifNull(cpu_interrupt_ms, 0) + ifNull(cpu_steal_ms, 0)) AS total
    FROM node_samples WHERE ts > now64(3) - INTERVAL 6 SECOND)
GROUP BY node ORDER BY node LIMIT 1
