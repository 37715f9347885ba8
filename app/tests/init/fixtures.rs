//! Layouts of projects as they are found in the open, rebuilt small.

pub type Files = &'static [(&'static str, &'static str)];

/// A web app, an API in Python, a service in Go and a tool in Rust, held together by pnpm and a makefile.
pub const POLYGLOT: Files = &[
    (
        "package.json",
        r#"{"name": "acme", "private": true, "packageManager": "pnpm@9.1.0", "engines": {"node": ">=20"}}"#,
    ),
    ("pnpm-workspace.yaml", "packages:\n  - 'apps/*'\n  - packages/*\n"),
    ("pnpm-lock.yaml", "lockfileVersion: '9.0'\n"),
    ("turbo.json", "{}"),
    (
        "apps/web/package.json",
        r#"{"name": "@acme/web", "scripts": {"lint": "eslint .", "test": "vitest run"},
            "dependencies": {"react": "18.3.1"}, "devDependencies": {"vite": "^5.4.0", "vitest": "^2.0.0"}}"#,
    ),
    ("apps/web/index.html", "<!doctype html>\n<div id=\"root\"></div>\n"),
    ("apps/web/src/main.tsx", "import React from 'react';\nexport {};\n"),
    (
        "packages/ui/package.json",
        r#"{"name": "@acme/ui", "main": "./dist/index.js", "scripts": {"typecheck": "tsc --noEmit"}}"#,
    ),
    ("packages/ui/src/index.ts", "export const Button = () => null;\n"),
    (
        "services/api/pyproject.toml",
        "[project]\nname = \"api\"\nrequires-python = \">=3.11\"\ndependencies = [\"fastapi>=0.115\"]\n\
         [dependency-groups]\ndev = [\"pytest>=8\"]\n[tool.ruff]\nline-length = 100\n[tool.ruff.format]\n",
    ),
    ("services/api/uv.lock", "version = 1\n"),
    ("services/api/src/api/main.py", "from fastapi import FastAPI\n\napp = FastAPI()\n"),
    ("services/ingest/go.mod", "module github.com/acme/ingest\n\ngo 1.22\n\nrequire github.com/spf13/cobra v1.8.0\n"),
    ("services/ingest/main.go", "package main\n\nfunc main() {}\n"),
    (
        "tools/pack/Cargo.toml",
        "[package]\nname = \"pack\"\nversion = \"0.1.0\"\n[dependencies]\nclap = { version = \"4.5\" }\n",
    ),
    ("tools/pack/src/main.rs", "fn main() {}\n"),
    ("Makefile", "VERSION := 1\n\n.PHONY: test\ntest: build\n\tpnpm test\n\nbuild:\n\tpnpm build\n"),
    ("docker-compose.yml", "services: {}\n"),
    ("services/api/Dockerfile", "FROM python:3.11\n"),
    (
        ".github/workflows/ci.yml",
        "on: push\njobs:\n  all:\n    steps:\n      - run: pnpm install\n      - run: make test\n",
    ),
    (".github/dependabot.yml", "version: 2\n"),
    (".gitignore", "node_modules\n.env\n"),
    (".env.example", "TOKEN=\n"),
];

pub const DJANGO: Files = &[
    ("manage.py", "#!/usr/bin/env python\nimport sys\n"),
    ("requirements/base.txt", "Django>=4.2,<5.0\ndjangorestframework==3.15.1\ncelery[redis]~=5.4  # jobs\n"),
    ("requirements/dev.txt", "-r base.txt\npytest-django\npytest-cov\nblack\n"),
    ("setup.cfg", "[flake8]\nmax-line-length = 100\n\n[tool:pytest]\nDJANGO_SETTINGS_MODULE = shop.settings\n"),
    (".coveragerc", "[report]\nfail_under = 85\n"),
    ("mypy.ini", "[mypy]\nplugins = mypy_django_plugin.main\n"),
    (".python-version", "3.12.4\n"),
    ("shop/__init__.py", ""),
    ("shop/settings.py", "SECRET_KEY = 'change me'\n"),
    ("shop/wsgi.py", "application = None\n"),
    ("shop/asgi.py", "application = None\n"),
    ("orders/models.py", "from django.db import models\n\n\nclass Order(models.Model):\n    pass\n"),
    ("orders/tests/test_models.py", "def test_order():\n    assert True\n"),
    ("orders/migrations/0001_initial.py", "operations = []\n"),
    ("templates/base.html", "<!doctype html>\n"),
    ("static/site.css", "body { margin: 0 }\n"),
    ("Dockerfile", "FROM python:3.12\n"),
    (".pre-commit-config.yaml", "repos: []\n"),
    (".gitlab-ci.yml", "test:\n  script:\n    - pip install -r requirements/dev.txt\n    - pytest --cov\n"),
    (".env", "SECRET_KEY=oops\n"),
    (".gitignore", "*.pyc\n"),
];

pub const NEXT: Files = &[
    (
        "package.json",
        r#"{"name": "storefront", "description": "Shop with <us> | always", "version": "1.0.0",
            "scripts": {"dev": "next dev", "build": "next build", "lint": "next lint", "test": "jest"},
            "dependencies": {"next": "14.2.3", "react": "^18.3.1", "react-dom": "^18.3.1"},
            "devDependencies": {"typescript": "^5.5.0", "jest": "^29.7.0", "tailwindcss": "^3.4.0", "cypress": "^13.0.0"},
            "jest": {"coverageThreshold": {"global": {"lines": 80, "branches": 70}}}}"#,
    ),
    ("package-lock.json", "{\"lockfileVersion\": 3}"),
    ("tsconfig.json", "{ \"compilerOptions\": { \"strict\": true } }"),
    (".nvmrc", "v20.11.1\n"),
    ("next.config.mjs", "export default {};\n"),
    (".eslintrc.json", "{ \"extends\": \"next\" }"),
    ("app/layout.tsx", "export default function Layout() {\n  return null;\n}\n"),
    ("app/page.tsx", "export default function Page() {\n  return null;\n}\n"),
    ("app/api/health/route.ts", "export const GET = () => new Response('ok');\n"),
    ("components/Cart.tsx", "export const Cart = () => null;\n"),
    ("public/logo.svg", "<svg/>\n"),
    (
        ".github/workflows/ci.yaml",
        "jobs:\n  test:\n    steps:\n      - run: npm ci\n      - run: |\n          npm run lint\n          npm test -- --ci\n",
    ),
    ("renovate.json", "{}"),
    (".gitignore", "/node_modules\n/.next\n.env*\n"),
];

pub const GO: Files = &[
    (
        "go.mod",
        "module github.com/acme/courier\n\ngo 1.22\n\nrequire (\n\tgithub.com/gin-gonic/gin v1.10.0\n\t\
         google.golang.org/grpc v1.64.0\n\tgolang.org/x/sys v0.20.0 // indirect\n)\n",
    ),
    ("go.sum", "github.com/gin-gonic/gin v1.10.0 h1:x\n"),
    ("cmd/courier/main.go", "package main\n\nfunc main() {}\n"),
    ("cmd/courierctl/main.go", "package main\n\nfunc main() {}\n"),
    ("internal/queue/queue.go", "package queue\n\ntype Queue struct{}\n"),
    ("internal/queue/queue_test.go", "package queue\n\nimport \"testing\"\n\nfunc TestQueue(t *testing.T) {}\n"),
    ("api/courier.proto", "syntax = \"proto3\";\n"),
    (".golangci.yml", "linters:\n  enable: [gosec]\n"),
    ("Makefile", "test:\n\tgo test ./...\n"),
    (
        ".circleci/config.yml",
        "jobs:\n  build:\n    steps:\n      - run: go build ./...\n      - run: go test -race ./...\n",
    ),
    ("Dockerfile", "FROM golang:1.22\n"),
    ("LICENSE", "MIT\n"),
];

pub const CARGO: Files = &[
    (
        "Cargo.toml",
        "[workspace]\nmembers = [\"crates/*\"]\n\n[workspace.package]\nrust-version = \"1.80\"\n\n\
         [workspace.dependencies]\ntokio = { version = \"1.38\", features = [\"full\"] }\n",
    ),
    ("Cargo.lock", "version = 4\n"),
    ("rust-toolchain.toml", "[toolchain]\nchannel = \"1.82.0\"\n"),
    ("rustfmt.toml", "max_width = 100\n"),
    ("deny.toml", "[licenses]\n"),
    (
        "crates/server/Cargo.toml",
        "[package]\nname = \"tide-server\"\ndescription = \"Serves\"\n[dependencies]\naxum = \"0.7\"\ntokio.workspace = true\n",
    ),
    ("crates/server/src/main.rs", "#[tokio::main]\nasync fn main() {}\n"),
    ("crates/core/Cargo.toml", "[package]\nname = \"tide-core\"\n"),
    ("crates/core/src/lib.rs", "pub fn tide() {}\n\n#[test]\nfn it() {}\n"),
    ("crates/cli/Cargo.toml", "[package]\nname = \"tide\"\n[[bin]]\nname = \"tide\"\npath = \"src/tide.rs\"\n"),
    ("crates/cli/src/tide.rs", "fn main() {}\n"),
    (
        ".github/workflows/rust.yml",
        "jobs:\n  check:\n    steps:\n      - run: cargo fmt --all -- --check\n      \
         - run: cargo clippy --workspace --all-targets -- -D warnings\n      - run: cargo test --workspace\n",
    ),
    (".gitignore", "/target\n"),
];

pub const MAVEN: Files = &[
    (
        "pom.xml",
        "<project>\n  <parent>\n    <groupId>org.springframework.boot</groupId>\n    <artifactId>spring-boot-starter-parent</artifactId>\n    \
         <version>3.3.1</version>\n  </parent>\n  <artifactId>ledger</artifactId>\n  <description>Keeps books</description>\n  \
         <properties><java.version>17</java.version><junit.version>5.10.2</junit.version></properties>\n  \
         <modules>\n    <module>core</module>\n    <module>web</module>\n  </modules>\n  <!-- <module>gone</module> -->\n  \
         <dependencies><dependency><artifactId>junit-jupiter</artifactId><version>${junit.version}</version></dependency></dependencies>\n  \
         <build><plugins>\n    <plugin><artifactId>maven-checkstyle-plugin</artifactId></plugin>\n    \
         <plugin><artifactId>jacoco-maven-plugin</artifactId><limits><limit><minimum>0.75</minimum></limit></limits></plugin>\n  \
         </plugins></build>\n</project>\n",
    ),
    ("mvnw", "#!/bin/sh\n"),
    ("core/pom.xml", "<project><artifactId>ledger-core</artifactId></project>\n"),
    ("core/src/main/java/com/acme/Ledger.java", "package com.acme;\n\nclass Ledger {}\n"),
    (
        "web/pom.xml",
        "<project><parent><artifactId>ledger</artifactId></parent><artifactId>ledger-web</artifactId></project>\n",
    ),
    ("web/src/main/java/com/acme/LedgerApplication.java", "package com.acme;\n\nclass LedgerApplication {}\n"),
    ("web/src/main/resources/application.yml", "server: {}\n"),
    ("Jenkinsfile", "pipeline { stages { } }\n"),
    ("SECURITY.md", "Write to us.\n"),
    ("keys/server.jks", "x\n"),
];

pub const DOTNET: Files = &[
    (
        "Shop.sln",
        "Microsoft Visual Studio Solution File\nProject(\"{F}\") = \"Shop.Web\", \"src\\Shop.Web\\Shop.Web.csproj\", \"{1}\"\nEndProject\n\
         Project(\"{F}\") = \"Shop.Tests\", \"test\\Shop.Tests\\Shop.Tests.csproj\", \"{2}\"\nEndProject\n\
         Project(\"{F}\") = \"Outside\", \"..\\..\\etc\\x.csproj\", \"{3}\"\nEndProject\n",
    ),
    ("global.json", "{ \"sdk\": { \"version\": \"8.0.300\" } }"),
    (
        "src/Shop.Web/Shop.Web.csproj",
        "<Project Sdk=\"Microsoft.NET.Sdk.Web\">\n  <PropertyGroup><TargetFramework>net8.0</TargetFramework></PropertyGroup>\n  \
         <ItemGroup><PackageReference Include=\"Microsoft.EntityFrameworkCore\" Version=\"8.0.6\" /></ItemGroup>\n</Project>\n",
    ),
    ("src/Shop.Web/Program.cs", "var app = WebApplication.Create();\napp.Run();\n"),
    ("src/Shop.Web/appsettings.json", "{}"),
    (
        "test/Shop.Tests/Shop.Tests.csproj",
        "<Project Sdk=\"Microsoft.NET.Sdk\">\n  <PropertyGroup><Threshold>90</Threshold></PropertyGroup>\n  \
         <ItemGroup>\n    <PackageReference Include=\"xunit\" Version=\"2.8.1\" />\n    \
         <PackageReference Include=\"coverlet.msbuild\" Version=\"6.0.2\" />\n  </ItemGroup>\n</Project>\n",
    ),
    ("test/Shop.Tests/OrderTests.cs", "public class OrderTests {}\n"),
    ("azure-pipelines.yml", "steps:\n  - script: dotnet format --verify-no-changes\n  - script: dotnet test\n"),
    (".dockerignore", "bin\nobj\n"),
    ("Dockerfile", "FROM mcr.microsoft.com/dotnet/sdk:8.0\n"),
];
