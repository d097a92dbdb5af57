-- What file systems and NFS mounts tell; a mount is a row of kind mount, by its mount point.
ALTER TABLE storage_samples
    ADD COLUMN IF NOT EXISTS weighted_io_ms Nullable(UInt64) DEFAULT NULL COMMENT 'milliseconds weighted by the requests in flight' CODEC(Delta, ZSTD(1)),
    ADD COLUMN IF NOT EXISTS fs_used_bytes Nullable(UInt64) DEFAULT NULL COMMENT 'mounts: bytes in use' CODEC(T64, ZSTD(1)),
    ADD COLUMN IF NOT EXISTS fs_free_bytes Nullable(UInt64) DEFAULT NULL COMMENT 'mounts: bytes that anybody may use' CODEC(T64, ZSTD(1)),
    ADD COLUMN IF NOT EXISTS fs_reserved_bytes Nullable(UInt64) DEFAULT NULL COMMENT 'mounts: bytes that only root may use' CODEC(T64, ZSTD(1)),
    ADD COLUMN IF NOT EXISTS inodes_used Nullable(UInt64) DEFAULT NULL COMMENT 'mounts: inodes in use' CODEC(T64, ZSTD(1)),
    ADD COLUMN IF NOT EXISTS inodes_free Nullable(UInt64) DEFAULT NULL COMMENT 'mounts: inodes that are free' CODEC(T64, ZSTD(1)),
    ADD COLUMN IF NOT EXISTS nfs_read_bytes Nullable(UInt64) DEFAULT NULL COMMENT 'NFS: bytes read from the server' CODEC(Delta, ZSTD(1)),
    ADD COLUMN IF NOT EXISTS nfs_written_bytes Nullable(UInt64) DEFAULT NULL COMMENT 'NFS: bytes written to the server' CODEC(Delta, ZSTD(1)),
    ADD COLUMN IF NOT EXISTS nfs_operations Nullable(UInt64) DEFAULT NULL COMMENT 'NFS: requests to the server' CODEC(Delta, ZSTD(1)),
    ADD COLUMN IF NOT EXISTS nfs_operation_ms Nullable(UInt64) DEFAULT NULL COMMENT 'NFS: milliseconds that requests took, from queueing to the answer' CODEC(Delta, ZSTD(1)),
    ADD COLUMN IF NOT EXISTS nfs_retransmissions Nullable(UInt64) DEFAULT NULL COMMENT 'NFS: requests that were sent again' CODEC(Delta, ZSTD(1)),
    ADD COLUMN IF NOT EXISTS nfs_timeouts Nullable(UInt64) DEFAULT NULL COMMENT 'NFS: major timeouts' CODEC(Delta, ZSTD(1))
