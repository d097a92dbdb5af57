//! Files that a command writes: whole, or not at all.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use anyhow::Context;

/// Fills a file beside and puts it in its place, so that nobody reads half of one, and what was there stays if that fails. What is no
/// file, such as a pipe, is written to.
///
/// # Errors
/// When it cannot be filled, or the file cannot be written.
pub(super) fn write(
    path: &Path,
    fill: impl FnOnce(&mut (dyn Write + Send)) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let fault = || format!("{}: cannot be written", path.display());
    if fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
        let mut out = BufWriter::new(File::options().write(true).open(path).with_context(fault)?);
        fill(&mut out).map_err(|error| told(error, fault()))?;
        return out.flush().with_context(fault);
    }
    let (path, mut file) = beside(path).with_context(fault)?;
    let mut out = BufWriter::new(file.as_file_mut());
    fill(&mut out).map_err(|error| told(error, fault()))?;
    out.flush().with_context(fault)?;
    drop(out);
    file.as_file().sync_all().with_context(fault)?;
    file.persist(&path).map_err(|error| error.error).with_context(fault)?;
    Ok(())
}

/// Fills standard output.
///
/// # Errors
/// When it cannot be filled or written.
pub(super) fn show(fill: impl FnOnce(&mut (dyn Write + Send)) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let fault = || "standard output cannot be written".to_owned();
    let mut out = BufWriter::new(io::stdout());
    fill(&mut out).map_err(|error| told(error, fault()))?;
    out.flush().with_context(fault)
}

/// A failed write, with where it was to.
fn told(error: anyhow::Error, fault: String) -> anyhow::Error {
    if error.chain().any(|cause| cause.is::<io::Error>()) { error.context(fault) } else { error }
}

/// Where a file is in the end, and another one in its folder: with its permissions, or with those of any new file.
fn beside(path: &Path) -> io::Result<(std::path::PathBuf, tempfile::NamedTempFile)> {
    // Of a link, what it leads to is replaced.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let permissions = match fs::metadata(&path) {
        Ok(metadata) => metadata.permissions(),
        Err(_) => fs::Permissions::from_mode(0o666),
    };
    let file = tempfile::Builder::new().prefix(".contador-").permissions(permissions).tempfile_in(folder)?;
    Ok((path, file))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test ends at what it does not expect")]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_whole_or_stays_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bill.csv");
        write(&path, |out| Ok(out.write_all(b"one")?)).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let failed = write(&path, |out| {
            out.write_all(b"half")?;
            anyhow::bail!("no more")
        });
        assert_eq!(failed.unwrap_err().to_string(), "no more");
        assert_eq!(fs::read(&path).unwrap(), b"one");
        write(&path, |out| Ok(out.write_all(b"two")?)).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        let names: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["bill.csv"]);
    }

    #[test]
    fn what_is_no_file_is_written_to() {
        write(Path::new("/dev/null"), |out| Ok(out.write_all(b"gone")?)).unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
        let text = write(Path::new("/nowhere/bill.csv"), |_| Ok(())).unwrap_err().to_string();
        assert_eq!(text, "/nowhere/bill.csv: cannot be written");
    }
}
