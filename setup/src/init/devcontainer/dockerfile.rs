//! Generates the Dockerfile: Debian, git, the project's toolchains copied from their official images, and the agent.
//!
//! With the argument `BASE` everything is made from that image instead, and only what it lacks is installed. So the image
//! can be built where no official image can be had.

use crate::init::detect::{Survey, Tool};

/// Oldest Node.js major version that the agent supports.
const MIN_NODE_MAJOR: u32 = 18;

const HEAD: &str = "\
# The image that workers run in: git, this project's toolchains, and the coding agent.
#   docker build -f .devcontainer/Dockerfile -t mahabharatha-worker .
# Written by `mahabharatha init`. The project is not copied into it; a checkout is mounted.

# An image of yours that has the toolchains, instead of the official ones below. What it lacks is installed with its
# own package managers. Compose and `mahabharatha run` take it from MAHABHARATHA_BASE_IMAGE.
ARG BASE
";
/// Programs, and the Debian packages that have them.
const PACKAGES: [(&str, &str); 8] = [
    ("cc", "build-essential"),
    ("curl", "curl"),
    ("git", "git"),
    ("jq", "jq"),
    ("pkg-config", "pkg-config"),
    ("ps", "procps"),
    ("rg", "ripgrep"),
    ("ssh", "openssh-client"),
];
const TAIL: &str = "
# The agent.
ARG CLAUDE_CODE_VERSION=latest
RUN if ! command -v claude >/dev/null && command -v npm >/dev/null; then \\
      npm install --global @anthropic-ai/claude-code@${CLAUDE_CODE_VERSION} && npm cache clean --force; \\
    fi

# Workers may run as any user; this one is for interactive use. The checkout may have another owner.
RUN { id worker >/dev/null 2>&1 || useradd --create-home --shell /bin/bash worker || adduser -D worker; } \\
    && git config --system --add safe.directory /workspace
USER worker
WORKDIR /workspace
CMD [\"sleep\", \"infinity\"]
";

pub fn text(survey: &Survey) -> String {
    let version = |tool, parts, default: &str| {
        survey.toolchain(tool).and_then(|found| found.number(parts)).unwrap_or_else(|| default.to_owned())
    };
    let (python, ruby) = (survey.uses(Tool::Python), survey.uses(Tool::Ruby));
    // Python and Ruby install into too many places to be copied out of their images, so they are the base image.
    let base = match (python, ruby) {
        (true, _) => format!("python:{}-slim-bookworm", python_version(&version(Tool::Python, 2, "3.12"))),
        (false, true) => format!("ruby:{}-slim-bookworm", ruby_version(&version(Tool::Ruby, 2, "3.3"))),
        (false, false) => "debian:bookworm-slim".to_owned(),
    };
    let toolchains: Vec<Toolchain> = [
        Some(node(&version(Tool::Node, 1, "22"))),
        survey.uses(Tool::Go).then(go),
        survey.uses(Tool::Rust).then(rust),
        survey.uses(Tool::Java).then(|| java(&version(Tool::Java, 2, "21"))),
        calls(survey, "mvn ").then(maven),
        calls(survey, "gradle ").then(gradle),
        survey.uses(Tool::DotNet).then(|| dotnet(&version(Tool::DotNet, 1, "8"))),
    ]
    .into_iter()
    .flatten()
    .collect();
    let stages: String = toolchains.iter().map(Toolchain::stage).collect();
    let copies: String = toolchains.iter().map(Toolchain::copy).collect();
    let mut text = format!("{HEAD}{stages}\nFROM ${{BASE:-{base}}}\nUSER root\n{}{copies}", packages(survey, python));
    if let Some(manager) = ["uv", "poetry", "pdm", "pipenv"].into_iter().find(|name| has_manager(survey, name)) {
        text += &installed_by("pip install --no-cache-dir", "pip", manager);
    }
    for manager in ["pnpm", "yarn", "bun"].into_iter().filter(|name| has_manager(survey, name)) {
        text += &installed_by("npm install --global", "npm", manager);
    }
    text + TAIL
}

/// A toolchain that is copied out of its official image.
struct Toolchain {
    name: &'static str,
    image: String,
    /// What is done in the image: the files to be copied end up below `/tools`.
    commands: Vec<&'static str>,
    env: &'static str,
}

impl Toolchain {
    fn stage(&self) -> String {
        let Toolchain { name, image, commands, .. } = self;
        let commands = commands.join(" \\\n      && ");
        format!(
            "\nFROM ${{BASE:-{image}}} AS {name}\nUSER root\nARG BASE\nRUN mkdir /tools && if [ -z \"$BASE\" ]; then \\\n      {commands}; \\\n    fi\n"
        )
    }

    fn copy(&self) -> String {
        let Toolchain { name, env, .. } = self;
        format!("\nCOPY --from={name} /tools/ /\n{env}")
    }
}

/// Installs Debian's packages, unless the base image has all of their programs.
fn packages(survey: &Survey, has_python: bool) -> String {
    let mut needed = PACKAGES.to_vec();
    if has_python && survey.uses(Tool::Ruby) {
        needed.extend([("bundle", "bundler"), ("ruby", "ruby-full")]);
    }
    if survey.uses(Tool::Php) {
        needed.extend([("composer", "composer"), ("php", "php-cli")]);
    }
    let programs: Vec<&str> = needed.iter().map(|(program, _)| *program).collect();
    let mut packages: Vec<&str> = needed.iter().map(|(_, package)| *package).chain(["ca-certificates"]).collect();
    packages.extend(survey.uses(Tool::DotNet).then_some("libicu72"));
    packages.sort_unstable();
    let packages: String = packages.iter().map(|package| format!("        {package} \\\n")).collect();
    format!(
        "\nRUN for program in {}; do \\\n      command -v $program >/dev/null || missing=\"$missing $program\"; \\\n    done; \\\n    \
         if [ -n \"$missing\" ] && command -v apt-get >/dev/null; then \\\n      \
         apt-get update && apt-get install -y --no-install-recommends \\\n{packages}      \
         && rm -rf /var/lib/apt/lists/*; \\\n    fi\n",
        programs.join(" "),
    )
}

/// Installs a program with a package manager, unless the base image has it.
fn installed_by(install: &str, manager: &str, program: &str) -> String {
    format!(
        "\nRUN if ! command -v {program} >/dev/null && command -v {manager} >/dev/null; then {install} {program}; fi\n"
    )
}

/// Raises the requested version to the oldest supported one: `>=3.8` allows newer versions, and images of unsupported
/// ones are not updated.
fn python_version(asked: &str) -> String {
    let minor = asked.strip_prefix("3.").and_then(|minor| minor.parse::<u32>().ok());
    minor.map_or("3.12".to_owned(), |minor| format!("3.{}", minor.max(10)))
}

fn ruby_version(asked: &str) -> String {
    let minor = asked.strip_prefix("3.").and_then(|minor| minor.parse::<u32>().ok());
    minor.map_or("3.3".to_owned(), |minor| format!("3.{}", minor.max(1)))
}

fn has_manager(survey: &Survey, name: &str) -> bool {
    survey.stack.managers.iter().any(|manager| manager.name == name)
}

fn calls(survey: &Survey, program: &str) -> bool {
    survey.uses(Tool::Java) && survey.quality.commands.iter().any(|command| command.command.starts_with(program))
}

/// Always there, because the agent needs it.
fn node(asked: &str) -> Toolchain {
    let major = asked.parse::<u32>().unwrap_or(22).max(MIN_NODE_MAJOR);
    Toolchain {
        name: "node",
        image: format!("node:{major}-bookworm-slim"),
        commands: vec![
            "cp -a --parents /usr/local/bin/node /usr/local/lib/node_modules /tools",
            "ln -s ../lib/node_modules/npm/bin/npm-cli.js /tools/usr/local/bin/npm",
            "ln -s ../lib/node_modules/npm/bin/npx-cli.js /tools/usr/local/bin/npx",
        ],
        env: "",
    }
}

/// The newest Go: `go.mod` names only the oldest version that works.
fn go() -> Toolchain {
    Toolchain {
        name: "go",
        image: "golang:1-bookworm".to_owned(),
        commands: vec!["cp -a --parents /usr/local/go /tools"],
        env: "ENV PATH=/usr/local/go/bin:$PATH\n",
    }
}

/// Leaves CARGO_HOME to the user's home directory, since workers may have a read-only root. The directories are writable for
/// any user, because a toolchain file may make `rustup` install another version.
fn rust() -> Toolchain {
    Toolchain {
        name: "rust",
        image: "rust:1-bookworm".to_owned(),
        commands: vec![
            "rustup component add clippy rustfmt",
            "cp -a --parents /usr/local/rustup /usr/local/cargo /tools",
            "chmod -R a+rwX /tools/usr/local/rustup /tools/usr/local/cargo",
        ],
        env: "ENV RUSTUP_HOME=${RUSTUP_HOME:-/usr/local/rustup} PATH=/usr/local/cargo/bin:$PATH\n",
    }
}

fn java(version: &str) -> Toolchain {
    // Java 8 and older are called 1.8 and so on.
    let major = version.strip_prefix("1.").unwrap_or(version).split('.').next().and_then(|major| major.parse().ok());
    let version = major.map_or(21, |major: u32| major.max(8));
    Toolchain {
        name: "java",
        image: format!("eclipse-temurin:{version}-jdk"),
        commands: vec!["cp -a --parents /opt/java/openjdk /tools"],
        env: "ENV JAVA_HOME=${JAVA_HOME:-/opt/java/openjdk} PATH=/opt/java/openjdk/bin:$PATH\n",
    }
}

fn maven() -> Toolchain {
    Toolchain {
        name: "maven",
        image: "maven:3-eclipse-temurin-21".to_owned(),
        commands: vec!["cp -a --parents /usr/share/maven /tools"],
        env: "ENV PATH=/usr/share/maven/bin:$PATH\n",
    }
}

fn gradle() -> Toolchain {
    Toolchain {
        name: "gradle",
        image: "gradle:8-jdk21".to_owned(),
        commands: vec!["cp -a --parents /opt/gradle /tools"],
        env: "ENV PATH=/opt/gradle/bin:$PATH\n",
    }
}

fn dotnet(version: &str) -> Toolchain {
    // Any SDK builds `net48` and `netstandard2.0`.
    let version = version.parse().ok().filter(|version: &u32| (6..40).contains(version)).unwrap_or(8);
    Toolchain {
        name: "dotnet",
        image: format!("mcr.microsoft.com/dotnet/sdk:{version}.0"),
        commands: vec!["cp -a --parents /usr/share/dotnet /tools"],
        env: "ENV PATH=/usr/share/dotnet:$PATH DOTNET_CLI_TELEMETRY_OPTOUT=1 DOTNET_NOLOGO=1\n",
    }
}
