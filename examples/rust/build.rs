//! Asks pkg-config where Tenon is. Set PKG_CONFIG_PATH to what `tenon config --pkgconfig-dir` prints.
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-env-changed=PKG_CONFIG_PATH");
    let output = Command::new("pkg-config").args(["--libs", "tenon"]).output().expect("pkg-config does not run");
    if !output.status.success() {
        panic!("pkg-config does not find Tenon: {}", String::from_utf8_lossy(&output.stderr));
    }
    for flag in String::from_utf8_lossy(&output.stdout).split_whitespace() {
        if let Some(folder) = flag.strip_prefix("-L") {
            println!("cargo:rustc-link-search=native={folder}");
            println!("cargo:rustc-link-arg=-Wl,-rpath,{folder}");
        } else if let Some(library) = flag.strip_prefix("-l") {
            println!("cargo:rustc-link-lib=dylib={library}");
        }
    }
}
