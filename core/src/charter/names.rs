//! A project's name and description, in forms that every package manager accepts.

use super::stack::{Framework, Language};

pub const MAX_NAME: usize = 50;
pub const MAX_DESCRIPTION: usize = 300;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names {
    title: String,
    slug: String,
    description: String,
}

impl Names {
    /// Checks the name and the description. The error says which is wrong and why.
    pub fn new(title: &str, description: &str) -> Result<Names, String> {
        let title = title.trim();
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, ' ' | '-' | '_' | '.');
        if !title.starts_with(|c: char| c.is_ascii_alphabetic()) || !title.chars().all(allowed) {
            return Err(
                "the name must start with a letter and contain only letters a to z, digits, spaces, '-', '_' and '.'"
                    .to_owned(),
            );
        }
        if title.len() > MAX_NAME {
            return Err(format!("the name has {} characters; the maximum is {MAX_NAME}", title.len()));
        }
        let description = description.trim();
        if description.is_empty() {
            return Err("the description is empty".to_owned());
        }
        if description.chars().count() > MAX_DESCRIPTION {
            return Err(format!("the description has more than {MAX_DESCRIPTION} characters; one sentence is enough"));
        }
        if description.chars().any(is_forbidden) {
            return Err("the description must be one line of text, without control characters".to_owned());
        }
        Ok(Names { title: title.to_owned(), slug: slug(title), description: description.to_owned() })
    }

    /// Derives a valid name from any text. Returns None if the text has no letter.
    pub fn suggest(text: &str) -> Option<String> {
        let suggestion: String = slug(text).chars().skip_while(|c| !c.is_ascii_alphabetic()).take(MAX_NAME).collect();
        Some(suggestion.trim_end_matches('-').to_owned()).filter(|name| !name.is_empty())
    }

    pub fn title(&self) -> &str {
        &self.title
    }

    /// Returns the name for packages and programs: lower case, words joined by `-`.
    pub fn slug(&self) -> &str {
        &self.slug
    }

    /// Returns the name for a Python or Rust module.
    pub fn module(&self) -> String {
        self.slug.replace('-', "_")
    }

    pub fn description(&self) -> &str {
        &self.description
    }

    /// Returns the description as a string literal, which is the same in TOML, JSON, Go, Python and Rust because it is
    /// one line.
    pub fn quoted_description(&self) -> String {
        format!("\"{}\"", self.description.replace('\\', "\\\\").replace('"', "\\\""))
    }

    /// Returns the description escaped as plain text for Markdown.
    pub fn markdown_description(&self) -> String {
        let mut text = String::new();
        for (index, c) in self.description.char_indices() {
            if matches!(c, '\\' | '<' | '`' | '*' | '[' | ']')
                || index == 0 && matches!(c, '#' | '-' | '+' | '>' | '|' | '=')
            {
                text.push('\\');
            }
            text.push(c);
        }
        text
    }

    /// Rejects a name that the language or a package of the scaffold already uses.
    pub fn check_for(&self, framework: Framework) -> Result<(), String> {
        let language = framework.language();
        let module = self.module();
        let reserved = match language {
            Language::Python => [PYTHON, PYTHON_PACKAGES],
            Language::TypeScript => [NODE, ""],
            Language::Go => [GO, ""],
            Language::Rust => [RUST, RUST_PACKAGES],
        };
        if reserved.into_iter().flat_map(str::split_whitespace).any(|word| word == module) {
            let slug = &self.slug;
            return Err(format!("{slug} is already taken in {}; choose another name", language.title()));
        }
        Ok(())
    }
}

/// Matches line ends, control characters, and characters that change how text is displayed.
fn is_forbidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{2028}' | '\u{2029}' | '\u{200e}' | '\u{200f}' | '\u{feff}')
        || ('\u{202a}'..='\u{202e}').contains(&c)
        || ('\u{2066}'..='\u{2069}').contains(&c)
}

fn slug(text: &str) -> String {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("-").to_ascii_lowercase()
}

/// Keywords and standard library modules of Python 3.11 to 3.15.
const PYTHON: &str = "\
    abc aifc and annotationlib antigravity argparse array as assert ast async asynchat asyncio asyncore atexit \
    audioop await base64 bdb binascii bisect break builtins bz2 calendar case cgi cgitb chunk class cmath cmd code \
    codecs codeop collections colorsys compileall compression concurrent configparser contextlib contextvars \
    continue copy copyreg crypt csv ctypes curses dataclasses datetime dbm decimal def del difflib dis distutils \
    doctest elif else email encodings ensurepip enum errno except faulthandler fcntl filecmp fileinput finally \
    fnmatch for fractions from ftplib functools gc genericpath getopt getpass gettext glob global graphlib grp gzip \
    hashlib heapq hmac html http idlelib if imaplib imghdr imp import importlib in inspect io ipaddress is itertools \
    json keyword lambda lib2to3 linecache locale logging lzma mailbox mailcap marshal match math mimetypes mmap \
    modulefinder msilib msvcrt multiprocessing netrc nis nntplib nonlocal not nt ntpath nturl2path numbers opcode \
    operator optparse or os ossaudiodev pass pathlib pdb pickle pickletools pipes pkgutil platform plistlib poplib \
    posix posixpath pprint profile profiling pstats pty pwd py_compile pyclbr pydoc pydoc_data pyexpat queue quopri \
    raise random re readline reprlib resource return rlcompleter runpy sched secrets select selectors shelve shlex \
    shutil signal site smtpd smtplib sndhdr socket socketserver spwd sqlite3 sre_compile sre_constants sre_parse ssl \
    stat statistics string stringprep struct subprocess sunau symtable sys sysconfig syslog tabnanny tarfile \
    telnetlib tempfile termios test tests textwrap this threading time timeit tkinter token tokenize tomllib trace \
    traceback tracemalloc try tty turtle turtledemo type types typing unicodedata unittest urllib uu uuid venv \
    warnings wave weakref webbrowser while winreg winsound with wsgiref xdrlib xml xmlrpc yield zipapp zipfile \
    zipimport zlib zoneinfo";
const PYTHON_PACKAGES: &str = "\
    anyio blinker click fastapi flask hatchling httpx2 itsdangerous jinja2 markupsafe mypy pip pluggy pydantic \
    pytest python rich ruff shellingham starlette typer typing_extensions uvicorn waitress werkzeug";
/// Names by which npm would find the project itself, and programs that it would shadow.
const NODE: &str = "\
    biome commander express fastify favicon_ico hono node node_modules npm npx tsc typescript";
/// Import path elements with a special meaning for the Go compiler.
const GO: &str = "go internal testdata vendor";
const RUST: &str = "\
    abstract alloc as async await become box break build const continue core crate deps do dyn else enum examples \
    extern false final fn for gen if impl in incremental let loop macro match mod move mut override priv proc_macro \
    pub ref return self static std struct super test trait true try type typeof unsafe unsized use virtual where \
    while yield";
const RUST_PACKAGES: &str = "\
    actix_web axum clap env_logger http_body_util serde serde_json thiserror tokio tower tower_http tracing \
    tracing_subscriber";
