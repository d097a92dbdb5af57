-- Every device as it is now, with the owners of the last closed minute.
SELECT s.device AS device, any(d.model) AS model, any(s.simulated) AS simulated, any(s.utilization) AS utilization,
       any(s.memory_used) AS memory_used, any(s.memory_total) AS memory_total, any(s.power_mw) AS power_mw,
       any(l.owners) AS owners
FROM (SELECT * FROM gpu_samples WHERE ts > now64(3) - INTERVAL 10 SECOND ORDER BY ts DESC LIMIT 1 BY device) AS s
LEFT JOIN (SELECT id, any(model) AS model FROM devices GROUP BY id) AS d ON d.id = s.device
LEFT JOIN (
    SELECT device, arrayStringConcat(groupArray(concat(label, ' ', toString(round(share_ms / 600)), '%')), ', ') AS owners
    FROM (
        SELECT device, share_ms,
               multiIf(o.pod != '', concat('pod ', o.namespace, '/', o.pod), o.job != '', concat('job ', o.job),
                       o.department != '', concat(o.department, '/', o.experiment), o.command != '', o.command, l.kind) AS label
        FROM ledger AS l FINAL LEFT JOIN (SELECT * FROM owners FINAL) AS o ON o.id = l.owner
        WHERE minute = (SELECT max(minute) FROM ledger WHERE minute > now() - INTERVAL 3 MINUTE) AND share_ms > 0
        ORDER BY share_ms DESC)
    GROUP BY device) AS l ON l.device = s.device
GROUP BY device ORDER BY model, device
