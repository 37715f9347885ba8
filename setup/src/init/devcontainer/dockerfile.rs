//! Generates the Dockerfile: Debian, git, the project's toolchains copied from their official images, and the agent.

use crate::init::detect::{Survey, Tool};

/// Oldest Node.js major version that the agent supports.
const MIN_NODE_MAJOR: u32 = 18;

const HEAD: &str = "\
# The image that workers run in: git, this project's toolchains, and the coding agent.
#   docker build -f .devcontainer/Dockerfile -t mahabharatha-worker .
# Written by `mahabharatha init`. The project is not copied into it; a checkout is mounted.
";
const PACKAGES: [&str; 9] =
    ["build-essential", "ca-certificates", "curl", "git", "jq", "openssh-client", "pkg-config", "procps", "ripgrep"];
const TAIL: &str = "
# The agent.
ARG CLAUDE_CODE_VERSION=latest
RUN npm install --global @anthropic-ai/claude-code@${CLAUDE_CODE_VERSION} && npm cache clean --force

# Workers may run as any user; this one is for interactive use. The checkout may have another owner.
RUN useradd --create-home --shell /bin/bash worker \\
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
    let mut packages: Vec<&str> = PACKAGES.to_vec();
    packages.extend((python && ruby).then_some(["ruby-full", "bundler"]).into_iter().flatten());
    packages.extend(survey.uses(Tool::Php).then_some(["composer", "php-cli"]).into_iter().flatten());
    packages.extend(survey.uses(Tool::DotNet).then_some("libicu72"));
    packages.sort_unstable();
    let mut text =
        format!("{HEAD}FROM {base}\n\nRUN apt-get update \\\n    && apt-get install -y --no-install-recommends \\\n");
    for package in packages {
        text += &format!("        {package} \\\n");
    }
    text += "    && rm -rf /var/lib/apt/lists/*\n";
    text += &node(survey, &version(Tool::Node, 1, "22"));
    text += go(survey);
    text += &rust(survey);
    text += &java(survey, &version(Tool::Java, 2, "21"));
    text += &dotnet(survey, &version(Tool::DotNet, 1, "8"));
    if let Some(manager) = ["uv", "poetry", "pdm", "pipenv"].into_iter().find(|name| has_manager(survey, name)) {
        text += &format!("\nRUN pip install --no-cache-dir {manager}\n");
    }
    text + TAIL
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

/// Always installs Node.js, because the agent needs it.
fn node(survey: &Survey, asked: &str) -> String {
    let major = asked.parse::<u32>().unwrap_or(22).max(MIN_NODE_MAJOR);
    let image = format!("node:{major}-bookworm-slim");
    let managers: Vec<&str> = ["pnpm", "yarn", "bun"].into_iter().filter(|name| has_manager(survey, name)).collect();
    let install = match managers.as_slice() {
        [] => String::new(),
        names => format!(" \\\n    && npm install --global {}", names.join(" ")),
    };
    format!(
        "\n# Node.js, which the agent needs.\n\
         COPY --from={image} /usr/local/bin/node /usr/local/bin/node\n\
         COPY --from={image} /usr/local/lib/node_modules /usr/local/lib/node_modules\n\
         RUN ln -sf ../lib/node_modules/npm/bin/npm-cli.js /usr/local/bin/npm \\\n    \
         && ln -sf ../lib/node_modules/npm/bin/npx-cli.js /usr/local/bin/npx{install}\n"
    )
}

/// Installs the newest Go: `go.mod` names only the oldest version that works.
fn go(survey: &Survey) -> &'static str {
    if survey.uses(Tool::Go) {
        "\nCOPY --from=golang:1-bookworm /usr/local/go /usr/local/go\nENV PATH=/usr/local/go/bin:$PATH\n"
    } else {
        ""
    }
}

/// Leaves CARGO_HOME to the user's home directory, since workers may have a read-only root. Makes the Rust directories writable for any user, because a toolchain file may make `rustup` install another
/// version. Only files that are not writable yet are changed, since changing all of them would duplicate everything in
/// the layer.
fn rust(survey: &Survey) -> String {
    if !survey.uses(Tool::Rust) {
        return String::new();
    }
    let image = "rust:1-bookworm";
    format!(
        "\nENV RUSTUP_HOME=/usr/local/rustup PATH=/usr/local/cargo/bin:$PATH\n\
         COPY --from={image} /usr/local/rustup /usr/local/rustup\n\
         COPY --from={image} /usr/local/cargo /usr/local/cargo\n\
         RUN rustup component add clippy rustfmt \\\n    \
         && find /usr/local/rustup /usr/local/cargo ! -type l ! -perm -o+w -exec chmod a+rwX {{}} +\n"
    )
}

fn java(survey: &Survey, version: &str) -> String {
    if !survey.uses(Tool::Java) {
        return String::new();
    }
    // Java 8 and older are called 1.8 and so on.
    let major = version.strip_prefix("1.").unwrap_or(version).split('.').next().and_then(|major| major.parse().ok());
    let version = major.map_or(21, |major: u32| major.max(8));
    let mut text = format!(
        "\nCOPY --from=eclipse-temurin:{version}-jdk /opt/java/openjdk /opt/java/openjdk\n\
         ENV JAVA_HOME=/opt/java/openjdk PATH=/opt/java/openjdk/bin:$PATH\n"
    );
    let calls = |program: &str| survey.quality.commands.iter().any(|command| command.command.starts_with(program));
    if calls("mvn ") {
        text += "COPY --from=maven:3-eclipse-temurin-21 /usr/share/maven /usr/share/maven\n\
                 RUN ln -s /usr/share/maven/bin/mvn /usr/local/bin/mvn\n";
    }
    if calls("gradle ") {
        text += "COPY --from=gradle:8-jdk21 /opt/gradle /opt/gradle\nRUN ln -s /opt/gradle/bin/gradle /usr/local/bin/gradle\n";
    }
    text
}

fn dotnet(survey: &Survey, version: &str) -> String {
    if !survey.uses(Tool::DotNet) {
        return String::new();
    }
    // Any SDK builds `net48` and `netstandard2.0`.
    let version = version.parse().ok().filter(|version: &u32| (6..40).contains(version)).unwrap_or(8);
    format!(
        "\nCOPY --from=mcr.microsoft.com/dotnet/sdk:{version}.0 /usr/share/dotnet /usr/share/dotnet\n\
         RUN ln -s /usr/share/dotnet/dotnet /usr/local/bin/dotnet\n\
         ENV DOTNET_CLI_TELEMETRY_OPTOUT=1 DOTNET_NOLOGO=1\n"
    )
}
