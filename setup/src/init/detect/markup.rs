//! Extracts values from XML and Gradle files by plain text search. The files are not trusted, and a search is enough
//! for what is needed; an XML parser would only add attack surface.

use super::manifest::Dependency;

pub fn without_comments(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("<!--") {
        kept.push_str(before);
        rest = after.split_once("-->").map_or("", |(_, after)| after);
    }
    kept + rest
}

/// Returns the text inside the first element with this name.
pub fn text_of<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    elements(text, name).next().map(str::trim)
}

/// Returns the content of each element with this name. Nested elements of the same name are not supported.
pub fn elements<'t>(text: &'t str, name: &str) -> impl Iterator<Item = &'t str> {
    let (opening, closing) = (format!("<{name}>"), format!("</{name}>"));
    let mut rest = text;
    std::iter::from_fn(move || {
        let (_, after) = rest.split_once(opening.as_str())?;
        let (inside, after) = after.split_once(closing.as_str())?;
        rest = after;
        Some(inside)
    })
}

pub fn without_element(text: &str, name: &str) -> String {
    match (text.find(&format!("<{name}>")), text.find(&format!("</{name}>"))) {
        (Some(start), Some(end)) if start < end => format!("{}{}", &text[..start], &text[end..]),
        _ => text.to_owned(),
    }
}

/// Returns the values of an attribute in all tags with this name.
pub fn attributes<'t>(text: &'t str, tag: &str, attribute: &str) -> Vec<&'t str> {
    tags(text, tag).filter_map(|tag| attribute_of(tag, attribute)).collect()
}

fn tags<'t>(text: &'t str, name: &str) -> impl Iterator<Item = &'t str> {
    let opening = format!("<{name} ");
    text.match_indices(&opening).map(|(at, _)| at).collect::<Vec<_>>().into_iter().filter_map(move |at| {
        let rest = &text[at..];
        rest.find('>').map(|end| &rest[..end])
    })
}

fn attribute_of<'t>(tag: &'t str, name: &str) -> Option<&'t str> {
    let (_, after) = tag.split_once(&format!(" {name}=\""))?;
    after.split('"').next()
}

/// Returns the dependencies, the plugins and the parent of a `pom.xml`.
pub fn maven_artifacts(text: &str) -> Vec<Dependency> {
    let parts = ["parent", "dependency", "plugin"].into_iter().flat_map(|name| elements(text, name));
    parts
        .filter_map(|part| {
            let version = text_of(part, "version");
            let version = version.map(|version| resolved(text, version));
            Some(Dependency::new(text_of(part, "artifactId")?, version))
        })
        .collect()
}

/// Resolves `${some.version}` if the same file defines it.
fn resolved<'t>(text: &'t str, version: &'t str) -> &'t str {
    let property = version.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
    property.and_then(|property| text_of(text, property)).unwrap_or(version)
}

/// Parses `id("org.springframework.boot") version "3.2.0"` and `implementation 'group:artifact:version'`.
pub fn gradle_artifacts(text: &str) -> Vec<Dependency> {
    let mut found = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.starts_with("//")) {
        let quoted: Vec<&str> = line.split(['"', '\'']).skip(1).step_by(2).collect();
        let Some(first) = quoted.first() else { continue };
        if line.starts_with("id") {
            found.push(Dependency::new(first, quoted.get(1).copied().filter(|_| line.contains("version"))));
        } else if let [_, artifact, rest @ ..] = first.split(':').collect::<Vec<_>>().as_slice() {
            found.push(Dependency::new(artifact, rest.first().copied()));
        }
    }
    found
}

/// Returns the SDK and the packages of a .NET project.
pub fn package_references(text: &str) -> Vec<Dependency> {
    let sdks = attributes(text, "Project", "Sdk").into_iter().map(|sdk| Dependency::new(sdk, None));
    let packages = tags(text, "PackageReference").filter_map(|tag| {
        let name = attribute_of(tag, "Include")?;
        Some(Dependency::new(name, attribute_of(tag, "Version")))
    });
    sdks.chain(packages).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pom_is_read_without_its_comments() {
        let pom = without_comments(
            "<project><properties><junit.version>5.10</junit.version></properties>
            <!-- <dependency><artifactId>gone</artifactId></dependency> -->
            <dependency><artifactId>junit</artifactId><version>${junit.version}</version></dependency>
            <dependency><artifactId>open</artifactId><version>${nowhere}</version></dependency> <!-- open end",
        );
        let expected = [("junit", "5.10"), ("open", "${nowhere}")].map(|(name, v)| Dependency::new(name, Some(v)));
        assert_eq!(maven_artifacts(&pom), expected);
        assert_eq!(without_element("<a><parent>x</parent>y</a>", "parent"), "<a></parent>y</a>");
    }

    #[test]
    fn gradle_and_dotnet_name_their_packages() {
        let gradle = "plugins {\n id 'org.springframework.boot' version '3.2.0'\n id(\"java\")\n}\n// id 'x'\n\
                      dependencies { \n implementation \"io.ktor:ktor-server:2.3\"\n testImplementation(\"a:b\")\n}";
        let found = gradle_artifacts(gradle);
        assert_eq!(
            found,
            [
                Dependency::new("org.springframework.boot", Some("3.2.0")),
                Dependency::new("java", None),
                Dependency::new("ktor-server", Some("2.3")),
                Dependency::new("b", None),
            ]
        );
        let project = "<Project Sdk=\"Microsoft.NET.Sdk.Web\"><PackageReference Include=\"xunit\" Version=\"2.9\" />";
        let expected = [Dependency::new("Microsoft.NET.Sdk.Web", None), Dependency::new("xunit", Some("2.9"))];
        assert_eq!(package_references(project), expected);
    }
}
