//! The rules of the house that a compiler does not check.
#![allow(clippy::unwrap_used, reason = "a test ends at what it does not expect")]

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ has a parent").to_path_buf()
}

#[test]
fn crates_import_each_other_in_one_direction_only() {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--format-version", "1", "--offline", "--locked"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let allowed: &[(&str, &[&str])] = &[
        ("contador-schemas", &[]),
        ("contador-agent", &["contador-schemas"]),
        ("contador-alerts", &["contador-schemas"]),
        ("contador", &["contador-schemas", "contador-alerts"]),
        ("contador-nvml-simulator", &[]),
    ];
    for (name, may_import) in allowed {
        let package = metadata["packages"].as_array().unwrap().iter().find(|package| package["name"] == *name).unwrap();
        for dependency in package["dependencies"].as_array().unwrap() {
            let imported = dependency["name"].as_str().unwrap();
            assert!(
                !imported.starts_with("contador") || may_import.contains(&imported),
                "{name} imports {imported}, expected only {may_import:?}"
            );
        }
    }
}

#[test]
fn every_folder_of_sources_says_how_data_goes_through_it() {
    let mut folders = vec![];
    for krate in ["schemas", "agent", "collector", "alerts", "tests/nvml-simulator"] {
        collect(&root().join(krate).join("src"), &mut folders);
    }
    assert!(folders.len() > 10, "{folders:?}");
    for folder in folders {
        let front = ["lib.rs", "mod.rs"].map(|name| folder.join(name)).into_iter().find(|path| path.is_file());
        let front = front.unwrap_or_else(|| panic!("{}: no lib.rs or mod.rs", folder.display()));
        let text = std::fs::read_to_string(&front).unwrap();
        let words: usize =
            text.lines().take_while(|line| line.starts_with("//!")).map(|line| line.split_whitespace().count()).sum();
        assert!(words >= 12, "{}: opens with {words} words, expected a paragraph", front.display());
    }
}

fn collect(folder: &Path, folders: &mut Vec<PathBuf>) {
    let has_sources = |folder: &Path| {
        std::fs::read_dir(folder).unwrap().any(|entry| entry.unwrap().path().extension().is_some_and(|end| end == "rs"))
    };
    if !has_sources(folder) {
        return;
    }
    folders.push(folder.to_path_buf());
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        // cli/ and similar folders of `foo.rs` beside `foo/` are opened by foo.rs.
        if path.is_dir() && !path.with_extension("rs").is_file() {
            collect(&path, folders);
        }
    }
}
