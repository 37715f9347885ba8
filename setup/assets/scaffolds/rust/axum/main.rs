use std::error::Error;

use tokio::net::TcpListener;
use tokio::signal::ctrl_c;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

use {{module}}::{api, settings};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt().with_env_filter(filter).init();

    let mut terminate = signal(SignalKind::terminate())?;
    let stopped = async move {
        tokio::select! {
            _ = ctrl_c() => {}
            _ = terminate.recv() => {}
        }
    };

    let listener = TcpListener::bind(settings::address()?).await?;
    tracing::info!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, api::router())
        .with_graceful_shutdown(stopped)
        .await?;
    Ok(())
}
