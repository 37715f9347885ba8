//! The languages and frameworks that `init` has a scaffold for.

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Language {
    Python,
    TypeScript,
    Go,
    Rust,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Framework {
    FastApi,
    Flask,
    Typer,
    Click,
    Fastify,
    Express,
    Hono,
    Commander,
    Gin,
    Echo,
    Cobra,
    Axum,
    ActixWeb,
    Clap,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Web,
    CommandLine,
}

impl Kind {
    pub fn title(self) -> &'static str {
        match self {
            Kind::Web => "web service",
            Kind::CommandLine => "command line",
        }
    }
}

impl Language {
    pub const ALL: [Language; 4] = [Language::Python, Language::TypeScript, Language::Go, Language::Rust];

    /// Returns the name used on the command line.
    pub fn word(self) -> &'static str {
        match self {
            Language::Python => "python",
            Language::TypeScript => "typescript",
            Language::Go => "go",
            Language::Rust => "rust",
        }
    }

    pub fn title(self) -> &'static str {
        match self {
            Language::Python => "Python",
            Language::TypeScript => "TypeScript",
            Language::Go => "Go",
            Language::Rust => "Rust",
        }
    }

    pub fn parse(word: &str) -> Result<Language, String> {
        let found = Self::ALL.into_iter().find(|language| language.word().eq_ignore_ascii_case(word.trim()));
        found.ok_or_else(|| format!("must be one of {}", listed(Self::ALL.iter().map(|language| language.word()))))
    }

    pub fn frameworks(self) -> impl Iterator<Item = Framework> {
        Framework::ALL.into_iter().filter(move |framework| framework.language() == self)
    }

    /// Returns the default framework for this kind of program.
    pub fn framework_for(self, kind: Kind) -> Framework {
        match (self, kind) {
            (Language::Python, Kind::Web) => Framework::FastApi,
            (Language::Python, Kind::CommandLine) => Framework::Typer,
            (Language::TypeScript, Kind::Web) => Framework::Fastify,
            (Language::TypeScript, Kind::CommandLine) => Framework::Commander,
            (Language::Go, Kind::Web) => Framework::Gin,
            (Language::Go, Kind::CommandLine) => Framework::Cobra,
            (Language::Rust, Kind::Web) => Framework::Axum,
            (Language::Rust, Kind::CommandLine) => Framework::Clap,
        }
    }
}

impl Framework {
    pub const ALL: [Framework; 14] = [
        Framework::FastApi,
        Framework::Flask,
        Framework::Typer,
        Framework::Click,
        Framework::Fastify,
        Framework::Express,
        Framework::Hono,
        Framework::Commander,
        Framework::Gin,
        Framework::Echo,
        Framework::Cobra,
        Framework::Axum,
        Framework::ActixWeb,
        Framework::Clap,
    ];

    /// Returns the name used on the command line, which is also the package's name.
    pub fn word(self) -> &'static str {
        match self {
            Framework::FastApi => "fastapi",
            Framework::Flask => "flask",
            Framework::Typer => "typer",
            Framework::Click => "click",
            Framework::Fastify => "fastify",
            Framework::Express => "express",
            Framework::Hono => "hono",
            Framework::Commander => "commander",
            Framework::Gin => "gin",
            Framework::Echo => "echo",
            Framework::Cobra => "cobra",
            Framework::Axum => "axum",
            Framework::ActixWeb => "actix-web",
            Framework::Clap => "clap",
        }
    }

    pub fn title(self) -> &'static str {
        match self {
            Framework::FastApi => "FastAPI",
            Framework::Flask => "Flask",
            Framework::Typer => "Typer",
            Framework::Click => "Click",
            Framework::Fastify => "Fastify",
            Framework::Express => "Express",
            Framework::Hono => "Hono",
            Framework::Commander => "Commander",
            Framework::Gin => "Gin",
            Framework::Echo => "Echo",
            Framework::Cobra => "Cobra",
            Framework::Axum => "Axum",
            Framework::ActixWeb => "Actix Web",
            Framework::Clap => "clap",
        }
    }

    pub fn parse(word: &str) -> Result<Framework, String> {
        let found = Self::ALL.into_iter().find(|framework| framework.word().eq_ignore_ascii_case(word.trim()));
        found.ok_or_else(|| format!("must be one of {}", listed(Self::ALL.iter().map(|framework| framework.word()))))
    }

    /// Like `parse`, but only accepts frameworks of one language.
    pub fn parse_in(language: Language, word: &str) -> Result<Framework, String> {
        let found = language.frameworks().find(|framework| framework.word().eq_ignore_ascii_case(word.trim()));
        found.ok_or_else(|| {
            let words = listed(language.frameworks().map(Framework::word));
            format!("must be one of {words} for {}", language.title())
        })
    }

    pub fn language(self) -> Language {
        match self {
            Framework::FastApi | Framework::Flask | Framework::Typer | Framework::Click => Language::Python,
            Framework::Fastify | Framework::Express | Framework::Hono | Framework::Commander => Language::TypeScript,
            Framework::Gin | Framework::Echo | Framework::Cobra => Language::Go,
            Framework::Axum | Framework::ActixWeb | Framework::Clap => Language::Rust,
        }
    }

    pub fn kind(self) -> Kind {
        match self {
            Framework::Typer | Framework::Click | Framework::Commander | Framework::Cobra | Framework::Clap => {
                Kind::CommandLine
            }
            _ => Kind::Web,
        }
    }
}

fn listed<'a>(words: impl Iterator<Item = &'a str>) -> String {
    words.collect::<Vec<_>>().join(", ")
}
