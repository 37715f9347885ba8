//! URLs that contain a secret: a password before the host, or a webhook's path. Connection strings of Azure.

use super::blocks::is_base64;
use super::tokens::is_placeholder;
use super::{Hit, masked};

pub const RULES: [&str; 5] =
    ["url-password", "database-url", "slack-webhook", "discord-webhook", "azure-connection-string"];

const DATABASES: [&str; 13] = [
    "postgres",
    "postgresql",
    "mysql",
    "mariadb",
    "mongodb",
    "mongodb+srv",
    "redis",
    "rediss",
    "amqp",
    "amqps",
    "mssql",
    "sqlserver",
    "clickhouse",
];
const OTHER_SCHEMES: [&str; 6] = ["http", "https", "ftp", "sftp", "smtp", "smtps"];
/// Passwords that are common in examples.
const COMMON_PASSWORDS: [&str; 18] = [
    "password",
    "passwd",
    "pass",
    "pwd",
    "secret",
    "root",
    "admin",
    "user",
    "username",
    "postgres",
    "mysql",
    "guest",
    "test",
    "token",
    "changeme",
    "example",
    "mypassword",
    "pw",
];

/// In a log, the password of a local service counts too: it may be the user's.
pub fn find(line: &str, in_log: bool) -> Vec<Hit<'_>> {
    let found = line.match_indices("://").filter_map(|(at, _)| with_password(line, at, in_log));
    let mut hits: Vec<Hit<'_>> = found.collect();
    hits.extend(webhook(line, "https://hooks.slack.com/services/", 40, "slack-webhook"));
    for host in ["https://discord.com/api/webhooks/", "https://discordapp.com/api/webhooks/"] {
        hits.extend(webhook(line, host, 60, "discord-webhook"));
    }
    hits.extend(connection_string(line));
    hits
}

/// `scheme://user:password@host`
fn with_password(line: &str, at: usize, in_log: bool) -> Option<Hit<'_>> {
    let is_scheme = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '.' | '-');
    let scheme = line[..at].rsplit(|c| !is_scheme(c)).next().unwrap_or_default();
    let rest = &line[at + 3..];
    let authority =
        &rest[..rest.find(['/', '?', '#', '"', '\'', '`', ' ', '\t', ')', '>', ',', '\\']).unwrap_or(rest.len())];
    let (account, host) = authority.rsplit_once('@')?;
    let (_, password) = account.split_once(':')?;
    let rule = match scheme {
        _ if DATABASES.contains(&scheme) => "database-url",
        _ if OTHER_SCHEMES.contains(&scheme) => "url-password",
        _ => return None,
    };
    let is_secret = password.len() >= 4 && !is_stand_in(password) && (in_log || !is_local(host));
    is_secret.then(|| Hit { rule, masked: masked("", password.len()), secret: password })
}

fn is_stand_in(password: &str) -> bool {
    let has_variable =
        password.contains(['$', '{', '}', '<', '>', '%', '*', '[', ']', '…']) || password.contains("...");
    has_variable || COMMON_PASSWORDS.contains(&password.to_ascii_lowercase().as_str()) || {
        let lower = password.to_ascii_lowercase();
        ["example", "xxx", "your", "placeholder", "change"].iter().any(|word| lower.contains(word))
    }
}

/// Tells whether the host is not reachable from outside: this machine, a service of a compose file, or a reserved
/// name.
fn is_local(host: &str) -> bool {
    let name = host.split(':').next().unwrap_or_default().to_ascii_lowercase();
    let reserved = ["localhost", "local", "test", "example", "invalid", "internal"];
    !name.contains('.')
        || name.starts_with("127.")
        || name == "0.0.0.0"
        || name.split('.').any(|label| reserved.contains(&label))
        || name.contains(['$', '{', '<'])
}

fn webhook<'l>(line: &'l str, address: &str, min: usize, rule: &'static str) -> Option<Hit<'l>> {
    let rest = &line[line.find(address)? + address.len()..];
    let is_path = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '_' | '-');
    let path = &rest[..rest.find(|c| !is_path(c)).unwrap_or(rest.len())];
    let is_secret = path.len() >= min && !is_placeholder(path);
    is_secret.then(|| Hit { rule, masked: masked(address, address.len() + path.len()), secret: path })
}

/// `AccountKey=` or `SharedAccessKey=` with a key in base64.
fn connection_string(line: &str) -> Option<Hit<'_>> {
    let (_, rest) = line.split_once("AccountKey=").or_else(|| line.split_once("SharedAccessKey="))?;
    let key = &rest[..rest.find(|c| !is_base64(c)).unwrap_or(rest.len())];
    // The emulator's key is the same everywhere, and public.
    let is_emulator = key.starts_with("Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq");
    let is_key = key.len() >= 43 && key.ends_with('=') && !is_emulator && !is_placeholder(key);
    is_key.then(|| Hit { rule: "azure-connection-string", masked: masked("", key.len()), secret: key })
}
