//! `/proc/self/mountinfo`: which mounts there are, each file system once.
//!
//! - What lies under another mount at the same place can't be reached, and is left out.
//! - File systems without storage of their own are left out by type ([`PSEUDO`]).
//! - A super block (the device number in mountinfo, the same for bind mounts and for subvolumes) is kept once: where its
//!   root is mounted, else at the shortest path. Several super blocks of one export of a file server (`nosharecache`) are
//!   one storage, too.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use crate::sensors::kernel::text::{device, lines, unescaped, words};

/// Types that have no storage of their own to run full or to be lost.
const PSEUDO: &[&str] = &[
    // Views of the kernel.
    "autofs",
    "binfmt_misc",
    "bpf",
    "cgroup",
    "cgroup2",
    "configfs",
    "debugfs",
    "devpts",
    "devtmpfs",
    "efivarfs",
    "fuse.gvfsd-fuse",
    "fuse.lxcfs",
    "fuse.portal",
    "fusectl",
    "mqueue",
    "nfsd",
    "nsfs",
    "proc",
    "pstore",
    "resctrl",
    "rpc_pipefs",
    "securityfs",
    "selinuxfs",
    "smackfs",
    "sysfs",
    "tracefs",
    // Memory, which is counted as memory.
    "hugetlbfs",
    "ramfs",
    "tmpfs",
    // Layers over file systems that are counted themselves: a container's root.
    "aufs",
    "ecryptfs",
    "overlay",
    // Images that can only be read and are always full.
    "cramfs",
    "erofs",
    "fuse.snapfuse",
    "iso9660",
    "romfs",
    "squashfs",
    "udf",
];

/// Types whose source is an export of a file server, the same for whoever mounts it.
const EXPORTED: &[&str] =
    &["beegfs", "ceph", "cifs", "fuse.glusterfs", "gpfs", "lustre", "nfs", "nfs4", "smb3", "wekafs"];

/// One mount.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Mount {
    /// Where it is.
    pub point: PathBuf,
    /// Type of its file system.
    pub fs_type: String,
    /// What is mounted: a block device, an export, or a name that means nothing.
    pub source: String,
    /// Number of the super block, major and minor.
    pub device: (u32, u32),
}

impl Mount {
    /// Where it is, for people and for attributes.
    pub fn shown(&self) -> String {
        self.point.to_string_lossy().into_owned()
    }
}

/// What a table tells.
#[derive(Debug, Default, Eq, PartialEq)]
pub struct Table {
    /// The mounts that are kept, in the table's order.
    pub mounts: Vec<Mount>,
    /// Lines that are not the kernel's.
    pub skipped: u64,
}

/// What makes two mounts one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Once {
    /// The same storage: a super block, or an export.
    Storage,
    /// The same super block: what the kernel counts together.
    SuperBlock,
}

/// A line of the table, as it is written.
struct Line<'t> {
    device: (u32, u32),
    root: &'t [u8],
    point: &'t [u8],
    fs_type: &'t [u8],
    source: &'t [u8],
}

impl Table {
    /// Reads the mounts whose type is not pseudo and that `wanted` wants, by where they are and their type.
    pub fn read(text: &[u8], once: Once, wanted: impl Fn(&Path, &str) -> bool) -> Self {
        let mut skipped = 0;
        let mut all: Vec<Line<'_>> = Vec::new();
        let mut at: HashMap<&[u8], usize> = HashMap::new();
        for line in lines(text).filter(|line| !line.is_empty()) {
            match parse(line) {
                Some(line) => {
                    // The later one hides the one before.
                    at.insert(line.point, all.len());
                    all.push(line);
                }
                None => skipped += 1,
            }
        }
        let reachable = all.iter().enumerate().filter(|(index, line)| at.get(line.point) == Some(index));
        let mut kept: Vec<(usize, bool, Mount)> = reachable
            .filter_map(|(index, line)| {
                let fs_type = std::str::from_utf8(line.fs_type).ok().filter(|fs_type| !PSEUDO.contains(fs_type))?;
                let point = PathBuf::from(OsString::from_vec(unescaped(line.point)));
                let source = || String::from_utf8_lossy(&unescaped(line.source)).into_owned();
                wanted(&point, fs_type).then(|| {
                    let mount = Mount { point, fs_type: fs_type.to_owned(), source: source(), device: line.device };
                    (index, line.root != b"/", mount)
                })
            })
            .collect();
        kept.sort_by(|(_, part, mount), (_, other_part, other)| {
            let key = |part: bool, mount: &'_ Mount| (part, mount.point.as_os_str().len());
            key(*part, mount).cmp(&key(*other_part, other)).then_with(|| mount.point.cmp(&other.point))
        });
        let (mut devices, mut exports) = (HashSet::new(), HashSet::new());
        kept.retain(|(_, _, mount)| {
            let new_device = devices.insert(mount.device);
            let export = (once == Once::Storage).then(|| export(mount)).flatten();
            export.is_none_or(|export| exports.insert(export)) && new_device
        });
        kept.sort_by_key(|(index, ..)| *index);
        Self { mounts: kept.into_iter().map(|(_, _, mount)| mount).collect(), skipped }
    }
}

/// What a file server calls it; `None` for other types.
fn export(mount: &Mount) -> Option<String> {
    let is_exported = EXPORTED.contains(&mount.fs_type.as_str()) && !mount.source.is_empty() && mount.source != "none";
    is_exported.then(|| mount.source.trim_end_matches('/').to_owned())
}

/// `id parent major:minor root point options [tag…] - type source super-options`
fn parse(line: &[u8]) -> Option<Line<'_>> {
    let mut words = words(line);
    let device = device(words.nth(2)?)?;
    let (root, point) = (words.next()?, words.next()?);
    words.find(|word| *word == b"-")?;
    let (fs_type, source) = (words.next()?, words.next().unwrap_or_default());
    point.starts_with(b"/").then_some(Line { device, root, point, fs_type, source })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn points(text: &str) -> Vec<String> {
        let table = Table::read(text.as_bytes(), Once::Storage, |_, _| true);
        assert_eq!(table.skipped, 0, "{text}");
        table.mounts.iter().map(Mount::shown).collect()
    }

    #[test]
    fn each_field_is_read() {
        let text = "36 35 98:3 / /mnt/a\\040b rw,noatime master:1 propagate_from:2 - ext4 /dev/disk\\040one rw\n";
        let expected = Mount {
            point: "/mnt/a b".into(),
            fs_type: "ext4".to_owned(),
            source: "/dev/disk one".to_owned(),
            device: (98, 3),
        };
        assert_eq!(Table::read(text.as_bytes(), Once::Storage, |_, _| true).mounts, [expected]);
    }

    #[test]
    fn what_has_no_storage_of_its_own_is_left_out() {
        let text = "1 0 0:1 / /proc rw - proc proc rw\n2 0 0:2 / /dev/shm rw - tmpfs tmpfs rw\n\
            3 0 0:3 / / rw - overlay overlay rw\n4 0 7:1 / /snap/x ro - squashfs /dev/loop1 ro\n\
            5 0 8:1 / /data rw - xfs /dev/sda1 rw\n6 0 0:9 / /far rw - fuse.sshfs me@far:/ rw\n";
        assert_eq!(points(text), ["/data", "/far"]);
    }

    #[test]
    fn a_file_system_counts_once_wherever_it_is_mounted() {
        let text = "1 0 8:1 /var/lib/x /b rw - xfs /dev/sda1 rw\n2 0 8:1 / /long/mount/point rw - xfs /dev/sda1 rw\n\
            3 0 8:1 / /shorter rw - xfs /dev/sda1 rw\n4 0 0:50 / /n rw - nfs4 fs:/export rw\n\
            5 0 0:51 / /nfs/other rw - nfs4 fs:/export/ rw\n6 0 0:52 / /second rw - nfs4 fs:/second rw\n\
            7 0 0:53 / /mem rw - fuse.a same rw\n8 0 0:54 / /mem2 rw - fuse.a same rw\n";
        assert_eq!(points(text), ["/shorter", "/n", "/second", "/mem", "/mem2"]);
        let blocks = Table::read(text.as_bytes(), Once::SuperBlock, |_, fs_type| fs_type == "nfs4");
        assert_eq!(blocks.mounts.iter().map(Mount::shown).collect::<Vec<_>>(), ["/n", "/nfs/other", "/second"]);
    }

    #[test]
    fn what_is_hidden_under_another_mount_is_left_out() {
        let text = "1 0 8:1 / /data rw - xfs /dev/sda1 rw\n2 1 0:5 / /data rw - tmpfs none rw\n";
        assert_eq!(points(text), [""; 0]);
    }

    #[test]
    fn what_is_not_the_kernels_is_skipped_and_counted() {
        let text = "1 0 8:1 / /data rw - xfs /dev/sda1 rw\nnonsense\n2 0 (unknown) / /x rw - xfs a rw\n3 0 8:2 / /y rw xfs a\n";
        let table = Table::read(text.as_bytes(), Once::Storage, |_, _| true);
        assert_eq!((table.mounts.len(), table.skipped), (1, 3));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300), cut in 0..60_usize) {
            Table::read(&bytes, Once::Storage, |_, _| true);
            let mut line = b"36 35 98:3 / /mnt\\040 rw master:1 - ext4 /dev/x rw".to_vec();
            line.truncate(cut);
            line.extend(&bytes);
            Table::read(&line, Once::SuperBlock, |_, _| true);
        }
    }
}
