-- What a device is. Seen again, its facts are replaced and its first and last sight widened.
CREATE TABLE IF NOT EXISTS devices
(
    id             String,
    node           SimpleAggregateFunction(anyLast, String),
    vendor         SimpleAggregateFunction(anyLast, String),
    model          SimpleAggregateFunction(anyLast, String),
    parent         SimpleAggregateFunction(anyLast, String) COMMENT 'the GPU of a MIG instance',
    mig_profile    SimpleAggregateFunction(anyLast, String),
    pci_bus_id     SimpleAggregateFunction(anyLast, String),
    driver_version SimpleAggregateFunction(anyLast, String),
    memory_bytes   SimpleAggregateFunction(max, UInt64),
    simulated      SimpleAggregateFunction(max, Bool),
    first_seen     SimpleAggregateFunction(min, DateTime64(3, 'UTC')),
    last_seen      SimpleAggregateFunction(max, DateTime64(3, 'UTC'))
)
ENGINE = AggregatingMergeTree
ORDER BY id
