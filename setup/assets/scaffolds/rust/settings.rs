//! What the environment says about the server.

use std::env;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use thiserror::Error;

#[derive(Debug, PartialEq, Eq, Error)]
#[error("{variable} is not valid: {value:?}")]
pub struct InvalidSetting {
    variable: &'static str,
    value: String,
}

/// Where to listen: `HOST` and `PORT`, else port 8080 on loopback.
///
/// # Errors
///
/// If one of them is set to something that is no address or no port.
pub fn address() -> Result<SocketAddr, InvalidSetting> {
    address_from(|variable| env::var(variable).ok())
}

fn address_from(
    get: impl Fn(&'static str) -> Option<String>,
) -> Result<SocketAddr, InvalidSetting> {
    let host = read(&get, "HOST", IpAddr::V4(Ipv4Addr::LOCALHOST))?;
    let port = read(&get, "PORT", 8080)?;
    Ok(SocketAddr::new(host, port))
}

fn read<T: std::str::FromStr>(
    get: impl Fn(&'static str) -> Option<String>,
    variable: &'static str,
    default: T,
) -> Result<T, InvalidSetting> {
    match get(variable) {
        None => Ok(default),
        Some(value) => value
            .parse()
            .map_err(|_| InvalidSetting { variable, value }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listens_on_loopback_where_nothing_is_said() {
        assert_eq!(address_from(|_| None), Ok(([127, 0, 0, 1], 8080).into()));
    }

    #[test]
    fn refuses_a_port_that_is_none() {
        let port_only = |variable| (variable == "PORT").then(|| "http".to_owned());
        let error = address_from(port_only).unwrap_err();
        assert_eq!(error.to_string(), r#"PORT is not valid: "http""#);
    }
}
