//! Rust scaffold: one package, checked by clippy and rustfmt.

use mahabharatha_core::charter::{Framework, Kind};

use super::{Part, Scaffold, Template};

macro_rules! asset {
    ($name:literal) => {
        include_str!(concat!("../../../assets/scaffolds/rust/", $name))
    };
}

const SHARED: [Template; 5] = [
    ("README.md", asset!("README.md")),
    (".gitignore", asset!("gitignore")),
    ("Cargo.toml", asset!("Cargo.toml.tmpl")),
    ("rustfmt.toml", asset!("rustfmt.toml")),
    ("src/greeting.rs", asset!("greeting.rs")),
];

const WEB_SHARED: [Template; 2] = [("src/lib.rs", asset!("web_lib.rs")), ("src/settings.rs", asset!("settings.rs"))];

const WEB: [Part; 2] = [
    (
        "usage",
        "```sh
cargo run
curl http://127.0.0.1:8080/greetings/Ada
```

Set `HOST` and `PORT` to change where it listens, and `RUST_LOG` for the log level.",
    ),
    (
        "layout",
        "| `src/main.rs` | the server: startup and shutdown |
| `src/settings.rs` | settings from the environment |
| `src/api.rs` | the HTTP interface |",
    ),
];

const CLI: [Part; 2] = [
    (
        "usage",
        "```sh
cargo run -- greet Ada
cargo install --path . && {{slug}} --help
```",
    ),
    (
        "layout",
        "| `src/main.rs` | the program |
| `src/cli.rs` | the command line |",
    ),
];

const AXUM: &str = r#"axum = "0.8.9"
serde = { version = "1.0.229", features = ["derive"] }
thiserror = "2.0"
tokio = { version = "1.54", features = ["macros", "net", "rt-multi-thread", "signal"] }
tower-http = { version = "0.7.1", features = ["trace"] }
tracing = "0.1.44"
tracing-subscriber = { version = "0.3.23", features = ["env-filter"] }"#;
const AXUM_DEV: &str = r#"

[dev-dependencies]
http-body-util = "0.1"
serde_json = "1.0"
tower = { version = "0.5.3", features = ["util"] }"#;
const ACTIX: &str = r#"actix-web = { version = "4.18", default-features = false, features = ["macros"] }
env_logger = "0.11"
serde = { version = "1.0.229", features = ["derive"] }
thiserror = "2.0""#;
const ACTIX_DEV: &str = r#"

[dev-dependencies]
serde_json = "1.0""#;
const CLAP: &str = r#"clap = { version = "4.6", features = ["derive"] }
thiserror = "2.0""#;

pub fn scaffold(framework: Framework) -> Scaffold {
    let (own, dependencies, dev): (&[Template], _, _) = match framework {
        Framework::Axum => (
            &[
                ("src/main.rs", asset!("axum/main.rs")),
                ("src/api.rs", asset!("axum/api.rs")),
                ("tests/api.rs", asset!("axum/tests_api.rs")),
            ],
            AXUM,
            AXUM_DEV,
        ),
        Framework::ActixWeb => (
            &[
                ("src/main.rs", asset!("actix-web/main.rs")),
                ("src/api.rs", asset!("actix-web/api.rs")),
                ("tests/api.rs", asset!("actix-web/tests_api.rs")),
            ],
            ACTIX,
            ACTIX_DEV,
        ),
        _ => (
            &[
                ("src/main.rs", asset!("clap/main.rs")),
                ("src/cli.rs", asset!("clap/cli.rs")),
                ("tests/cli.rs", asset!("clap/tests_cli.rs")),
            ],
            CLAP,
            "",
        ),
    };
    let is_web = framework.kind() == Kind::Web;
    let mut parts = if is_web { WEB } else { CLI }.to_vec();
    parts.extend([("dependencies", dependencies), ("dev_dependencies", dev), ("rust_version", "1.89")]);
    let shared: &[Template] = if is_web { &WEB_SHARED } else { &[] };
    Scaffold { templates: [&SHARED, shared, own].concat(), parts, set_up: "cargo build" }
}
