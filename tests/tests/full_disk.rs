//! A disk that is full from the start must not stop the spool: what can't be kept is refused, and what comes later is kept.
#![allow(clippy::unwrap_used, reason = "a test ends at what it does not expect")]

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use contador_agent::outbox::{Keeper, Kind, Record};
use contador_agent::telemetry::Telemetry;

/// A file system of 1 MiB, unmounted in the end.
struct Small(tempfile::TempDir);

impl Small {
    /// None where nothing may be mounted.
    fn mount() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", "size=1m", "none"]).arg(folder.path()).output().ok()?;
        mounted.status.success().then(|| Self(folder))
    }

    /// Fills it, but for this many pages of 4 KiB.
    fn fill(&self, pages: usize) {
        let file = self.0.path().join("fill");
        let mut size = 1 << 20;
        while fs::write(&file, vec![0; size]).is_err() {
            size -= 4_096;
        }
        fs::write(&file, vec![0; size.saturating_sub(pages * 4_096)]).unwrap();
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

#[tokio::test]
async fn a_full_disk_refuses_and_never_holds_up() {
    // With room for nothing, for the header of a segment, and for a record or two.
    for pages in 0..6 {
        let Some(disk) = Small::mount() else {
            return eprintln!("left out: a file system can't be mounted here, which takes root");
        };
        let limits =
            contador_agent::config::Config::load(None, &contador_agent::config::Overrides::default()).unwrap().spool;
        let keeper = Keeper::open(&disk.path().join("spool"), limits, Telemetry::new().unwrap()).unwrap();
        disk.fill(pages);
        for _ in 0..20 {
            let record = Record { kind: Kind::Samples, payload: vec![7; 6_000] };
            let kept = tokio::time::timeout(Duration::from_secs(60), keeper.append(vec![record])).await;
            assert!(kept.is_ok(), "{pages} pages free: it never comes back");
        }
        // When there is room again, it goes on.
        fs::remove_file(disk.path().join("fill")).unwrap();
        let record = Record { kind: Kind::Samples, payload: vec![7; 6_000] };
        assert!(keeper.append(vec![record]).await.is_ok(), "{pages} pages");
    }
}
