//! Lends a confined agent the user's login. All workers of a run share one copy of it, because services accept a refresh
//! token only once; a refreshed token is taken back.

use std::fs::{self, File, Permissions};
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use mahabharatha_core::config::{AgentConfig, Isolation};
use mahabharatha_sys::bounded;
use mahabharatha_sys::error::{Result, io};
use mahabharatha_sys::proc;
use mahabharatha_sys::sandbox::Sandbox;
use mahabharatha_sys::store::atomic::write_with_permissions;
use serde_json::Value;

/// How the names of copies begin. They are beside the directories of the sandboxes.
const LENT: &str = "login-";
/// A login is at most a few kilobytes; anything larger is none.
const MAX_LOGIN_BYTES: u64 = 64 * 1024;
/// Keys of tokens and of the time until which they are valid, as the agents name them.
const TOKENS: [&str; 7] =
    ["accessToken", "refreshToken", "access", "refresh", "access_token", "refresh_token", "id_token"];
const EXPIRY: [&str; 4] = ["expiresAt", "expires", "expiry_date", "expires_at"];
/// When the tokens were refreshed, where the time until which they are valid is in the token itself.
const REFRESHED_AT: &str = "last_refresh";

/// An agent refreshes a token that is valid for less than this. A login that replaces one valid for longer is not its work.
const REFRESH_MS: u64 = 60 * 60 * 1000;
/// The same for a token that names its own end: codex refreshes it two days before.
const REFRESH_OWN_END_MS: u64 = 3 * 24 * 60 * 60 * 1000;
/// A token is valid for hours or days; what claims to be valid for longer than this is none.
const MAX_VALIDITY_MS: u64 = 31 * 24 * 60 * 60 * 1000;

/// The user's logins that an agent was lent.
#[derive(Default)]
pub struct Logins(Vec<Login>);

/// A file of the user and the copy that agents use.
struct Login {
    own: PathBuf,
    lent: PathBuf,
}

impl Logins {
    /// Makes copies of the login files available in the sandbox. Without a sandbox, links in the agent's private home lead to
    /// the files themselves.
    pub fn lend(sandbox: &mut Sandbox, profile: &AgentConfig, private_home: &Path) -> Result<Logins> {
        let mut logins = Vec::new();
        for (name, own) in files(profile) {
            if sandbox.isolation() == Isolation::Off {
                link(&own, &private_home.join(name))?;
                continue;
            }
            let lent = sandbox.dir().with_file_name(format!("{LENT}{}", name.replace('/', "-")));
            let written = |path: &Path| fs::metadata(path).and_then(|found| found.modified()).ok();
            if written(&lent) < written(&own) {
                let bytes = bounded::read(&own, MAX_LOGIN_BYTES).map_err(io("read", &own))?;
                // In place: the file may be mounted in the sandboxes of other workers.
                let file = File::options().write(true).create(true).truncate(true).mode(0o600).open(&lent);
                file.and_then(|mut file| file.write_all(&bytes)).map_err(io("write", &lent))?;
            }
            sandbox.lend(&lent, Path::new(name))?;
            logins.push(Login { own, lent });
        }
        Ok(Logins(logins))
    }

    /// Saves tokens that an agent refreshed. Anything else that was written to the copies is ignored.
    pub fn take_back(self) {
        self.0.into_iter().for_each(Login::take_back);
    }
}

impl Login {
    fn take_back(self) {
        // The user's file may be a link, which must stay.
        let Ok(file) = self.own.canonicalize() else { return };
        let (Some(mut own), Some(lent)) = (read(&file), read(&self.lent)) else { return };
        let now = u64::try_from(jiff::Timestamp::now().as_millisecond()).unwrap_or_default();
        if refresh(&mut own, &lent, now) {
            // If it cannot be written, the user has to log in again, as after any lost refresh.
            let _ = write_with_permissions(&file, own.to_string().as_bytes(), Permissions::from_mode(0o600));
        }
    }
}

/// Returns the login files that the user has, with their names below a home directory.
pub fn files(profile: &AgentConfig) -> Vec<(&str, PathBuf)> {
    let found = profile.login.iter().filter_map(|name| Some((name.as_str(), own_file(profile, name)?)));
    found.filter(|(_, own)| own.is_file()).collect()
}

/// Returns where the user has a file of the agent: below the home directory, or where the variable that the profile sets
/// for the private home leads.
fn own_file(profile: &AgentConfig, name: &str) -> Option<PathBuf> {
    let configured = profile.set.iter().find_map(|(variable, value)| {
        let below = name.strip_prefix(value.strip_prefix("{home}/")?)?.strip_prefix('/')?;
        let dir = std::env::var_os(variable).filter(|dir| !dir.is_empty())?;
        Some(PathBuf::from(dir).join(below))
    });
    configured.or_else(|| proc::home().map(|home| home.join(name)))
}

fn link(own: &Path, place: &Path) -> Result<()> {
    if let Some(parent) = place.parent() {
        fs::create_dir_all(parent).map_err(io("create", parent))?;
    }
    // It is there after a crash.
    let _ = fs::remove_file(place);
    symlink(own, place).map_err(io("create", place))
}

/// Takes over tokens that are newer, each with the time until which it is valid; returns whether there are any.
fn refresh(own: &mut Value, lent: &Value, now: u64) -> bool {
    let (Some(object), Some(lent)) = (own.as_object_mut(), lent.as_object()) else { return false };
    let tokens: Vec<&str> = TOKENS.into_iter().filter(|name| object.get(*name).is_some_and(Value::is_string)).collect();
    let expiry = EXPIRY.into_iter().find(|name| object.get(*name).is_some_and(Value::is_u64));
    let (ends, due) = match expiry {
        Some(name) => ([&*object, lent].map(|login| login.get(name).and_then(Value::as_u64).map(in_ms)), REFRESH_MS),
        None => ([&*object, lent].map(|login| own_end(login.get("access_token")?.as_str()?)), REFRESH_OWN_END_MS),
    };
    if let [Some(end), Some(new_end)] = ends {
        let are_texts = tokens.iter().all(|name| lent.get(*name).is_some_and(Value::is_string));
        let is_new = end < now + due && new_end > end && new_end < now + MAX_VALIDITY_MS;
        if is_new && are_texts {
            for name in tokens.into_iter().chain(expiry) {
                object.insert(name.to_owned(), lent[name].clone());
            }
        }
        return is_new && are_texts;
    }
    let mut is_refreshed = false;
    for (name, part) in object.iter_mut() {
        is_refreshed |= lent.get(name).is_some_and(|lent| refresh(part, lent, now));
    }
    if is_refreshed && object.get(REFRESHED_AT).is_some_and(Value::is_string) {
        let at = lent.get(REFRESHED_AT).and_then(Value::as_str).filter(|at| at.parse::<jiff::Timestamp>().is_ok());
        object.extend(at.map(|at| (REFRESHED_AT.to_owned(), at.into())));
    }
    is_refreshed
}

/// Some agents write seconds.
fn in_ms(time: u64) -> u64 {
    if time < 100_000_000_000 { time.saturating_mul(1000) } else { time }
}

/// Returns when a token ends that says so itself (a JSON Web Token).
fn own_end(token: &str) -> Option<u64> {
    let claims: Value = serde_json::from_slice(&base64url(token.split('.').nth(1)?)?).ok()?;
    claims["exp"].as_u64().map(in_ms)
}

fn base64url(text: &str) -> Option<Vec<u8>> {
    let (mut bytes, mut bits, mut count) = (Vec::new(), 0_u32, 0);
    for c in text.trim_end_matches('=').bytes() {
        let value = match c {
            b'A'..=b'Z' => c - b'A',
            b'a'..=b'z' => c - b'a' + 26,
            b'0'..=b'9' => c - b'0' + 52,
            b'-' => 62,
            b'_' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
            bits &= (1 << count) - 1;
        }
    }
    Some(bytes)
}

/// Removes the copies that the workers of a run shared, once none of them runs. `slots` is their common directory.
pub fn forget(slots: &Path) {
    for entry in fs::read_dir(slots).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(LENT) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

fn read(path: &Path) -> Option<Value> {
    fs::symlink_metadata(path).ok().filter(|found| found.is_file())?;
    serde_json::from_slice(&bounded::read(path, MAX_LOGIN_BYTES).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Returns what the user's login is after an agent has written `lent` to its copy.
    fn after(own: &Value, lent: &str) -> Value {
        let dir = tempfile::tempdir().unwrap();
        let (file, copy) = (dir.path().join("own.json"), dir.path().join("copy.json"));
        fs::write(&file, own.to_string()).unwrap();
        fs::write(&copy, lent).unwrap();
        Login { own: file.clone(), lent: copy }.take_back();
        read(&file).unwrap()
    }

    fn claude() -> Value {
        json!({ "claudeAiOauth": { "accessToken": "a", "refreshToken": "r", "expiresAt": 5, "scopes": ["s"] } })
    }

    #[test]
    fn a_refreshed_token_is_saved_and_nothing_else() {
        let lent =
            r#"{"claudeAiOauth":{"accessToken":"A","refreshToken":"R","expiresAt":9,"scopes":["evil"]},"evil":1}"#;
        assert_eq!(
            after(&claude(), lent),
            json!({ "claudeAiOauth": { "accessToken": "A", "refreshToken": "R", "expiresAt": 9, "scopes": ["s"] } })
        );
        let opencode = json!({ "openai": { "type": "oauth", "refresh": "r", "access": "a", "expires": 5 }, "groq": { "type": "api", "key": "k" } });
        let lent =
            r#"{"openai":{"type":"api","refresh":"R","access":"A","expires":9},"groq":{"type":"api","key":"evil"}}"#;
        assert_eq!(
            after(&opencode, lent),
            json!({ "openai": { "type": "oauth", "refresh": "R", "access": "A", "expires": 9 }, "groq": { "type": "api", "key": "k" } })
        );
    }

    #[test]
    fn a_refreshed_token_is_saved_where_the_users_link_leads() {
        let dir = tempfile::tempdir().unwrap();
        let place = |name: &str| dir.path().join(name);
        fs::write(place("dotfile.json"), claude().to_string()).unwrap();
        symlink(place("dotfile.json"), place("own.json")).unwrap();
        fs::write(place("copy.json"), claude().to_string().replace("\"r\"", "\"R\"").replace('5', "9")).unwrap();
        Login { own: place("own.json"), lent: place("copy.json") }.take_back();
        assert_eq!(read(&place("dotfile.json")).unwrap()["claudeAiOauth"]["refreshToken"], "R");
        assert!(place("own.json").is_symlink());
    }

    #[test]
    fn anything_that_is_no_newer_login_is_ignored() {
        for lent in [
            "",
            "not json",
            "{}",
            r#"{"claudeAiOauth":{"accessToken":"A","refreshToken":"R","expiresAt":5}}"#,
            r#"{"claudeAiOauth":{"accessToken":"A","refreshToken":7,"expiresAt":9}}"#,
            r#"{"claudeAiOauth":{"accessToken":"A","expiresAt":9}}"#,
            r#"{"claudeAiOauth":{"accessToken":"A","refreshToken":"R","expiresAt":18446744073709551615}}"#,
        ] {
            assert_eq!(after(&claude(), lent), claude(), "{lent}");
        }
    }

    fn in_hours(hours: i64) -> i64 {
        jiff::Timestamp::now().as_second() + hours * 3600
    }

    #[test]
    fn a_login_that_is_still_valid_is_not_replaced() {
        let login = |token: &str, hours| json!({ "claudeAiOauth": { "accessToken": token, "refreshToken": token, "expiresAt": in_hours(hours) * 1000 } });
        assert_eq!(after(&login("a", 6), &login("evil", 8).to_string()), login("a", 6));
    }

    #[test]
    fn a_token_that_names_its_own_end_is_refreshed_when_it_is_due() {
        let encoded = |text: &str| {
            let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
            let bits: String = text.bytes().map(|byte| format!("{byte:08b}")).collect();
            let sextets = bits.as_bytes().chunks(6).map(|bits| {
                let bits = format!("{:0<6}", std::str::from_utf8(bits).unwrap());
                char::from(alphabet[usize::from_str_radix(&bits, 2).unwrap()])
            });
            sextets.collect::<String>()
        };
        let codex = |hours: i64, refresh: &str, at: &str| {
            let token = format!("h.{}.s", encoded(&json!({ "exp": in_hours(hours) }).to_string()));
            json!({ "OPENAI_API_KEY": null, "last_refresh": at, "tokens": { "access_token": token, "refresh_token": refresh, "account_id": "me" } })
        };
        let (old, new) = ("2026-11-01T00:00:00Z", "2026-11-09T00:00:00Z");
        let due = codex(40, "r", old);
        let refreshed = codex(240, "R", new);
        assert_eq!(after(&due, &refreshed.to_string()), refreshed);
        let valid = codex(200, "r", old);
        assert_eq!(after(&valid, &codex(240, "evil", new).to_string()), valid);
    }
}
