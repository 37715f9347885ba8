use std::error::Error;

use actix_web::middleware::Logger;
use actix_web::{App, HttpServer};

use {{module}}::{api, settings};

#[actix_web::main]
async fn main() -> Result<(), Box<dyn Error>> {
    env_logger::init_from_env(env_logger::Env::default().default_filter_or("info"));

    HttpServer::new(|| App::new().wrap(Logger::default()).configure(api::configure))
        .bind(settings::address()?)?
        .run()
        .await?;
    Ok(())
}
