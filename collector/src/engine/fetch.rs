//! Gets libchdb: a file that is named, one in the cache, or the pinned npm package.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::error::Error;

/// The pinned version of the npm package.
pub const VERSION: &str = "26.7.3-stable.1";
/// npm's manifest of what is fetched.
const MANIFEST: &str = include_str!("../../../deploy/engine/package.json");
/// The integrity of what is fetched; npm refuses anything else.
const LOCKFILE: &str = include_str!("../../../deploy/engine/package-lock.json");

/// The path of libchdb.so, fetched by npm if it is nowhere yet.
///
/// In this order: the file that `CONTADOR_CHDB_LIB` names; the cache (`$XDG_CACHE_HOME/contador/engine/VERSION`, or
/// `~/.cache/contador/…`); npm, into the cache. Several processes may call this at once; one of them fetches. Says on
/// the standard error output what it fetches.
///
/// # Errors
/// The named file is missing, there is no package for this machine, or npm is missing or fails.
pub fn ensure_library() -> Result<PathBuf, Error> {
    if let Some(path) = std::env::var_os("CONTADOR_CHDB_LIB").filter(|path| !path.is_empty()).map(PathBuf::from) {
        return if path.is_file() { Ok(path) } else { Err(Error::NamedLibrary(path)) };
    }
    let cache = cache()?;
    fetch_into(&cache.join("contador").join("engine"))
}

fn cache() -> Result<PathBuf, Error> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set("XDG_CACHE_HOME")
        .filter(|path| path.is_absolute())
        .or_else(|| set("HOME").map(|home| home.join(".cache")))
        .ok_or(Error::NoCache)
}

fn fetch_into(folder: &Path) -> Result<PathBuf, Error> {
    let target = folder.join(VERSION);
    let library = target.join("node_modules").join(package()?).join("libchdb.so");
    if library.is_file() {
        return Ok(library);
    }
    fs::create_dir_all(folder).map_err(Error::file(folder))?;
    let lock_name = folder.join("fetch.lock");
    let lock = File::create(&lock_name).map_err(Error::file(&lock_name))?;
    lock.lock().map_err(Error::file(&lock_name))?;
    // Another process may have fetched it while this one waited.
    if library.is_file() {
        return Ok(library);
    }
    let fresh = folder.join(format!("{VERSION}.new"));
    for stale in [&fresh, &target] {
        if stale.exists() {
            fs::remove_dir_all(stale).map_err(Error::file(stale))?;
        }
    }
    fs::create_dir_all(&fresh).map_err(Error::file(&fresh))?;
    for (name, text) in [("package.json", MANIFEST), ("package-lock.json", LOCKFILE)] {
        let path = fresh.join(name);
        fs::write(&path, text).map_err(Error::file(&path))?;
    }
    eprintln!("contador: fetching the embedded engine ({} {VERSION}, about 150 MB) with npm, once", package()?);
    install(&fresh)?;
    fs::rename(&fresh, &target).map_err(Error::file(&target))?;
    if library.is_file() {
        Ok(library)
    } else {
        Err(Error::Fetch { path: target, detail: format!("{} is missing afterwards", library.display()) })
    }
}

fn install(folder: &Path) -> Result<(), Error> {
    let output = Command::new("npm")
        .args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier"])
        .current_dir(folder)
        .output()
        .map_err(Error::Npm)?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    // npm's first lines say what went wrong; the rest is about its own usage.
    let lines = said.lines().map(|line| line.trim_start_matches("npm error").trim()).filter(|line| !line.is_empty());
    let detail = lines.take(4).collect::<Vec<_>>().join("; ");
    Err(Error::Fetch { path: folder.to_owned(), detail })
}

/// The npm package for this machine.
fn package() -> Result<&'static str, Error> {
    match (std::env::consts::OS, std::env::consts::ARCH) {
        ("linux", "x86_64") => Ok("@chdb/lib-linux-x64-gnu"),
        (os, arch) => Err(Error::Platform(format!("{os} on {arch}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manifest_and_the_lockfile_pin_the_version_without_addresses() {
        assert!(MANIFEST.contains(&format!("\"@chdb/lib-linux-x64-gnu\": \"{VERSION}\"")));
        assert!(LOCKFILE.contains("\"integrity\": \"sha512-"));
        assert!(!LOCKFILE.contains("resolved") && !LOCKFILE.contains("http"));
    }
}
