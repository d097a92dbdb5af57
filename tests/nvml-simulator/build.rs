//! Keeps the library in its process once it was loaded, as a driver stays in the kernel when nobody has it open.

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo::rerun-if-changed=build.rs");
}
