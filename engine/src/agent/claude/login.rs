//! Lends a confined client the user's login and, if workers may use it, the feature's task list. All workers of a run
//! share one copy of the login, because the API accepts a refresh token only once; a refreshed token is taken back.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Permissions};
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use mahabharatha_core::config::Isolation;
use mahabharatha_sys::bounded;
use mahabharatha_sys::error::{Result, io};
use mahabharatha_sys::proc;
use mahabharatha_sys::sandbox::Sandbox;
use mahabharatha_sys::store::atomic::write_with_permissions;
use serde_json::Value;

const CREDENTIALS: &str = ".credentials.json";
/// The copy, beside the directories of the sandboxes.
const LENT: &str = "claude-login.json";
/// A login is a few hundred bytes; anything larger is none.
const MAX_LOGIN_BYTES: u64 = 64 * 1024;
/// The parts of a login that a refresh changes.
const REFRESHED: [&str; 3] = ["accessToken", "refreshToken", "expiresAt"];

/// A client refreshes a token that is valid for less than this. A login that replaces one valid for longer is not its work.
const REFRESH_MS: u64 = 60 * 60 * 1000;
/// A token is valid for hours; what claims to be valid for longer than this is none.
const MAX_VALIDITY_MS: u64 = 31 * 24 * 60 * 60 * 1000;

/// The user's login and the copy that clients use.
pub struct Login {
    own: PathBuf,
    lent: PathBuf,
}

impl Login {
    /// Makes a copy of the login available in the sandbox; none if the user has no login file or there is no sandbox.
    pub fn lend(sandbox: &mut Sandbox) -> Result<Option<Login>> {
        let Some(own) = config_dir().map(|dir| dir.join(CREDENTIALS)).filter(|file| file.is_file()) else {
            return Ok(None);
        };
        if sandbox.isolation() == Isolation::Off {
            return Ok(None);
        }
        let lent = sandbox.dir().with_file_name(LENT);
        let written = |path: &Path| fs::metadata(path).and_then(|found| found.modified()).ok();
        if written(&lent) < written(&own) {
            let bytes = bounded::read(&own, MAX_LOGIN_BYTES).map_err(io("read", &own))?;
            // In place: the file may be mounted in the sandboxes of other workers.
            let file = File::options().write(true).create(true).truncate(true).mode(0o600).open(&lent);
            file.and_then(|mut file| file.write_all(&bytes)).map_err(io("write", &lent))?;
        }
        sandbox.lend(&lent, &Path::new(".claude").join(CREDENTIALS))?;
        Ok(Some(Login { own, lent }))
    }

    /// Saves tokens that a client refreshed. Anything else that was written to the copy is ignored.
    pub fn take_back(self) {
        let (Some(mut own), Some(lent)) = (read(&self.own), read(&self.lent)) else { return };
        let expiry = |login: &Value| login["claudeAiOauth"]["expiresAt"].as_u64();
        let texts = |name: &&str| *name == "expiresAt" || lent["claudeAiOauth"][*name].is_string();
        let now = u64::try_from(jiff::Timestamp::now().as_millisecond()).unwrap_or_default();
        let was_due = expiry(&own).unwrap_or_default() < now + REFRESH_MS;
        let is_new = expiry(&lent) > expiry(&own) && expiry(&lent) < Some(now + MAX_VALIDITY_MS);
        if !was_due || !is_new || !REFRESHED.iter().all(texts) {
            return;
        }
        for name in REFRESHED {
            own["claudeAiOauth"][name] = lent["claudeAiOauth"][name].clone();
        }
        // If it cannot be written, the user has to log in again, as after any lost refresh.
        let _ = write_with_permissions(&self.own, own.to_string().as_bytes(), Permissions::from_mode(0o600));
    }
}

/// Removes the copy that the workers of a run shared, once none of them runs. `slots` is their common directory.
pub fn forget(slots: &Path) {
    // It is not there if no client was confined.
    let _ = fs::remove_file(slots.join(LENT));
}

/// Makes one of the user's task lists available in the sandbox, for reading and writing.
pub fn lend_task_list(sandbox: &mut Sandbox, id: &OsStr) -> Result<()> {
    let name = Path::new("tasks").join(id);
    match config_dir().map(|dir| dir.join(&name)).filter(|list| list.is_dir()) {
        Some(list) => sandbox.lend(&list, &Path::new(".claude").join(name)),
        None => Ok(()),
    }
}

/// Returns variables that lead the client to its private directory.
pub fn environment(sandbox: &Sandbox) -> BTreeMap<OsString, OsString> {
    let dir = (sandbox.isolation() != Isolation::Off).then(|| sandbox.home().join(".claude"));
    dir.into_iter().map(|dir| ("CLAUDE_CONFIG_DIR".into(), dir.into())).collect()
}

/// Returns the user's directory of the client, found in the same way as the client does.
pub fn config_dir() -> Option<PathBuf> {
    let configured = std::env::var_os("CLAUDE_CONFIG_DIR").filter(|dir| !dir.is_empty()).map(PathBuf::from);
    configured.or_else(|| proc::home().map(|home| home.join(".claude")))
}

fn read(path: &Path) -> Option<Value> {
    fs::symlink_metadata(path).ok().filter(|found| found.is_file())?;
    serde_json::from_slice(&bounded::read(path, MAX_LOGIN_BYTES).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Returns what the user's login is after a client has written `lent` to its copy.
    fn after(lent: &str) -> Value {
        let dir = tempfile::tempdir().unwrap();
        let (own, copy) = (dir.path().join("own.json"), dir.path().join("copy.json"));
        let login =
            json!({ "claudeAiOauth": { "accessToken": "a", "refreshToken": "r", "expiresAt": 5, "scopes": ["s"] } });
        fs::write(&own, login.to_string()).unwrap();
        fs::write(&copy, lent).unwrap();
        Login { own: own.clone(), lent: copy }.take_back();
        read(&own).unwrap()["claudeAiOauth"].clone()
    }

    #[test]
    fn a_refreshed_token_is_saved_and_nothing_else() {
        let refreshed = after(
            r#"{"claudeAiOauth":{"accessToken":"A","refreshToken":"R","expiresAt":9,"scopes":["evil"]},"evil":1}"#,
        );
        assert_eq!(refreshed, json!({ "accessToken": "A", "refreshToken": "R", "expiresAt": 9, "scopes": ["s"] }));
    }

    #[test]
    fn anything_that_is_no_newer_login_is_ignored() {
        let own = json!({ "accessToken": "a", "refreshToken": "r", "expiresAt": 5, "scopes": ["s"] });
        for lent in [
            "",
            "not json",
            "{}",
            r#"{"claudeAiOauth":{"accessToken":"A","refreshToken":"R","expiresAt":5}}"#,
            r#"{"claudeAiOauth":{"accessToken":"A","refreshToken":7,"expiresAt":9}}"#,
            r#"{"claudeAiOauth":{"accessToken":"A","expiresAt":9}}"#,
            r#"{"claudeAiOauth":{"accessToken":"A","refreshToken":"R","expiresAt":18446744073709551615}}"#,
        ] {
            assert_eq!(after(lent), own, "{lent}");
        }
    }

    #[test]
    fn a_login_that_is_still_valid_is_not_replaced() {
        let in_hours = |hours: i64| jiff::Timestamp::now().as_millisecond() + hours * 3_600_000;
        let login = |token: &str, expires: i64| json!({ "claudeAiOauth": { "accessToken": token, "refreshToken": token, "expiresAt": expires } });
        let dir = tempfile::tempdir().unwrap();
        let (own, lent) = (dir.path().join("own.json"), dir.path().join("copy.json"));
        fs::write(&own, login("a", in_hours(6)).to_string()).unwrap();
        fs::write(&lent, login("evil", in_hours(8)).to_string()).unwrap();
        Login { own: own.clone(), lent }.take_back();
        assert_eq!(read(&own).unwrap()["claudeAiOauth"]["accessToken"], "a");
    }
}
