//! Secrets in these tests are put together at run time, so that no scanner finds them in this file.

use proptest::prelude::*;

use super::tokens::{Body, FORMATS};
use super::*;

/// Characters that look drawn at random, the same for each seed.
fn random(alphabet: &str, length: usize, seed: u64) -> String {
    let alphabet: Vec<char> = alphabet.chars().collect();
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        alphabet[(state >> 33) as usize % alphabet.len()]
    };
    (0..length).map(|_| next()).collect()
}

const BASE62: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
const HEX: &str = "0123456789abcdef";

fn base62(length: usize) -> String {
    random(BASE62, length, 7)
}

fn found(path: &str, text: &str) -> Vec<String> {
    scan(path, "", text, &[]).findings.iter().map(|finding| finding.rule.clone()).collect()
}

#[track_caller]
fn assert_clean(path: &str, text: &str) {
    assert_eq!(scan(path, "", text, &[]).findings, [], "{path}: {text}");
}

fn sample(format: &tokens::Format) -> String {
    let (rule, prefix, body, min, _) = *format;
    let alphabet = match body {
        Body::Capitals => "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567",
        Body::Hex => HEX,
        Body::Alphanumeric | Body::Url | Body::Dotted => BASE62,
    };
    let mut key = random(alphabet, min, 11);
    if rule == "sendgrid-key" {
        key.replace_range(22..23, ".");
    }
    format!("{prefix}{key}")
}

#[test]
fn every_well_known_format_is_found_and_shown_masked() {
    let kinds: BTreeSet<&str> = FORMATS.iter().map(|format| format.0).collect();
    assert!(kinds.len() >= 35, "{kinds:?}");
    for format in FORMATS {
        let (rule, prefix, ..) = *format;
        let key = sample(format);
        for line in [format!("let k = \"{key}\";"), format!("KEY={key}"), format!("see {key}."), format!("[{key}]")] {
            assert_eq!(found("src/a.rs", &line), [rule], "{line}");
            let shown = scan("src/a.rs", "", &line, &[]).findings[0].to_string();
            assert!(shown.starts_with("src/a.rs:1: ") && !shown.contains(&key[prefix.len()..]), "{shown}");
            assert!(shown.contains(&format!("{} characters", key.len())), "{shown}");
        }
        // In tests and in generated files too.
        assert_eq!(found("tests/fixtures/Cargo.lock", &key), [rule], "{key}");
        assert_clean("src/a.rs", &format!("x{key}"));
        assert_clean("src/a.rs", &key[..key.len() - 1].replace(|c: char| c.is_ascii_digit(), ""));
    }
}

#[test]
fn keys_that_are_known_by_more_than_a_prefix_are_found() {
    let cases = [
        ("azure-client-secret", format!("{}8Q~{}", base62(3), base62(34))),
        ("telegram-token", format!("1234567890:AA{}", base62(33))),
        ("jwt", format!("eyJhbGciOiJSUzI1NiJ9{}.eyJ{}.{}", base62(6), base62(40), base62(43))),
        ("slack-webhook", format!("https://hooks.slack.com/services/T{}/B{}/{}", base62(10), base62(10), base62(24))),
        ("discord-webhook", format!("https://discord.com/api/webhooks/112233445566778899/{}", base62(68))),
        ("azure-connection-string", format!("AccountName=shop;AccountKey={}==;EndpointSuffix=x", base62(86))),
        ("azure-connection-string", format!("SharedAccessKeyName=all;SharedAccessKey={}=", base62(43))),
        ("database-url", format!("postgres://app:{}@db.shop.io:5432/app", base62(14))),
        ("database-url", format!("mongodb+srv://app:{}@cluster0.ab1.mongodb.net/app", base62(14))),
        ("url-password", format!("https://ci:{}@git.shop.io/shop.git", base62(14))),
    ];
    for (rule, secret) in cases {
        let line = format!("const x = \"{secret}\";");
        assert_eq!(found("src/a.ts", &line), [rule], "{line}");
        let shown = scan("src/a.ts", "", &line, &[]).findings[0].to_string();
        assert!(!shown.contains(&base62(10)), "{shown}");
    }
}

#[test]
fn private_keys_are_found_and_headers_alone_are_not() {
    let body = format!("{}\n{}\n", base62(64), base62(64));
    for kind in ["RSA PRIVATE KEY", "EC PRIVATE KEY", "OPENSSH PRIVATE KEY", "PRIVATE KEY", "PGP PRIVATE KEY BLOCK"] {
        let key = format!("-----BEGIN {kind}-----\n{body}-----END {kind}-----\n");
        assert_eq!(found("deploy/key", &key), ["private-key"], "{kind}");
        assert_eq!(
            found("src/key.rs", &format!("const KEY: &str = \"{}\";", key.replace('\n', "\\n"))),
            ["private-key"]
        );
        assert_clean("tests/fixtures/server.key", &key);
        assert_clean(
            "src/pem.rs",
            &format!("if text.contains(\"-----BEGIN {kind}-----\") {{\n    return decode(text);\n}}\n"),
        );
    }
    let encrypted = format!("-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES\n\n{body}");
    assert_eq!(found("key.pem", &encrypted), ["private-key"]);
    let pgp = format!("-----BEGIN PGP PRIVATE KEY BLOCK-----\nVersion: GnuPG\n\n{body}");
    assert_eq!(found("key.asc", &pgp), ["private-key"]);
    let account = format!("\"private_key\": \"-----BEGIN PRIVATE KEY-----\\n{}\\n\",\n", base62(64));
    assert_eq!(found("account.json", &account), ["gcp-service-account-key"]);
    assert_clean("key.pub", &format!("-----BEGIN PUBLIC KEY-----\n{body}"));
    assert_clean("cert.pem", &format!("-----BEGIN CERTIFICATE-----\n{body}"));
    // A new key below an old header.
    let header = "-----BEGIN PRIVATE KEY-----\n";
    assert_eq!(scan("k", header, &format!("{header}{body}"), &[]).findings.len(), 1);
}

#[test]
fn random_values_of_secret_names_are_found() {
    let value = base62(32);
    let hex = random(HEX, 40, 3);
    for (path, line) in [
        ("a.py", format!("API_KEY = \"{value}\"")),
        ("a.py", format!("client = connect(password='{value}')")),
        ("a.py", format!("os.environ[\"AUTH_TOKEN\"] = \"{value}\"")),
        ("a.ts", format!("const clientSecret: string = `{value}`;")),
        ("a.go", format!("apiKey := \"{value}\"")),
        ("a.rs", format!("pub const SIGNING_KEY: &str = \"{value}\";")),
        ("a.rb", format!(":secret_key_base => '{value}'")),
        ("a.json", format!("  \"accessToken\": \"{value}\",")),
        ("a.js", format!("headers: {{ Authorization: 'Bearer {value}' }}")),
        ("a.yaml", format!("  db_password: {value}")),
        (".env.production", format!("SECRET={value}")),
        (".npmrc", format!("//registry.npmjs.org/:_authToken={value}")),
        ("Dockerfile", format!("ENV API_TOKEN={value}")),
        ("a.toml", format!("token = \"{hex}\"")),
    ] {
        assert_eq!(found(path, &line), ["assigned-secret"], "{line}");
        let shown = scan(path, "", &line, &[]).findings[0].to_string();
        assert!(!shown.contains(&value[..6]) && !shown.contains(&hex[..6]), "{shown}");
    }
    assert_eq!(found("a.tf", &format!("aws_secret_access_key = \"{}\"", base62(40))), ["aws-secret-access-key"]);
    assert_eq!(found("a.sh", "HEROKU_API_KEY=12fe34ab-56cd-78ef-90ab-12cd34ef56ab"), ["heroku-key"]);
}

#[test]
fn lock_files_hashes_oids_and_uuids_are_no_secrets() {
    let (sha1, sha256) = (random(HEX, 40, 5), random(HEX, 64, 5));
    let base64 = random(&format!("{BASE62}+/"), 86, 5);
    for path in ["package-lock.json", "web/yarn.lock", "Cargo.lock", "poetry.lock", "go.sum", "pnpm-lock.yaml"] {
        for line in [
            format!("\"integrity\": \"sha512-{base64}==\","),
            format!("checksum = \"{sha256}\""),
            format!("token = \"{sha256}\""),
            format!("github.com/x/token v1.2.3 h1:{}=", base62(43)),
        ] {
            assert_clean(path, &line);
        }
    }
    for line in [
        format!("commit = \"{sha1}\""),
        format!("uses: actions/checkout@{sha1}"),
        format!("rev: {sha1}"),
        format!("FROM python@sha256:{sha256}"),
        format!("password_hash = \"$2b$12${}\"", base62(53)),
        format!("passwordHash: \"{sha256}\""),
        format!("token_sha256 = \"{sha256}\""),
        format!("secret_fingerprint = \"{sha1}\""),
        "token = \"123e4567-e89b-12d3-a456-426614174000\"".to_string(),
        "secretId: 9b2d7c1e-0f3a-4c5b-8d6e-1a2b3c4d5e6f".to_string(),
        format!("tokenAddress = \"0x{sha1}\""),
        format!("<script integrity=\"sha384-{base64}\" crossorigin>"),
    ] {
        assert_clean("src/a.yaml", &line);
    }
}

#[test]
fn fixtures_images_and_minified_code_are_no_secrets() {
    let value = base62(32);
    for path in [
        "tests/api.rs",
        "src/__tests__/login.ts",
        "pkg/auth_test.go",
        "test_login.py",
        "web/login.spec.ts",
        "spec/fixtures/users.yml",
        "internal/testdata/config.json",
    ] {
        assert_clean(path, &format!("password: \"{value}\""));
        assert_clean(path, &format!("postgres://app:{value}@db.shop.io/app"));
        assert_clean(path, &format!("eyJhbGciOiJSUzI1NiJ9aaaa.eyJ{}.{}", base62(40), base62(43)));
    }
    let image = random(&format!("{BASE62}+/"), 4000, 9);
    assert_clean("src/icons.ts", &format!("export const logo = \"data:image/png;base64,{image}\";"));
    assert_clean("a.css", &format!(".a {{ background: url(data:image/png;base64,{image}) }}"));
    let minified = format!("var a={{token:\"{value}\"}};").repeat(60);
    assert_clean("dist/app.min.js", &minified);
    assert_clean("static/bundle.js", &minified);
    assert_clean("static/app.js.map", &format!("{{\"token\":\"{value}\"}}"));
    assert_clean("a.snap", &format!("token: \"{value}\""));
}

#[test]
fn placeholders_references_and_plain_names_are_no_secrets() {
    for line in [
        "AWS_ACCESS_KEY_ID=AKIAIOSFODNN7EXAMPLE".to_string(),
        "aws_secret_access_key = \"wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY\"".to_string(),
        "token: ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx".to_string(),
        "API_KEY=your-api-key-goes-here-1a2b3c".to_string(),
        "password: ${DB_PASSWORD:-a1b2c3d4e5f6g7h8}".to_string(),
        "const apiKey = \"process.env.API_KEY_1A2B3C4D\";".to_string(),
        "secret: \"{{ .Values.secret1a2b3c4d5e6f }}\"".to_string(),
        "clientSecret: \"arn:aws:secretsmanager:eu-west-1:1a2b3c:secret:x\"".to_string(),
        "tokenUrl = \"https://auth.shop.io/oauth2/v2/token1a2b3c\"".to_string(),
        "const token = \"getAccessTokenSilentlyForEveryone\";".to_string(),
        "secret_name: my-app-secret-v2-prod-2024-key1".to_string(),
        "passwordField = \"user_password_v2_field_1a2b3c\"".to_string(),
        "max_tokens: 4096".to_string(),
        "let token = tokens.next().ok_or(Error::Missing1a2b3c)?;".to_string(),
        "DATABASE_URL=postgres://postgres:postgres@localhost:5432/app".to_string(),
        format!("DATABASE_URL=postgres://app:{}@db:5432/app", base62(12)),
        format!("url = \"postgres://app:{}@127.0.0.1/app\"", base62(12)),
        "redis://:${REDIS_PASSWORD}@cache.shop.io".to_string(),
        "https://user:password@example.com/x".to_string(),
        "https://shop.io/a:b@c".to_string(),
        "SECRET_KEY = 'django-insecure-a1b2c3d4e5f6g7h8i9j0'".to_string(),
        "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"
            .to_string(),
        "class=\"sk-loading-spinner-with-a-very-long-name-that-goes-on-and-on\"".to_string(),
        format!("pk_live_{}", base62(24)),
    ] {
        assert_clean("src/settings.yaml", &line);
    }
}

#[test]
fn only_added_lines_count() {
    let key = sample(&FORMATS[3]);
    let old = format!("one\ntoken = \"{key}\"\n");
    assert_eq!(scan("a", &old, &format!("zero\n{old}two\n"), &[]), Scan::default());
    let findings = scan("a", &old, &format!("{old}other = \"{key}\"\n"), &[]).findings;
    assert_eq!(findings.iter().map(|finding| finding.line).collect::<Vec<_>>(), [3]);
}

#[test]
fn a_suppression_needs_a_reason() {
    let key = sample(&FORMATS[3]);
    let reasons = |text: &str, allowed: &[Allowed]| {
        let Scan { findings, suppressions } = scan("src/a.ts", "", text, allowed);
        assert_eq!(findings.len() + suppressions.len(), 1, "{text}");
        suppressions.into_iter().map(|it| (it.line, it.reason)).next()
    };
    let reason = "revoked, kept for the parser's test";
    for (line, text) in [
        (1, format!("k = \"{key}\" // {ALLOW_COMMENT} {reason}")),
        (1, format!("k = \"{key}\" /* {ALLOW_COMMENT} {reason} */")),
        (2, format!("# {ALLOW_COMMENT} {reason}\nk = \"{key}\"")),
        (2, format!("<!-- {ALLOW_COMMENT} {reason} -->\n{key}")),
    ] {
        assert_eq!(reasons(&text, &[]), Some((line, reason.to_string())), "{text}");
    }
    for text in [
        format!("k = \"{key}\" // {ALLOW_COMMENT}"),
        format!("k = \"{key}\" // {ALLOW_COMMENT} ok"),
        format!("/* {ALLOW_COMMENT} */\nk = \"{key}\""),
        format!("# {ALLOW_COMMENT} {reason}\n\nk = \"{key}\""),
    ] {
        assert_eq!(reasons(&text, &[]), None, "{text}");
    }
    let allowed = |path: &str, rule: Option<&str>| Allowed {
        path: path.to_owned(),
        rule: rule.map(str::to_owned),
        reason: reason.to_owned(),
    };
    for (path, rule, covers) in [
        ("src/a.ts", None, true),
        ("src/**", Some("github-token"), true),
        ("src/*.ts", Some("npm-token"), false),
        ("*.ts", None, false),
        ("lib/**", None, false),
    ] {
        let found = reasons(&format!("k = \"{key}\""), &[allowed(path, rule)]);
        assert_eq!(found.is_some(), covers, "{path} {rule:?}");
    }
}

#[test]
fn a_comment_that_does_not_count_is_named_with_what_is_wrong() {
    let key = sample(&FORMATS[3]);
    let right = format!("{ALLOW_COMMENT} <why this is no secret>");
    for (text, problem) in [
        (format!("# {ALLOW_COMMENT}\nk = \"{key}\""), Some(format!("the comment above it gives no reason: {right}"))),
        (format!("k = \"{key}\" // {ALLOW_COMMENT}"), Some(format!("the comment beside it gives no reason: {right}"))),
        (
            format!("# {ALLOW_COMMENT} x\nk = \"{key}\""),
            Some(format!("the reason in the comment above it has fewer than 6 letters: {right}")),
        ),
        (
            format!("# mahabharatha: allow-secret demo token\nk = \"{key}\""),
            Some(format!("the comment above it is misspelt: {right}")),
        ),
        (
            format!("# Mahabharatha:allow_secret demo token\nk = \"{key}\""),
            Some(format!("the comment above it is misspelt: {right}")),
        ),
        (
            format!("a\n# {ALLOW_COMMENT} demo token\n\n \nk = \"{key}\""),
            Some("the comment on line 2 is not on the line directly above it".to_owned()),
        ),
        (format!("# {ALLOW_COMMENT} demo token\nother\nk = \"{key}\""), None),
        (format!("# mahabharatha allows no secret\nk = \"{key}\""), None),
        (format!("\n\nk = \"{key}\""), None),
    ] {
        let found = scan("src/a.ts", "", &text, &[]).findings;
        assert_eq!(found.len(), 1, "{text}");
        assert_eq!(found[0].comment, problem, "{text}");
        let shown = found[0].to_string();
        assert_eq!(shown.contains("characters); "), problem.is_some(), "{shown}");
        assert!(!shown.contains(&key[8..]), "{shown}");
    }
    // What the configuration allows needs no comment.
    let allowed = [Allowed { path: "**".to_owned(), rule: None, reason: "of the demo".to_owned() }];
    assert_eq!(scan("src/a.ts", "", &format!("# {ALLOW_COMMENT}\n{key}"), &allowed).findings, []);
}

#[test]
fn the_entry_that_allows_a_finding_is_valid_and_covers_it() {
    let key = sample(&FORMATS[3]);
    for path in ["aws.py", "src/[id]/a b.ts", "it's: \"x\".ts", "-a", "*.py"] {
        let found = scan(path, "", &format!("k = \"{key}\""), &[]).findings;
        let entry = allow_entry(&found[0]).replace('…', "of the demo");
        let config = crate::config::Config::parse(&format!("secrets: {{ allow: [{entry}] }}\n"));
        let allowed = config.unwrap_or_else(|problems| panic!("{entry}: {problems:?}")).secrets.allow;
        assert!(allowed[0].covers(path, &found[0].rule), "{entry}");
    }
    let plain = scan("src/a.py", "", &format!("k = \"{key}\""), &[]).findings;
    assert_eq!(allow_entry(&plain[0]), "{ path: src/a.py, rule: github-token, reason: … }");
}

#[test]
fn rule_names_are_lower_case_with_hyphens() {
    let rules = rules();
    assert!(rules.len() >= 45, "{}", rules.len());
    let is_plain = |rule: &&str| rule.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
    assert!(rules.iter().all(is_plain), "{rules:?}");
}

#[test]
fn no_text_takes_quadratic_time() {
    // Takes seconds. If one of these took quadratic time, it would be ended as a test that hangs.
    let parts = ["eyJ", "a.", "glpat-.", "://", "x=", "1:", "-----BEGIN PRIVATE KEY-----\n", "ghp_-", "a~"];
    for part in parts.into_iter().chain(["\x1b[", "\\u001b[1;", "[1mghp_"]) {
        let text = part.repeat((1 << 20) / part.len());
        scan("src/a.yaml", "", &text, &[]);
        Redactor::default().redacted(&text);
    }
}

proptest! {
    #[test]
    fn any_text_can_be_scanned(text in "(\\PC|[\\n\"=:@/.-]|token|eyJ|://|-----BEGIN PRIVATE KEY-----){0,80}") {
        scan("src/a.yaml", "", &text, &[]);
    }

    #[test]
    fn a_finding_shows_nothing_of_a_random_value(seed in any::<u64>(), length in 24usize..60) {
        let value = random(BASE62, length, seed);
        for finding in scan("a.yaml", "", &format!("password: {value}"), &[]).findings {
            prop_assert!(!finding.to_string().contains(&value[..5]), "{finding}");
        }
    }
}
