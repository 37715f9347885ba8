//! Python scaffold: a package under `src/`, checked by ruff and mypy, tested by pytest.

use mahabharatha_core::charter::{Framework, Kind};

use super::{Part, Scaffold, Template};

macro_rules! asset {
    ($name:literal) => {
        include_str!(concat!("../../../assets/scaffolds/python/", $name))
    };
}

const SHARED: [Template; 7] = [
    ("README.md", asset!("README.md")),
    (".gitignore", asset!("gitignore")),
    ("pyproject.toml", asset!("pyproject.toml.tmpl")),
    ("src/{{module}}/__init__.py", ""),
    ("src/{{module}}/py.typed", ""),
    ("src/{{module}}/greeting.py", asset!("greeting.py")),
    ("tests/test_greeting.py", asset!("test_greeting.py")),
];

const CLI_MAIN: Template = ("src/{{module}}/__main__.py", asset!("cli_main.py"));

const WEB: [Part; 3] = [
    ("entry", "__main__"),
    (
        "usage",
        "```sh
{{slug}}                                  # or: python -m {{module}}
curl http://127.0.0.1:8000/greetings/Ada
```

Set `HOST` and `PORT` to change where it listens.",
    ),
    (
        "layout",
        "| `src/{{module}}/__main__.py` | the server: settings and start |
| `src/{{module}}/app.py` | the HTTP interface |",
    ),
];

const CLI: [Part; 3] = [
    ("entry", "cli"),
    (
        "usage",
        "```sh
{{slug}} greet Ada                        # or: python -m {{module}} greet Ada
{{slug}} --help
```",
    ),
    ("layout", "| `src/{{module}}/cli.py` | the command line |"),
];

const DEV: &str = r#"    "mypy~=2.4",
    "pytest~=9.2",
    "ruff~=0.17.4","#;
const DEV_WITH_TEST_CLIENT: &str = r#"    "httpx2~=2.16", # For FastAPI's test client.
    "mypy~=2.4",
    "pytest~=9.2",
    "ruff~=0.17.4","#;
const DEV_WITH_STUBS: &str = r#"    "mypy~=2.4",
    "pytest~=9.2",
    "ruff~=0.17.4",
    "types-waitress~=3.0","#;

pub fn scaffold(framework: Framework) -> Scaffold {
    let (own, dependencies, dev): (&[Template], _, _) = match framework {
        Framework::FastApi => (
            &[
                ("src/{{module}}/__main__.py", asset!("fastapi/__main__.py")),
                ("src/{{module}}/app.py", asset!("fastapi/app.py")),
                ("tests/test_app.py", asset!("fastapi/test_app.py")),
            ],
            "    \"fastapi~=0.162\",\n    \"uvicorn~=0.54\",",
            DEV_WITH_TEST_CLIENT,
        ),
        Framework::Flask => (
            &[
                ("src/{{module}}/__main__.py", asset!("flask/__main__.py")),
                ("src/{{module}}/app.py", asset!("flask/app.py")),
                ("tests/test_app.py", asset!("flask/test_app.py")),
            ],
            "    \"flask~=3.1\",\n    \"waitress~=3.0\",",
            DEV_WITH_STUBS,
        ),
        Framework::Typer => (
            &[
                CLI_MAIN,
                ("src/{{module}}/cli.py", asset!("typer/cli.py")),
                ("tests/test_cli.py", asset!("typer/test_cli.py")),
            ],
            "    \"typer~=0.29\",",
            DEV,
        ),
        _ => (
            &[
                CLI_MAIN,
                ("src/{{module}}/cli.py", asset!("click/cli.py")),
                ("tests/test_cli.py", asset!("click/test_cli.py")),
            ],
            "    \"click~=8.5\",",
            DEV,
        ),
    };
    let mut parts = if framework.kind() == Kind::Web { WEB } else { CLI }.to_vec();
    parts.extend([("dependencies", dependencies), ("dev_dependencies", dev)]);
    Scaffold { templates: [&SHARED, own].concat(), parts, set_up: "uv sync" }
}
