//! Finds out what a project's image is built from.

use std::collections::BTreeMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Component, Path, PathBuf};

use mahabharatha_core::devcontainer::{Build, Dockerfile, ImageSource, WORKER, from_compose, from_settings};
use mahabharatha_sys::bounded::{self, LARGE_FILE_BYTES};
use mahabharatha_sys::error::{Error, Kind, Result, io};
use mahabharatha_sys::store::tree;

use super::ignored::Ignored;

const SETTINGS: [&str; 2] = [".devcontainer/devcontainer.json", ".devcontainer.json"];
const COMPOSE: [&str; 4] = [
    ".devcontainer/docker-compose.yaml",
    ".devcontainer/docker-compose.yml",
    ".devcontainer/compose.yaml",
    ".devcontainer/compose.yml",
];
const DOCKERFILE: &str = ".devcontainer/Dockerfile";
/// Variable with the image that the Dockerfile of `init` is built on, instead of the official ones.
const BASE_IMAGE: &str = "MAHABHARATHA_BASE_IMAGE";
/// Parts of a build context that change with every commit or run.
const NOT_HASHED: [&str; 3] = [".git", ".gsd", ".mahabharatha"];

/// Where the image of a project comes from, with absolute paths.
pub enum Source {
    Image(String),
    Build { dockerfile: PathBuf, context: PathBuf, args: BTreeMap<String, String>, target: Option<String> },
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Image(name) => f.write_str(name),
            Source::Build { dockerfile, .. } => write!(f, "{}", dockerfile.display()),
        }
    }
}

impl Source {
    /// Reads the project's `.devcontainer`, in which of the user's variables only those in `pass` and the base image have a
    /// value: they end up in the image.
    pub fn find(root: &Path, pass: &[String]) -> Result<Source> {
        let may_pass = |name: &str| name == BASE_IMAGE || pass.iter().any(|passed| passed == name);
        let variable = |name: &str| std::env::var(name).ok().filter(|_| may_pass(name));
        if let Some(file) = SETTINGS.iter().map(|name| root.join(name)).find(|file| file.is_file()) {
            let found = from_settings(&read(root, &file)?, variable).map_err(|why| invalid(&file, &why))?;
            let ImageSource::Compose { file: named, service } = found else { return resolve(root, &file, found) };
            return of_compose(root, &inside(root, &file, &named)?, &service, variable);
        }
        if let Some(file) = COMPOSE.iter().map(|name| root.join(name)).find(|file| file.is_file()) {
            return of_compose(root, &file, WORKER, variable);
        }
        let dockerfile = root.join(DOCKERFILE);
        if dockerfile.is_file() {
            check(root, &dockerfile, &dockerfile)?;
            return Ok(Source::Build { dockerfile, context: root.to_owned(), args: BTreeMap::new(), target: None });
        }
        Err(Error::new(Kind::Preflight, "the project has no .devcontainer, so there is no image for containers")
            .hint("`mahabharatha init` writes one; or use --mode subprocess."))
    }

    pub fn is_built(&self) -> bool {
        matches!(self, Source::Build { .. })
    }

    /// Returns whether the Dockerfile uses files of its build context.
    pub fn copies_from_context(&self) -> Result<bool> {
        Ok(match self {
            Source::Image(_) => false,
            Source::Build { dockerfile, .. } => copied(&text_of(dockerfile)?) != Copied::Nothing,
        })
    }

    /// Returns a hash of everything that a build depends on; none for an image that is not built.
    pub fn content_hash(&self) -> Result<Option<u64>> {
        let Source::Build { dockerfile, context, args, target } = self else { return Ok(None) };
        let text = text_of(dockerfile)?;
        let mut hasher = DefaultHasher::new();
        (&text, args, target).hash(&mut hasher);
        let paths = match copied(&text) {
            Copied::Nothing => return Ok(Some(hasher.finish())),
            Copied::Paths(paths) => paths,
            Copied::Anything => vec![String::new()],
        };
        let patterns = ignore_file(dockerfile, context);
        patterns.hash(&mut hasher);
        let ignored = Ignored::read(&patterns);
        paths.iter().for_each(|path| hash_files(context, Path::new(path), &ignored, &mut hasher));
        Ok(Some(hasher.finish()))
    }
}

fn of_compose(root: &Path, file: &Path, service: &str, variable: impl Fn(&str) -> Option<String>) -> Result<Source> {
    let found = from_compose(&read(root, file)?, service, variable);
    resolve(root, file, found.map_err(|why| invalid(file, &why))?)
}

fn resolve(root: &Path, file: &Path, found: ImageSource) -> Result<Source> {
    let Build { context, dockerfile, args, target } = match found {
        ImageSource::Image(name) => return Ok(Source::Image(name)),
        ImageSource::Compose { .. } => return Err(invalid(file, "it leads to another Compose file")),
        ImageSource::Build(build) => build,
    };
    let context = inside(root, file, &context)?;
    let dockerfile = match dockerfile {
        Dockerfile::BesideFile(path) => inside(root, file, &path)?,
        Dockerfile::InContext(path) => inside(root, &context.join("context"), &path)?,
    };
    Ok(Source::Build { dockerfile, context, args, target })
}

/// Returns a path that `file` names, which must be inside the project.
fn inside(root: &Path, file: &Path, named: &str) -> Result<PathBuf> {
    let mut path = file.parent().unwrap_or(root).to_owned();
    for part in Path::new(named).components() {
        match part {
            Component::ParentDir => drop(path.pop()),
            Component::CurDir => {}
            part => path.push(part),
        }
    }
    if !path.starts_with(root) {
        return Err(invalid(file, &format!("{named} is outside of the project")));
    }
    check(root, file, &path)?;
    Ok(path)
}

/// Refuses a path that leads out of the project through a symbolic link.
fn check(root: &Path, file: &Path, path: &Path) -> Result<()> {
    bounded::check_below(root, path).map_err(|error| invalid(file, &format!("{}: {error}", path.display())))
}

fn read(root: &Path, file: &Path) -> Result<String> {
    bounded::read_inside(root, file, LARGE_FILE_BYTES).map_err(io("read", file))
}

fn text_of(dockerfile: &Path) -> Result<String> {
    bounded::read_to_string(dockerfile, LARGE_FILE_BYTES).map_err(io("read", dockerfile))
}

fn invalid(file: &Path, why: &str) -> Error {
    Error::new(Kind::Preflight, format!("{}: {why}", file.display())).hint("Correct it, or use --mode subprocess.")
}

/// What a Dockerfile uses of its build context.
#[derive(Debug, PartialEq, Eq)]
enum Copied {
    Nothing,
    Paths(Vec<String>),
    /// Something that only the builder can tell.
    Anything,
}

fn copied(dockerfile: &str) -> Copied {
    let mut paths = Vec::new();
    for line in dockerfile.replace("\\\n", " ").lines() {
        let mut words = line.split_whitespace().skip_while(|word| word.eq_ignore_ascii_case("onbuild"));
        let instruction = words.next().unwrap_or_default().to_ascii_uppercase();
        let words: Vec<&str> = words.collect();
        if instruction == "RUN" && words.iter().any(|word| mounts_context(word)) {
            return Copied::Anything;
        }
        if !matches!(instruction.as_str(), "COPY" | "ADD") || words.iter().any(|word| word.starts_with("--from=")) {
            continue;
        }
        let (_, names): (Vec<&str>, Vec<&str>) = words.into_iter().partition(|word| word.starts_with("--"));
        let sources = names.split_last().map_or(&[][..], |(_, sources)| sources);
        for source in sources.iter().filter(|source| !source.starts_with("https://")) {
            let path = source.trim_start_matches("./").trim_matches('/');
            if path.is_empty() || path == "." || path.contains(['$', '*', '?', '[', '<', '"']) || path.contains("..") {
                return Copied::Anything;
            }
            paths.push(path.to_owned());
        }
    }
    if paths.is_empty() { Copied::Nothing } else { Copied::Paths(paths) }
}

/// Returns whether an option of `RUN` mounts files of the build context: a bind mount, which is also what a mount without a
/// type is, from no other image.
fn mounts_context(option: &str) -> bool {
    let Some(mount) = option.strip_prefix("--mount=") else { return false };
    let is_bind = mount.split(',').filter_map(|part| part.strip_prefix("type=")).all(|kind| kind == "bind");
    is_bind && !mount.split(',').any(|part| part.starts_with("from="))
}

/// Returns the text of the file with what the builder does not get: that of the Dockerfile, else that of the context.
fn ignore_file(dockerfile: &Path, context: &Path) -> String {
    let mut own = dockerfile.as_os_str().to_owned();
    own.push(".dockerignore");
    let files = [PathBuf::from(own), context.join(".dockerignore")];
    files.iter().find_map(|file| bounded::read_inside(context, file, LARGE_FILE_BYTES).ok()).unwrap_or_default()
}

/// Adds the names and contents of a file, or of all files below a directory, except for ignored ones. Follows no symbolic
/// link.
fn hash_files(context: &Path, path: &Path, ignored: &Ignored, hasher: &mut DefaultHasher) {
    let place = context.join(path);
    let mut files = vec![path.to_owned()];
    let is_dir = place.symlink_metadata().is_ok_and(|found| found.is_dir());
    if is_dir && bounded::check_below(context, &place).is_ok() {
        files.clear();
        tree::walk(&context.join(path), |below, _| {
            let file = path.join(below);
            let changes_always = NOT_HASHED.iter().any(|name| file.starts_with(name));
            let is_ignored = ignored.is_ignored(&file);
            files.extend((!changes_always && !is_ignored).then_some(file));
            // A file below an ignored directory may be kept.
            !changes_always && (!is_ignored || !ignored.keeps_nothing())
        });
        files.sort();
    }
    for file in files {
        let place = context.join(&file);
        let found = place.symlink_metadata().ok().filter(|found| found.is_file());
        // A huge file counts by its size and time, a link by where it leads.
        let bytes = found.as_ref().and_then(|_| bounded::read(&place, LARGE_FILE_BYTES).ok());
        let facts = found.map(|found| (found.len(), bytes.is_none().then(|| found.modified().ok())));
        (file, bytes, facts, place.read_link().ok()).hash(hasher);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn only_what_is_copied_decides_the_hash() {
        assert_eq!(copied("FROM a\nCOPY --from=b /x /y\nADD https://x/y /z\nRUN echo COPY a b"), Copied::Nothing);
        assert_eq!(copied("COPY --chown=1 ./a b/ \\\n /c"), Copied::Paths(vec!["a".to_owned(), "b".to_owned()]));
        for anything in [
            "COPY . /x",
            "copy a* /x",
            "COPY [\"a\", \"b\"]",
            "RUN --mount=type=bind,target=/x true",
            "RUN --mount=target=/x,type=bind true",
            "RUN --mount=target=/x true",
        ] {
            assert_eq!(copied(anything), Copied::Anything, "{anything}");
        }
        for nothing in ["RUN --mount=type=cache,target=/x true", "RUN --mount=target=/x,from=b true"] {
            assert_eq!(copied(nothing), Copied::Nothing, "{nothing}");
        }
    }

    #[test]
    fn an_image_is_built_again_when_what_it_needs_has_changed() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        let write = |name: &str, text: &str| {
            fs::create_dir_all(root.join(name).parent().unwrap()).unwrap();
            fs::write(root.join(name), text).unwrap();
        };
        assert!(Source::find(root, &[]).is_err());
        write(".devcontainer/Dockerfile", "FROM a\nCOPY tools /tools\n");
        write("tools/one", "1");
        let hash = || Source::find(root, &[]).unwrap().content_hash().unwrap().unwrap();
        let first = hash();
        write("src/main.rs", "");
        assert_eq!(hash(), first);
        write("tools/one", "2");
        assert_ne!(hash(), first);

        write(".dockerignore", "tools/cache\n");
        let second = hash();
        write("tools/cache/x", "1");
        assert_eq!(hash(), second);
        write(".devcontainer/Dockerfile.dockerignore", "other\n");
        assert_ne!(hash(), second);
    }

    #[test]
    fn settings_lead_to_the_service_and_its_dockerfile() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        fs::create_dir(root.join(".devcontainer")).unwrap();
        let write = |name: &str, text: &str| fs::write(root.join(".devcontainer").join(name), text).unwrap();
        write("devcontainer.json", r#"{"dockerComposeFile": "c.yaml", "service": "worker"}"#);
        write("c.yaml", "services: { worker: { build: { context: .., dockerfile: .devcontainer/D } } }");
        write("D", "FROM a\n");
        let source = Source::find(root, &[]).unwrap();
        assert_eq!(source.to_string(), root.join(".devcontainer/D").display().to_string());
        write("c.yaml", "services: { worker: { build: ../.. } }");
        assert!(Source::find(root, &[]).is_err(), "outside of the project");
        std::os::unix::fs::symlink("/etc", root.join("link")).unwrap();
        write("c.yaml", "services: { worker: { build: { context: ../link, dockerfile: hostname } } }");
        assert!(Source::find(root, &[]).is_err(), "a link out of the project");
        fs::remove_file(root.join(".devcontainer/devcontainer.json")).unwrap();
        fs::remove_file(root.join(".devcontainer/c.yaml")).unwrap();
        std::os::unix::fs::symlink("/etc/hostname", root.join(".devcontainer/Dockerfile")).unwrap();
        assert!(Source::find(root, &[]).is_err(), "a Dockerfile that is a link out of the project");
    }

    #[test]
    fn links_are_not_followed_for_the_hash_and_only_passed_variables_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        fs::create_dir(root.join(".devcontainer")).unwrap();
        fs::write(root.join(".devcontainer/Dockerfile"), "FROM a\nCOPY all /all\n").unwrap();
        // To walk all of this would take minutes.
        std::os::unix::fs::symlink("/", root.join("all")).unwrap();
        Source::find(root, &[]).unwrap().content_hash().unwrap();

        let settings = r#"{"build": {"dockerfile": "Dockerfile", "args": {"A": "x${localEnv:PATH}"}}}"#;
        fs::write(root.join(".devcontainer/devcontainer.json"), settings).unwrap();
        let args_of = |pass: &[String]| match Source::find(root, pass).unwrap() {
            Source::Build { args, .. } => args["A"].clone(),
            Source::Image(_) => panic!("no image is named"),
        };
        assert_eq!(args_of(&[]), "x");
        assert_ne!(args_of(&["PATH".to_owned()]), "x");
    }
}
