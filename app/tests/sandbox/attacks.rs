//! Every attack fails inside a sandbox, and every one succeeds without: none of them is harmless by itself.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::cases::{ATTACKS, Attack, Stopped};
use crate::support::Repo;

/// Secrets in the user's home.
const SECRETS: [&str; 21] = [
    ".ssh/id_ed25519",
    ".gnupg/private-keys-v1.d/key",
    ".aws/credentials",
    ".config/gcloud/credentials.db",
    ".azure/msal_token_cache.json",
    ".kube/config",
    ".docker/config.json",
    ".netrc",
    ".npmrc",
    ".cargo/credentials.toml",
    ".pypirc",
    ".git-credentials",
    ".config/gh/hosts.yml",
    ".mozilla/firefox/p/logins.json",
    ".config/google-chrome/Default/Login Data",
    ".codex/auth.json",
    ".claude/.credentials.json",
    ".bash_history",
    "other/secret.txt",
    ".cargo/registry/src/index/a-1.0.0/lib.rs",
    ".npm/_cacache/index",
];
/// Files of a run and of the user in the checkout.
const STATE: [&str; 6] = [
    ".git/mahabharatha/x/events.jsonl",
    ".git/mahabharatha/x/jobs/B.1/spec.json",
    ".git/worktrees/worker-1/commondir",
    ".mahabharatha/worktrees/x/worker-1/b.txt",
    ".mahabharatha/logs/x/tasks/B.jsonl",
    "notes.txt",
];

/// A user with secrets, a checkout with a run in it, a process, and sockets.
struct Victim {
    repo: Repo,
    tmp: tempfile::TempDir,
    process: Child,
    loopback: TcpListener,
    name: String,
    _sockets: [UnixListener; 2],
}

impl Victim {
    fn new(sandbox: &str) -> Victim {
        let repo = Repo::new();
        repo.config(&format!("sandbox: {{ mode: {sandbox}, network: false }}\n"));
        repo.commit("second");
        repo.git(&["branch", "victim", "HEAD~1"]);
        repo.git(&["config", "http.extraHeader", "SECRET token"]);
        for path in STATE {
            repo.write(path, "SECRET");
        }
        let home = repo.home().canonicalize().unwrap();
        for path in SECRETS {
            let path = home.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "SECRET").unwrap();
        }
        let tmp = tempfile::tempdir().unwrap();
        fs::write(tmp.path().join("secret.txt"), "SECRET").unwrap();
        let process = Command::new("sleep").arg("1000").env("TOKEN", "SECRET").current_dir(&home).spawn().unwrap();
        let name = format!("mahabharatha-test-{}", process.id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let sockets =
            [UnixListener::bind_addr(&address).unwrap(), UnixListener::bind(home.join("agent.sock")).unwrap()];
        let loopback = TcpListener::bind("127.0.0.1:0").unwrap();
        Victim { repo, tmp, process, loopback, name, _sockets: sockets }
    }

    fn home(&self) -> PathBuf {
        self.repo.home().canonicalize().unwrap()
    }

    /// Runs the attack as `mahabharatha sandbox` does, called by a program with a secret in its environment, an open
    /// descriptor of the home and a key in its keyring. Returns what it printed.
    fn attacked_by(&self, attack: &Attack) -> String {
        let quoted = |path: &Path| path.display().to_string().replace(' ', "\\ ");
        let script = attack
            .script
            .replace("@HOME", &quoted(&self.home()))
            .replace("@MAIN", &quoted(&self.repo.path()))
            .replace("@TMP", &quoted(self.tmp.path()))
            .replace("@PID", &self.process.id().to_string())
            .replace("@PORT", &self.loopback.local_addr().unwrap().port().to_string())
            .replace("@NAME", &self.name);
        let caller = "($t, $d, $k) = qw(user mbh SECRET); syscall(248, $t, $d, $k, 6, -3); exec @ARGV";
        let shell = "exec 9< \"$0\"; exec perl -e \"$1\" -- \"$2\" sandbox -- \"$3\"";
        let mut command = Command::new("bash");
        command.args(["-c", shell]).arg(self.home()).arg(caller).arg(env!("CARGO_BIN_EXE_mahabharatha")).arg(script);
        command.current_dir(self.repo.path()).env("HOME", self.home()).env("TOKEN", "SECRET");
        let output = command.stdin(Stdio::null()).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        assert!(
            !String::from_utf8_lossy(&said).contains("the sandbox"),
            "{}: {}",
            attack.name,
            String::from_utf8_lossy(&said)
        );
        String::from_utf8_lossy(&said).into_owned()
    }

    /// Everything of the user's that an attack could change.
    fn belongings(&self) -> BTreeMap<PathBuf, (u32, i64, Vec<u8>)> {
        let mut found = BTreeMap::new();
        let mut open = vec![self.home(), self.repo.path(), self.tmp.path().to_owned()];
        while let Some(dir) = open.pop() {
            for entry in fs::read_dir(dir).unwrap().flatten() {
                let (path, of) = (entry.path(), entry.metadata().unwrap());
                let is_dir = of.is_dir();
                let content = if of.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
                // Times of directories change when we create private ones in them.
                found.insert(path.clone(), (of.mode(), if is_dir { 0 } else { of.mtime() }, content));
                if is_dir {
                    open.push(path);
                }
            }
        }
        found
    }

    /// Tells whether the attack got anything.
    fn is_hurt_by(&mut self, attack: &Attack) -> bool {
        let before = self.belongings();
        let said = self.attacked_by(attack);
        let gone = self.process.try_wait().unwrap().is_some();
        said.contains("SECRET") || said.contains("ESCAPED") || gone || self.belongings() != before
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Returns the names of the attacks that succeed.
fn successful(sandbox: &str, attacks: impl Iterator<Item = &'static Attack>) -> BTreeSet<&'static str> {
    attacks.filter(|attack| Victim::new(sandbox).is_hurt_by(attack)).map(|attack| attack.name).collect()
}

#[test]
fn bubblewrap_stops_every_attack() {
    assert_eq!(successful("bwrap", ATTACKS.iter()), BTreeSet::new());
}

#[test]
fn landlock_stops_what_it_is_said_to_stop() {
    let stopped = ATTACKS.iter().filter(|attack| attack.stopped == Stopped::ByBoth);
    assert_eq!(successful("landlock", stopped), BTreeSet::new());
}

#[test]
fn without_a_sandbox_every_attack_succeeds() {
    let harmless = ATTACKS.iter().filter(|attack| !attack.only_confined);
    let succeeded = successful("off", harmless.clone());
    let failed: Vec<&str> = harmless.map(|attack| attack.name).filter(|name| !succeeded.contains(name)).collect();
    assert!(failed.is_empty(), "{failed:?}");
}

#[test]
fn there_are_enough_attacks_and_no_two_are_the_same() {
    let names: BTreeSet<&str> = ATTACKS.iter().map(|attack| attack.name).collect();
    assert!(names.len() >= 60, "{}", names.len());
    assert_eq!(names.len(), ATTACKS.len());
}
