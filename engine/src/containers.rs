//! The containers of a run: the image from the project's `.devcontainer`, one container for each worker and one for
//! staging, and the removal of all of them.
//!
//! Used by `confinement` and `session`. Containers are found by their labels, so that no others are touched.

mod ignored;
mod source;

use std::collections::BTreeMap;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use mahabharatha_core::config::{Config, Resources};
use mahabharatha_core::ids::{Feature, Time, WorkerId};
use mahabharatha_sys::bounded::{self, SMALL_FILE_BYTES};
use mahabharatha_sys::container::{BuildCall, Container, Engine, Storage, Usage};
use mahabharatha_sys::crash;
use mahabharatha_sys::error::{Error, Kind, Result, io};
use mahabharatha_sys::project::Project;
use mahabharatha_sys::store::atomic::write_projected;
use serde::{Deserialize, Serialize};

use source::Source;

const PROJECT: &str = "mahabharatha.project";
const FEATURE: &str = "mahabharatha.feature";
const WORKER: &str = "mahabharatha.worker";
const RUN: &str = "mahabharatha.run";
/// Slot of the staging worktree.
pub const STAGING: &str = "staging";
/// Name in place of a slot's for the container in which an image is tried.
const PROBE: &str = "probe";
/// The project's rules for agents.
const RULES: &str = ".claude/rules";
/// File of a feature that says that there may be containers, and where.
const RECORD: &str = "containers.json";
/// Time limit for the engine to say what containers use. It measures for a second.
const USAGE_TIMEOUT: Duration = Duration::from_secs(3);

/// How the containers of a run are made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Containers {
    pub engine: Engine,
    /// Id of the image.
    pub image: String,
    /// What the image is called, and what it was built from.
    pub image_name: String,
    pub limits: Resources,
    pub network: String,
    /// The project's rules, which programs may read.
    pub rules: PathBuf,
    feature: Feature,
    /// Where copies of the helper's files are, if the engine does not see them where they are.
    helper_copies: PathBuf,
    /// Directory of the feature's state.
    feature_dir: PathBuf,
    labels: BTreeMap<String, String>,
}

/// Where containers may have been left.
#[derive(Serialize, Deserialize)]
struct Record {
    engine: Engine,
    labels: BTreeMap<String, String>,
}

/// An image that a run would use.
pub struct FoundImage {
    pub name: String,
    /// Its id, if it is on this machine.
    pub id: Option<String>,
    /// Seconds that building it took.
    pub built_in: Option<String>,
}

/// Returns the name of a worker's slot.
pub fn slot_of(worker: WorkerId) -> String {
    format!("worker-{worker}")
}

/// Returns the name of a slot's container.
pub fn name_of(project: &Project, feature: &Feature, slot: &str) -> String {
    container_name(&project_label(project), feature, slot)
}

fn container_name(project_label: &str, feature: &Feature, slot: &str) -> String {
    format!("mahabharatha-{project_label}-{feature}-{slot}")
}

/// Returns a name of the project that no other project on this machine has.
fn project_label(project: &Project) -> String {
    let mut hasher = DefaultHasher::new();
    project.common_dir().hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

impl Containers {
    /// Finds the engine and the image, which is pulled or built if it is not there. `announce` tells the user what takes
    /// time.
    pub fn prepare(
        project: &Project,
        feature: &Feature,
        config: &Config,
        announce: impl Fn(String),
    ) -> Result<Containers> {
        if config.claude_tasks.worker_tools {
            return Err(Error::new(Kind::Preflight, "claude_tasks.worker_tools does not work in containers")
                .hint("Set it to false, or use --mode subprocess."));
        }
        let engine = Engine::find(config.launcher.engine)?;
        let source = Source::find(project.root(), &config.env.pass)?;
        let name = image_name(project, &source)?;
        let image = match engine.image(&name)? {
            Some(id) => id,
            None => {
                announce(format!(
                    "{}: {source}",
                    if source.is_built() { "building the image" } else { "pulling the image" }
                ));
                make_image(project, &engine, &source, &name)?;
                let missing = || Error::new(Kind::Preflight, format!("{engine} made no image {name}"));
                engine.image(&name)?.ok_or_else(missing)?
            }
        };
        let labels = [(PROJECT, project_label(project)), (FEATURE, feature.to_string())];
        Ok(Containers {
            engine,
            image,
            image_name: format!("{name} ({source})"),
            limits: config.resources.clone(),
            network: config.launcher.network.clone(),
            rules: project.root().join(RULES),
            feature: feature.clone(),
            helper_copies: images_dir(project).join("helper"),
            feature_dir: project.feature(feature).dir().to_owned(),
            labels: labels.into_iter().map(|(key, value)| (key.to_owned(), value)).collect(),
        })
    }

    /// Returns the image that a run would use, without making it.
    pub fn find_image(project: &Project, config: &Config, engine: &Engine) -> Result<FoundImage> {
        let source = Source::find(project.root(), &config.env.pass)?;
        let name = image_name(project, &source)?;
        let built_in = bounded::read_to_string(&build_record(project, &name), SMALL_FILE_BYTES).ok();
        Ok(FoundImage { id: engine.image(&name)?, name: format!("{name} ({source})"), built_in })
    }

    /// Describes the containers that a run would use, without making anything: headings, each with its lines.
    pub fn outline(project: &Project, specs: &Path, config: &Config) -> Result<Vec<(&'static str, Vec<String>)>> {
        let engine = Engine::find(config.launcher.engine)?;
        let image = Containers::find_image(project, config, &engine)?;
        let there = if image.id.is_some() { "on this machine" } else { "to be built or pulled" };
        let root = project.root();
        let feature = specs.file_name().unwrap_or_default().display();
        let mut mounts = vec![
            format!("{} and /workspace: the worker's worktree", root.display()),
            "/run/mahabharatha, /tmp, /var/tmp, /dev/shm: private directories, emptied for each program".to_owned(),
            "the repository's objects, read-only".to_owned(),
            format!("/specs/{feature}: {}, read-only", specs.display()),
        ];
        let rules = root.join(RULES);
        mounts.extend(rules.is_dir().then(|| format!("/rules: {}, read-only", rules.display())));
        mounts.extend(config.sandbox.read.iter().map(|path| format!("{path}, read-only")));
        mounts.extend(config.sandbox.write.iter().cloned());
        let Resources { cpus, memory, pids } = &config.resources;
        Ok(vec![
            ("engine", vec![format!("{engine} {}", engine.version()?)]),
            ("image", vec![format!("{}, {there}", image.name)]),
            ("mounts", mounts),
            ("limits", vec![format!("{cpus} CPUs, {} MB of memory, {pids} processes", memory >> 20)]),
            ("network", vec![config.launcher.network.clone()]),
        ])
    }

    /// Returns the same containers with the label of a run.
    pub fn of_run(mut self, started_at: Time) -> Containers {
        self.labels.insert(RUN.to_owned(), started_at.0.to_string());
        self
    }

    /// Returns the container of a slot.
    pub fn container(&self, slot: &str, ports: &[u16]) -> Container {
        let mut labels = self.labels.clone();
        labels.insert(WORKER.to_owned(), slot.to_owned());
        Container {
            engine: self.engine.clone(),
            image: self.image.clone(),
            name: container_name(&self.labels[PROJECT], &self.feature, slot),
            labels,
            limits: self.limits.clone(),
            network: self.network.clone(),
            ports: ports.to_vec(),
            helper_copies: self.helper_copies.is_dir().then(|| self.helper_copies.clone()),
        }
    }

    /// Returns the programs that the image lacks. An image that once had all of them is not tried again.
    pub fn missing_programs(&self, project: &Project, programs: &[String]) -> Result<Vec<String>> {
        let mut hasher = DefaultHasher::new();
        (&self.image, programs, &self.engine).hash(&mut hasher);
        let record = images_dir(project).join(format!("tried-{:016x}", hasher.finish()));
        if record.exists() {
            return Ok(Vec::new());
        }
        self.record()?;
        let place = project.shared_dir().join("image-probe");
        let mut probe = self.container(PROBE, &[]).probe(&place, programs)?;
        if !probe.has_helper {
            // An engine in a virtual machine, perhaps: it sees the project's directory, and others of this machine do not exist.
            fs::create_dir_all(&self.helper_copies).map_err(io("create", &self.helper_copies))?;
            probe = self.container(PROBE, &[]).probe(&place, programs)?;
        }
        if !probe.has_helper {
            let message = format!("this program cannot be started in containers of {}", self.engine);
            return Err(Error::new(Kind::Preflight, message)
                .hint("Use an engine on this machine, or build a static program (target x86_64-unknown-linux-musl)."));
        }
        let missing = probe.missing;
        let _ = fs::remove_dir_all(&place);
        if missing.is_empty() {
            write_record(&record, "")?;
        }
        Ok(missing)
    }

    /// Returns where the feature's specs are inside.
    pub fn specs(&self) -> PathBuf {
        Path::new("/specs").join(self.feature.as_str())
    }

    /// Records that there may be containers from now on. Called before each program that needs one.
    pub fn record(&self) -> Result<()> {
        let labels = self.labels.iter().filter(|(key, _)| *key != RUN);
        let labels = labels.map(|(key, value)| (key.clone(), value.clone())).collect();
        let record = Record { engine: self.engine.clone(), labels };
        let bytes = serde_json::to_vec(&record).map_err(Error::caused("cannot write the record of containers"))?;
        write_projected(&self.feature_dir.join(RECORD), &bytes)?;
        crash::point(|| "containers recorded");
        Ok(())
    }
}

/// Returns what these containers of a feature use, of those that run, as far as the engine answers in time.
pub fn usage(feature_dir: &Path, containers: Vec<String>) -> BTreeMap<String, Usage> {
    let record = read_record(feature_dir).ok().flatten();
    record.map(|record| record.engine.usage(containers, USAGE_TIMEOUT)).unwrap_or_default()
}

/// Returns what the engine stores of this project.
pub fn storage(project: &Project, engine: &Engine) -> Result<Storage> {
    engine.storage(&BTreeMap::from([(PROJECT.to_owned(), project_label(project))]))
}

/// Reads where containers of a feature may be; `None` if there are none.
fn read_record(feature_dir: &Path) -> Result<Option<Record>> {
    let file = feature_dir.join(RECORD);
    let bytes = match bounded::read(&file, SMALL_FILE_BYTES) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(io("read", &file)(error)),
    };
    serde_json::from_slice(&bytes).map(Some).map_err(Error::caused(format!("cannot read {}", file.display())))
}

/// Removes the containers that runs of a feature left, except those of slots that are used. Returns how many.
pub fn remove_left(feature_dir: &Path, used: &[String]) -> Result<usize> {
    let Some(record) = read_record(feature_dir)? else { return Ok(0) };
    let file = feature_dir.join(RECORD);
    let cannot = |error: Error| {
        Error::new(Kind::Failed, format!("containers could not be removed: {}", error.message()))
            .hint("Start the engine again; `mahabharatha cleanup` then removes them.")
    };
    let found = record.engine.labelled(&record.labels, WORKER).map_err(cannot)?;
    let left = found.into_iter().filter(|(_, slot)| !used.contains(slot));
    let names: Vec<String> = left.map(|(name, _)| name).collect();
    crash::point(|| "containers found");
    record.engine.remove(&names).map_err(cannot)?;
    crash::point(|| "containers removed");
    if used.is_empty() {
        fs::remove_file(&file).map_err(io("remove", &file))?;
    }
    Ok(names.len())
}

/// Returns the name of the image: as it is written, or with a hash of what it is built from.
fn image_name(project: &Project, source: &Source) -> Result<String> {
    Ok(match source.content_hash()? {
        None => source.to_string(),
        Some(hash) => format!("mahabharatha/{}:{hash:016x}", project_label(project)),
    })
}

fn make_image(project: &Project, engine: &Engine, source: &Source, name: &str) -> Result<()> {
    let Source::Build { dockerfile, context, args, target } = source else { return engine.pull(name) };
    let started = Instant::now();
    let labels = BTreeMap::from([(PROJECT.to_owned(), project_label(project))]);
    let context = source.copies_from_context()?.then_some(context.as_path());
    engine.build(&BuildCall { tag: name, dockerfile, context, args, target: target.as_deref(), labels: &labels })?;
    write_record(&build_record(project, name), &format!("{:.1}", started.elapsed().as_secs_f64()))
}

/// Returns the directory with what is known about images.
fn images_dir(project: &Project) -> PathBuf {
    project.shared_dir().join("images")
}

fn write_record(file: &Path, text: &str) -> Result<()> {
    if let Some(dir) = file.parent() {
        fs::create_dir_all(dir).map_err(io("create", dir))?;
    }
    write_projected(file, text.as_bytes())
}

/// Returns the file that says how long an image took to build.
fn build_record(project: &Project, name: &str) -> PathBuf {
    images_dir(project).join(name.rsplit(':').next().unwrap_or(name).replace('/', "-"))
}
