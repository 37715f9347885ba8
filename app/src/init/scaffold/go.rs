//! Go: a program under `cmd/`, everything else under `internal/`, checked by go vet and golangci-lint.

use mahabharatha_core::charter::{Framework, Kind};

use super::{Part, Scaffold, Template};

macro_rules! asset {
    ($name:literal) => {
        include_str!(concat!("../../../assets/scaffolds/go/", $name))
    };
}

const SHARED: [Template; 6] = [
    ("README.md", asset!("README.md")),
    (".gitignore", asset!("gitignore")),
    (".golangci.yml", asset!("golangci.yml")),
    ("go.mod", asset!("go.mod.tmpl")),
    ("internal/greeting/greeting.go", asset!("greeting.go")),
    ("internal/greeting/greeting_test.go", asset!("greeting_test.go")),
];

const WEB_MAIN: Template = ("cmd/{{slug}}/main.go", asset!("web_main.go"));
const WEB_TEST: Template = ("internal/api/api_test.go", asset!("api_test.go"));

const WEB: [Part; 2] = [
    (
        "usage",
        "```sh
go run ./cmd/{{slug}}
curl http://127.0.0.1:8080/greetings/Ada
```

`HOST` and `PORT` say where it listens.",
    ),
    ("layout", "| `internal/api/` | the HTTP interface |"),
];

const CLI: [Part; 2] = [
    (
        "usage",
        "```sh
go run ./cmd/{{slug}} greet Ada
go build -o bin/ ./cmd/{{slug}} && bin/{{slug}} --help
```",
    ),
    ("layout", "| `internal/cli/` | the command line |"),
];

pub fn scaffold(framework: Framework) -> Scaffold {
    let (own, requirement): (&[Template], _) = match framework {
        Framework::Gin => {
            (&[WEB_MAIN, WEB_TEST, ("internal/api/api.go", asset!("gin/api.go"))], "github.com/gin-gonic/gin v1.12.0")
        }
        Framework::Echo => (
            &[WEB_MAIN, WEB_TEST, ("internal/api/api.go", asset!("echo/api.go"))],
            "github.com/labstack/echo/v5 v5.3.1",
        ),
        _ => (
            &[
                ("cmd/{{slug}}/main.go", asset!("cobra/main.go")),
                ("internal/cli/cli.go", asset!("cobra/cli.go")),
                ("internal/cli/cli_test.go", asset!("cobra/cli_test.go")),
            ],
            "github.com/spf13/cobra v1.10.2",
        ),
    };
    let mut parts = if framework.kind() == Kind::Web { WEB } else { CLI }.to_vec();
    parts.push(("requirement", requirement));
    Scaffold { templates: [&SHARED, own].concat(), parts, set_up: "go mod tidy" }
}
