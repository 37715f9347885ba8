//! TypeScript scaffold on Node.js, which runs TypeScript directly; checked by tsc and Biome, tested by Node's test
//! runner.

use mahabharatha_core::charter::{Framework, Kind};

use super::{Part, Scaffold, Template};

macro_rules! asset {
    ($name:literal) => {
        include_str!(concat!("../../../assets/scaffolds/typescript/", $name))
    };
}

const SHARED: [Template; 9] = [
    ("README.md", asset!("README.md")),
    (".gitignore", asset!("gitignore")),
    // Without it, an older Node.js would only report that there are no tests.
    (".npmrc", asset!("npmrc")),
    ("package.json", asset!("package.json.tmpl")),
    ("tsconfig.json", asset!("tsconfig.json")),
    ("tsconfig.build.json", asset!("tsconfig.build.json")),
    ("biome.json", asset!("biome.json")),
    ("src/greeting.ts", asset!("greeting.ts")),
    ("test/greeting.test.ts", asset!("greeting.test.ts")),
];

const SETTINGS: [Template; 2] =
    [("src/settings.ts", asset!("settings.ts")), ("test/settings.test.ts", asset!("settings.test.ts"))];

const WEB: [Part; 4] = [
    ("entry", "  \"main\": \"dist/server.js\","),
    (
        "run_scripts",
        "    \"dev\": \"node --watch src/server.ts\",\n    \"start\": \"node --enable-source-maps dist/server.js\",",
    ),
    (
        "usage",
        "```sh
npm run dev                              # restarts when a file changes
curl http://127.0.0.1:3000/greetings/Ada
npm run build && npm start               # as in production
```

Set `HOST` and `PORT` to change where it listens.",
    ),
    (
        "layout",
        "| `src/server.ts` | the server: startup and shutdown |
| `src/settings.ts` | settings from the environment |
| `src/app.ts` | the HTTP interface |",
    ),
];

const CLI: [Part; 4] = [
    (
        "entry",
        r#"  "bin": {
    "{{slug}}": "dist/cli.js"
  },
  "files": [
    "dist"
  ],"#,
    ),
    ("run_scripts", "    \"start\": \"node src/cli.ts\","),
    (
        "usage",
        "```sh
npm start -- greet Ada
npm run build && npm link                # puts `{{slug}}` on the PATH
{{slug}} --help
```",
    ),
    (
        "layout",
        "| `src/cli.ts` | the program |
| `src/program.ts` | the command line |",
    ),
];

const DEV: &str = r#"    "@biomejs/biome": "2.6.6",
    "@types/node": "^24.0.0","#;
const DEV_WITH_EXPRESS: &str = r#"    "@biomejs/biome": "2.6.6",
    "@types/express": "^5.0.6",
    "@types/node": "^24.0.0","#;

pub fn scaffold(framework: Framework) -> Scaffold {
    let (own, dependencies, dev): (&[Template], _, _) = match framework {
        Framework::Fastify => (
            &[
                ("src/app.ts", asset!("fastify/app.ts")),
                ("src/server.ts", asset!("fastify/server.ts")),
                ("test/app.test.ts", asset!("fastify/app.test.ts")),
            ],
            r#"    "fastify": "^5.12.8""#,
            DEV,
        ),
        Framework::Express => (
            &[
                ("src/app.ts", asset!("express/app.ts")),
                ("src/server.ts", asset!("express/server.ts")),
                ("test/app.test.ts", asset!("express/app.test.ts")),
            ],
            r#"    "express": "^5.3.0""#,
            DEV_WITH_EXPRESS,
        ),
        Framework::Hono => (
            &[
                ("src/app.ts", asset!("hono/app.ts")),
                ("src/server.ts", asset!("hono/server.ts")),
                ("test/app.test.ts", asset!("hono/app.test.ts")),
            ],
            "    \"@hono/node-server\": \"^2.1.6\",\n    \"hono\": \"^4.13.17\"",
            DEV,
        ),
        _ => (
            &[
                ("src/cli.ts", asset!("commander/cli.ts")),
                ("src/program.ts", asset!("commander/program.ts")),
                ("test/program.test.ts", asset!("commander/program.test.ts")),
            ],
            r#"    "commander": "^15.1.0""#,
            DEV,
        ),
    };
    let is_web = framework.kind() == Kind::Web;
    let mut parts = if is_web { WEB } else { CLI }.to_vec();
    parts.extend([("dependencies", dependencies), ("dev_dependencies", dev)]);
    let settings: &[Template] = if is_web { &SETTINGS } else { &[] };
    Scaffold { templates: [&SHARED, settings, own].concat(), parts, set_up: "npm install" }
}
