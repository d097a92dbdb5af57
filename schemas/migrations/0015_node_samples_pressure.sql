-- Swap, pressure stall information, and the network.
ALTER TABLE node_samples
    ADD COLUMN IF NOT EXISTS swap_used Nullable(UInt64) DEFAULT NULL COMMENT 'bytes' CODEC(T64, ZSTD(1)),
    ADD COLUMN IF NOT EXISTS swap_free Nullable(UInt64) DEFAULT NULL COMMENT 'bytes' CODEC(T64, ZSTD(1)),
    ADD COLUMN IF NOT EXISTS psi_cpu_some_us Nullable(UInt64) DEFAULT NULL COMMENT 'microseconds in which some work waited for a CPU' CODEC(Delta, ZSTD(1)),
    ADD COLUMN IF NOT EXISTS psi_memory_some_us Nullable(UInt64) DEFAULT NULL COMMENT 'microseconds in which some work waited for memory' CODEC(Delta, ZSTD(1)),
    ADD COLUMN IF NOT EXISTS psi_memory_full_us Nullable(UInt64) DEFAULT NULL COMMENT 'microseconds in which all work waited for memory' CODEC(Delta, ZSTD(1)),
    ADD COLUMN IF NOT EXISTS psi_io_some_us Nullable(UInt64) DEFAULT NULL COMMENT 'microseconds in which some work waited for I/O' CODEC(Delta, ZSTD(1)),
    ADD COLUMN IF NOT EXISTS psi_io_full_us Nullable(UInt64) DEFAULT NULL COMMENT 'microseconds in which all work waited for I/O' CODEC(Delta, ZSTD(1)),
    ADD COLUMN IF NOT EXISTS network_transmit_bytes Nullable(UInt64) DEFAULT NULL COMMENT 'bytes sent by the node''s own interfaces' CODEC(Delta, ZSTD(1)),
    ADD COLUMN IF NOT EXISTS network_receive_bytes Nullable(UInt64) DEFAULT NULL COMMENT 'bytes received by the node''s own interfaces' CODEC(Delta, ZSTD(1))
