//! Where systems, toolchains and package caches are.

use std::path::{Path, PathBuf};

/// Directories of the system, readable in every sandbox.
pub const SYSTEM: &[&str] = if cfg!(target_os = "macos") { &MACOS } else { &LINUX };

/// Those of Linux. Not `/var`, `/run` and `/srv`, which hold data and sockets.
const LINUX: [&str; 11] =
    ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/nix", "/gnu"];

/// Those of macOS. `/etc` leads to `/private/etc`.
pub const MACOS: [&str; 14] = [
    "/usr",
    "/bin",
    "/sbin",
    "/etc",
    "/opt",
    "/nix",
    "/System",
    "/Library",
    "/Applications/Xcode.app",
    "/private/etc",
    "/private/var/db/timezone",
    "/private/var/db/xcode_select_link",
    "/private/var/run/resolv.conf",
    "/private/var/select",
];

/// Toolchains in a home directory. No directory in which tools keep logins.
const TOOLCHAINS: [&str; 28] = [
    ".asdf",
    ".bun/bin",
    ".cabal/bin",
    ".cargo/bin",
    ".deno/bin",
    ".dotnet",
    ".fnm",
    ".ghcup",
    ".goenv",
    ".jenv",
    ".juliaup",
    ".local/bin",
    ".local/share/claude",
    ".local/share/fnm",
    ".local/share/mise",
    ".local/share/pipx",
    ".local/share/uv",
    ".nodenv",
    ".npm-global",
    ".nvm",
    ".opam",
    ".pyenv",
    ".rbenv",
    ".rustup",
    ".sdkman",
    ".volta",
    ".yarn/bin",
    "go/bin",
];

/// Package caches in a home directory. Only the parts without logins.
const CACHES: [&str; 15] = [
    ".bun/install/cache",
    ".cache/deno",
    ".cache/go-build",
    ".cache/pip",
    ".cache/pnpm",
    ".cache/pre-commit",
    ".cache/uv",
    ".cache/yarn",
    ".cargo/git",
    ".cargo/registry",
    ".gradle/caches",
    ".m2/repository",
    ".npm/_cacache",
    ".nuget/packages",
    "go/pkg/mod",
];

/// Variables that name a file or directory with certificates or a toolchain.
const NAMED_BY_VARIABLE: [&str; 12] = [
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "GOROOT",
    "JAVA_HOME",
    "NODE_EXTRA_CA_CERTS",
    "NVM_DIR",
    "PIP_CERT",
    "PYENV_ROOT",
    "REQUESTS_CA_BUNDLE",
    "RUSTUP_HOME",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
];

/// Returns the existing toolchains of the user: well-known ones, those on PATH, and those that variables name.
pub fn toolchains(home: &Path) -> Vec<PathBuf> {
    let known = TOOLCHAINS.iter().map(|name| home.join(name));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let named = NAMED_BY_VARIABLE.iter().filter_map(std::env::var_os).map(PathBuf::from);
    let mut found: Vec<PathBuf> = Vec::new();
    for place in known.chain(std::env::split_paths(&path).map(environment)).chain(named) {
        // A whole home, or a directory above one, is no toolchain.
        let useful = place.is_absolute() && !home.starts_with(&place) && !is_system(&place) && place.exists();
        if useful && !found.iter().any(|other| place.starts_with(other)) {
            found.push(place);
        }
    }
    found
}

/// Returns the toolchain in a home directory, anyone's, that a path is in.
pub fn toolchain_around(path: &Path) -> Option<&Path> {
    path.ancestors().find(|dir| TOOLCHAINS.iter().any(|name| dir.ends_with(name)))
}

/// Returns the whole virtual environment for its directory of programs, and any other directory as it is.
fn environment(dir: PathBuf) -> PathBuf {
    virtual_environment(&dir).map_or_else(|| dir.clone(), Path::to_owned)
}

/// Returns the virtual environment of Python whose directory of programs this is.
pub fn virtual_environment(dir: &Path) -> Option<&Path> {
    dir.parent().filter(|parent| parent.join("pyvenv.cfg").is_file())
}

/// Returns the existing package caches of the user.
pub fn caches(home: &Path) -> Vec<PathBuf> {
    CACHES.iter().map(|name| home.join(name)).filter(|path| path.is_dir()).collect()
}

/// Tells whether the path belongs to the system, which is readable in every sandbox.
pub fn is_system(path: &Path) -> bool {
    SYSTEM.iter().any(|dir| path.starts_with(dir))
}

/// Returns the directory that a program needs besides itself: its npm package tree, else its own directory.
pub fn package(program: &Path) -> Option<PathBuf> {
    let modules = program.ancestors().filter(|dir| dir.ends_with("node_modules")).last();
    modules.or_else(|| program.parent()).map(Path::to_owned)
}
