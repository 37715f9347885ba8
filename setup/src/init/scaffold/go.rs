//! Go scaffold: a program under `cmd/`, everything else under `internal/`, checked by go vet and golangci-lint.

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

Set `HOST` and `PORT` to change where it listens.",
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

/// Includes the indirect requirements that `go mod tidy` would write, so that only `go.sum` is missing.
const GIN: &str = "github.com/gin-gonic/gin v1.12.0

require (
	github.com/bytedance/gopkg v0.1.3 // indirect
	github.com/bytedance/sonic v1.15.0 // indirect
	github.com/bytedance/sonic/loader v0.5.0 // indirect
	github.com/cloudwego/base64x v0.1.6 // indirect
	github.com/gabriel-vasile/mimetype v1.4.12 // indirect
	github.com/gin-contrib/sse v1.1.0 // indirect
	github.com/go-playground/locales v0.14.1 // indirect
	github.com/go-playground/universal-translator v0.18.1 // indirect
	github.com/go-playground/validator/v10 v10.30.1 // indirect
	github.com/goccy/go-json v0.10.5 // indirect
	github.com/goccy/go-yaml v1.19.2 // indirect
	github.com/json-iterator/go v1.1.12 // indirect
	github.com/klauspost/cpuid/v2 v2.3.0 // indirect
	github.com/leodido/go-urn v1.4.0 // indirect
	github.com/mattn/go-isatty v0.0.22 // indirect
	github.com/modern-go/concurrent v0.0.0-20180306012644-bacd9c7ef1dd // indirect
	github.com/modern-go/reflect2 v1.0.2 // indirect
	github.com/pelletier/go-toml/v2 v2.2.4 // indirect
	github.com/quic-go/qpack v0.6.0 // indirect
	github.com/quic-go/quic-go v0.59.0 // indirect
	github.com/twitchyliquid64/golang-asm v0.15.1 // indirect
	github.com/ugorji/go/codec v1.3.1 // indirect
	go.mongodb.org/mongo-driver/v2 v2.5.0 // indirect
	golang.org/x/arch v0.22.0 // indirect
	golang.org/x/crypto v0.51.0 // indirect
	golang.org/x/net v0.54.0 // indirect
	golang.org/x/sys v0.45.0 // indirect
	golang.org/x/text v0.37.0 // indirect
	google.golang.org/protobuf v1.36.10 // indirect
)";
const ECHO: &str = "github.com/labstack/echo/v5 v5.3.1

require golang.org/x/time v0.15.0 // indirect";
const COBRA: &str = "github.com/spf13/cobra v1.10.2

require (
	github.com/inconshreveable/mousetrap v1.1.0 // indirect
	github.com/spf13/pflag v1.0.9 // indirect
)";

pub fn scaffold(framework: Framework) -> Scaffold {
    let (own, requirement): (&[Template], _) = match framework {
        Framework::Gin => (&[WEB_MAIN, WEB_TEST, ("internal/api/api.go", asset!("gin/api.go"))], GIN),
        Framework::Echo => (&[WEB_MAIN, WEB_TEST, ("internal/api/api.go", asset!("echo/api.go"))], ECHO),
        _ => (
            &[
                ("cmd/{{slug}}/main.go", asset!("cobra/main.go")),
                ("internal/cli/cli.go", asset!("cobra/cli.go")),
                ("internal/cli/cli_test.go", asset!("cobra/cli_test.go")),
            ],
            COBRA,
        ),
    };
    let mut parts = if framework.kind() == Kind::Web { WEB } else { CLI }.to_vec();
    parts.push(("requirement", requirement));
    Scaffold { templates: [&SHARED, own].concat(), parts, set_up: "go mod tidy" }
}
